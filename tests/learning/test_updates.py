"""One update of the weights: from one batch or several, in single or in half precision."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.learning.samples import CONFIG, NO_DROPOUT, SHAPE, Watcher, trainer
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.trainer import Trainer

ONCE = replace(CONFIG, iterations=1, warmup=0, batch=8)


def plain(house: Path, run: Path, config: TrainConfig) -> Trainer:
    return trainer(house, run, config, shape=replace(SHAPE, **NO_DROPOUT))


def gradients(one: Trainer, number: int) -> list[Tensor]:
    """Of one batch, taken by hand."""
    batch, key = one.batches[number]
    loss = one.learner(batch, key)[0]
    return list(torch.autograd.grad(loss, list(one.model.parameters())))


def test_an_update_from_two_batches_has_their_mean_gradient(house: Path, tmp_path: Path) -> None:
    config = replace(ONCE, accumulate=2, grad_clip=1e9)
    one = plain(house, tmp_path / "one", config)
    expected = [(first + second) / 2 for first, second in zip(gradients(one, 0), gradients(one, 1), strict=True)]
    one.train()
    found = [weight.grad for weight in one.model.parameters()]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert any(not torch.allclose(mean, first) for mean, first in zip(expected, gradients(one, 0), strict=True))


def test_the_critic_is_not_clipped(house: Path, tmp_path: Path) -> None:
    one = plain(house, tmp_path / "one", replace(ONCE, grad_clip=0.01))
    expected = dict(zip(dict(one.model.named_parameters()), gradients(one, 0), strict=True))
    one.train()
    found = {name: weight.grad for name, weight in one.model.named_parameters()}
    critic = [name for name in found if name.startswith("critic.")]
    torch.testing.assert_close([found[name] for name in critic], [expected[name] for name in critic])
    others = torch.cat([found[name].flatten() for name in found if name not in critic])
    assert float(others.norm()) == pytest.approx(0.01, rel=1e-3)


def test_half_precision_learns_much_the_same(house: Path, tmp_path: Path) -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        one, watcher = plain(house, tmp_path / precision, replace(ONCE, precision=precision)), Watcher()
        before = [weight.detach().clone() for weight in one.model.parameters()]
        one.callbacks = [watcher]
        one.train()
        after = list(one.model.parameters())
        assert all(weight.dtype == torch.float32 and weight.isfinite().all() for weight in after)
        assert any(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
        losses[precision] = watcher.losses[1]
    for part in ("imitation", "entropy"):
        assert losses["bfloat16"][part] == pytest.approx(losses["float32"][part], rel=0.03)
    assert losses["bfloat16"] != losses["float32"], "it was half precision"
