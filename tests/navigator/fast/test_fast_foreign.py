"""Somebody else's modules inside of a pass: they work, they learn, and what they do wrong is one line."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.navigator.samples import CONFIGS, LENGTH, ONE, ROWS, make, sight, step_of, words
from vlnbert.errors import UsageError
from vlnbert.navigator import BackboneOutput, Instruction, Language, Navigator, VisualTokens, fast


class Adapter(nn.Linear):
    """A low-rank adapter, as those that fine-tune few weights use."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__(width, out)
        self.down, self.up = nn.Linear(width, 2, bias=False), nn.Linear(2, out, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + self.up(self.down(tokens))


class Plain(nn.Module):
    """A small backbone that has never heard of `fast`: one GRU-like gate over attended words and vision."""

    def __init__(self, vocabulary: int, hidden: int) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.query = nn.Linear(hidden, hidden)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        features = self.norm(self.words(tokens))
        return Instruction(self.mix(features[:, :2].flatten(1)), Language(features[:, 1:], mask[:, 1:], None))

    def forward(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput:
        query = self.query(state)
        over_words = torch.einsum("rh,rth->rt", query, language.features)
        over_vision = torch.einsum("rh,rth->rt", query, visual.tokens)
        seen = torch.einsum("rt,rth->rh", over_vision.masked_fill(~visual.mask, -1e4).softmax(dim=-1), visual.tokens)
        pooled = self.norm(self.mix(torch.cat((query, seen), dim=-1)))
        return BackboneOutput(pooled, over_vision, over_words, language, None)


def with_backbone(backbone: nn.Module, **change: Any) -> Navigator:
    navigator = make(replace(ONE, **change)).float()
    navigator.backbone = backbone
    return navigator


@pytest.mark.parametrize("together", [False, True])
def test_an_adapter_meets_tokens_of_another_precision(together: bool) -> None:
    torch.manual_seed(0)
    adapter, other = Adapter(6, 5), nn.Linear(6, 3)
    maps, tokens = (other, adapter) if together else (adapter,), torch.randn(4, 7, 6)
    expected = torch.cat([one(tokens) for one in maps], dim=-1)
    expected.square().sum().backward()
    taught = [weight.grad for one in maps for weight in one.parameters()]
    for one in maps:
        one.zero_grad(set_to_none=True)
    with fast.enabled(torch.bfloat16):
        out = fast.linear(tokens.bfloat16(), *maps)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, rtol=0.02, atol=0.02)
    out.float().square().sum().backward()
    for weight, grad in zip((weight for one in maps for weight in one.parameters()), taught, strict=True):
        assert weight.grad.dtype == torch.float32
        torch.testing.assert_close(weight.grad, grad, rtol=0.05, atol=0.05 * grad.abs().max().item())


def test_an_adapter_in_every_projection_of_a_navigator() -> None:
    """As fine-tuning libraries do it: linear maps are replaced where they stand."""
    navigator = make(CONFIGS["one-stream"]).float()
    for layer in navigator.backbone.layers:
        adapter = Adapter(ONE.hidden, ONE.hidden)
        adapter.load_state_dict(layer.attention.query.state_dict(), strict=False)
        nn.init.zeros_(adapter.up.weight)
        layer.attention.query = adapter
    plain = make(CONFIGS["one-stream"]).float()
    for dtype, tolerance in ((None, 1e-5), (torch.bfloat16, 0.2)):
        (_, step), (_, expected) = step_of(navigator, dtype), step_of(plain, dtype)
        torch.testing.assert_close(step.state, expected.state, rtol=tolerance, atol=tolerance)
    step.state.float().sum().backward()
    assert navigator.backbone.layers[0].attention.query.up.weight.grad.any()


class ScaleNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.gain * tokens / tokens.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("norm", [ScaleNorm(6), nn.LayerNorm(6, bias=False)])
def test_another_norm_keeps_its_way(norm: nn.Module) -> None:
    tokens, branch = torch.randn(4, 6), torch.randn(4, 6)
    expected = norm(tokens + branch)
    for dtype, tolerance in ((None, 0), (torch.bfloat16, 0.05)):
        with fast.enabled(dtype):
            out = fast.residual_norm(norm, tokens.to(dtype), branch.to(dtype), nn.Identity())
        assert out.dtype == (dtype or torch.float32)
        torch.testing.assert_close(out.float(), expected, rtol=tolerance, atol=tolerance)


def test_any_module_is_called_in_the_precision_of_the_pass() -> None:
    def several(tokens: Tensor) -> dict[str, Any]:
        return {"a": (tokens, [tokens.float()]), "mask": tokens > 0, "note": "text"}

    tokens = torch.randn(2, 3)
    assert fast.foreign(several, tokens)["a"][1][0] is tokens, "outside of a pass it is an ordinary call"
    with fast.enabled(torch.bfloat16):
        out = fast.foreign(several, tokens=tokens)
    assert {out["a"][0].dtype, out["a"][1][0].dtype} == {torch.bfloat16}
    assert out["mask"].dtype == torch.bool
    assert out["note"] == "text"


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_foreign_backbone_walks_and_learns(dtype: torch.dtype | None) -> None:
    torch.manual_seed(1)
    navigator = with_backbone(Plain(ONE.vocabulary, ONE.hidden))
    instruction, step = step_of(navigator, dtype)
    assert instruction.state.dtype == step.state.dtype == step.logits.dtype == (dtype or torch.float32)
    (step.logits[step.logits.isfinite()].float().sum() + step.state.float().sum()).backward()
    grads = {name: weight.grad for name, weight in navigator.backbone.named_parameters()}
    assert {grad.dtype for grad in grads.values()} == {torch.float32}
    assert all(grad.any() for grad in grads.values())


def test_a_foreign_backbone_computes_the_same_in_a_pass() -> None:
    navigator = with_backbone(Plain(ONE.vocabulary, ONE.hidden))
    _, inside = step_of(navigator, None)
    instruction = navigator.encode(*words(ROWS, LENGTH))
    first = navigator.step(instruction.state, instruction, sight(ONE, ROWS))
    outside = navigator.step(first.state, first.instruction, sight(ONE, ROWS, seed=1))
    torch.testing.assert_close(inside.state, outside.state)


def test_our_own_backbones_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    navigator = make(CONFIGS["two-stream"]).float()
    monkeypatch.setattr("vlnbert.navigator.model.navigator.check_output", None)
    monkeypatch.setattr("vlnbert.navigator.model.navigator.check_instruction", None)
    step_of(navigator, torch.bfloat16)


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[BackboneOutput], Any]:
    return lambda out: replace(out, **{name: change(getattr(out, name))})


BROKEN: dict[str, tuple[Callable[[BackboneOutput], Any], str]] = {
    "no bundle": (lambda out: (out.pooled, out.visual_scores), "Broken gave a tuple where BackboneOutput is expected"),
    "too narrow": (
        changed("pooled", lambda pooled: pooled[:, :-2]),
        "Broken gave float32 [4, 22] for BackboneOutput.pooled; expected is a floating tensor [4, 24]",
    ),
    "fewer rows": (
        changed("language_scores", lambda scores: scores[1:]),
        "Broken gave float32 [3, 8] for BackboneOutput.language_scores; expected is a floating tensor [4, 8]",
    ),
    "whole numbers": (
        changed("visual_scores", lambda scores: scores.long()),
        "Broken gave int64 [4, 6] for BackboneOutput.visual_scores; expected is a floating tensor [4, 6]",
    ),
    "none": (
        changed("pooled", lambda _: None),
        "Broken gave a NoneType for BackboneOutput.pooled; expected is a floating tensor [4, 24]",
    ),
    "a mask of numbers": (
        changed("language", lambda language: replace(language, mask=language.mask.float())),
        "Broken gave float32 [4, 8] for Language.mask; expected is a bool tensor [4, 8]",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_backbone_that_breaks_the_contract_is_told_in_a_line(fault: str) -> None:
    change, line = BROKEN[fault]

    class Broken(Plain):
        def forward(self, *given: Any) -> Any:
            return change(super().forward(*given))

    navigator = with_backbone(Broken(ONE.vocabulary, ONE.hidden))
    instruction, seen = navigator.encode(*words(ROWS, LENGTH)), sight(ONE, ROWS)
    seen = replace(seen, choosable=torch.ones(ROWS, 6, dtype=torch.bool))
    with pytest.raises(UsageError) as caught:
        navigator.step(instruction.state, instruction, seen)
    assert str(caught.value) == line


def test_a_backbone_that_reads_wrongly_is_told_in_a_line() -> None:
    class Broken(Plain):
        def encode(self, tokens: Tensor, mask: Tensor) -> Any:
            whole = super().encode(tokens, mask)
            return whole.state if len(tokens) == 1 else replace(whole, state=whole.state[:, None])

    navigator = with_backbone(Broken(ONE.vocabulary, ONE.hidden))
    with pytest.raises(UsageError, match=r"^Broken gave a Tensor where Instruction is expected$"):
        navigator.encode(*words(1, LENGTH))
    expected = r"^Broken gave float32 \[4, 1, 24\] for Instruction.state; expected is a floating tensor \[4, 24\]$"
    with pytest.raises(UsageError, match=expected):
        navigator.encode(*words(ROWS, LENGTH))


def test_a_module_that_breaks_the_contract_is_told_in_a_line() -> None:
    class Wide(nn.Linear):
        def forward(self, tokens: Tensor) -> Tensor:
            return torch.cat((tokens, tokens), dim=-1)

    with fast.enabled(), pytest.raises(UsageError, match=r"^Wide gave float32 \[4, 6\] for its result; .* \[4, 2\]$"):
        fast.linear(torch.randn(4, 3), Wide(3, 2))
    with fast.enabled(), pytest.raises(UsageError, match=r"^Wide gave float32 \[4, 6\] for its result; .* \[4, 3\]$"):
        fast.layer_norm(Wide(3, 3), torch.randn(4, 3))
    with fast.enabled(), pytest.raises(UsageError, match=r"^fast\.linear was given maps with and without a bias"):
        fast.linear(torch.randn(4, 3), nn.Linear(3, 2), nn.Linear(3, 2, bias=False))


@pytest.mark.parametrize("says", [False, True])
def test_a_backbone_that_cannot_read_is_told_in_a_line(says: bool) -> None:
    class Mute(nn.Linear):
        uses_fast = says

    with pytest.raises(UsageError, match=r"^Mute has no encode\(tokens, mask\), which a backbone needs$"):
        with_backbone(Mute(3, 3)).encode(*words(ROWS, LENGTH))


@pytest.mark.parametrize("name", CONFIGS)
def test_our_own_modules_are_not_called_as_foreign_ones(name: str) -> None:
    """They keep the precision of the pass themselves, where those of others are helped by autocast."""
    navigator, seen = make(CONFIGS[name]).float(), list[tuple[str, bool]]()
    for part, module in navigator.named_modules():
        note = partial(lambda part, *_: seen.append((part, torch.is_autocast_enabled("cpu"))), part)
        module.register_forward_pre_hook(note)
    step_of(navigator, torch.bfloat16)
    assert seen
    assert [part for part, helped in seen if helped] == []


def test_without_a_dtype_a_foreign_module_is_called_as_it_is() -> None:
    tokens = torch.randn(2, 3)
    with fast.enabled():
        assert fast.foreign(lambda given: given, tokens) is tokens
        assert fast.foreign(nn.Linear(3, 2).double(), tokens.double()).dtype == torch.float64


@pytest.mark.parametrize("outer", [False, True])
def test_torch_does_not_warn_of_an_rms_norm(outer: bool) -> None:
    """Warnings are errors in tests; torch gives this one once in a process."""
    norm, tokens = nn.RMSNorm(6), torch.randn(4, 6)
    with fast.enabled(torch.bfloat16):
        out = fast.foreign(norm, tokens.bfloat16()) if outer else fast.layer_norm(norm, tokens.bfloat16())
    torch.testing.assert_close(out.float(), norm(tokens), rtol=0.05, atol=0.05)
