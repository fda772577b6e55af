"""The trainer of every recipe: update, validate, save. Callbacks show and log it."""

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError, VlnbertError
from vlnbert.evaluation.metrics import is_better
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.callbacks import Callback, make_callback
from vlnbert.learning.optimisers import (
    AveragedWeights,
    LearningRate,
    can_be_captured,
    make_optimiser,
    require_saveable,
    set_learning_rate,
)
from vlnbert.learning.run_folder import (
    BEST,
    Progress,
    Trained,
    TrainingState,
    after_validation,
    checkpoint_of,
    load_checkpoint,
    locked_run,
    point_to,
    read_newest,
    remove_surplus,
    save_checkpoint,
    save_trained,
)
from vlnbert.learning.updates import (
    EagerUpdate,
    GraphUpdate,
    Update,
    dropout_seed,
    extra_state_of,
    leaves_some_unused,
)
from vlnbert.ranks import ALONE, Ranks, launcher
from vlnbert.tasks.splits import Split

if TYPE_CHECKING:
    from vlnbert.learning.recipe import Recipe

FEW_IDS = 4  # of a batch, as many as a line has room for
NOT_FINITE = "the features or the weights started from may not be finite; check both"


class TrainingError(VlnbertError):
    """Training cannot go on; the last good checkpoint is whole."""


class Trainer:
    """One run: something that learns on some splits, in a folder that holds all it needs to go on after a kill."""

    def __init__(
        self,
        recipe: "Recipe",
        run: Path,
        model: Trained,
        environment: Environment,
        train: Sequence[Split],
        validation: Mapping[str, Split],
        config: Any,
        best_on: str = "",
        best_metric: str = "",
        ranks: Ranks = ALONE,
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """`best_on` names the validation split whose score decides, and `best_metric` that score.

        `card` is what the best's model card says. What the learner holds beside the model, such as a loss with
        parameters, is optimised after it, saved and resumed.
        """
        self.batches = batches = BatchStream(train, config, ranks, environment.world.device)
        learner: Any = recipe.learner(model, environment, batches, config, ranks)
        self.recipe, self.run, self.model, self.environment, self.config = recipe, run, model, environment, config
        self.validation, self.best_on, self.best_metric = validation, best_on, best_metric
        self.ranks, self.card = ranks, dict(card or {})
        self.callbacks: Sequence[Callback] = ()
        self.named: dict[str, Callback] = {name: make_callback(name) for name in config.callbacks}
        # Notes on the data and the device, printed when the run begins.
        self.notes: list[str] = []
        # Called after every update, with the number of updates.
        self.advanced: Callable[[int], object] = lambda iteration: None
        self.device = device = batches.device
        self.parts, self.begin_update = learner.parts, learner.begin_update
        self.learner: nn.Module = learner
        self.extra_state = extra_state_of(self.learner, model)
        added = {name: one for name, one in self.extra_state.items() if isinstance(one, nn.Parameter)}
        learned = {**dict(model.named_parameters()), **{name: one for name, one in added.items() if one.requires_grad}}
        free = set(learner.unclipped())
        clipped = [weight for weight in learned.values() if weight not in free]
        self.optimiser, self.names = make_optimiser(config, learned, device)
        self.learning_rate, self.averaged = LearningRate(config), AveragedWeights(model, config.ema)
        if ranks.count > 1:
            unused = ranks.any(leaves_some_unused(self.learner, batches, list(learned.values())), device)
            self.learner = DistributedDataParallel(self.learner, find_unused_parameters=unused)
        self.eager = EagerUpdate(self.learner, self.optimiser, clipped=clipped, grad_clip=config.grad_clip)
        graphs = config.graphs and device.type == "cuda" and ranks.count == 1
        if graphs and not can_be_captured(config.optimizer):
            self.notes.append(f"the optimizer {config.optimizer} cannot be recorded in a graph: updates run eagerly")
            graphs = False
        self.update: Update = GraphUpdate(self.eager) if graphs else self.eager
        self.progress = Progress(0, None, None)
        # The update after which the newest checkpoint was made.
        self.saved: int | None = None
        # The losses of the last updates, still on the device.
        self.unreported: list[Tensor] = []
        # The losses before these, where training stopped between two reports.
        self.pending_losses = torch.zeros(0, len(self.parts), device=device)
        # Set from outside to end after the update under way, and its validation.
        self.stopping: bool = False
        # Set from outside to leave the validation to the resumed run.
        self.skips_validation: bool = False
        # The signal that asked to stop, if one did.
        self.stopped_by: int | None = None
        # Set by a callback that wants no more updates.
        self.finishing: bool = False
        # Whether a checkpoint can hold what the optimiser keeps after an update.
        self.looked_at_state: bool = False
        # Whether a validation is under way, which loses nothing if it is interrupted.
        self.validating: bool = False

    @property
    def state(self) -> TrainingState:
        """The state that a checkpoint keeps."""
        return TrainingState(
            self.model,
            self.optimiser,
            self.names,
            self.averaged,
            self.extra_state,
            callbacks={name: one.state() for name, one in self.named.items() if hasattr(one, "state")},
            losses=self.pending_losses,
        )

    def resume(self, newest: Path | None = None) -> DataError | None:
        """Go on from the newest checkpoint that is not damaged, `newest` or one before; what is wrong with that one."""
        load = partial(load_checkpoint, state=self.state)
        _, (saved, losses, states), damage = read_newest(self.run, load, newest)
        for name, state in states.items():
            resumed = getattr(self.named.get(name), "resumed", None)
            if resumed is not None:
                resumed(state)
        # Losses of a version with other parts are dropped.
        if losses.shape[1:] == self.pending_losses.shape[1:]:
            self.pending_losses = losses.to(self.device)
        self.progress, self.saved = after_validation(self.run, saved), saved.iteration
        return damage

    def train(self) -> None:
        """Update, report, save and validate until done, stopped from outside, or no longer improving.

        Other processes cannot train the run meanwhile.
        """
        again = shlex.join([*launcher(), "train", "--resume", str(self.run)])
        with locked_run(self.run, self.ranks), self.ranks.needed(f"go on with: {again}"):
            self._begin()
            # A kill may have come between saving and validating.
            stopped = self._validate_if_due(stopped=False)
            while self.progress.iteration < self.config.iterations and not stopped and not self.stale:
                self.advance(self.progress.iteration)
                stopped = self._validate_if_due(self._after_update())

    def advance(self, iteration: int) -> None:
        """Make one update, from one batch or several. Nothing in it waits for the device."""
        set_learning_rate(self.optimiser, self.learning_rate.at(iteration))
        self.begin_update(iteration)
        self.learner.train()
        torch.manual_seed(dropout_seed(self.config.seed, iteration, self.ranks.rank))
        count = self.config.accumulate
        if count == 1:
            self.unreported.append(self.update(*self.batches[iteration]))
        else:
            # Ranks share their gradients with the last batch.
            apart = self.learner.no_sync if isinstance(self.learner, DistributedDataParallel) else nullcontext
            self.optimiser.zero_grad(set_to_none=True)
            for part in range(count):
                with apart() if part < count - 1 else nullcontext():
                    losses = self.eager.accumulate(*self.batches[iteration * count + part], share=1 / count)
                    self.unreported.append(losses)
            self.eager.step()
        self.averaged.update(iteration)

    def _begin(self) -> None:
        """Tell the callbacks, and save what is there before the first update."""
        for callback in self.watching:
            if hasattr(callback, "begun"):
                callback.begun(self)
        if self.progress.iteration == 0:
            self._save()
        elif self.ranks.writes and self.saved is not None:
            # A kill may have left them.
            remove_surplus(self.run, self.checkpoint, self.config.keep)

    def _after_update(self) -> bool:
        """Count an update, report and save where that is due; whether to stop now."""
        if not self.looked_at_state:
            require_saveable(self.optimiser, self.config.optimizer)
            self.looked_at_state = True
        self.progress = replace(self.progress, iteration=self.progress.iteration + 1)
        self.advanced(self.progress.iteration)
        validate = self.due(self.config.validate_every)
        self.progress = replace(self.progress, validated=not validate)
        report = validate or self.due(self.config.report_every)
        stopped = self._agree(self.stopping) if self.listens else False
        if report or stopped:
            # Weights learned from a loss that is no number must not be saved.
            self._collect_losses()
        if report:
            self._report()
            stopped = self._agree(self.stopping)
        if report and self.ranks.any(self.finishing, self.device):
            stopped, self.progress = True, replace(self.progress, validated=False)
        if validate or stopped:
            self._require_numbers()
            self._save()
        return stopped

    @property
    def watching(self) -> Iterator[Callback]:
        """All callbacks: those that the experiment names, then the others."""
        yield from (*self.named.values(), *self.callbacks)

    def finish(self) -> None:
        """End the training after the update under way, which is saved and validated."""
        self.finishing = True

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
        if self._agree(self.skips_validation):
            return True
        try:
            with self.averaged.applied():
                self._validate()
        except KeyboardInterrupt:
            if not self.skips_validation:
                raise
            # Other ranks that are still validating will find this rank gone.
            return True
        return stopped or self._agree(self.stopping) or self.ranks.any(self.finishing, self.device)

    def due(self, every: int, ahead: int = 0) -> bool:
        """Whether something that is done every so many updates is to be done after this one, or one ahead."""
        iteration = self.progress.iteration + ahead
        return iteration % every == 0 or iteration == self.config.iterations

    def _collect_losses(self) -> None:
        """Bring the losses of the last updates to the host; all must be numbers."""
        losses = self.ranks.mean(torch.stack(self.unreported))
        self.unreported = []
        first = self.progress.iteration * self.config.accumulate - len(losses)
        for number, values in enumerate(losses.tolist(), first):
            if math.isfinite(values[0]):
                continue
            episodes = self.batches.split_of(number).episodes
            ids = [episodes.ids[row] for row in self.batches.rows(number).tolist()]
            names = ", ".join(ids[:FEW_IDS]) + (f" and {len(ids) - FEW_IDS} more" if len(ids) > FEW_IDS else "")
            terms = [name for name, value in zip(self.parts[1:], values[1:], strict=True) if not math.isfinite(value)]
            of_terms = f", in its term{'s' * (len(terms) > 1)} {', '.join(terms)}" if terms else ""
            problem = f"the loss of batch {number} is {values[0]}{of_terms} (instructions {names})"
            of_first = number < self.config.accumulate
            remedy = f"nothing was learned yet: {NOT_FINITE}" if of_first else self._remedy
            raise TrainingError(f"{problem}; {remedy}")
        self.pending_losses = torch.cat([self.pending_losses.to(losses.dtype), losses])

    def _report(self) -> None:
        """Tell of the losses since the last report, also of those before a stop that came between two."""
        parts = dict(zip(self.parts, self.pending_losses.mean(dim=0).tolist(), strict=True))
        self.pending_losses = self.pending_losses[:0]
        for callback in self.watching:
            callback.updated(self.progress.iteration, self.learning_rate.at(self.progress.iteration - 1), parts)

    def _require_numbers(self) -> None:
        """Weights that are no longer numbers must not be saved, though the loss that they were learned from was one."""
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            problem = f"the weights are no longer numbers after update {self.progress.iteration}"
            raise TrainingError(f"{problem}; {self._remedy}")

    @property
    def _remedy(self) -> str:
        if not self.saved:
            return "nothing was saved yet; begin again with a lower learning rate"
        return f"{self.run} still holds the last good checkpoint; begin another run with a lower learning rate"

    def _validate(self) -> None:
        """Score the validation splits, keep the best weights and tell."""
        self.validating = True
        try:
            # The request came in just this moment.
            if self.skips_validation:
                raise KeyboardInterrupt
            scores = self.recipe.scores(self.model, self.environment, self.validation, self.config, self.ranks)
        finally:
            self.validating = False
        score = scores[self.best_on][self.best_metric] if self.best_on in scores else None
        done = replace(self.progress, validated=True)
        if score is not None and is_better(self.best_metric, score, self.progress.best):
            done = replace(done, best=float(score), best_iteration=self.progress.iteration)
            if self.ranks.writes:
                save_trained(self.run / BEST, self.model, {**self.card, "scores": scores})
        for callback in self.watching:
            callback.validated(self.progress.iteration, scores)
        self.progress = done
        if self.ranks.writes:
            point_to(self.run, self.checkpoint, self.config.keep, done)

    def _save(self) -> None:
        # Writing it again would leave a moment without a checkpoint.
        if self.saved == self.progress.iteration:
            return
        if self.ranks.writes:
            save_checkpoint(self.run, self.state, progress=self.progress, keep=self.config.keep)
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
        return bool(since >= self.config.patience * self.config.validate_every)
