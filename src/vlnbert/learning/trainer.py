"""The trainer: set up, update, validate, save. What is shown or logged along the way is left to callbacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from vlnbert.environment.environment import Environment
from vlnbert.errors import VlnbertError
from vlnbert.evaluation.evaluate import evaluate_navigator
from vlnbert.learning.checkpoints import Progress, last_checkpoint, load_checkpoint, save_checkpoint
from vlnbert.learning.config import TrainConfig
from vlnbert.learning.objective import Objective, navigation_objective
from vlnbert.learning.rewards import Rewards
from vlnbert.navigator import Navigator
from vlnbert.rollout.explore import SAMPLE, TEACHER, Explorer, explore
from vlnbert.rollout.noise import keys
from vlnbert.sources.folders import replaced
from vlnbert.tasks.batches import TrainingBatches, bucket, take
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.tokens import Tokens

Summary = Mapping[str, float | int | None]


class TrainingError(VlnbertError):
    """Training cannot go on; the last good checkpoint is whole."""


@dataclass(frozen=True)
class Split:
    """Episodes with their tokens, on the environment's device."""

    episodes: Episodes
    tokens: Tokens


class Callback(Protocol):
    """Somebody who watches."""

    def updated(self, iteration: int, rate: float, parts: dict[str, float]) -> None: ...

    def validated(self, iteration: int, scores: dict[str, Summary]) -> None: ...


class Trainer:
    """One run: a navigator that learns on a split, in a folder that holds all it needs to go on after a kill."""

    def __init__(
        self,
        run: Path,
        navigator: Navigator,
        environment: Environment,
        train: Split,
        validation: Mapping[str, Split],
        config: TrainConfig,
        best_on: str,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.run, self.navigator, self.environment, self.config = run, navigator, environment, config
        self.train_split, self.validation, self.best_on, self.callbacks = train, validation, best_on, callbacks
        self.optimiser = torch.optim.AdamW(navigator.parameters(), lr=config.rate, weight_decay=config.weight_decay)
        critic = set(navigator.critic.parameters())
        self.clipped = [weight for weight in navigator.parameters() if weight not in critic]
        self.rewards = Rewards(environment.world, config.rewards)
        self.batches = TrainingBatches(train.tokens.count.cpu(), config.batch, config.seed)
        half = config.batch // 2
        self.how = torch.tensor([TEACHER] * half + [SAMPLE] * half, device=environment.world.device)
        self.progress = Progress(0, None, None)
        self.stopping: bool = False  # set from outside to end after the update under way

    def resume(self) -> None:
        """Go on from the newest checkpoint of the run."""
        self.progress = load_checkpoint(last_checkpoint(self.run), self.navigator, self.optimiser)

    def train(self) -> None:
        """Update until done, stopped from outside, or no longer improving."""
        if self.progress.iteration == 0:
            save_checkpoint(self.run, self.navigator, self.optimiser, self.progress)
        while self.progress.iteration < self.config.iterations and not self.stopping and not self._stale():
            iteration = self.progress.iteration
            self._update(iteration)
            best = self.progress.best, self.progress.best_iteration
            self.progress = Progress(iteration + 1, *best)
            due = (iteration + 1) % self.config.validate_every == 0 or iteration + 1 == self.config.iterations
            if due:
                self._validate()
            if due or self.stopping:
                save_checkpoint(self.run, self.navigator, self.optimiser, self.progress)

    def _update(self, iteration: int) -> None:
        """One update, from one batch or several."""
        rate = self.config.rate_at(iteration)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.navigator.train()
        self.optimiser.zero_grad(set_to_none=True)
        for part in range(self.config.accumulate):
            number = iteration * self.config.accumulate + part
            loss = self._loss(number)
            torch.autograd.backward(loss.total / self.config.accumulate)
        clip_grad_norm_(self.clipped, self.config.clip)
        self.optimiser.step()
        parts = {name: float(value.detach()) for name, value in loss.__dict__.items()}
        for callback in self.callbacks:
            callback.updated(iteration + 1, rate, parts)

    def _loss(self, number: int) -> Objective:
        rows = self.batches[number]
        split, device = self.train_split, self.environment.world.device
        width = bucket(int(split.tokens.count[rows].max()))
        batch = take(split.episodes, split.tokens, rows.to(device), width)
        key = keys(self.config.seed, number, batch.index)
        explorer = Explorer(self.navigator, self.environment, batch.tokens, self.how, key)
        rollout = explore(self.environment, explorer, batch.start, batch.heading, batch.goal, self.config.limit)
        loss = navigation_objective(
            rollout, self.how, self.rewards, batch.path, batch.path_length, self.config.objective
        )
        self._require_finite(loss.total, rows, number)
        return loss

    def _require_finite(self, total: Tensor, rows: Tensor, number: int) -> None:
        if not torch.isfinite(total):
            names = ", ".join(self.train_split.episodes.ids[row] for row in rows.tolist())
            problem = f"the loss of batch {number} is {float(total.detach())} (instructions {names})"
            raise TrainingError(
                f"{problem}; {self.run} still holds the last good checkpoint, lower the rate and resume"
            )

    def _validate(self) -> None:
        """Walk the validation splits, remember the best and keep its weights."""
        self.navigator.eval()
        scores = {name: self._scores(split) for name, split in self.validation.items()}
        for callback in self.callbacks:
            callback.validated(self.progress.iteration, scores)
        score = scores[self.best_on]["spl"] if self.best_on in scores else None
        if score is not None and (self.progress.best is None or score > self.progress.best):
            self.progress = Progress(self.progress.iteration, float(score), self.progress.iteration)
            with replaced(self.run / "best") as beside:
                self.navigator.save_pretrained(beside)

    def _scores(self, split: Split) -> Summary:
        result = evaluate_navigator(self.environment, self.navigator, split.episodes, split.tokens, self.config.limit)
        return result.scores.summary() if result.scores is not None else {}

    def _stale(self) -> bool:
        if not self.config.patience or self.progress.best_iteration is None:
            return False
        since = self.progress.iteration - self.progress.best_iteration
        return since >= self.config.patience * self.config.validate_every
