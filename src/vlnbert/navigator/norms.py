"""LayerNorm, alone and at the end of a residual branch."""

from torch import Tensor, nn
from torch.nn.functional import layer_norm

from vlnbert.navigator import fused_norms
from vlnbert.navigator.serving import on


def normalised(norm: nn.LayerNorm, tokens: Tensor) -> Tensor:
    """LayerNorm of tokens in their own precision, reckoned in that of the weights."""
    if (economy := on(tokens)) is not None:
        return fused_norms.normalised(economy, norm, tokens)
    precise = tokens.to(norm.weight.dtype)
    return layer_norm(precise, norm.normalized_shape, norm.weight, norm.bias, norm.eps).to(tokens.dtype)


def residual(norm: nn.LayerNorm, tokens: Tensor, change: Tensor, dropout: nn.Dropout) -> Tensor:
    """LayerNorm of tokens with a change, some of whose numbers are dropped."""
    if (economy := on(tokens)) is not None:
        return fused_norms.residual(economy, norm, tokens, change, dropout.p if dropout.training else 0.0)
    return normalised(norm, tokens + dropout(change))
