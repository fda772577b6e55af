"""A navigator's folder, here or on the hub: what it must hold, and whether that fits together."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn

from vlnbert.errors import DataError, UnknownNameError, UsageError, VlnbertError
from vlnbert.navigator.model import BACKBONES, NavigatorConfig, RecurrentVLNBert, key_shapes
from vlnbert.navigator.model.config import LARGEST
from vlnbert.navigator.storage.digests import check_file, check_tensors
from vlnbert.navigator.storage.hub import exists, fetched, is_hub_name
from vlnbert.navigator.storage.shown import FEATURES, Shown, read_shown, require_no_path
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.sources.files import FETCH_AGAIN, read_json, require_regular
from vlnbert.sources.formats import FORMAT, format_of
from vlnbert.sources.tokenizer_check import read_tokenizer_file
from vlnbert.tasks.tokens import ENDS, SPECIAL

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
SPEAKER = "speaker"  # in config.json, the settings of a speaker
NEWEST = 2  # format of config.json; 2 renamed two modules, and says so where 1 named no format
RENAMED_IN_2 = {"views": "view_embedding", "objects": "object_embedding"}
KNOWN = frozenset(field.name for field in fields(NavigatorConfig))
GIVE = "give a navigator's folder, or its name on the hub"
SAVE_AGAIN = "save the navigator again"
WEIGHT_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE_WEIGHTS = "give other weights; those of a training that diverged are of no use"
NAMED_AT_ONCE = 3  # more would not fit into a line
FEW_LAYERS = 64  # that are built in a moment, whatever the weights are

Shapes = Mapping[str, tuple[int, ...]]


def find_navigator_folder(source: str | Path, **options: Any) -> Path:
    """The folder at a path or, with the options of its client, from the hub; it holds all that a navigator needs."""
    folder = find_folder(source, GIVE, **options)
    require_files(source, folder, (CONFIG, WEIGHTS), "give a navigator's folder")
    return folder


def find_folder(source: str | Path, remedy: str, **options: Any) -> Path:
    """The folder at a path or, with the options of its client, that of a model on the hub."""
    folder = Path(source)
    if not exists(folder) and is_hub_name(str(source)):
        folder = fetched(str(source), (WEIGHTS,), **options)
    if not folder.is_dir():
        raise DataError(source, "is not a folder" if exists(folder) else "no such folder", remedy)
    return folder


def require_files(source: str | Path, folder: Path, names: Sequence[str], remedy: str) -> None:
    """Refuse the folder of a source that lacks one of some files."""
    for name in names:
        if not exists(folder / name):
            raise DataError(source, f"holds no {name}", remedy)


def write_tokenizer(path: Path, tokenizer: Tokenizer) -> None:
    """Write a tokenizer.json; the library's own `save` raises a bare Exception where a disk is full."""
    path.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")


@dataclass(frozen=True)
class Limits:
    """How long the episodes are that a navigator was trained for; None where they are the task's."""

    max_steps: int | None = None
    max_tokens: int | None = None  # of an instruction

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Limits":
        """Those that somebody's values name; what is no whole number in range counts as not said."""
        said = {field.name: values.get(field.name) for field in fields(cls)}
        return cls(**{name: one for name, one in said.items() if type(one) is int and 1 <= one <= LARGEST})

    def values(self) -> dict[str, int]:
        """Those that are said, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def write_config(path: Path, config: NavigatorConfig, limits: Limits, features: Shown | None) -> None:
    """Write a config.json, of today's format."""
    shown = {} if features is None else {FEATURES: features}
    told = {FORMAT: NEWEST, **asdict(config), **limits.values(), **shown}
    path.write_text(json.dumps(told, sort_keys=True, indent=2))


def read_limits(path: Path) -> Limits:
    """The limits that stand in a config.json beside the configuration; older ones have none."""
    return Limits.from_values(_settings(path))


def read_features(path: Path) -> Shown | None:
    """What a navigator was shown, beside its configuration; None in an older config.json."""
    settings = _settings(path)
    if FEATURES not in settings:
        return None
    features = read_shown(path, settings[FEATURES], "navigator", SAVE_AGAIN)
    require_no_path(path, features, SAVE_AGAIN)
    return features


def read_config(path: Path) -> NavigatorConfig:
    """The configuration in a config.json; what else stands there is left alone."""
    check_file(path)
    settings = _settings(path)
    format_of(path, settings, NEWEST)
    try:
        return NavigatorConfig(**{name: value for name, value in settings.items() if name in KNOWN})
    except VlnbertError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None


def expected_shapes(
    path: Path, config: NavigatorConfig, kind: Callable[[NavigatorConfig], nn.Module] = RecurrentVLNBert
) -> dict[str, tuple[int, ...]]:
    """The keys and shapes of the navigator that a config.json describes, if there can be such a one."""
    if config.backbone not in BACKBONES:
        raise DataError(path, str(UnknownNameError("backbone", config.backbone, BACKBONES)), LOAD_PLUGIN)
    _check_layers(path, config)
    try:
        return key_shapes(config, kind)
    except UsageError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None


def _check_layers(path: Path, config: NavigatorConfig) -> None:
    """Refuse to build more layers than the weights beside a config.json can fill."""
    if not exists(path.with_name(WEIGHTS)):
        return
    layers, weights = config.layers + config.cross_layers, len(stored_shapes(path.with_name(WEIGHTS)))
    if layers > max(weights, FEW_LAYERS):
        raise DataError(path, f"describes {layers:,} layers, but {WEIGHTS} holds {weights:,} weights", SAVE_AGAIN)


def require_fit(folder: Path, config: NavigatorConfig) -> None:
    """Refuse weights that are not those of the configuration beside them, before any is read or room made for it."""
    check_header(folder / WEIGHTS, expected_shapes(folder / CONFIG, config))


def describes_navigator(path: Path) -> bool:
    """Whether a config.json is a navigator's, be it of a format that cannot be read or faulty."""
    try:
        return bool(_settings(path))
    except DataError:
        return False


def describes_speaker(folder: Path) -> bool:
    """Whether a folder is a speaker's, be it whole or not."""
    try:
        settings = read_json(folder / CONFIG, "configuration")
    except DataError:
        return False
    return isinstance(settings, dict) and SPEAKER in settings


def _settings(path: Path) -> dict[str, Any]:
    settings = read_json(path, "configuration")
    if not isinstance(settings, dict) or KNOWN.isdisjoint(settings):
        remedy = "give a navigator's folder, or make one with: vlnbert weights import"
        raise DataError(path, "does not describe a navigator", remedy)
    return settings


def read_weights(path: Path, expected: Shapes) -> dict[str, Tensor]:
    """The weights of a navigator, under today's keys, in the shapes that are expected."""
    check_header(path, expected)
    tensors, _ = read_safetensors(path)
    return checked_weights(path, tensors, expected)


def check_header(path: Path, expected: Shapes) -> None:
    """The same for the shapes that the header of a file declares: nothing is read of what does not fit."""
    version = format_of(path.with_name(CONFIG), _settings(path.with_name(CONFIG)), NEWEST)
    check_fit(path, {_key_today(name, version): shape for name, shape in stored_shapes(path).items()}, expected)


def checked_weights(path: Path, tensors: Mapping[str, Tensor], expected: Shapes) -> dict[str, Tensor]:
    """The tensors of a file of ours under today's keys, if they fit: all of those that are expected, no others.

    Which keys the file has is told by the format in the config.json beside it.
    """
    version = format_of(path.with_name(CONFIG), _settings(path.with_name(CONFIG)), NEWEST)
    tensors = {_key_today(name, version): tensor for name, tensor in tensors.items()}
    check_fit(path, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, expected)
    for name, tensor in tensors.items():
        if (problem := weight_problem(tensor)) is not None:
            raise DataError(path, problem, WHOLE_WEIGHTS, name)
    return tensors


def weight_problem(tensor: Tensor) -> str | None:
    """Why a tensor cannot be a weight, if it cannot: weights are floating-point numbers, and finite."""
    if tensor.dtype not in WEIGHT_TYPES:
        return f"holds {str(tensor.dtype).removeprefix('torch.')}, not weights"
    # In one pass and without a copy: NaN and infinity end up among the extremes.
    if tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
        return "holds NaN or infinity"
    return None


def _key_today(name: str, version: int) -> str:
    part, dot, rest = name.partition(".")
    return f"{RENAMED_IN_2[part]}{dot}{rest}" if version < 2 and part in RENAMED_IN_2 else name


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of a safetensors file, by its header alone."""
    with _readable(path), safe_open(path, framework="np") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file, which cannot hold code."""
    with _readable(path), safe_open(path, framework="pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    check_tensors(path, tensors, metadata)
    return tensors, metadata


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """One line for what may be wrong with a safetensors file."""
    require_regular(path, "safetensors file")
    try:
        yield
    except SafetensorError as error:
        raise DataError(path, f"is not a whole safetensors file ({error})", FETCH_AGAIN) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror or error})", "check the file") from None
    except RuntimeError:  # torch's, which opens the file by its name once more, when it may be gone
        if path.exists():
            raise
        raise DataError(path, "is gone since it was opened", "check the file") from None


def check_fit(path: Path, found: Shapes, expected: Shapes, remedy: str = SAVE_AGAIN) -> None:
    """A network's weights must be all of those that its configuration describes, no others, in their shapes."""
    misshapen = [
        f"{name} has shape {shown(found[name])} where {shown(shape)} is expected"
        for name, shape in expected.items()
        if found.get(name, shape) != shape
    ]
    parts = {
        "lacks ": [name for name in expected if name not in found],
        "adds ": [name for name in found if name not in expected],
        "": misshapen,
    }
    if problems := [what + listed(names) for what, names in parts.items() if names]:
        raise DataError(path, f"does not fit its {CONFIG}: {'; '.join(problems)}", remedy)


def read_tokenizer(path: Path, special: Sequence[str] = SPECIAL) -> Tokenizer:
    """The tokenizer in a tokenizer.json, which must be that of a BERT; without `special` tokens, any."""
    check_file(path)
    tokenizer = read_tokenizer_file(path)
    missing = [token for token in special if tokenizer.token_to_id(token) is None]
    if missing or (special and tokenizer.token_to_id("[PAD]") != 0):
        problem = f"lacks {', '.join(missing)}" if missing else "does not have [PAD] as its first token"
        raise DataError(path, problem, "use the tokenizer of a BERT")
    if special and tuple(tokenizer.encode("").tokens) != ENDS:
        raise DataError(path, f"does not put {' and '.join(ENDS)} around a text", "use the tokenizer of a BERT")
    return tokenizer


def shown(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "of a single number"


def listed(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = len(names) - NAMED_AT_ONCE
    return ", ".join(names[:NAMED_AT_ONCE]) + (f" and {more:,} more" if more > 0 else "")
