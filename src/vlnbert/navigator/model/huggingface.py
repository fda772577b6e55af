"""Any encoder of the transformers library as the language half of the two-stream backbone, with its own tokenizer.

`backbone_settings` name it: `encoder`, a folder or a name on the hub, and `frozen`, whether it stays as it is. It reads
an instruction once; behind it are our cross-modal layers, `hidden` wide, and a linear map where the encoder is not. The
first token of its output, pooled by us, is the initial state; its own pooler, if it has one, is left out.

What was read is kept in the navigator's configuration (`encoder_config`, as JSON, and `padding`), and the weights lie
with all others: a saved navigator needs the encoder's folder no more.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from vlnbert.errors import DataError, UsageError
from vlnbert.navigator import fast
from vlnbert.navigator.model.backbones import register_backbone
from vlnbert.navigator.model.config import MOST_LAYERS, NavigatorConfig
from vlnbert.navigator.model.foreign_tokenizer import open_tokenizer
from vlnbert.navigator.model.layers import Pooler
from vlnbert.navigator.model.two_stream import CrossModal, make_cross_layers, require_cross_layers
from vlnbert.navigator.model.types import Instruction
from vlnbert.tasks.tokens import piece_count

KNOWN = ("encoder", "frozen", "encoder_config", "padding")
GIVE = "give the folder of an encoder that transformers can open, with its tokenizer, or its name on the hub"


@register_backbone("huggingface")
class HuggingFace(CrossModal):
    """Somebody's encoder, a map to our width where its own is another, cross-modal layers and a pooler."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__()
        require_cross_layers(config)
        settings = config.backbone_settings
        if unknown := sorted(set(settings) - set(KNOWN)):
            raise UsageError(f"backbone_settings has {', '.join(unknown)}; huggingface knows encoder and frozen")
        self.tokenizer: Tokenizer | None = None  # with a saved navigator, the one in its folder
        if "encoder_config" in settings:
            self.encoder, self.padding = _described(settings), int(settings["padding"])
        else:
            self.encoder, self.tokenizer, self.padding = open_pretrained(settings.get("encoder"))
        self.frozen = bool(settings.get("frozen", False))
        self.encoder.requires_grad_(not self.frozen)
        self.config, width = _completed(config, self.encoder, self.padding), self.encoder.config.hidden_size
        with torch.device("meta"):  # the navigator draws the weights
            self.to_hidden = None if width == config.hidden else nn.Linear(width, config.hidden)
            self.pooler, self.cross_layers = Pooler(config.hidden), make_cross_layers(config)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions, by the encoder."""
        with torch.no_grad() if self.frozen else nullcontext():
            hidden = fast.foreign(self._read, tokens, mask)
        packing = fast.Packing(mask)
        hidden = packing.pack(hidden)
        return self.instruction(hidden if self.to_hidden is None else fast.linear(hidden, self.to_hidden), packing)

    def _read(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return read_tokens(self.encoder, self.padding, tokens, mask)

    def train(self, mode: bool = True) -> "HuggingFace":
        """A frozen encoder never drops anything."""
        super().train(mode)
        self.encoder.train(mode and not self.frozen)
        return self


def read_tokens(encoder: Any, padding: int, tokens: Tensor, mask: Tensor) -> Tensor:
    """[row, token, width] what an encoder makes of tokens whose padding is 0.

    Our tokenizer has exchanged the numbers of padding and of the encoder's first token; this turns them back.
    """
    first, padded = tokens == padding, (tokens == 0) | ~mask
    ids = tokens.masked_fill(first, 0).masked_fill(padded, padding) if padding else tokens
    hidden: Tensor = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return hidden


def open_pretrained(source: object) -> tuple[Any, Tokenizer, int]:
    """An encoder with its weights, its tokenizer with padding at 0, and where its padding was."""
    if not isinstance(source, str) or not source:
        raise UsageError(f"the huggingface backbone needs an encoder; {GIVE}: backbone_settings={{'encoder': ...}}")
    transformers = _transformers()
    try:
        _check_layers(transformers.AutoConfig.from_pretrained(source, trust_remote_code=False).to_dict())
        with _without_bar(transformers):
            encoder, info = transformers.AutoModel.from_pretrained(
                source, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
    except Exception as error:  # the library passes on whatever its parts raise
        raise DataError(source, f"is no encoder that transformers can open ({_gist(error)})", GIVE) from None
    _require_encoder(source, encoder)
    if missing := sorted(name for name in info["missing_keys"] if not name.startswith("pooler.")):
        raise DataError(source, f"lacks {len(missing):,} weights of its encoder, such as {missing[0]}", GIVE)
    for name, weight in encoder.named_parameters():
        if not all(extreme.isfinite() for extreme in weight.aminmax()):
            raise DataError(source, f"holds NaN or infinity in {name}", GIVE)
    try:
        tokenizer, padding = open_tokenizer(transformers, source)
    except DataError as error:
        raise DataError(source, error.problem, GIVE) from None
    if piece_count(tokenizer) > encoder.config.vocab_size:
        problem = f"its tokenizer has {piece_count(tokenizer):,} pieces, its encoder {encoder.config.vocab_size:,}"
        raise DataError(source, problem, "give an encoder with the tokenizer that it was trained with")
    return _without_pooler(encoder), tokenizer, padding


def _described(settings: dict[str, bool | int | float | str]) -> Any:
    """An encoder in the shape that a saved navigator tells of; its weights are to be loaded."""
    transformers = _transformers()
    try:
        values = json.loads(str(settings["encoder_config"]))
        _check_layers(values)
        config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
        encoder = transformers.AutoModel.from_config(config, trust_remote_code=False, dtype=torch.float32)
    except Exception as error:
        problem = f"backbone_settings.encoder_config describes no encoder that transformers knows ({_gist(error)})"
        raise UsageError(f"{problem}; use the version of transformers that it was trained with") from None
    return _without_pooler(encoder)


def _check_layers(values: dict[str, Any]) -> None:
    """Refuse what would take for ever to build, before its weights could tell that there are not as many."""
    counts = (value for name, value in values.items() if "layers" in name)
    if any(type(count) is int and not 0 <= count <= MOST_LAYERS for count in counts):
        raise ValueError(f"of more than {MOST_LAYERS:,} layers")


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise UsageError("an encoder that is no BERT needs transformers; pip install vlnbert[transformers]") from None
    return transformers


@contextmanager
def _without_bar(transformers: Any) -> Iterator[None]:
    """The library shows a bar for what takes a moment."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _require_encoder(source: str, encoder: Any) -> None:
    config = encoder.config
    if config.is_encoder_decoder or not all(hasattr(config, name) for name in ("hidden_size", "vocab_size")):
        raise DataError(source, f"is a {config.model_type}, which is no encoder of text", GIVE)


def _without_pooler(encoder: Any) -> Any:
    """Nobody reads the pooler's output, and weights that get no gradient trouble distributed training."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def _completed(config: NavigatorConfig, encoder: Any, padding: int) -> NavigatorConfig:
    """The configuration with all that is needed to make the same navigator without the encoder's folder."""
    described = json.loads(encoder.config.to_json_string(use_diff=False))
    described = {name: value for name, value in described.items() if name != "_name_or_path"}
    kept: dict[str, int | str] = {"encoder_config": json.dumps(described, sort_keys=True), "padding": padding}
    return replace(
        config,
        layers=encoder.config.num_hidden_layers,
        vocabulary=encoder.config.vocab_size,
        positions=min(config.positions, positions_of(encoder)),
        backbone_settings={**config.backbone_settings, **kept},
    )


def positions_of(encoder: Any) -> int:
    """The longest sequence it reads; RoBERTa and its kin count positions from behind that of padding."""
    tables = (module for name, module in encoder.named_modules() if name.endswith("position_embeddings"))
    paddings = [getattr(one, "padding_idx", None) for one in tables]
    skipped = max((1 + padding for padding in paddings if padding is not None), default=0)
    return int(getattr(encoder.config, "max_position_embeddings", None) or 2**20) - skipped


def _gist(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:120]}" if lines else type(error).__name__
