"""A navigator's folder, here or on the hub: finding it, reading it, and checking that its files fit together."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor, nn
from xxhash import xxh3_128

from vlnbert.errors import DataError, UnknownNameError, UsageError, VlnbertError
from vlnbert.navigator.model.backbone import BACKBONES
from vlnbert.navigator.model.config import LARGEST, NavigatorConfig
from vlnbert.navigator.model.huggingface import gist
from vlnbert.navigator.model.navigator import RecurrentVLNBert, key_shapes
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.sources.files import FETCH_AGAIN, FORMAT, NewerFormatError, format_of, read_json, require_regular
from vlnbert.sources.tokenizer import read_tokenizer_file
from vlnbert.sources.writing import write_json
from vlnbert.tasks.tokens import ENDS, SPECIAL

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"
SPEAKER = "speaker"  # in config.json, the settings of a speaker
# Format of config.json; 2 renamed two modules, and files of format 1 do not state theirs.
CONFIG_FORMAT = 2
RENAMED_IN_2 = {"views": "view_embedding", "objects": "object_embedding"}
KNOWN = frozenset(field.name for field in fields(NavigatorConfig))
SAVE_AGAIN = "save the navigator again"
WEIGHT_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
WHOLE_WEIGHTS = "give other weights; those of a training that diverged are of no use"
NAMED_AT_ONCE = 3  # more would not fit into a line
# So many are built in a moment, whatever the weights are.
FEW_LAYERS = 64
CONFIG_FILES = ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json")  # beside the weights
OTHER_VOCABULARIES = ("vocab.json", "merges.txt", "*.model")  # of tokenizers other than BERT's
NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
FILE_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".safetensors")

# The part of a config.json that has the features which a network was trained with: plain values by names of a
# `FeatureSpec`, without defaults. Their meaning is for `vlnbert.features`.
FEATURES = "features"
WORDS, SIZES = ("views", "objects", "encoder"), ("view_width", "object_width", "max_objects")
LONGEST = 4096  # characters of a word, as of a path
NONE = "off"  # as objects: none are shown
ONLY = "of the only feature file"  # what is seen where no features are named

Shown = dict[str, str | int]
Shapes = Mapping[str, tuple[int, ...]]
Weight = TypeVar("Weight")


def find_folder(source: str | Path, names: Sequence[str], remedy: str, **options: Any) -> Path:
    """The folder of these files at a path, or the local copy of a model on the hub, fetched with these options."""
    folder = Path(source)
    if not exists(folder) and is_hub_name(str(source)):
        folder = fetch_model(str(source), (WEIGHTS,), **options)
    if not folder.is_dir():
        raise DataError(source, "is not a folder" if exists(folder) else "no such folder", remedy)
    for name in names:
        if not exists(folder / name):
            raise DataError(source, f"holds no {name}", remedy)
    return folder


class NoSuchSourceError(DataError):
    """Nothing exists at a path, and the hub has no model of that name."""


def exists(path: Path) -> bool:
    """Whether a path exists; raises an error if permissions prevent looking."""
    try:
        return path.exists()
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the path and its permissions") from None


def is_hub_name(text: str) -> bool:
    """Whether a text could be the name of a model on the hub, such as `bert-base-uncased` or `owner/name`."""
    return NAME.fullmatch(text) is not None and not text.endswith(FILE_ENDINGS)


def fetch_model(name: str, weight_files: tuple[str, ...], **options: Any) -> Path:
    """Fetch a model from the hub, with the first of the weight files that it has, and return its local folder.

    The options are those of the hub's library: revision, cache_dir, token, local_files_only, force_download.
    """
    try:
        for weights in weight_files:
            wanted = [*CONFIG_FILES, *OTHER_VOCABULARIES, DIGESTS, weights]
            folder = Path(snapshot_download(name, allow_patterns=wanted, **options))
            if (folder / weights).exists():
                break
    # The hub's library passes on whatever the network's raises.
    except Exception as error:
        reason = gist(error)
        if isinstance(error, HfHubHTTPError) and getattr(error, "response", None) is not None:
            reason = f"{type(error).__name__}, status {error.response.status_code}"
        problem = f"no such file or folder, and the hub gave no model of that name ({reason})"
        remedy = "check the name and the network, or fetch the model's folder and give its path"
        raise NoSuchSourceError(name, problem, remedy) from None
    return folder


def write_tokenizer(path: Path, tokenizer: Tokenizer) -> None:
    """Write a tokenizer.json; the library's own `save` raises a bare Exception when the disk is full."""
    path.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")


@dataclass(frozen=True)
class Limits:
    """Length limits of the episodes that a navigator was trained on; None for the task's own."""

    max_steps: int | None = None
    max_tokens: int | None = None  # of an instruction

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Limits":
        """The limits among untrusted values; anything but a whole number in range is ignored."""
        known = {field.name: values.get(field.name) for field in fields(cls)}
        return cls(**{name: one for name, one in known.items() if type(one) is int and 1 <= one <= LARGEST})

    def values(self) -> dict[str, int]:
        """The limits that are set, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def write_config(path: Path, config: NavigatorConfig, limits: Limits, features: Shown | None) -> None:
    """Write a config.json in the current format."""
    document: dict[str, Any] = {FORMAT: CONFIG_FORMAT, **asdict(config), **limits.values()}
    if features is not None:
        document[FEATURES] = features
    path.write_text(json.dumps(document, sort_keys=True, indent=2))


def read_training_facts(path: Path) -> tuple[Limits, Shown | None]:
    """The limits and the features of the training, as a config.json stores them; older files have none."""
    settings = _settings(path)
    limits = Limits.from_values(settings)
    if FEATURES not in settings:
        return limits, None
    features = read_shown(path, settings[FEATURES], "navigator", SAVE_AGAIN)
    require_no_path(path, features, SAVE_AGAIN)
    return limits, features


def read_config(path: Path) -> NavigatorConfig:
    """The configuration in a config.json; other entries are ignored."""
    check_file(path)
    settings = _settings(path)
    format_of(path, settings, CONFIG_FORMAT)
    try:
        return NavigatorConfig(**{name: value for name, value in settings.items() if name in KNOWN})
    except VlnbertError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None


def expected_shapes(
    path: Path, config: NavigatorConfig, kind: Callable[[NavigatorConfig], nn.Module] = RecurrentVLNBert
) -> dict[str, tuple[int, ...]]:
    """The keys and shapes of the navigator that a config.json describes, if it can be built."""
    if config.backbone not in BACKBONES:
        raise DataError(path, str(UnknownNameError("backbone", config.backbone, BACKBONES)), LOAD_PLUGIN)
    # Building more layers than the weights beside it can fill would only cost time.
    if exists(path.with_name(WEIGHTS)):
        layers, weights = config.layers + config.cross_layers, len(stored_shapes(path.with_name(WEIGHTS)))
        if layers > max(weights, FEW_LAYERS):
            raise DataError(path, f"describes {layers:,} layers, but {WEIGHTS} holds {weights:,} weights", SAVE_AGAIN)
    try:
        return key_shapes(config, kind)
    except UsageError as error:
        raise DataError(path, str(error), SAVE_AGAIN) from None


def require_fit(folder: Path, config: NavigatorConfig) -> None:
    """Raise an error if a folder's weights do not fit its configuration, before reading or allocating any."""
    check_header(folder / WEIGHTS, expected_shapes(folder / CONFIG, config))


def describes_navigator(path: Path) -> bool:
    """Whether a config.json is a navigator's, even if its format is newer or its values are invalid."""
    with suppress(DataError):
        return bool(_settings(path))
    return False


def describes_speaker(folder: Path) -> bool:
    """Whether a folder is a speaker's, be it whole or not."""
    with suppress(DataError):
        settings = read_json(folder / CONFIG, "configuration")
        return isinstance(settings, dict) and SPEAKER in settings
    return False


def _settings(path: Path) -> dict[str, Any]:
    """The contents of a navigator's config.json, unchecked."""
    settings = read_json(path, "configuration")
    if not isinstance(settings, dict) or KNOWN.isdisjoint(settings):
        remedy = "give a navigator's folder, or make one with: vlnbert weights import"
        raise DataError(path, "does not describe a navigator", remedy)
    return settings


def read_weights(path: Path, expected: Shapes) -> dict[str, Tensor]:
    """The weights of a navigator, under today's keys, in the expected shapes."""
    check_header(path, expected)
    tensors, _ = read_safetensors(path)
    return checked_weights(path, tensors, expected)


def check_header(path: Path, expected: Shapes) -> None:
    """Check the shapes that a file's header declares, before reading any weights."""
    check_fit(path, _with_current_keys(path, stored_shapes(path)), expected)


def checked_weights(path: Path, tensors: Mapping[str, Tensor], expected: Shapes) -> dict[str, Tensor]:
    """The tensors of a file of ours under today's keys, if they are exactly the expected ones, finite floats."""
    tensors = _with_current_keys(path, tensors)
    check_fit(path, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, expected)
    for name, tensor in tensors.items():
        if (problem := weight_problem(tensor)) is not None:
            raise DataError(path, problem, WHOLE_WEIGHTS, name)
    return tensors


def weight_problem(tensor: Tensor) -> str | None:
    """The reason why a tensor cannot be a weight, if any: weights are finite floating-point numbers."""
    if tensor.dtype not in WEIGHT_TYPES:
        return f"holds {str(tensor.dtype).removeprefix('torch.')}, not weights"
    # In one pass and without a copy: NaN and infinity end up among the extremes.
    if tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
        return "holds NaN or infinity"
    return None


def _with_current_keys(path: Path, weights: Mapping[str, Weight]) -> dict[str, Weight]:
    """The weights of a file under today's keys; the format of the config.json beside it says which keys it has."""
    if format_of(path.with_name(CONFIG), _settings(path.with_name(CONFIG)), CONFIG_FORMAT) >= 2:
        return dict(weights)
    split = {name: name.partition(".") for name in weights}
    return {RENAMED_IN_2.get(part, part) + dot + rest: weights[name] for name, (part, dot, rest) in split.items()}


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
    """Turn the ways in which reading a safetensors file can fail into one-line errors."""
    require_regular(path, "safetensors file")
    try:
        yield
    except SafetensorError as error:
        raise DataError(path, f"is not a whole safetensors file ({error})", FETCH_AGAIN) from None
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror or error})", "check the file") from None
    # From torch, which opens the file by name a second time, when it may be gone.
    except RuntimeError:
        if path.exists():
            raise
        raise DataError(path, "is gone since it was opened", "check the file") from None


def check_fit(path: Path, found: Shapes, expected: Shapes, remedy: str = SAVE_AGAIN) -> None:
    """Raise an error unless these are exactly the weights that a configuration describes, in their shapes."""
    misshapen = [
        f"{name} has shape {shape_text(found[name])} where {shape_text(shape)} is expected"
        for name, shape in expected.items()
        if found.get(name, shape) != shape
    ]
    parts = {
        "lacks ": [name for name in expected if name not in found],
        "adds ": [name for name in found if name not in expected],
        "": misshapen,
    }
    if problems := [what + first_names(names) for what, names in parts.items() if names]:
        raise DataError(path, f"does not fit its {CONFIG}: {'; '.join(problems)}", remedy)


def read_tokenizer(path: Path, special: Sequence[str] = SPECIAL) -> Tokenizer:
    """Read a tokenizer.json, which must be that of a BERT; if `special` is empty, any will do."""
    check_file(path)
    tokenizer = read_tokenizer_file(path)
    missing = [token for token in special if tokenizer.token_to_id(token) is None]
    if missing or (special and tokenizer.token_to_id("[PAD]") != 0):
        problem = f"lacks {', '.join(missing)}" if missing else "does not have [PAD] as its first token"
        raise DataError(path, problem, "use the tokenizer of a BERT")
    if special and tuple(tokenizer.encode("").tokens) != ENDS:
        raise DataError(path, f"does not put {' and '.join(ENDS)} around a text", "use the tokenizer of a BERT")
    return tokenizer


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape for error lines, such as 768 x 3072."""
    return " x ".join(map(str, shape)) or "of a single number"


def first_names(names: Sequence[str]) -> str:
    """The first few names, and the number of others, for error lines."""
    more = len(names) - NAMED_AT_ONCE
    return ", ".join(names[:NAMED_AT_ONCE]) + (f" and {more:,} more" if more > 0 else "")


def read_shown(path: Path, stored: Any, whose: str, remedy: str) -> Shown:
    """Check the features in a config.json of `whose` network; names of other versions are left out."""
    if not isinstance(stored, dict):
        raise DataError(path, f"does not say what the {whose} was shown", remedy, FEATURES)
    known = {name: stored[name] for name in (*WORDS, *SIZES) if stored.get(name) is not None}
    for name, value in known.items():
        if problem := _problem(name, value):
            place = f"{FEATURES}.{name}"
            raise DataError(path, f"does not say what the {whose} was shown, but {problem}", remedy, place)
    return known


def _problem(name: str, value: object) -> str:
    if name in SIZES:
        return "" if type(value) is int and 1 <= value <= LARGEST else f"{value!r:.60}"
    if not isinstance(value, str):
        return f"a {type(value).__name__}"
    if len(value) > LONGEST:
        return f"{len(value):,} characters"
    return "" if value and value.isprintable() else f"{value!r:.60}"


def require_no_path(path: Path, shown: Shown, remedy: str) -> None:
    """Refuse words that lead out of the folders in which features and encoders are looked for."""
    for name in WORDS:
        word = shown.get(name)
        if isinstance(word, str) and (word.startswith(("/", "~")) or ".." in PurePosixPath(word).parts):
            raise DataError(path, f"names a path, {word!r:.60}", remedy, f"{FEATURES}.{name}")


def describe_shown(shown: Shown) -> str:
    """In words: views captions,observations; objects names, at most 20; encoder all-MiniLM-L6-v2."""
    wide = {name: f", {shown[name]} wide" if name in shown else "" for name in SIZES}
    parts = [f"views {shown.get('views', ONLY)}{wide['view_width']}"]
    if shown.get("objects") != NONE:
        most = f", at most {shown['max_objects']}" if "max_objects" in shown else ""
        parts.append(f"objects {shown.get('objects', ONLY)}{wide['object_width']}{most}")
    if "encoder" in shown:
        parts.append(f"encoder {shown['encoder']}")
    return "; ".join(parts)


DIGESTS = "digests.json"
DIGESTS_FORMAT = 1  # format of digests.json
KEYS = {FORMAT, "files", "digest"}
Tensors = Mapping[str, Tensor]


class DigestError(DataError):
    """A file differs from the one that was written, by its digest."""

    def __init__(self, path: Path, problem: str = "is not what was written, by its digest") -> None:
        remedy = f"take a whole copy of the folder or, if you changed it on purpose, delete its {DIGESTS}"
        super().__init__(path, problem, remedy)


@contextmanager
def noting(folder: Path, files: Mapping[str, Tensors | None]) -> Iterator[None]:
    """Record the digests of files that the block writes: by name, with the tensors of a safetensors file.

    Tensors are hashed while the block writes them. Until it has ended, the files have no digests.
    """
    noted = dict[str, str]()
    # A damaged digests.json is replaced.
    with suppress(DataError):
        noted = {name: digest for name, digest in read_digests(folder).items() if name not in files}
    (folder / DIGESTS).unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as pool:
        digests = {
            name: {key: pool.submit(_digest_tensor, tensor) for key, tensor in tensors.items()}
            for name, tensors in files.items()
            if tensors is not None
        }
        yield
        for name, tensors in files.items():
            if (path := folder / name).exists():
                known = {key: one.result() for key, one in digests.get(name, {}).items()}
                if tensors is None:
                    noted[name] = _digest_file(path)
                    continue
                # A safetensors file stores shared tensors once.
                with safe_open(path, framework="pt") as file:
                    stored = {key: tensors[key] for key in file.keys()}  # noqa: SIM118
                    noted[name] = _digest_tensors(stored, known, file.metadata() or {})
    write_json(folder / DIGESTS, {FORMAT: DIGESTS_FORMAT, "files": noted, "digest": _digest_json(noted)}, indent=2)


def read_digests(folder: Path) -> dict[str, str]:
    """The recorded digests of a folder, by file name; empty if it has none."""
    path = folder / DIGESTS
    if not path.exists():
        return {}
    try:
        document = read_json(path, "digests")
        if isinstance(document, dict) and format_of(path, document, DIGESTS_FORMAT) and document.keys() == KEYS:
            files = document["files"]
            if isinstance(files, dict) and document["digest"] == _digest_json(files):
                return files
    except NewerFormatError:
        raise
    except DataError:
        pass
    raise DigestError(path)


def check_file(path: Path) -> None:
    """Raise an error if a file with a recorded digest has changed or is gone."""
    noted = read_digests(path.parent).get(path.name)
    if noted is None:
        return
    try:
        require_regular(path, "file with a digest")
        found = _digest_file(path)
    except FileNotFoundError:
        raise DigestError(path, "is missing, though the folder was written with it") from None
    except OSError as error:
        raise DigestError(path, f"cannot be read ({error.strerror})") from None
    if noted != found:
        raise DigestError(path)


def check_tensors(path: Path, tensors: Tensors, metadata: Mapping[str, str]) -> None:
    """Raise an error if what was read from a safetensors file with a recorded digest has changed."""
    noted = read_digests(path.parent).get(path.name)
    if noted is None:
        return
    digests = {name: _digest_tensor(tensor) for name, tensor in tensors.items()}
    if noted != _digest_tensors(tensors, digests, metadata):
        raise DigestError(path)


def _digest_tensor(tensor: Tensor) -> str:
    """The digest of a tensor's bytes; hashing releases the GIL."""
    return xxh3_128(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data).hexdigest()


def _digest_tensors(tensors: Tensors, digests: Mapping[str, str], metadata: Mapping[str, str]) -> str:
    rows = [[name, str(tensors[name].dtype), list(tensors[name].shape), digests[name]] for name in sorted(tensors)]
    return _digest_json([rows, dict(metadata)])


def _digest_json(document: Any) -> str:
    return xxh3_128(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _digest_file(path: Path) -> str:
    return xxh3_128(path.read_bytes()).hexdigest()
