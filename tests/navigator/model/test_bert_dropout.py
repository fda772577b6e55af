"""Dropout is where the published code has it, and nowhere else: counted in what passes through a navigator that learns.

Weights are chosen so that what was dropped shows: see `Probe`. Plainly, and inside of a pass in both precisions.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.navigator.samples import sight, words
from vlnbert.learning.presets import presets
from vlnbert.navigator import Instruction, Navigator, NavigatorConfig, fast, named_size
from vlnbert.navigator.model.bert import Attention, FeedForward

ROWS, LENGTH = 32, 9
SMALL = {"hidden": 96, "heads": 4, "inner": 64, "layers": 2, "vocabulary": 50, "positions": 40, "feature_width": 32}
SMALL |= {"angle_width": 8, "critic_width": 64}
PATHS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "plain": nullcontext,
    "pass": fast.enabled,
    "pass in float32": lambda: fast.enabled(torch.float32),
    "pass in bfloat16": lambda: fast.enabled(torch.bfloat16),
}
NOWHERE = ("past decision", "pooled state", "refined state", "view directions")

ONE_STREAM = {
    "embeddings": 0.3,
    "residuals": 0.3,
    "encoder's words": 0.3,
    "encoder's state": 0.3,
    "attention": 0.1,
    "view features": 0.4,
    "view tokens": 0.0,
    "critic": 0.5,
    **dict.fromkeys(NOWHERE, 0.0),
}
TWO_STREAM = {
    "embeddings": 0.1,
    "residuals": 0.1,
    "encoder's words": 0.0,
    "encoder's state": 0.0,
    "attention": 0.1,
    "view features": 0.4,
    "view tokens": 0.1,
    "critic": 0.5,
    **dict.fromkeys(NOWHERE, 0.0),
}
PUBLISHED = {"one-stream": ONE_STREAM, "two-stream": TWO_STREAM}


def config_of(backbone: str, **change: Any) -> NavigatorConfig:
    """The paper's navigator, with its dropout, at a small size."""
    cross = {"cross_layers": 2} if backbone == "two-stream" else {}
    return replace(named_size("base", backbone), **SMALL, **cross, **change)


class Probe:
    """A navigator in which every dropout shows, and the share of zeros in whatever passes some place."""

    def __init__(self, config: NavigatorConfig, monkeypatch: pytest.MonkeyPatch) -> None:
        torch.manual_seed(0)
        self.navigator, self.shares = Navigator(config).train(), defaultdict[str, list[float]](list)
        sign = 1
        for module in self.navigator.modules():
            if isinstance(module, Attention):  # every token gets the same weight and has the value of one
                constant(module.query, 0)
                constant(module.value, 1)
            if isinstance(module, Attention | FeedForward):
                # What is added lies far beyond the tokens, so that they stay behind where it was dropped: below the
                # mean, and above it in the next sub-layer, which cannot pass on what it got as its own.
                constant(module.output if isinstance(module, Attention) else module.outer, 100 * sign)
                self._watch(module, "residuals", lambda out, sign=sign: out * sign < 0)
                sign = -sign
        constant(self.navigator.critic[0], 1)
        self._watch(self.navigator.past_decision, "past decision")
        self._watch(self.navigator.refinement, "refined state")
        self._watch(self.navigator.backbone.pooler, "pooled state")
        self._watch(self.navigator.view_embedding, "view tokens", real_zeros)
        if self.navigator.object_embedding is not None:
            self._watch(self.navigator.object_embedding, "object tokens", real_zeros)
        monkeypatch.setattr(fast, "linear", self._watched_linear(fast.linear))
        monkeypatch.setattr(fast, "attention", self._watched_attention(fast.attention))

    def walk(self) -> Instruction:
        """Two steps, and the value of where they lead."""
        seen = sight(self.navigator.config, ROWS)
        instruction = self.navigator.encode(*words(ROWS, LENGTH))
        step = self.navigator.step(instruction.state, instruction, seen)
        step = self.navigator.step(step.state, step.instruction, seen)
        self.navigator.value(step.state)
        self._add("encoder's state", instruction.state == 0)
        self._add("encoder's words", instruction.language.features[instruction.language.mask] == 0)
        return step.instruction

    def _add(self, place: str, dropped: Tensor) -> None:
        self.shares[place].append(dropped.double().mean().item())

    def _watch(self, module: nn.Module, place: str, dropped: Callable[[Tensor], Tensor] = lambda out: out == 0) -> None:
        module.register_forward_hook(lambda module, given, out: self._add(place, dropped(out)))

    def _watched_linear(self, linear: Any) -> Any:
        """What enters a linear map: a feature first, a direction last, all zero where there is nothing to see."""
        navigator, config = self.navigator, self.navigator.config

        def watched(tokens: Tensor, *maps: nn.Module, **more: Any) -> Tensor:
            if maps[0] is navigator.backbone.layers[0].attention.query and not self.shares["embeddings"]:
                self._add("embeddings", tokens == 0)
            for kind, embedding in (("view", navigator.view_embedding), ("object", navigator.object_embedding)):
                if embedding is not None and maps[0] is embedding.project:
                    width = config.feature_width if kind == "view" else config.object_width
                    there = tokens[tokens[..., -1] != 0]
                    self._add(f"{kind} features", there[..., :width] == 0)
                    self._add(f"{kind} directions", there[..., width:] == 0)
            if maps[0] is navigator.critic[3]:
                self._add("critic", tokens == 0)
            return linear(tokens, *maps, **more)

        return watched

    def _watched_attention(self, attention: Any) -> Any:
        """What is out is the share of weights that were kept, made up for; where all were, it is the most there is."""

        def watched(*given: Any, **more: Any) -> Tensor:
            out = attention(*given, **more)
            self._add("attention", 1 - out.double() / out.max())
            return out

        return watched


def constant(linear: nn.Linear, value: float) -> None:
    nn.init.zeros_(linear.weight)
    nn.init.constant_(linear.bias, value)


def real_zeros(tokens: Tensor) -> Tensor:
    """In a pass, padding is all zero."""
    return tokens[tokens.any(dim=-1)] == 0


@pytest.mark.parametrize("objects", [False, True], ids=["views", "objects"])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("backbone", PUBLISHED)
def test_dropout_is_where_the_published_code_has_it(
    backbone: str, path: str, objects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = {"matching": "visual", "object_width": 40} if objects else {}
    probe, expected = Probe(config_of(backbone, **change), monkeypatch), dict(PUBLISHED[backbone])
    if objects:
        expected |= {place.replace("view", "object"): rate for place, rate in expected.items() if "view" in place}
    with PATHS[path]():
        probe.walk()
    assert probe.shares.keys() == expected.keys()
    for place, shares in probe.shares.items():
        assert shares == pytest.approx([expected[place]] * len(shares), abs=0.04), place
    layers = 4 + 2 * (
        4 if backbone == "one-stream" else 6
    )  # sub-layers of two layers once, and of two more at each step
    assert len(probe.shares["residuals"]) == layers


@pytest.mark.parametrize("path", PATHS)
def test_of_a_residual_only_the_branch_is_dropped(path: str) -> None:
    norm, dropout, tokens = nn.LayerNorm(48), nn.Dropout(0.3).train(), torch.randn(ROWS, 48)
    with PATHS[path]():
        tokens = fast.cast(tokens)
        assert torch.equal(
            fast.residual_norm(norm, tokens, torch.zeros_like(tokens), dropout), fast.layer_norm(norm, tokens)
        )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("backbone", PUBLISHED)
def test_keys_and_values_are_of_the_words_after_dropout(backbone: str, path: str) -> None:
    torch.manual_seed(0)
    navigator = Navigator(config_of(backbone)).train()
    one_stream = backbone == "one-stream"
    with PATHS[path]():
        language = navigator.encode(*words(ROWS, LENGTH)).language
        layers = navigator.backbone.layers if one_stream else navigator.backbone.cross_layers
        for kv, layer in zip(language.kv_cache, layers, strict=True):
            again = (layer.attention if one_stream else layer.cross).project_kv(language.features)
            torch.testing.assert_close(kv[language.mask], again[language.mask])


def test_words_that_attend_at_every_step_are_dropped_where_they_leave_the_encoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The published code drops all that its encoder gives; only Re-Attn of Table 4 goes on with words of a step."""
    language = Probe(config_of("one-stream", language_attention="previous"), monkeypatch).walk().language
    assert (language.features[language.mask] == 0).double().mean().item() == pytest.approx(0.3, abs=0.04)


def test_presets_of_the_paper_have_its_rates() -> None:
    rates = {"one-stream": (0.3, 0.1, 0.4, 0.5), "two-stream": (0.1, 0.1, 0.4, 0.5)}
    of_paper = [one.experiment.navigator for name, one in presets.items() if "stream" in name]
    assert len(of_paper) == 11
    for shape in (*of_paper, presets["r2r-open"].experiment.navigator):
        found = shape.hidden_dropout, shape.attention_dropout, shape.feature_dropout, shape.critic_dropout
        assert found == rates[shape.backbone]
