"""A loss, an optimiser, a schedule and a callback of your own, in one file.

Try it: vlnbert --plugin examples/own_loss.py train demo --training.losses progress=0.5 --data house --out runs/progress
"""

from typing import Any

import torch
from torch import Tensor, nn

import vlnbert as vln


@vln.register_loss("progress")
class Progress(vln.Loss):
    """How far along a row is must be told by its hidden vector, as in self-monitoring agents (arXiv:1901.03035)."""

    def __init__(self, config: Any, policy: vln.Policy) -> None:
        super().__init__(config, policy)
        self.head = nn.Linear(policy.hidden_width, 1)

    def forward(self, rollout: vln.Rollout, batch: Any) -> Tensor:
        """[time, row] the squared error; `rollout.live` says which steps count, unless `counted` says otherwise."""
        done = 1 - rollout.distance[1:] / rollout.distance[0].clamp(min=1.0)
        return (self.head(rollout.hidden).squeeze(-1) - done.to(rollout.hidden)).square()


@vln.register_optimizer("sgd")
def sgd(params: Any, lr: float, weight_decay: float, momentum: float = 0.9) -> torch.optim.Optimizer:
    """Called as those of torch.optim are; --training.optimizer-settings momentum=0.5 reaches it."""
    return torch.optim.SGD(params, lr=lr, weight_decay=weight_decay, momentum=momentum)


@vln.register_schedule("linear")
def linear(iteration: int, config: Any) -> float:
    """The factor of the learning rate in an update: a pure function, so that nothing of it is saved."""
    return 1 - iteration / config.iterations


@vln.register_callback("enough")
class Enough:
    """Ends the training once the loss has fallen to half of what it was; it keeps what it was."""

    first: float | None = None

    def begun(self, trainer: Any) -> None:
        self.trainer = trainer

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        self.first = parts["total"] if self.first is None else self.first
        if parts["total"] < self.first / 2:
            self.trainer.finish()

    def validated(self, iteration: int, scores: Any) -> None:
        """Nothing is made of scores here."""

    def state(self) -> dict[str, Any]:
        return {"first": self.first}

    def resumed(self, state: dict[str, Any]) -> None:
        self.first = state["first"]
