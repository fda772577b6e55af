"""Fetching weights from the Hugging Face hub by name, or saying in one line why that did not work."""

import re
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError

from vlnbert.errors import DataError
from vlnbert.navigator.storage.digests import DIGESTS

CONFIG_FILES = ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json")  # beside the weights
OTHER_VOCABULARIES = ("vocab.json", "merges.txt", "*.model")  # of tokenizers that are no BERT's
NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
FILE_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".safetensors")


class NoSuchSourceError(DataError):
    """There is nothing at a path, and the hub gave nothing of that name."""


def exists(path: Path) -> bool:
    """Whether there is something at a path; one at which nobody may look is a fault."""
    try:
        return path.exists()
    except OSError as error:
        raise DataError(path, f"cannot be read ({error.strerror})", "check the path and its permissions") from None


def is_hub_name(text: str) -> bool:
    """Whether a text that is no path here could be the name of a model, such as `bert-base-uncased` or `owner/name`."""
    return NAME.fullmatch(text) is not None and not text.endswith(FILE_ENDINGS)


def fetched(name: str, weight_files: tuple[str, ...], **options: Any) -> Path:
    """The local copy of a model on the hub, with the first of the weight files that it has.

    The options are those of the hub's library: revision, cache_dir, token, local_files_only, force_download.
    """
    try:
        for weights in weight_files:
            folder = Path(
                snapshot_download(
                    name, allow_patterns=[*CONFIG_FILES, *OTHER_VOCABULARIES, DIGESTS, weights], **options
                )
            )
            if (folder / weights).exists():
                break
    except Exception as error:  # the hub's library passes on whatever the network's raises
        raise NoSuchSourceError(
            name,
            f"no such file or folder, and the hub gave no model of that name ({_reason(error)})",
            "check the name and the network, or fetch the model's folder and give its path",
        ) from None
    return folder


def _reason(error: Exception) -> str:
    """The gist of what the hub's library says at length."""
    if isinstance(error, HfHubHTTPError) and getattr(error, "response", None) is not None:
        return f"{type(error).__name__}, status {error.response.status_code}"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:100]}" if lines else type(error).__name__
