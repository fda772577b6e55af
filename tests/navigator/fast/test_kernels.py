"""The kernels compute what plain torch computes: on a GPU, or interpreted (TRITON_INTERPRET=1) where Triton is."""

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn

from vlnbert.navigator import NavigatorConfig, fast
from vlnbert.navigator.fast import MOST_TOKENS, KeyValues
from vlnbert.navigator.model.bert import Attention

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or (DEVICE == "cpu" and not INTERPRETED), reason="no GPU with Triton here"
)

ROWS, HIDDEN, HEADS = 3, 48, 2  # heads of 24: no power of two


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, device=DEVICE)


def attention(dropout: float = 0.0) -> Attention:
    torch.manual_seed(0)
    config = NavigatorConfig(hidden=HIDDEN, heads=HEADS, hidden_dropout=dropout, attention_dropout=dropout)
    return Attention(config).to(DEVICE)


def source(tokens: int, width: int) -> KeyValues:
    mask = torch.rand(ROWS, tokens, device=DEVICE) > 0.4
    mask[:, 0] = True
    return KeyValues(randn(ROWS, tokens, width * HIDDEN).requires_grad_(), mask)


def given(case: str) -> tuple[Tensor, tuple[KeyValues, ...]]:
    """Queries and sources as the backbones have them."""
    torch.manual_seed(1)
    around = source(5, 3)
    return {
        "words": (randn(ROWS, 5, HIDDEN).requires_grad_(), (source(19, 2),)),
        "each other": (around.kv, (around,)),
        "both": (around.kv, (source(19, 2), around)),
        "words that attend": ((words := source(19, 3)).kv, (words, around)),
        "long": (around.kv, (source(150, 2), around)),
        "one asks": (randn(ROWS, 1, HIDDEN).requires_grad_(), (source(19, 2), source(5, 2))),
    }[case]


CASES = ("words", "each other", "both", "words that attend", "long", "one asks")


@pytest.mark.parametrize("case", CASES)
def test_attention_is_what_it_was(case: str) -> None:
    layer, (queries, sources) = attention().eval(), given(case)
    leaves = {id(one): one for one in (queries, *(source.kv for source in sources))}.values()
    expected = layer.context(queries, *sources)
    grad_out = torch.randn_like(expected)
    grads = torch.autograd.grad(expected, leaves, grad_out)
    with fast.enabled():
        out = layer.context(queries, *sources)
    assert "_Attention" in type(out.grad_fn).__name__
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    for one, other in zip(torch.autograd.grad(out, leaves, grad_out), grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("case", ["both", "words"])
def test_attention_drops_as_many_as_it_should_and_the_same_on_the_way_back(case: str) -> None:
    """With values of one, what is out is the share of weights that were kept; and gradients are those of that."""
    layer, (queries, sources) = attention(0.25).train(), given(case)
    for one in sources:
        one.kv.data[..., -HIDDEN:] = 1
    with fast.enabled():
        out = [layer.context(queries, *sources) for _ in range(30)]
    assert out[0].unique().numel() > 10, "different weights are dropped"
    assert torch.stack(out).mean().item() == pytest.approx(1, abs=0.05)
    kv = sources[0].kv
    grad = torch.autograd.grad(out[0].sum(), kv)[0][..., -HIDDEN:]
    by_values = (grad * kv.detach()[..., -HIDDEN:]).sum()
    if case == "words":  # linear in the values: the gradient times them is the output, if the same were dropped
        torch.testing.assert_close(by_values, out[0].sum().detach(), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("rows", [1, 7, 5000 if DEVICE == "cuda" else 30])
def test_a_residual_is_what_it_was(rows: int) -> None:
    torch.manual_seed(0)
    norm = nn.LayerNorm(HIDDEN, eps=1e-12).to(DEVICE)
    nn.init.normal_(norm.weight)
    tokens, branch = randn(rows, HIDDEN).requires_grad_(), randn(rows, HIDDEN).requires_grad_()
    leaves = (tokens, branch, norm.weight, norm.bias)
    dropout = nn.Dropout(0.3).eval()

    def both() -> Tensor:
        return fast.residual_norm(norm, tokens, branch, dropout) + fast.layer_norm(norm, tokens * 2)

    expected = both()
    grad_out = torch.randn_like(expected)
    grads = torch.autograd.grad(expected, leaves, grad_out)
    with fast.enabled():
        out = both()
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    for one, other in zip(torch.autograd.grad(out, leaves, grad_out), grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_a_residual_drops_as_many_as_it_should_and_the_same_on_the_way_back() -> None:
    torch.manual_seed(0)
    norm, dropout = nn.LayerNorm(HIDDEN, eps=1e-12).to(DEVICE), nn.Dropout(0.3).train()
    tokens, branch = torch.zeros(200, HIDDEN, device=DEVICE), randn(200, HIDDEN).abs().add(1).requires_grad_()
    with fast.enabled():
        out = fast.residual_norm(norm, tokens, branch, dropout)
        again = fast.residual_norm(norm, tokens, branch, dropout)
    kept = out > out.min(dim=1, keepdim=True).values + 1e-4  # what was dropped is the least of its token
    assert kept.float().mean().item() == pytest.approx(0.7, abs=0.02)
    assert not torch.equal(out, again)
    grad = torch.autograd.grad(out, branch, torch.randn_like(out))[0]
    assert torch.equal(grad != 0, kept)


def test_where_nothing_can_be_compiled_torch_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(fast, "_try_out", refuse)
    fast._compiles.cache_clear()
    layer, (queries, sources) = attention().eval(), given("both")
    try:
        with fast.enabled(), pytest.warns(UserWarning, match=r"no C compiler.*torch's own serve"):
            out = layer.context(queries, *sources)
    finally:
        fast._compiles.cache_clear()
    assert torch.equal(out, layer.context(queries, *sources))


def test_what_is_too_long_for_one_program_is_left_to_torch() -> None:
    long, many = source(MOST_TOKENS + 1, 2), source(MOST_TOKENS, 3)
    with fast.enabled():
        for queries, words in ((randn(ROWS, 2, HIDDEN), long), (many.kv, many)):
            assert "_Attention" not in type(attention().eval().context(queries, words).grad_fn).__name__


@pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter has no bfloat16")
def test_half_precision_is_near() -> None:
    layer, (queries, sources) = attention().eval(), given("both")
    expected = layer.context(queries, *sources)
    half = [KeyValues(source.kv.bfloat16(), source.mask) for source in sources]
    with fast.enabled(torch.bfloat16):
        out = layer.context(half[1].kv, *half)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), expected, atol=0.03, rtol=0.03)
