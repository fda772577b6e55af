"""The trainer: update, validate, save. What is shown or logged along the way is left to callbacks.

What is trained, and how it learns and is scored, is said by a subclass: `NavigatorTrainer` and `SpeakerTrainer`.
"""

import hashlib
import math
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vlnbert.errors import DataError, VlnbertError
from vlnbert.evaluation.tables import Summary, is_better
from vlnbert.learning.averaging import AveragedWeights
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.checkpoints import Trained, load_checkpoint, save_checkpoint, save_trained
from vlnbert.learning.run_folder import (
    BEST,
    Progress,
    after_validation,
    checkpoint_of,
    point_to,
    read_newest,
    remove_surplus,
)
from vlnbert.learning.run_lock import kept
from vlnbert.learning.settings import TrainingSettings
from vlnbert.learning.updates import EagerUpdate, GraphUpdate, Update, set_learning_rate
from vlnbert.ranks import ALONE, Ranks, launcher
from vlnbert.tasks.splits import Split

NOT_FINITE = "the features or the weights started from may not be finite; check both"


class TrainingError(VlnbertError):
    """Training cannot go on; the last good checkpoint is whole."""


class Callback(Protocol):
    """Somebody who watches."""

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        """Some updates were made; the parts of the loss are means over them."""

    def validated(self, iteration: int, scores: Mapping[str, Summary]) -> None: ...


class Trainer(ABC):
    """One run: something that learns on some splits, in a folder that holds all it needs to go on after a kill."""

    parts: ClassVar[tuple[str, ...]]  # the names of what the learner gives: the loss, then its parts

    def __init__(
        self,
        run: Path,
        model: Trained,
        learner: nn.Module,
        batches: BatchStream,
        validation: Mapping[str, Split],
        config: TrainingSettings,
        *,
        best_on: str,
        ranks: Ranks = ALONE,
        card: Mapping[str, Any] | None = None,
        unclipped: Collection[nn.Parameter] = (),
        some_unused: bool = False,
    ) -> None:
        """`learner` gives the losses [part] of a batch and its key, and the first of them carries the gradient.

        `best_on` names the validation split whose score decides; `card` is what the best's model card shall tell. The
        gradients of `unclipped` weights may be of any size, and `some_unused` says that not every update has all.
        """
        self.run, self.model, self.batches, self.config = run, model, batches, config
        self.validation, self.best_on, self.ranks, self.card = validation, best_on, ranks, dict(card or {})
        self.callbacks: Sequence[Callback] = ()
        self.notes: list[str] = []  # what whoever begins the run should know
        self.advanced: Callable[[int], object] = lambda iteration: None  # called after every update, with their number
        self.device = device = batches.device
        self.learner = learner
        if ranks.count > 1:
            self.learner = DistributedDataParallel(learner, find_unused_parameters=some_unused)
        self.optimiser = torch.optim.AdamW(
            model.parameters(),
            lr=torch.tensor(config.learning_rate, device=device) if device.type == "cuda" else config.learning_rate,
            weight_decay=config.weight_decay,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.averaged = AveragedWeights(model, config.ema)
        free = set(unclipped)
        clipped = [weight for weight in model.parameters() if weight not in free]
        self.eager = EagerUpdate(self.learner, self.optimiser, clipped=clipped, grad_clip=config.grad_clip)
        graphs = config.graphs and device.type == "cuda" and ranks.count == 1
        self.update: Update = GraphUpdate(self.eager) if graphs else self.eager
        self.progress = Progress(0, None, None)
        self.saved: int | None = None  # the update after which the newest checkpoint was made
        self.unreported: list[Tensor] = []  # the losses of the last updates, which nobody has looked at yet
        self.carried = torch.zeros(0, len(self.parts), device=device)  # those before, where a stop came between reports
        self.stopping: bool = False  # set from outside to end after the update under way, and its validation
        self.hurrying: bool = False  # set from outside to leave that validation to whoever resumes the run
        self.stopped_by: int | None = None  # the signal that asked to stop, if one did
        self.walking: bool = False  # whether a validation is under way, which loses nothing if it is interrupted

    @abstractmethod
    def scores(self) -> dict[str, Summary]:
        """The scores on each of the validation splits, shared out over all ranks."""

    @property
    @abstractmethod
    def best_metric(self) -> str:
        """The metric that decides, asked for only where something is validated."""

    def resume(self, newest: Path | None = None) -> DataError | None:
        """Go on from the newest checkpoint that is not damaged, `newest` or one before; what is wrong with that one."""

        def load(folder: Path) -> tuple[Progress, Tensor]:
            return load_checkpoint(folder, self.model, self.optimiser, self.averaged)

        _, (saved, losses), damage = read_newest(self.run, load, newest)
        if losses.shape[1:] == self.carried.shape[1:]:  # or they are of a version whose losses had other parts
            self.carried = losses.to(self.device)
        self.progress, self.saved = after_validation(self.run, saved), saved.iteration
        return damage

    def train(self) -> None:
        """Update until done, stopped from outside, or no longer improving; the run is kept from others meanwhile."""
        again = shlex.join([*launcher(), "train", "--resume", str(self.run)])
        with kept(self.run, self.ranks), self.ranks.needed(f"go on with: {again}"):
            self._train()

    def _train(self) -> None:
        if self.progress.iteration == 0:
            self._save()
        elif self.ranks.writes and self.saved is not None:
            remove_surplus(self.run, self.checkpoint, self.config.keep)  # left by a kill
        stopped = self._validate_if_due(stopped=False)  # where a kill came between
        while self.progress.iteration < self.config.iterations and not stopped and not self.stale:
            self.advance(self.progress.iteration)
            self.progress = replace(self.progress, iteration=self.progress.iteration + 1)
            self.advanced(self.progress.iteration)
            validate = self.due(self.config.validate_every)
            self.progress = replace(self.progress, validated=not validate)
            report = validate or self.due(self.config.report_every)
            if self.listens:
                stopped = self._agree(self.stopping)
            if report or stopped:
                self._look_at_losses()  # one that is no number must not be saved
            if report:
                self._report()
                stopped = self._agree(self.stopping)
            if validate or stopped:
                self._require_numbers()
                self._save()
            stopped = self._validate_if_due(stopped)

    @property
    def listens(self) -> bool:
        """Whether each update asks if to stop. To ask other ranks is to wait for the device, which GPUs need not."""
        return self.ranks.count == 1 or self.device.type == "cpu"

    def _agree(self, flag: bool) -> bool:
        """Whether any rank was asked to stop; then all are."""
        agreed = self.ranks.any(flag, self.device)
        self.stopping = self.stopping or agreed
        return agreed

    def _validate_if_due(self, stopped: bool) -> bool:
        """Validate what was saved and not validated yet; whether to stop then."""
        if self.progress.validated:
            return stopped
        if self._agree(self.hurrying):
            return True
        try:
            with self.averaged.applied():
                self._validate()
        except KeyboardInterrupt:
            if not self.hurrying:
                raise
            return True  # other ranks that go on with it will find this one gone
        return stopped or self._agree(self.stopping)

    def due(self, every: int, ahead: int = 0) -> bool:
        """Whether something that is done every so many updates is to be done after this one, or one ahead."""
        iteration = self.progress.iteration + ahead
        return iteration % every == 0 or iteration == self.config.iterations

    def advance(self, iteration: int) -> None:
        """One update, from one batch or several. Nothing in it waits for the device."""
        self._learn(iteration)
        self.averaged.update(iteration)

    def _learn(self, iteration: int) -> None:
        set_learning_rate(self.optimiser, self.config.learning_rate_at(iteration))
        self.model.train()
        torch.manual_seed(dropout_seed(self.config.seed, iteration, self.ranks.rank))
        count = self.config.accumulate
        if count == 1:
            self.unreported.append(self.update(*self.batches[iteration]))
            return
        self.optimiser.zero_grad(set_to_none=True)
        for part in range(count):
            with self._apart() if part < count - 1 else nullcontext():
                self.unreported.append(self.eager.accumulate(*self.batches[iteration * count + part], share=1 / count))
        self.eager.step()

    def _apart(self) -> AbstractContextManager[None]:
        """Gradients stay with their rank for now: more are to come before they are shared."""
        return self.learner.no_sync() if isinstance(self.learner, DistributedDataParallel) else nullcontext()

    def _look_at_losses(self) -> None:
        """Bring the losses of the last updates to the host; all must be numbers."""
        losses = self.ranks.mean(torch.stack(self.unreported))
        self.unreported = []
        first = self.progress.iteration * self.config.accumulate - len(losses)
        for number, total in enumerate(losses[:, 0].tolist(), first):
            if not math.isfinite(total):
                self._give_up(number, total)
        self.carried = torch.cat([self.carried.to(losses.dtype), losses])

    def _report(self) -> None:
        """Tell of the losses since the last report, also of those before a stop that came between two."""
        parts = dict(zip(self.parts, self.carried.mean(dim=0).tolist(), strict=True))
        self.carried = self.carried[:0]
        for callback in self.callbacks:
            callback.updated(self.progress.iteration, self.config.learning_rate_at(self.progress.iteration - 1), parts)

    def _require_numbers(self) -> None:
        """Weights that are no longer numbers must not be saved, though the loss that they were learned from was one."""
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            problem = f"the weights are no longer numbers after update {self.progress.iteration}"
            raise TrainingError(f"{problem}; {self._remedy}")

    @property
    def _remedy(self) -> str:
        return f"{self.run} still holds the last good checkpoint; begin another run with a lower learning rate"

    def _give_up(self, number: int, total: float) -> None:
        episodes = self.batches.split_of(number).episodes
        names = ", ".join(episodes.ids[row] for row in self.batches.rows(number).tolist())
        problem = f"the loss of batch {number} is {total} (instructions {names})"
        if number < self.config.accumulate:  # of the first update
            raise TrainingError(f"{problem}; nothing was learned yet: {NOT_FINITE}")
        raise TrainingError(f"{problem}; {self._remedy}")

    def _validate(self) -> None:
        """Score the validation splits, keep the best weights and tell."""
        self.walking = True
        try:
            if self.hurrying:  # asked in just this moment
                raise KeyboardInterrupt
            scores = self.scores()
        finally:
            self.walking = False
        score = scores[self.best_on][self.best_metric] if self.best_on in scores else None
        done = replace(self.progress, validated=True)
        if score is not None and is_better(self.best_metric, score, self.progress.best):
            done = replace(done, best=float(score), best_iteration=self.progress.iteration)
            if self.ranks.writes:
                save_trained(self.run / BEST, self.model, {**self.card, "scores": scores})
        for callback in self.callbacks:
            callback.validated(self.progress.iteration, scores)
        self.progress = done
        if self.ranks.writes:
            point_to(self.run, self.checkpoint, self.config.keep, done)

    def _save(self) -> None:
        if self.saved == self.progress.iteration:  # to write it again would leave a moment without any
            return
        if self.ranks.writes:
            save_checkpoint(
                self.run,
                self.model,
                self.optimiser,
                progress=self.progress,
                averaged=self.averaged,
                keep=self.config.keep,
                losses=self.carried,
            )
        self.saved = self.progress.iteration
        self.ranks.wait()

    @property
    def checkpoint(self) -> Path:
        """The newest that this training saved, or goes on from."""
        return checkpoint_of(self.run, self.saved or 0)

    @property
    def ended(self) -> bool:
        """Whether all updates are made, and the last is validated."""
        return self.progress.iteration >= self.config.iterations and self.progress.validated

    @property
    def stale(self) -> bool:
        """Whether its patience is at an end: no better score for too many validations."""
        if not self.config.patience or self.progress.best_iteration is None or not self.progress.validated:
            return False
        since = self.progress.iteration - self.progress.best_iteration
        return since >= self.config.patience * self.config.validate_every


def dropout_seed(seed: int, iteration: int, rank: int) -> int:
    """A seed for the dropout of one update: there is no generator whose state must be saved."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {iteration} {rank}".encode(), digest_size=7).digest())
