"""The Gymnasium front: Gymnasium's own checker, rewards, limits, and agreement with the functions beneath."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from vlnbert.environment.gym import NavigationEnv
from vlnbert.errors import UsageError
from vlnbert.house import generate


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gym") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


@pytest.mark.parametrize("name", ["vlnbert/R2R-v0", "vlnbert/REVERIE-v0"])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.filterwarnings("ignore:.*Box observation space.*infinity")  # features have no bounds, and that is right
def test_gymnasium_accepts_it(house: Path, name: str, features: bool) -> None:
    path = house / "features" / "views.hdf5" if features else None
    env = gymnasium.make(name, data=house, features=path, render_mode="ansi")
    check_env(env.unwrapped)
    assert ("features" in env.observation_space.spaces) == features


def test_the_teacher_earns_the_whole_distance_and_the_bonus(house: Path) -> None:
    env = NavigationEnv(house)
    _, info = env.reset(options={"episode": 0})
    distance, total, ended = info["distance"], 0.0, False
    while not ended:
        _, reward, ended, truncated, info = env.step(np.int64(info["teacher"]))
        total += reward
        assert not truncated
    assert total == pytest.approx(distance + 2.0)
    assert info["distance"] == 0


def test_stopping_far_from_the_goal_costs(house: Path) -> None:
    env = NavigationEnv(house)
    env.reset(options={"episode": 0})
    _, reward, terminated, truncated, _ = env.step(np.int64(0))
    assert (reward, terminated, truncated) == (-2.0, True, False)


def test_the_limit_truncates(house: Path) -> None:
    env = NavigationEnv(house, max_steps=2)
    env.reset(options={"episode": 0})
    assert env.step(np.int64(1))[2:4] == (False, False)
    assert env.step(np.int64(1))[2:4] == (False, True)


def test_padding_leads_nowhere(house: Path) -> None:
    env = NavigationEnv(house)
    before, _ = env.reset(options={"episode": 0})
    outside = np.flatnonzero(before["choosable"] == 0)[-1]
    after, reward, *_ = env.step(outside)
    assert reward == 0
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_withheld_goals_pay_nothing_and_tell_nothing(house: Path) -> None:
    env = NavigationEnv(house, split="test")
    _, info = env.reset(seed=0)
    assert set(info) == {"id", "instruction"}
    assert env.step(np.int64(0))[1] == 0


def test_seeds_choose_episodes(house: Path) -> None:
    env = NavigationEnv(house)
    drawn = [env.reset(seed=seed)[1]["id"] for seed in (0, 1, 2, 3)]
    assert drawn == [env.reset(seed=seed)[1]["id"] for seed in (0, 1, 2, 3)]
    assert len(set(drawn)) > 1


def test_an_unknown_episode_is_named(house: Path) -> None:
    with pytest.raises(UsageError, match="no episode 99999"):
        NavigationEnv(house).reset(options={"episode": 99_999})


@pytest.mark.parametrize("action", [-1, 99, 3.5, "stop"])
def test_no_such_action(house: Path, action: object) -> None:
    env = NavigationEnv(house)
    env.reset(options={"episode": 0})
    with pytest.raises(UsageError, match="no action"):
        env.step(action)


def test_an_ended_episode_wants_a_reset(house: Path) -> None:
    env = NavigationEnv(house)
    with pytest.raises(UsageError, match="reset"):
        env.step(np.int64(0))
    env.reset(options={"episode": 0})
    env.step(np.int64(0))
    with pytest.raises(UsageError, match="has ended"):
        env.step(np.int64(0))


def test_rendering_tells_the_choices(house: Path) -> None:
    env = NavigationEnv(house, render_mode="ansi")
    seen, info = env.reset(options={"episode": 0})
    text = env.render()
    assert text is not None
    assert info["instruction"].strip() in text
    assert text.count("go to") == seen["choosable"].sum() - 1
