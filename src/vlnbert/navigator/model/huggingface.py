"""Any encoder of the transformers library as the language half of the two-stream backbone, with its own tokenizer.

`backbone_settings` name it: `encoder`, a folder or a name on the hub, and `frozen`, whether its weights stay fixed. The
first token of its output, pooled by us, is the initial state; our cross-modal layers follow, after a linear map if the
encoder has another width. Its configuration is stored in the navigator's (`encoder_config`, as JSON, and `padding`), so
that a saved navigator no longer needs the encoder's folder.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn

from vlnbert.errors import DataError, UsageError
from vlnbert.navigator import fast
from vlnbert.navigator.model.backbone import Instruction, register_backbone
from vlnbert.navigator.model.bert import CrossLayer, CrossModal, Pooler, stack
from vlnbert.navigator.model.config import MOST_LAYERS, NavigatorConfig
from vlnbert.sources.files import FETCH_AGAIN, read_json
from vlnbert.sources.tokenizer import (
    checked_tokenizer,
    failure_gist,
    numbers_problem,
    read_tokenizer_file,
    require_size,
)
from vlnbert.tasks.tokens import piece_count

SETTINGS = ("encoder", "frozen", "encoder_config", "padding")
GIVE = "give the folder of an encoder that transformers can open, with its tokenizer, or its name on the hub"
SENTENCE = "walk past the stairs"  # to try a tokenizer with
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "*.model")


@register_backbone("huggingface")
class HuggingFace(CrossModal):
    """A pretrained encoder, a linear map to our width if its own differs, cross-modal layers and a pooler."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__(config)
        settings = config.backbone_settings
        if unknown := sorted(set(settings) - set(SETTINGS)):
            raise UsageError(f"backbone_settings has {', '.join(unknown)}; huggingface knows encoder and frozen")
        # A saved navigator has it in its folder.
        self.tokenizer: Tokenizer | None = None
        if "encoder_config" in settings:
            self.encoder, self.padding = _rebuilt(settings), int(settings["padding"])
        else:
            self.encoder, self.tokenizer, self.padding = open_pretrained(settings.get("encoder"))
        self.frozen = bool(settings.get("frozen", False))
        self.encoder.requires_grad_(not self.frozen)
        self.config, width = _completed(config, self.encoder, self.padding), self.encoder.config.hidden_size
        # The navigator initialises what is on the meta device.
        with torch.device("meta"):
            self.to_hidden = None if width == config.hidden else nn.Linear(width, config.hidden)
            self.pooler = Pooler(config.hidden)
            self.cross_layers = stack(CrossLayer, config, config.cross_layers)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        """Eq. 8: read instructions with the encoder."""
        with torch.no_grad() if self.frozen else nullcontext():
            hidden = fast.foreign(read_tokens, self.encoder, self.padding, tokens, mask)
        packing = fast.Packing(mask)
        hidden = packing.pack(hidden)
        return self.instruction(hidden if self.to_hidden is None else fast.linear(hidden, self.to_hidden), packing)

    def train(self, mode: bool = True) -> "HuggingFace":
        """Set the mode as usual, but keep a frozen encoder in evaluation mode: without dropout."""
        super().train(mode)
        self.encoder.train(mode and not self.frozen)
        return self


def read_tokens(encoder: Any, padding: int, tokens: Tensor, mask: Tensor) -> Tensor:
    """The encoder's output [row, token, width] for tokens whose padding is 0.

    Our tokenizer swaps the ids of padding and of the encoder's first token; this swaps them back.
    """
    first, padded = tokens == padding, (tokens == 0) | ~mask
    ids = tokens.masked_fill(first, 0).masked_fill(padded, padding) if padding else tokens
    hidden: Tensor = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return hidden


def open_pretrained(source: object) -> tuple[Any, Tokenizer, int]:
    """A pretrained encoder, its tokenizer with the padding id moved to 0, and the original padding id."""
    if not isinstance(source, str) or not source:
        raise UsageError(f"the huggingface backbone needs an encoder; {GIVE}: backbone_settings={{'encoder': ...}}")
    transformers = _transformers()
    try:
        _check_layers(transformers.AutoConfig.from_pretrained(source, trust_remote_code=False).to_dict())
        with _without_bar(transformers):
            encoder, info = transformers.AutoModel.from_pretrained(
                source, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
    # The library passes on whatever its parts raise.
    except Exception as error:
        raise DataError(source, f"is no encoder that transformers can open ({gist(error)})", GIVE) from None
    config = encoder.config
    if config.is_encoder_decoder or not all(hasattr(config, name) for name in ("hidden_size", "vocab_size")):
        raise DataError(source, f"is a {config.model_type}, which is no encoder of text", GIVE)
    if missing := sorted(name for name in info["missing_keys"] if not name.startswith("pooler.")):
        raise DataError(source, f"lacks {len(missing):,} weights of its encoder, such as {missing[0]}", GIVE)
    for name, weight in encoder.named_parameters():
        if not all(extreme.isfinite() for extreme in weight.aminmax()):
            raise DataError(source, f"holds NaN or infinity in {name}", GIVE)
    try:
        tokenizer, padding = open_tokenizer(transformers, source)
    except DataError as error:
        raise DataError(source, error.problem, GIVE) from None
    if piece_count(tokenizer) > config.vocab_size:
        problem = f"its tokenizer has {piece_count(tokenizer):,} pieces, its encoder {config.vocab_size:,}"
        raise DataError(source, problem, "give an encoder with the tokenizer that it was trained with")
    return _without_pooler(encoder), tokenizer, padding


def _rebuilt(settings: dict[str, bool | int | float | str]) -> Any:
    """An encoder built from the configuration in a saved navigator, which loads its weights afterwards."""
    transformers = _transformers()
    try:
        values = json.loads(str(settings["encoder_config"]))
        _check_layers(values)
        config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
        encoder = transformers.AutoModel.from_config(config, trust_remote_code=False, dtype=torch.float32)
    except Exception as error:
        problem = f"backbone_settings.encoder_config describes no encoder that transformers knows ({gist(error)})"
        raise UsageError(f"{problem}; use the version of transformers that it was trained with") from None
    return _without_pooler(encoder)


def _check_layers(values: dict[str, Any]) -> None:
    """Refuse layer counts that would take forever to build, before the weights can contradict them."""
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
    """Hide the library's progress bar: loading takes a moment."""
    logging = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _without_pooler(encoder: Any) -> Any:
    """Remove the pooler: its output is unused, and weights without gradients break distributed training."""
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def _completed(config: NavigatorConfig, encoder: Any, padding: int) -> NavigatorConfig:
    """The configuration with everything needed to rebuild the navigator without the encoder's folder."""
    described = json.loads(encoder.config.to_json_string(use_diff=False))
    described.pop("_name_or_path", None)
    kept: dict[str, int | str] = {"encoder_config": json.dumps(described, sort_keys=True), "padding": padding}
    return replace(
        config,
        layers=encoder.config.num_hidden_layers,
        vocabulary=encoder.config.vocab_size,
        positions=min(config.positions, positions_of(encoder)),
        backbone_settings={**config.backbone_settings, **kept},
    )


def positions_of(encoder: Any) -> int:
    """The longest sequence that an encoder reads; RoBERTa and similar ones start positions after the padding id."""
    tables = (module for name, module in encoder.named_modules() if name.endswith("position_embeddings"))
    paddings = [getattr(one, "padding_idx", None) for one in tables]
    skipped = max((1 + padding for padding in paddings if padding is not None), default=0)
    return int(getattr(encoder.config, "max_position_embeddings", None) or 2**20) - skipped


def gist(error: Exception) -> str:
    """The kind of a library's error and the beginning of what it says."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:120]}" if lines else type(error).__name__


def open_tokenizer(transformers: Any, source: str) -> tuple[Tokenizer, int]:
    """An encoder's own tokenizer with the padding id moved to 0, and the original padding id."""
    give = "give an encoder with a tokenizer"
    _check_files(source)
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    # The library passes on whatever its parts raise, panics too.
    except BaseException as error:
        failure_gist(error)
        raise DataError(source, "has no tokenizer that transformers can open", give) from None
    tokenizer = getattr(theirs, "backend_tokenizer", None)
    if not isinstance(tokenizer, Tokenizer) or set(tokenizer.get_vocab()) <= set(theirs.all_special_tokens):
        raise DataError(source, "has no tokenizer that the library tokenizers can run", give)
    if theirs.pad_token_id is None:
        raise DataError(source, "has a tokenizer without a token for padding", give)
    tokenizer = checked_tokenizer(source, json.loads(tokenizer.to_str()))
    ends, words = tokenizer.encode("").ids, tokenizer.encode(SENTENCE).ids
    if len(ends) != 2 or [words[0], words[-1]] != ends:
        raise DataError(source, "has a tokenizer that does not put a token at either end of a sentence", give)
    padding = int(theirs.pad_token_id)
    try:
        return with_padding_first(tokenizer, padding), padding
    except BaseException as error:
        failure_gist(error)
        raise DataError(source, "has a tokenizer whose padding cannot be renumbered", give) from None


def _check_files(source: str) -> None:
    """Check an encoder's tokenizer files before the library reads them; on the hub, the first file only."""
    if (folder := Path(source)).is_dir():
        for path in (one for pattern in TOKENIZER_FILES for one in folder.glob(pattern)):
            require_size(path)
        if (pieces := folder / "vocab.json").is_file():
            numbered = read_json(pieces, "vocabulary")
            if not isinstance(numbered, dict) or numbers_problem(numbered) is not None:
                raise DataError(pieces, "does not number the pieces of a vocabulary", FETCH_AGAIN)
        file = folder / TOKENIZER_FILES[0]
    else:
        try:
            file = Path(hf_hub_download(source, TOKENIZER_FILES[0]))
        # There is no such file, or no network, which the library reports better.
        except Exception:
            return
    if file.is_file():
        read_tokenizer_file(file)


def with_padding_first(tokenizer: Tokenizer, padding: int) -> Tokenizer:
    """A copy of a tokenizer in which the padding token and the first one have swapped ids."""
    if padding == 0:
        return tokenizer
    exchanged = {0: padding, padding: 0}
    numbers = {token: exchanged.get(number, number) for token, number in tokenizer.get_vocab().items()}
    state = json.loads(tokenizer.to_str())
    model, added = state["model"], state["added_tokens"]
    # A dictionary includes added tokens; Unigram has a list of pieces and scores.
    if isinstance(model["vocab"], dict):
        model["vocab"] = numbers
    else:
        pieces = model["vocab"]
        pieces[0], pieces[padding] = pieces[padding], pieces[0]
        if model.get("unk_id") is not None:
            model["unk_id"] = exchanged.get(model["unk_id"], model["unk_id"])
    for one in added:
        one["id"] = exchanged.get(one["id"], one["id"])
    state["added_tokens"] = sorted(added, key=lambda one: int(one["id"]))
    first, last = tokenizer.encode("").tokens
    state["post_processor"] = None
    renumbered = Tokenizer.from_str(json.dumps(state))
    ends = [(token, numbers[token]) for token in dict.fromkeys((first, last))]
    renumbered.post_processor = TemplateProcessing(single=[first, "$A", last], special_tokens=ends)
    expected = [exchanged.get(number, number) for number in tokenizer.encode(SENTENCE).ids]
    if renumbered.get_vocab() != numbers or renumbered.encode(SENTENCE).ids != expected:
        raise ValueError("the numbers of other tokens changed")
    return renumbered
