"""The Gymnasium front: Gymnasium's own checker, rewards, limits, and agreement with the functions beneath."""

import shutil
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import vlnbert.environment.gym  # noqa: F401  # registers the environments
from tests.features.samples import write_bert
from vlnbert.data.data import open_data
from vlnbert.data.gym import open_env
from vlnbert.errors import UsageError
from vlnbert.features.spec import CAPTIONS, NAMES, OFF, FeatureSpec
from vlnbert.house import generate


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gym") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


@pytest.fixture(scope="module")
def bert(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"), house / "vocab.txt")


@pytest.fixture
def bare(house: Path, tmp_path: Path) -> Path:
    """The same house without features, as open data comes."""
    return shutil.copytree(house, tmp_path / "bare", ignore=shutil.ignore_patterns("features"))


@pytest.mark.parametrize("name", ["vlnbert/R2R-v0", "vlnbert/REVERIE-v0"])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.filterwarnings("ignore:.*Box observation space.*infinity")  # features have no bounds, and that is right
def test_gymnasium_accepts_it(house: Path, bare: Path, name: str, features: bool) -> None:
    env = gymnasium.make(name, data=house if features else bare, render_mode="ansi")
    check_env(env.unwrapped)
    spaces = env.observation_space.spaces
    assert ("features" in spaces) == features
    assert ("object_features" in spaces) == (features and "REVERIE" in name)
    assert ("object_present" in spaces) == ("REVERIE" in name)


def test_it_sees_what_the_data_has(bare: Path, bert: Path) -> None:
    """Captions and names by a spec, by a word, or as the data was opened."""
    spec = FeatureSpec(views=CAPTIONS, objects=NAMES, encoder=str(bert))
    opened = open_data(bare, spec)
    for env in (
        open_env(bare, "reverie", features=spec),
        open_env(opened, "reverie"),
        gymnasium.make("vlnbert/REVERIE-v0", data=opened).unwrapped,
    ):
        seen, _ = env.reset(options={"episode": 0})
        here = env.episodes.start[:1]
        assert np.array_equal(seen["features"], opened.view_bank.look(here)[0].numpy())
        shown = opened.object_bank.look(here, torch.zeros_like(here))
        count = int(seen["object_present"].sum())
        assert count == int(shown.present.sum())
        assert np.array_equal(seen["object_features"][:count], shown.features[0, :count].numpy())
    assert gymnasium.make("vlnbert/REVERIE-v0", data=opened).spec.kwargs["data"] is opened, "shared, not copied"
    assert "features" in open_env(opened, "r2r").observation_space.spaces
    off = open_env(opened.seen_as(FeatureSpec(views=CAPTIONS, objects=OFF, encoder=str(bert))), "reverie")
    assert "object_features" not in off.observation_space.spaces


@pytest.mark.parametrize("task", ["r2r", "reverie"])
def test_houses_that_are_held_out_are_a_split(house: Path, bare: Path, task: str) -> None:
    for folder in (house, bare):
        data = open_data(folder)
        data = data.holding_out([data.world.scans[0]])
        env = gymnasium.make(f"vlnbert/{task.upper()}-v0", data=data, split="dev_unseen").unwrapped
        assert env.episodes.ids == data.episodes(f"{task}/dev_unseen").ids
        env.reset(options={"episode": 0})


def test_the_teacher_names_the_target(house: Path) -> None:
    env = open_env(house, "reverie", "val_unseen")
    rows = [row for row, target in enumerate(env.targets.tolist()) if target >= 0]
    assert rows
    for row in rows[:3]:
        _, info = env.reset(options={"episode": row})
        total, ended, distance = 0.0, False, info["distance"]
        while not ended:
            assert info["named"] is None
            _, reward, ended, _, info = env.step(np.int64(info["teacher"]))
            total += reward
        assert info["named"] == env.episodes.targets[row]
        assert total == pytest.approx(distance + 4.0), "for the place and for the object"


def test_another_object_earns_less_and_none_names_nothing(house: Path) -> None:
    env = open_env(house, "reverie", "val_unseen")
    row = next(row for row, one in enumerate(env.targets.tolist()) if one >= 0)
    ends = {}
    for kind in ("another", "beyond", "stop"):
        _, info = env.reset(options={"episode": row})
        while info["teacher"] < env.slots:
            _, _, _, _, info = env.step(np.int64(info["teacher"]))
        target, count = info["teacher"] - env.slots, len(info["objects"])
        assert count > 1, "else there is no other"
        named = {"another": env.slots + (target + 1) % count, "beyond": env.action_space.n - 1, "stop": 0}[kind]
        _, reward, ended, _, info = env.step(np.int64(named))
        assert ended
        ends[kind] = reward, info["named"] is None
    assert ends == {"another": (2.0, False), "beyond": (2.0, True), "stop": (2.0, True)}


def test_to_stop_where_the_target_is_out_of_sight_costs(house: Path) -> None:
    env = open_env(house, "reverie", "val_unseen")
    for row in range(len(env.episodes)):
        env.reset(options={"episode": row})
        visible = int(env.episodes.start[row]) in env.episodes.sightings[row].tolist()
        assert env.step(np.int64(0))[1] == (2.0 if visible else -2.0)


def test_objects_are_named_in_words(house: Path) -> None:
    env = open_env(house, "reverie", render_mode="ansi")
    for row in range(5):
        seen, info = env.reset(options={"episode": row})
        assert len(info["objects"]) == seen["object_present"].sum()
        for place, name in enumerate(info["objects"]):
            assert f"  {env.slots + place}: stop and name the {name}" in env.render()


def test_the_teacher_earns_the_whole_distance_and_the_bonus(house: Path) -> None:
    env = open_env(house)
    _, info = env.reset(options={"episode": 0})
    distance, total, ended = info["distance"], 0.0, False
    while not ended:
        _, reward, ended, truncated, info = env.step(np.int64(info["teacher"]))
        total += reward
        assert not truncated
    assert total == pytest.approx(distance + 2.0)
    assert info["distance"] == 0


def test_stopping_far_from_the_goal_costs(house: Path) -> None:
    env = open_env(house)
    env.reset(options={"episode": 0})
    _, reward, terminated, truncated, _ = env.step(np.int64(0))
    assert (reward, terminated, truncated) == (-2.0, True, False)


def test_the_limit_truncates(house: Path) -> None:
    env = open_env(house, max_steps=2)
    env.reset(options={"episode": 0})
    assert env.step(np.int64(1))[2:4] == (False, False)
    assert env.step(np.int64(1))[2:4] == (False, True)


def test_padding_leads_nowhere(house: Path) -> None:
    env = open_env(house)
    before, _ = env.reset(options={"episode": 0})
    outside = np.flatnonzero(before["choosable"] == 0)[-1]
    after, reward, *_ = env.step(outside)
    assert reward == 0
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_withheld_goals_pay_nothing_and_tell_nothing(house: Path) -> None:
    env = open_env(house, split="test")
    _, info = env.reset(seed=0)
    assert set(info) == {"id", "instruction"}
    assert env.step(np.int64(0))[1] == 0


def test_seeds_choose_episodes(house: Path) -> None:
    env = open_env(house)
    drawn = [env.reset(seed=seed)[1]["id"] for seed in (0, 1, 2, 3)]
    assert drawn == [env.reset(seed=seed)[1]["id"] for seed in (0, 1, 2, 3)]
    assert len(set(drawn)) > 1


def test_an_unknown_episode_is_named(house: Path) -> None:
    with pytest.raises(UsageError, match="no episode 99999"):
        open_env(house).reset(options={"episode": 99_999})


@pytest.mark.parametrize("action", [-1, 99, 3.5, "stop"])
def test_no_such_action(house: Path, action: object) -> None:
    env = open_env(house)
    env.reset(options={"episode": 0})
    with pytest.raises(UsageError, match="no action"):
        env.step(action)


def test_an_ended_episode_wants_a_reset(house: Path) -> None:
    env = open_env(house)
    with pytest.raises(UsageError, match="reset"):
        env.step(np.int64(0))
    env.reset(options={"episode": 0})
    env.step(np.int64(0))
    with pytest.raises(UsageError, match="has ended"):
        env.step(np.int64(0))


def test_rendering_tells_the_choices(house: Path) -> None:
    env = open_env(house, render_mode="ansi")
    seen, info = env.reset(options={"episode": 0})
    text = env.render()
    assert text is not None
    assert info["instruction"].strip() in text
    assert text.count("go to") == seen["choosable"].sum() - 1
