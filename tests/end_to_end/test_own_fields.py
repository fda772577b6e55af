"""A task with several goals and fields of its own, walked, trained on, resumed and shown."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import vlnbert as vln
from tests.learning.samples import same, weights
from vlnbert.learning.rewards import register_reward
from vlnbert.rollout.agents import EpisodeBatch
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.task import register_task
from vlnbert.world.world import World

SPLIT = "anywhere/val_unseen"
SPLITS = {"train_on": "anywhere/train", "validate_on": SPLIT, "best_on": SPLIT}
SMALL: dict[str, Any] = {"batch": 4, "max_steps": 6, "hidden": 16, "heads": 2, "inner": 32, "validate_every": 2}
QUIETLY: dict[str, Any] = {"threads": 1, "bar": False, "tensorboard": False}


class Anywhere(vln.R2R):
    """One may stop at either of the last two viewpoints of the path; the field `words` counts those of the text."""

    name = "anywhere"

    def files(self, folder: Any) -> dict[str, Path]:
        return {split: path for split, path in folder.instruction_files("r2r").items() if split != "test"}

    def read(self, path: Path) -> Iterator[EpisodeRecord]:
        for record in super().read(path):
            extra = {"words": len(record.text.split()), "first": record.text.split()[0]}
            yield replace(record, goals=record.path[-2:], extra=extra)


@pytest.fixture(autouse=True)
def anywhere(forget_plugins: Callable[[], None]) -> None:
    register_task(Anywhere)


class Reads(vln.Agent):
    """Stops at once, and keeps what it was told."""

    reads_tokens = sees_features = False
    oracle = True

    def __init__(self) -> None:
        self.told: list[EpisodeBatch] = []

    def begin(self, batch: EpisodeBatch) -> None:
        self.told.append(batch)

    def act(self, observation: Any, memory: None) -> tuple[Tensor, None]:
        return torch.zeros_like(observation.state.viewpoint), None


def test_agents_are_told(data: vln.Data) -> None:
    agent, episodes = Reads(), data.episodes(SPLIT)
    vln.evaluate(agent, data, SPLIT, bar=False)
    assert sum(len(batch.ids) for batch in agent.told) == len(episodes)
    for batch in agent.told:
        rows = [episodes.row(id) for id in batch.ids]
        assert batch.index.tolist() == rows
        assert batch.extra["words"].tolist() == [len(episodes.texts[row].split()) for row in rows]
        assert list(batch.extra["first"]) == [episodes.texts[row].split()[0] for row in rows]
        assert batch.goals is not None
        assert batch.goal is not None
        assert episodes.goals is not None
        assert torch.equal(batch.goals, episodes.goals[rows])
        assert torch.equal(batch.goal, batch.goals[:, 0])


def test_who_knows_the_goals_takes_the_nearest(data: vln.Data) -> None:
    found = vln.evaluate("shortest", data, [SPLIT, "r2r/val_unseen"], bar=False)
    here, usual = (found[split].scores for split in (SPLIT, "r2r/val_unseen"))
    assert here is not None
    assert usual is not None
    assert here.sr.tolist() == [1] * len(here)
    assert here.ne.tolist() == [0] * len(here)
    assert here.spl.tolist() == [1] * len(here)
    assert bool((here.tl <= usual.tl).all())
    assert float(here.tl.mean()) < float(usual.tl.mean())


def test_an_episode_shows_the_goal_that_it_came_nearest(data: vln.Data) -> None:
    episodes = data.episodes(SPLIT)
    record = vln.episode("shortest", episodes.ids[0], data, SPLIT, bar=False).record
    assert record.goal == record.path[-1]
    assert record.steps[-1].distance_to_goal == 0
    assert [step.teacher for step in record.steps] == [step.chosen for step in record.steps]
    assert record.reference is not None
    assert record.goal in record.reference[-2:]


def test_it_trains_and_resumes_with_a_reward_that_reads_them(data: vln.Data, tmp_path: Path) -> None:
    seen = list[tuple[str, int, str]]()

    @register_reward("wordy")
    def wordy(rollout: Any, batch: Batch, world: World) -> Tensor:
        words = batch.extra["words"]
        seen.extend(zip(batch.ids, words.tolist(), batch.extra["first"], strict=True))
        left = world.metres(rollout.viewpoint[:-1, :, None], batch.goals).amin(dim=2)
        return (words - left).float()

    whole = vln.train("demo", data, tmp_path / "whole", iterations=4, reward="wordy", **SPLITS, **SMALL, **QUIETLY)
    texts = dict(zip(data.episodes("anywhere/train").ids, data.episodes("anywhere/train").texts, strict=True))
    assert len(seen) == 4 * 4
    assert all(words == len(texts[id].split()) and first == texts[id].split()[0] for id, words, first in seen)

    class Stops:
        def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None: ...

        def validated(self, iteration: int, scores: Any) -> None:
            if iteration == 2:
                raise KeyboardInterrupt

    half = {"iterations": 4, "reward": "wordy", **SPLITS, **SMALL, **QUIETLY}
    with pytest.raises(KeyboardInterrupt):
        vln.train("demo", data, tmp_path / "half", callbacks=[Stops()], **half)
    resumed = vln.open_run(tmp_path / "half").resume(bar=False, tensorboard=False)
    assert same(weights(resumed.folder), weights(whole.folder))
