"""The batches of a training, from one split or from several: each a pure function of its number."""

from collections.abc import Sequence

import torch
from torch import Tensor

from vlnbert.learning.experiment import TrainingSettings
from vlnbert.ranks import Ranks
from vlnbert.rollout.mixed import SAMPLE, TEACHER, TeacherRows, keys
from vlnbert.tasks.batches import Batch, TrainingBatches, bucket, take
from vlnbert.tasks.splits import Split
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World


class SplitSchedule:
    """A pure function of the update's number, so that nothing of it is saved.

    Each update gives every split its share of one and takes a whole one from the split that has most. So at any time
    each has had about what its weights ask for, and equal weights alternate.
    """

    def __init__(self, first: Sequence[float], last: Sequence[float], iterations: int) -> None:
        """Weights of the splits in the first and in the last of so many updates; in between they change evenly."""
        self.first, self.last, self.iterations = _shares(first), _shares(last), iterations
        self._credit, self._taken = [0.0] * len(first), [0] * len(first)
        self._places: list[tuple[int, int]] = []

    def shares(self, update: int) -> list[float]:
        """How much of an update each split is given; together they are one."""
        done = min(1.0, update / max(1, self.iterations - 1))
        mixed = [(1 - done) * first + done * last for first, last in zip(self.first, self.last, strict=True)]
        return _shares(mixed)

    def place(self, update: int) -> tuple[int, int]:
        """The split that an update comes from, and how many came from it before."""
        while len(self._places) <= update:
            shares = self.shares(len(self._places))
            self._credit = [credit + share for credit, share in zip(self._credit, shares, strict=True)]
            # Rounded, so that turns stay turns.
            split = max(range(len(shares)), key=lambda one: round(self._credit[one], 9))
            self._credit[split] -= 1
            self._places.append((split, self._taken[split]))
            self._taken[split] += 1
        return self._places[update]


def _shares(weights: Sequence[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


class BatchStream:
    """Updates come from each split in turn or as a schedule says, all `accumulate` batches of one from the same split.

    The first half of a batch follows the teacher, the second half explores.
    """

    def __init__(self, splits: Sequence[Split], config: TrainingSettings, ranks: Ranks, device: torch.device) -> None:
        self.splits, self.seed, self.device, self.accumulate = splits, config.seed, device, config.accumulate
        first = config.split_weights or (1.0,) * len(splits)
        self.schedule = SplitSchedule(first, config.final_split_weights or first, config.iterations)
        sizes = config.batch, config.seed, ranks.rank, ranks.count
        self.batches = [TrainingBatches(split.tokens.count.cpu(), *sizes) for split in splits]
        half = config.batch // 2
        self.row_mode = torch.tensor([TEACHER] * half + [SAMPLE] * half)[ranks.rank :: ranks.count].to(device)

    def teacher_rows(self, world: World) -> TeacherRows:
        """The rows of this rank that follow the teacher, and the most steps that it takes."""
        episodes = [split.episodes for split in self.splits]
        steps = max(TASKS[part.task].teacher_steps(world, part.start, part) for part in episodes)
        return TeacherRows(int((self.row_mode == TEACHER).sum()), steps)

    def split_of(self, number: int) -> Split:
        return self.splits[self._place(number)[0]]

    def rows(self, number: int) -> Tensor:
        """[row] the episodes of a batch that fall to this rank, on the CPU."""
        split, place = self._place(number)
        return self.batches[split][place]

    def __getitem__(self, number: int) -> tuple[Batch, Tensor]:
        """A batch on the device and the keys of its noise; the host does not wait for either."""
        split, rows = self.split_of(number), self.rows(number)
        width = bucket(int(self.batches[self._place(number)[0]].lengths[rows].max()))
        index = rows.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else rows
        batch = take(split.episodes, split.tokens, index, width, target=split.target, aligned=split.aligned)
        return batch, keys(self.seed, number, batch.index)

    def _place(self, number: int) -> tuple[int, int]:
        """The split that a batch comes from, and the batch's number in it."""
        update, part = divmod(number, self.accumulate)
        split, turn = self.schedule.place(update)
        return split, turn * self.accumulate + part
