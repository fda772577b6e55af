"""A navigator's folder, here or on the hub: what it must hold, and whether that fits together."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.errors import DataError, VlnbertError
from vlnbert.navigator.config import NavigatorConfig
from vlnbert.navigator.hub import fetched, is_hub_name
from vlnbert.sources.files import FETCH_AGAIN, read_json
from vlnbert.tasks.tokens import SPECIAL

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
GIVE = "give a navigator's folder, or its name on the hub"
SAVE_AGAIN = "save the navigator again"
NAMED_AT_ONCE = 8  # keys on one line


def find_folder(source: str | Path, **options: Any) -> Path:
    """The folder at a path or, with the options of its client, from the hub; it holds all that a navigator needs."""
    folder = Path(source)
    if not exists(folder) and is_hub_name(str(source)):
        folder = fetched(str(source), (WEIGHTS,), **options)
    if not folder.is_dir():
        raise DataError(source, "is not a folder" if exists(folder) else "no such folder", GIVE)
    for name in (CONFIG, WEIGHTS):
        if not exists(folder / name):
            raise DataError(source, f"holds no {name}", "give a navigator's folder")
    return folder


def exists(path: Path) -> bool:
    """Whether there is something at a path; one at which nobody may look is a fault."""
    try:
        return path.exists()
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the path and its permissions") from None


def read_config(path: Path) -> NavigatorConfig:
    """The configuration in a config.json; what else stands there is left alone."""
    settings = read_json(path, "configuration")
    known = {field.name for field in fields(NavigatorConfig)}
    if not isinstance(settings, dict) or known.isdisjoint(settings):
        remedy = "give a navigator's folder, or make one with: vlnbert weights import"
        raise DataError(path, "does not describe a navigator", remedy)
    try:
        return NavigatorConfig(**{name: value for name, value in settings.items() if name in known})
    except VlnbertError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file, which cannot hold code."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except SafetensorError as error:
        raise DataError(path, f"is not a whole safetensors file ({error})", FETCH_AGAIN) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror or error})", "check the file") from None


def check_fit(path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, tuple[int, ...]]) -> None:
    """A navigator's weights must be all of those that its configuration describes, no others, in their shapes."""
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
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
        raise DataError(path, f"does not fit its {CONFIG}: {'; '.join(problems)}", SAVE_AGAIN)


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a tokenizer.json, which must be that of a BERT."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception for anything
        raise DataError(path, f"is not a tokenizer ({str(error)[:100]})", FETCH_AGAIN) from None
    missing = [token for token in SPECIAL if tokenizer.token_to_id(token) is None]
    if missing or tokenizer.token_to_id("[PAD]") != 0:
        problem = f"lacks {', '.join(missing)}" if missing else "does not have [PAD] as its first token"
        raise DataError(path, problem, "use the tokenizer of a BERT")
    tokenizer.no_padding()
    tokenizer.no_truncation()  # how long an instruction may be is not the tokenizer's to say
    return tokenizer


def shown(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "of a single number"


def listed(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = len(names) - NAMED_AT_ONCE
    return ", ".join(names[:NAMED_AT_ONCE]) + (f" and {more:,} more" if more > 0 else "")
