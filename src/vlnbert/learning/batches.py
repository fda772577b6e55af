"""The batches of a training, from one split or from several: each a pure function of its number."""

from collections.abc import Sequence

import torch
from torch import Tensor

from vlnbert.learning.settings import TrainingSettings
from vlnbert.learning.split_schedule import SplitSchedule
from vlnbert.ranks import Ranks
from vlnbert.rollout.mixed import SAMPLE, TEACHER, TeacherRows
from vlnbert.rollout.noise import keys
from vlnbert.tasks.batches import Batch, TrainingBatches, bucket, take
from vlnbert.tasks.splits import Split
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World


class BatchStream:
    """Updates come from each split in turn or as a schedule says, all `accumulate` batches of one from the same split.

    The first half of a batch follows the teacher, the second half explores.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        size: int,
        seed: int,
        ranks: Ranks,
        device: torch.device,
        accumulate: int = 1,
        schedule: SplitSchedule | None = None,
    ) -> None:
        self.splits, self.seed, self.device, self.accumulate = splits, seed, device, accumulate
        in_turn = [1.0] * len(splits)
        self.schedule = schedule or SplitSchedule(in_turn, in_turn, iterations=1)
        self.batches = [TrainingBatches(s.tokens.count.cpu(), size, seed, ranks.rank, ranks.count) for s in splits]
        half = size // 2
        self.row_policy = torch.tensor([TEACHER] * half + [SAMPLE] * half)[ranks.rank :: ranks.count].to(device)

    @classmethod
    def of(cls, splits: Sequence[Split], config: TrainingSettings, ranks: Ranks, device: torch.device) -> "BatchStream":
        """The batches of a training by its settings."""
        schedule = config.split_schedule(len(splits))
        return cls(
            splits,
            config.batch,
            config.seed,
            ranks=ranks,
            device=device,
            accumulate=config.accumulate,
            schedule=schedule,
        )

    def teacher_rows(self, world: World) -> TeacherRows:
        """The rows of this rank that follow the teacher, and the most steps that it takes."""
        episodes = [split.episodes for split in self.splits]
        steps = max(TASKS[one.task].teacher_steps(world, one.start, one) for one in episodes)
        return TeacherRows(int((self.row_policy == TEACHER).sum()), steps)

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
