"""The tokenizer that belongs to somebody's weights."""

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.normalizers import BertNormalizer

from vlnbert.errors import DataError
from vlnbert.navigator.storage.folder import read_tokenizer
from vlnbert.sources.files import read_json
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.weights.reading import Checkpoint

FILES = ("vocab.txt", "tokenizer.json")
PADDING = 128  # rows that an embedding may have beyond its vocabulary, to be a round number


def find_tokenizer(checkpoint: Checkpoint, asked: Path | None, rows: int) -> Tokenizer | None:
    """The tokenizer that was asked for, or the one beside the weights, if it fits their embedding of so many rows."""
    path = asked
    if path is None and checkpoint.folder is not None:
        path = next((checkpoint.folder / name for name in FILES if (checkpoint.folder / name).exists()), None)
    if path is None:
        return None
    if not path.exists() or path.is_dir():
        problem = "is a folder" if path.exists() else "no such vocabulary"
        raise DataError(path, problem, f"give a {' or a '.join(FILES)}")
    tokenizer = read_tokenizer(path) if path.suffix == ".json" else _from_pieces(path)
    size = tokenizer.get_vocab_size()
    if not size <= rows < size + PADDING:
        problem = f"has {size:,} word pieces, but the weights have embeddings for {rows:,}"
        raise DataError(path, problem, "give the vocabulary that the weights were trained with")
    return tokenizer


def _from_pieces(path: Path) -> Tokenizer:
    """A tokenizer from a vocab.txt; the tokenizer_config.json beside it may say that case matters."""
    tokenizer = load_tokenizer(path)
    beside = path.with_name("tokenizer_config.json")
    settings = read_json(beside, "tokenizer configuration") if beside.exists() else {}
    if isinstance(settings, dict) and settings.get("do_lower_case") is False:
        tokenizer.normalizer = BertNormalizer(lowercase=False)
    return tokenizer
