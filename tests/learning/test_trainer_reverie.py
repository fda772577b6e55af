"""Learning REVERIE: what a right stop earns, what an update is made of, and runs that learn both tasks in turn."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor

from tests.learning.samples import CONFIG, NO_DROPOUT, SHAPE, Watcher, same, weights
from tests.processes import together
from vlnbert.data import data as data_module
from vlnbert.data.data import open_data
from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError
from vlnbert.features.spec import FeatureSpec
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.rewards import PaperReward, RewardConfig
from vlnbert.learning.runs import begin_run, read_record, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.learning.updates import Learner
from vlnbert.ranks import ALONE, Ranks
from vlnbert.sources.connectivity import ScanGraph
from vlnbert.sources.layout import open_folder
from vlnbert.tasks import episodes
from vlnbert.world.build import build_world
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP, World

SCORED = ("reverie/val_unseen", "r2r/val_unseen")
ONE = Experiment(
    train_on=("reverie/train",),
    validate_on=SCORED[:1],
    best_on=SCORED[0],
    navigator=replace(SHAPE, matching="visual"),
    training=replace(CONFIG, iterations=6),
)
BOTH = replace(ONE, train_on=("reverie/train", "r2r/train"), validate_on=SCORED)


@pytest.fixture
def line() -> World:
    """a - b - c - d, 0.5 m apart but for the last edge of 3 m."""
    position = np.array([[0, y, 0] for y in (0.0, 0.5, 1.0, 4.0)])
    near = np.abs(np.subtract.outer(range(4), range(4))) == 1
    return build_world([ScanGraph("line", tuple("abcd"), position, near)])


def earned(world: World, walk: str, sightings: str | None, **settings: object) -> list[float]:
    """The rewards of a walk to c that ends with a stop; `sightings` show the target, in REVERIE."""
    viewpoint = torch.tensor([*map("abcd".index, walk), "abcd".index(walk[-1])])[:, None]
    slot = torch.ones(len(walk), 1, dtype=torch.long)
    slot[-1] = STOP
    seen = None if sightings is None else torch.tensor([[*map("abcd".index, sightings), NONE]])
    rollout = SimpleNamespace(viewpoint=viewpoint, slot=slot, walked=None, decided=None)
    described = {"goal": torch.tensor([2]), "path": torch.tensor([[0, 1, 2]]), "path_length": torch.tensor([3])}
    batch = SimpleNamespace(task="r2r" if seen is None else "reverie", sightings=seen, goals=None, **described)
    return PaperReward(world, RewardConfig(**settings))(rollout, batch).flatten().tolist()


@pytest.mark.parametrize(
    ("stop", "sightings", "settings", "right"),
    [
        ("a", None, {}, True),  # R2R: less than 3 m
        ("d", None, {}, False),  # exactly 3 m
        ("a", None, {"reverie_stop": "visible"}, True),  # R2R does not look at objects
        ("a", "abcd", {}, False),  # exactly 1 m
        ("b", "", {}, True),
        ("c", "", {}, True),
        ("d", "d", {}, False),
        ("d", "d", {"reverie_stop": "visible"}, True),
        ("d", "bd", {"reverie_stop": "visible"}, True),
        ("c", "d", {"reverie_stop": "visible"}, False),
        ("c", "", {"reverie_stop": "visible"}, False),  # visible nowhere
    ],
)
def test_a_right_stop(line: World, stop: str, sightings: str | None, settings: dict[str, str], right: bool) -> None:
    assert earned(line, stop, sightings, fidelity=False, **settings) == [2.0 if right else -2.0]
    distances = {
        "a": 0.5 + 1.0,
        "b": 0.5 + 0.5,
        "c": 0.5 + 1.0,
        "d": 3.0 + 3.5 + 4.0,
    }  # of the path's three to the stop
    likeness = np.exp(-distances[stop] / 9)
    assert earned(line, stop, sightings, **settings) == pytest.approx([2 + 2 * likeness if right else -2])


@pytest.mark.parametrize("rule", ["at-goal", "visible"])
def test_moves_earn_the_same_in_both_tasks(line: World, rule: str) -> None:
    plain = earned(line, "abcdcba", None, reverie_stop=rule)
    assert earned(line, "abcdcba", "d", reverie_stop=rule)[:-1] == plain[:-1]


@pytest.fixture(scope="module")
def both(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """A run that learns both tasks, not yet begun."""
    return begin_run("mine", BOTH, open_data(house), tmp_path_factory.mktemp("reverie") / "both")


def losses(trainer: Trainer, number: int) -> tuple[dict[str, float], dict[str, Tensor | None]]:
    """The parts of a batch's loss, and the gradient of each weight that it reaches."""
    torch.manual_seed(0)
    batch, key = trainer.batches[number]
    found: Tensor = trainer.learner(batch, key)
    named = dict(trainer.model.named_parameters())
    grads = torch.autograd.grad(found[0], list(named.values()), allow_unused=True)
    return dict(zip(trainer.parts, found.tolist(), strict=True)), dict(zip(named, grads, strict=True))


def test_one_update_learns_to_name(house: Path, tmp_path: Path) -> None:
    trainer = begin_run(
        "mine", replace(ONE, training=replace(CONFIG, iterations=1)), open_data(house), tmp_path / "run"
    )
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    watcher = Watcher()
    trainer.callbacks = [watcher]
    trainer.train()
    parts = watcher.losses[1]
    assert parts["grounding"] > 0
    others = parts["imitation"] + parts["policy"] + parts["value"] - parts["entropy"]
    assert parts["total"] == pytest.approx(others + parts["grounding"], rel=1e-5)
    moved = {name for name, weight in trainer.model.named_parameters() if not torch.equal(before[name], weight)}
    assert {name for name in before if name.startswith("object_embedding.")} <= moved
    assert 0 <= watcher.scores[1][SCORED[0]]["rgs"] <= 1


def test_tasks_take_turns(both: Trainer) -> None:
    names = [both.batches.split_of(number).name for number in range(4)]
    assert names == ["reverie/train", "r2r/train"] * 2
    (asked, _), (told, _) = both.batches[0], both.batches[1]
    assert asked.target is not None
    assert asked.sightings is not None
    assert told.target is told.sightings is None
    split = both.batches.splits[0]
    assert torch.equal(asked.target, split.target[asked.index])
    assert torch.equal(asked.sightings, split.episodes.sightings[asked.index])


def test_only_reverie_s_batches_ground(both: Trainer) -> None:
    (asked, grads), (told, others) = losses(both, 0), losses(both, 1)
    assert asked["grounding"] > 0
    assert told["grounding"] == 0.0
    things = {name for name in grads if name.startswith("object_embedding.")}
    assert len(things) == 5
    assert all(grads[name].abs().max() > 0 for name in things)
    assert {name for name, grad in others.items() if grad is None} == things


def test_a_run_can_ground_its_teacher_forced_rows_alone(house: Path, tmp_path: Path) -> None:
    """The setting reaches the update: half of the rows are teacher-forced, and the others are left out."""
    trainer = begin_run("mine", ONE, open_data(house), tmp_path / "run")
    forced = replace(trainer.config.objective, grounding_rows="teacher-forced")
    every, _ = losses(trainer, 0)
    forced = replace(ONE, training=replace(ONE.training, objective=forced))
    found, _ = losses(begin_run("mine", forced, open_data(house), tmp_path / "forced"), 0)
    assert 0 < found["grounding"] != every["grounding"]
    assert {name: found[name] for name in trainer.parts[1:] if name != "grounding"} == {
        name: every[name] for name in trainer.parts[1:] if name != "grounding"
    }


def test_r2r_s_batches_leave_the_objects_as_they_are(house: Path, tmp_path: Path) -> None:
    """Neither gradient nor weight decay: no update of R2R moves them."""
    trainer = begin_run("mine", BOTH, open_data(house), tmp_path / "run")
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    for number in (0, 1):
        trainer.update(*trainer.batches[number])
        after = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
        moved = {name for name in before if not torch.equal(before[name], after[name])}
        assert ("object_embedding.project.weight" in moved) == (number == 0)
        assert "view_embedding.project.weight" in moved
        before = after


def test_in_r2r_nobody_sees_objects(both: Trainer) -> None:
    """A batch of R2R costs what it would where there are none."""
    world, bank = both.environment.world, both.environment.view_bank
    rows, policy = both.batches.teacher_rows(world), both.batches.row_mode
    blind = Learner(both.model, Environment(world, bank), both.config, ALONE, rows, policy)
    batch, key = both.batches[1]
    found = []
    for learner in (both.learner, blind):
        torch.manual_seed(0)
        found.append(learner(batch, key).tolist())
    assert found[0] == found[1]


def test_where_targets_are_seen_can_decide_what_is_earned(house: Path, tmp_path: Path) -> None:
    training = replace(CONFIG, rewards=RewardConfig(reverie_stop="visible"))
    trainer = begin_run("mine", replace(ONE, training=training), open_data(house), tmp_path / "run")
    batch, key = trainer.batches[0]
    everywhere = torch.arange(len(trainer.environment.world)).expand(len(batch.start), -1)
    costs = []
    for sightings in (everywhere, torch.full_like(everywhere, NONE)):
        torch.manual_seed(0)
        found = trainer.learner(replace(batch, sightings=sightings), key)
        costs.append(dict(zip(trainer.parts, found.tolist(), strict=True)))
    assert costs[0]["value"] != costs[1]["value"]
    assert costs[0]["grounding"] == costs[1]["grounding"]


@pytest.mark.parametrize("train_on", [BOTH.train_on, BOTH.train_on[::-1]])
@pytest.mark.parametrize("after", [1, 3, 4])
def test_a_run_of_both_tasks_resumes_with_the_same_bits(
    house: Path, tmp_path: Path, train_on: tuple[str, ...], after: int
) -> None:
    experiment = replace(BOTH, train_on=train_on)
    begin_run("mine", experiment, open_data(house), tmp_path / "whole").train()
    first = begin_run("mine", experiment, open_data(house), tmp_path / "halves")
    stop_after(first, after)
    first.train()
    assert first.progress.iteration == after
    torch.rand(3)
    second = resume_run(tmp_path / "halves")
    second.train()
    assert second.progress.iteration == 6
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "halves"))


def stop_after(trainer: Trainer, updates: int) -> None:
    class Stopper(Watcher):
        def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
            trainer.stopping = iteration >= updates

    trainer.callbacks = [Stopper()]


def learn_both(ranks: Ranks, house: Path, folder: Path) -> tuple[dict, dict]:
    """The losses of every update and the scores at the end, without dropout."""
    training = replace(CONFIG, iterations=4, batch=8, validate_every=4, validation_batch=5)
    experiment = replace(BOTH, navigator=replace(BOTH.navigator, **NO_DROPOUT), training=training)
    trainer, watcher = begin_run("mine", experiment, open_data(house), folder, ranks=ranks), Watcher()
    trainer.callbacks = [watcher]
    trainer.train()
    return watcher.losses, watcher.scores[4]


def test_two_ranks_learn_both_tasks_as_one_would(house: Path, tmp_path: Path) -> None:
    """Every other batch leaves the objects' weights without a gradient, on all ranks."""
    alone, scores = learn_both(ALONE, house, tmp_path / "alone")
    for losses, seen in together(2, tmp_path, learn_both, house, tmp_path / "team"):
        for update, parts in losses.items():
            assert parts == pytest.approx(alone[update], rel=1e-3, abs=1e-5)
            assert (parts["grounding"] > 0) == (update % 2 == 1)
        for name, summary in seen.items():
            assert summary == pytest.approx(scores[name])


def test_both_tasks_are_validated_and_reverie_s_score_decides(house: Path, tmp_path: Path) -> None:
    trainer, watcher = begin_run("mine", BOTH, open_data(house), tmp_path / "run"), Watcher()
    trainer.callbacks = [watcher]
    trainer.train()
    scores = watcher.scores[6]
    assert list(scores) == list(SCORED)
    assert scores[SCORED[0]]["rgs"] is not None
    assert scores[SCORED[1]]["rgs"] is None
    assert trainer.progress.best == max(found[SCORED[0]]["spl"] for found in watcher.scores.values())


def test_without_objects_there_is_nothing_to_name(house: Path, tmp_path: Path) -> None:
    trainer = begin_run("mine", replace(ONE, features=FeatureSpec(objects="off")), open_data(house), tmp_path / "run")
    assert trainer.model.object_embedding is None
    parts, _ = losses(trainer, 0)
    assert parts["grounding"] == 0.0
    assert parts["imitation"] > 0


def test_targets_left_out_of_the_bank_are_not_asked_for(house: Path, tmp_path: Path) -> None:
    """Who sees only the largest object of a viewpoint learns to name it where it is the target; the rest is told."""
    told: list[str] = []
    trainer = begin_run(
        "mine", replace(ONE, features=FeatureSpec(max_objects=1)), open_data(house), tmp_path / "run", tell=told.append
    )
    target = trainer.batches.splits[0].target
    assert set(target.tolist()) == {0, NONE}
    assert len(told) == 1
    missing = f"{int((target == NONE).sum())} targets are left out of what is shown; their objects are beyond"
    assert told[0].startswith(f"reverie/train: {missing} max_objects"), "not that the data are at fault"
    trainer.train()
    quiet: list[str] = []
    begin_run("mine", ONE, open_data(house), tmp_path / "other", tell=quiet.append)
    assert quiet == [], "the house has nothing to tell"


@pytest.mark.parametrize("experiment", [BOTH, replace(BOTH, features=FeatureSpec(objects="off"))])
def test_objects_are_opened_once(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, experiment: Experiment
) -> None:
    """However many splits tell where their targets are: the boxes of a real data folder are ten thousand files."""
    alone = begin_run("mine", experiment, open_data(house), tmp_path / "alone")
    opened, real = list[Path](), data_module.open_object_table
    monkeypatch.setattr(
        data_module, "open_object_table", lambda world, folder: opened.append(folder) or real(world, folder)
    )
    monkeypatch.setattr(episodes, "open_object_table", None)
    trainer = begin_run("mine", experiment, open_data(house), tmp_path / "run")
    assert opened == [house / "reverie" / "BBox"]
    assert torch.equal(trainer.batches.splits[0].episodes.sightings, alone.batches.splits[0].episodes.sightings)


def spoil_boxes(data: Path) -> None:
    path = next((data / "reverie" / "BBox").glob("*.json"))
    path.write_text(json.dumps(json.loads(path.read_text())) + " ")


def spoil_features(data: Path) -> None:
    with h5py.File(open_folder(data).object_feature_files()[0], "r+") as file:
        next(iter(file.values()))[0, 0] += 1


@pytest.mark.parametrize(("spoil", "named"), [(spoil_boxes, "reverie/BBox"), (spoil_features, "object features")])
def test_changed_objects_are_noticed_and_named(
    house: Path, tmp_path: Path, spoil: Callable[[Path], None], named: str
) -> None:
    begin_run("mine", BOTH, open_data(house), tmp_path / "run")
    data = shutil.copytree(house, tmp_path / "data")
    assert resume_run(tmp_path / "run", open_data(data)).progress.iteration == 0
    spoil(data)
    with pytest.raises(DataError, match=rf"^{data}: {named} changed since the run began"):
        resume_run(tmp_path / "run", open_data(data))


def test_runs_find_their_object_features_from_anywhere(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(house.parent)
    file = open_folder(house).object_feature_files()[0].relative_to(house.parent)
    begin_run("mine", replace(ONE, features=FeatureSpec(objects=str(file))), open_data(Path("house")), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert resume_run(tmp_path / "run").progress.iteration == 0
    for word in ("off", "names"):  # words stay words, whatever lies there
        (tmp_path / word).mkdir()
    begin_run("mine", replace(ONE, features=FeatureSpec(objects="off")), open_data(house), tmp_path / "blind")
    assert read_record(tmp_path / "blind").experiment.features.objects == "off"
