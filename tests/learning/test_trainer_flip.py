"""Learning in mirrored houses: flipped rows learn what they would in a house built that way, and resume to the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.environment.test_environment_flip import other_view
from tests.learning.samples import CONFIG, NO_DROPOUT, SCORED, SHAPE, Watcher, same, weights
from vlnbert.data.data import open_data
from vlnbert.environment.environment import Environment, Observation
from vlnbert.features.spec import FeatureSpec
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.learning.updates import Learner, draw_flips
from vlnbert.navigator import Navigator
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.mixed import TEACHER, MixedAgent, Rollout, keys
from vlnbert.tasks.batches import Batch

EXPERIMENT = Experiment(
    validate_on=(SCORED,),
    features=FeatureSpec(views="detections"),
    navigator=SHAPE,
    training=replace(CONFIG, iterations=6, flip=0.5, objective=ObjectiveConfig(student_forcing=0.5)),
)
OF_REVERIE = {
    "train_on": ("reverie/train",),
    "validate_on": ("reverie/val_unseen",),
    "best_on": "reverie/val_unseen",
    "training": replace(EXPERIMENT.training, flip=0.0),  # a run refuses to flip a file; `learn` has its own share
}
PLAIN_SHAPE = replace(SHAPE, **NO_DROPOUT)


@dataclass
class Learned:
    """What a learner made of a batch, and what was seen on the way."""

    losses: Tensor
    gradients: list[Tensor]
    rollout: Rollout
    reward: Tensor
    seen: list[Observation]


@contextmanager
def watched(navigator: Navigator) -> Iterator[list[Observation]]:
    """Whatever the navigator is shown within the block."""
    seen, step = list[Observation](), navigator.step

    def watch(state: Tensor, instruction: object, observation: Observation) -> object:
        seen.append(observation)
        return step(state, instruction, observation)

    navigator.step = watch
    try:
        yield seen
    finally:
        del navigator.step


def learn(one: Trainer, environment: Environment, flip: float, batch: Batch, key: Tensor) -> Learned:
    """The losses of a batch in some environment, its rollout and its rewards."""
    rows, policy = one.batches.teacher_rows(environment.world), one.batches.row_mode
    learner = Learner(one.model, environment, replace(one.config, flip=flip), ALONE, rows, policy)
    earned, kept = learner.objective.reward, list[tuple[Rollout, Tensor]]()

    def reward(rollout: Rollout, of: Batch) -> Tensor:
        kept.append((rollout, earned(rollout, of)))
        return kept[-1][1]

    learner.objective.reward = reward
    with watched(one.model) as seen:
        losses = learner(batch, key)
    found = torch.autograd.grad(losses[0], list(one.model.parameters()), allow_unused=True)
    return Learned(losses, [grad for grad in found if grad is not None], *kept[0], seen)


def mirrored(environment: Environment) -> Environment:
    """A house that is built as another is seen in a mirror: what each slot looks like stays with the slot."""
    world, objects = environment.world, environment.object_bank
    if objects is not None:
        left, top, right, bottom, area = objects.position[1:].unbind(dim=-1)  # row 0 pads
        boxes = torch.stack((1 - right, top, 1 - left, bottom, area), dim=-1)
        position = torch.cat((objects.position[:1], boxes))
        objects = replace(objects, view=other_view(objects.view), position=position)
    built = replace(world, heading=-world.heading, view=other_view(world.view))
    return Environment(built, environment.view_bank, objects)


def retold(one: Trainer, tokens: Tensor) -> Tensor:
    """Instructions with left for right and right for left."""
    left, right = (one.model.tokenizer.token_to_id(word) for word in ("left", "right"))
    swapped = torch.where(tokens == left, right, tokens)
    return torch.where(tokens == right, left, swapped)


def begun(house: Path, run: Path, **changes: object) -> Trainer:
    """A run in double precision, without dropout."""
    experiment = replace(EXPERIMENT, navigator=PLAIN_SHAPE, training=replace(EXPERIMENT.training, batch=16))
    one = begin_run("mine", replace(experiment, **changes), open_data(house), run)
    one.model.double()
    return one


@pytest.mark.parametrize("task", ["r2r", "reverie"])
def test_a_mirror_teaches_what_the_mirrored_house_does(house: Path, tmp_path: Path, task: str) -> None:
    """Logits, choices, rewards, losses and gradients, and whatever is seen on the way; sines differ by a rounding."""
    one = begun(house, tmp_path, **(OF_REVERIE if task == "reverie" else {}))
    batch, key = one.batches[0]
    flipped, plain = (learn(one, one.environment, share, batch, key) for share in (1.0, 0.0))
    there = replace(batch, heading=-batch.heading, tokens=retold(one, batch.tokens))
    assert task == "reverie" or not torch.equal(there.tokens, batch.tokens), "somebody is told to turn"
    built = learn(one, mirrored(one.environment), 0.0, there, key)
    for name in ("slot", "teacher", "live", "viewpoint", "ended"):
        assert torch.equal(getattr(flipped.rollout, name), getattr(built.rollout, name)), name
    assert torch.equal(other_view(flipped.rollout.view), built.rollout.view)
    assert torch.equal(flipped.reward, built.reward)
    close = {"rtol": 1e-4, "atol": 1e-5}
    for name in ("logits", "value", "last_value"):
        torch.testing.assert_close(getattr(flipped.rollout, name), getattr(built.rollout, name), **close)
    torch.testing.assert_close(flipped.losses, built.losses, **close)
    torch.testing.assert_close(flipped.gradients, built.gradients, **close)
    assert not torch.allclose(flipped.losses, plain.losses, **close), "the comparison can fail"
    for mine, theirs in zip(flipped.seen, built.seen, strict=True):
        torch.testing.assert_close(mine.direction, theirs.direction, rtol=0, atol=2e-6)
        torch.testing.assert_close(mine.facing, theirs.facing, rtol=0, atol=2e-6)
        assert torch.equal(mine.features, theirs.features)


@pytest.fixture
def nobody_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has stopped looks on, as on a GPU."""
    monkeypatch.setattr("vlnbert.rollout.mixed.active_rows", lambda state, rows: None)


@pytest.mark.usefixtures("nobody_leaves")
def test_objects_change_sides_in_a_whole_rollout(house: Path, tmp_path: Path) -> None:
    """Boxes and directions of REVERIE's objects, in the rows that are flipped and in no others."""
    one = begun(house, tmp_path, **OF_REVERIE)
    one.batches.teacher_rows = lambda world: None
    one.batches.row_mode = torch.full_like(one.batches.row_mode, TEACHER)  # the same way in every house
    batch, key = one.batches[0]
    flipped = draw_flips(key, 0.5)
    assert 0 < flipped.sum() < len(flipped)
    there = replace(batch, heading=-batch.heading)
    rollouts = (
        learn(one, one.environment, 0.5, batch, key),
        learn(one, one.environment, 0.0, batch, key),
        learn(one, mirrored(one.environment), 0.0, there, key),
    )
    moved = set[str]()
    for step in zip(*(learned.seen for learned in rollouts), strict=True):
        mixed, plain, built = (observation.visible_objects for observation in step)
        assert torch.equal(mixed.present, built.present)
        for name in ("position", "direction"):
            found, usual = getattr(mixed, name), getattr(plain, name)
            expected = torch.where(flipped[:, None, None], getattr(built, name), usual)
            torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)
            moved |= set() if torch.allclose(found, usual) else {name}
    assert moved == {"position", "direction"}


def test_who_leaves_early_leaves_the_others_their_mirrors(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU stopped rows leave the batch: the same is learned as where they stay to the end."""
    one = begun(house, tmp_path)
    batch, key = one.batches[0]
    flipped = draw_flips(key, 0.5)
    leaving = learn(one, one.environment, 0.5, batch, key)
    sizes = [len(observation.choosable) for observation in leaving.seen]
    assert sizes[-1] < sizes[0], "somebody left"
    left = leaving.rollout.live.sum(dim=0) < len(leaving.rollout.live)
    assert len({(mine, gone) for mine, gone in zip(flipped.tolist(), left.tolist(), strict=True)}) == 4, "some of each"
    monkeypatch.setattr("vlnbert.rollout.mixed.active_rows", lambda state, rows: None)
    one.batches.teacher_rows = lambda world: None
    staying = learn(one, one.environment, 0.5, batch, key)
    assert {len(observation.choosable) for observation in staying.seen} == {sizes[0]}
    live = staying.rollout.live
    assert torch.equal(leaving.rollout.live, live)
    for name in ("slot", "logits", "value"):
        mine, theirs = getattr(leaving.rollout, name)[live], getattr(staying.rollout, name)[live]
        torch.testing.assert_close(mine, theirs)
    going_on = ~leaving.rollout.ended
    torch.testing.assert_close(leaving.rollout.last_value[going_on], staying.rollout.last_value[going_on])
    torch.testing.assert_close(leaving.losses, staying.losses)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_about_the_asked_share_is_flipped(share: float) -> None:
    episodes = torch.arange(20_000)
    found = draw_flips(keys(0, 0, episodes), share)
    assert found.double().mean().item() == pytest.approx(share, abs=0.012 if 0 < share < 1 else 0)
    others = draw_flips(keys(0, 1, episodes), share)
    both = (found & others).double().mean().item()
    assert both == pytest.approx(share**2, abs=0.012), "in another iteration others are, whoever was before"


class Seen(Exception):
    """What a rollout would have begun with."""

    def __init__(self, agent: MixedAgent) -> None:
        self.agent = agent


def test_a_flip_is_of_an_episode_and_an_iteration(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the other rows of the batch, and whichever process has the row."""

    def stop(environment: Environment, agent: MixedAgent, *_: Tensor) -> Rollout:
        raise Seen(agent)

    monkeypatch.setattr("vlnbert.learning.updates.collect_rollout", stop)
    one = begun(house, tmp_path)

    def flips(stream: BatchStream, number: int, rows: Tensor | None = None) -> dict[int, bool]:
        """By episode, those that the learner would roll out."""
        batch, key = stream[number]
        if rows is not None:
            changed = {name: tensor[rows] for name, tensor in batch.tensors().items()}
            batch, key = replace(batch, **changed), key[rows]
        with pytest.raises(Seen) as caught:
            one.learner(batch, key)
        flipped = caught.value.agent.flipped
        changed = (caught.value.agent.tokens != batch.tokens).any(dim=1)
        assert not (changed & ~flipped).any(), "words change with what is seen"
        return dict(zip(batch.index.tolist(), flipped.tolist(), strict=True))

    alone = flips(one.batches, 3)
    assert flips(one.batches, 3) == alone
    some = torch.arange(len(alone)).flip(0)[::3]
    assert flips(one.batches, 3, some).items() <= alone.items()
    team = [BatchStream(one.batches.splits, one.config, Ranks(rank, 2), torch.device("cpu")) for rank in range(2)]
    first, second = (flips(stream, 3) for stream in team)
    assert first | second == alone
    often = [set(flips(one.batches, number).items()) for number in range(8)]
    anew = {
        episode for mine in often for episode, drawn in mine if any((episode, not drawn) in other for other in often)
    }
    assert anew, "an episode that comes again is flipped anew"


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_run_with_flips_resumes_with_the_same_bits(house: Path, tmp_path: Path, accumulate: int) -> None:
    experiment = replace(EXPERIMENT, training=replace(EXPERIMENT.training, accumulate=accumulate))
    begin_run("mine", experiment, open_data(house), tmp_path / "whole").train()
    first = begin_run("mine", experiment, open_data(house), tmp_path / "halves")
    stop_after(first, 3)  # between two validations
    first.train()
    assert first.progress.iteration == 3
    torch.rand(3)
    second = resume_run(tmp_path / "halves")
    assert second.config.flip == 0.5
    second.train()
    assert second.progress.iteration == 6
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "halves"))
    plain = replace(experiment, training=replace(experiment.training, flip=0.0))
    begin_run("mine", plain, open_data(house), tmp_path / "plain").train()
    assert not same(weights(tmp_path / "whole"), weights(tmp_path / "plain")), "flips are learned from"


def stop_after(trainer: Trainer, updates: int) -> None:
    class Stopper(Watcher):
        def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
            trainer.stopping = iteration >= updates

    trainer.callbacks = [Stopper()]
