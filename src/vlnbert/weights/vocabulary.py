"""The tokenizer that belongs to somebody's weights."""

from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.normalizers import BertNormalizer

from vlnbert.errors import DataError
from vlnbert.sources.files import FETCH_AGAIN, read_json
from vlnbert.tasks.tokens import SPECIAL, load_tokenizer
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
    tokenizer = _from_json(path) if path.suffix == ".json" else _from_pieces(path)
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


def _from_json(path: Path) -> Tokenizer:
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
