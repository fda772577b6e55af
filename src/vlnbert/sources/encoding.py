"""Texts as tokens, by a tokenizer that nobody trusts: within bounds of memory and time."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tokenizers import Encoding, Tokenizer
from tokenizers.normalizers import BertNormalizer, Normalizer

from vlnbert.errors import UsageError

AT_ONCE = 1 << 18  # characters that are encoded at a time; what the library makes of each may have hundreds of bytes
PIECE = 1 << 10  # characters whose growth is looked at
GROWTH = 8  # how many times longer a normalizer may make a text, in bytes, beyond the room that a few odd letters need
ROOM = 1 << 10  # bytes
USE_BERTS = "use the tokenizer of a BERT or of another encoder of text"

T = TypeVar("T")


def encode_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """The tokens of each text, or one line where the library fails in whatever way or makes a text far too long."""
    return _encoded(tokenizer, texts, lambda text: text.ids)


def token_spans(tokenizer: Tokenizer, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
    """Where each of these tokens begins and ends in its text, in characters; [CLS] and [SEP] have none."""
    return _encoded(tokenizer, texts, lambda text: text.offsets)


def _encoded(tokenizer: Tokenizer, texts: Iterable[str], part: Callable[[Encoding], T]) -> list[T]:
    """A part of what the library makes of each text: all of it would take hundreds of times the memory."""
    normalizer = tokenizer.normalizer
    multiplies = normalizer is not None and not isinstance(normalizer, BertNormalizer)
    found = list[T]()
    try:
        for batch in _batches(texts):
            if multiplies:
                _check_growth(normalizer, batch)
            found += map(part, tokenizer.encode_batch(batch))
    except UsageError:
        raise
    except BaseException as error:
        raise UsageError(f"the tokenizer cannot read a text ({failure_gist(error)}); {USE_BERTS}") from None
    return found


def failure_gist(error: BaseException) -> str:
    """What the library says, be it one of its bare Exceptions or a panic, which is no Exception; interrupts go on."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
        raise error
    return str(error)[:100]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch, size = list[str](), 0
    for text in texts:
        if batch and size + len(text) > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch


def _check_growth(normalizer: Normalizer, texts: list[str]) -> None:
    """Refuse a normalizer that multiplies these texts; each step may be an honest one, and there may be several."""
    for text in texts:
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE]
            if len(normalizer.normalize_str(piece).encode()) > GROWTH * len(piece.encode()) + ROOM:
                raise UsageError(f"the tokenizer makes a text more than {GROWTH} times longer; {USE_BERTS}")
