"""Tokenizers from strangers: which tokenizer.json is loaded, and texts as tokens within bounds of memory and time.

The library believes any number and any amount of padding: some documents take gigabytes, and a damaged table of
characters ends the process. So the document is checked first, and loaded without padding, truncation and dropout. All
kinds of models and steps are accepted, with any regular expression: a match is given up after ten million steps.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from os.path import commonprefix
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from tokenizers import Encoding, Tokenizer
from tokenizers.normalizers import BertNormalizer

from vlnbert.errors import DataError, UsageError
from vlnbert.sources.files import FETCH_AGAIN, is_number, read_json

LARGEST_FILE = 64 << 20  # bytes; a vocabulary of a million pieces has 60 MB
MOST_PIECES = 1 << 20
LONGEST_PIECE = 1024  # characters
# Bytes of all pieces of a Unigram, less what they share at the beginning; each takes 350 of memory.
UNIGRAM = 3 << 20
ADDED = 1 << 18  # characters of all added tokens, which take time to look for
UNUSED = 1024  # numbers below the largest that no piece need have
# Characters looked up as one word, in time that grows with the cube; every BERT has 100.
LONGEST_WORD = 200
MOST_PARTS, DEPTH = 64, 4  # of a sequence of steps, and how deep one sequence may be in another
# Factor by which all steps together may lengthen a text: PIECE then becomes 256 MB at most.
MULTIPLIED = 1 << 18
ENDS = 8  # tokens that may be put around a text
# Steps that lengthen a text, each of which may occur once.
ONCE = {
    "normalizers": ("Precompiled", "ByteLevel", "Prepend", "BertNormalizer"),
    "pretokenizers": ("ByteLevel", "Metaspace"),
}
# Factors by which steps lengthen a letter.
LENGTHENED = {"Precompiled": 64, "ByteLevel": 2, "NFKC": 18, "NFKD": 18}

# Characters encoded at a time; an encoding may have hundreds of bytes for each.
AT_ONCE = 1 << 18
PIECE = 1 << 10  # characters of a text whose growth is checked together
# Factor by which a normalizer may lengthen a text in bytes, beyond ROOM for a few unusual letters.
GROWTH = 8
ROOM = 1 << 10  # bytes
USE_BERTS = "use the tokenizer of a BERT or of another encoder of text"

BLOCK = 256  # units of a table of characters
LONGEST_CHARACTER = 64  # bytes that a character may become; 33 in Unicode's own tables
LEAF = np.uint32(1 << 31)

T = TypeVar("T")


class UnfitError(Exception):  # reported as a DataError
    """Why a document is refused."""


def require(fits: bool, problem: str) -> None:
    if not fits:
        raise UnfitError(problem)


def read_tokenizer_file(path: Path) -> Tokenizer:
    """Read and check a tokenizer.json."""
    require_size(path)
    return checked_tokenizer(path, read_json(path, "tokenizer"))


def require_size(path: Path) -> None:
    """Refuse a file that is too large for a vocabulary."""
    if path.is_file() and (size := path.stat().st_size) > LARGEST_FILE:
        raise DataError(path, f"has {size / 1e6:,.0f} MB, too much for a vocabulary", USE_BERTS)


def checked_tokenizer(path: Path | str, document: Any) -> Tokenizer:
    """The tokenizer that a JSON document describes; errors name `path`."""
    try:
        require(isinstance(document, dict) and isinstance(document.get("model"), dict), "does not describe one")
        model = document["model"]
        pieces = _model_pieces(model)
        added = document.get("added_tokens") or []
        require(isinstance(added, list) and all(isinstance(token, dict) for token in added), "adds no list of tokens")
        require(sum(len(token["content"]) for token in added) <= ADDED, "it adds very many tokens")
        numbers = {**{token.get("content"): token.get("id") for token in added}, **pieces}
        problem = numbers_problem(numbers)
        require(problem is None, f"{problem}")
        require(len({token.get("content") for token in added}) == len(added), "adds a token twice")
        _check_lengthening(document)
        for step in _flattened(document.get("post_processor"), "processors"):
            _check_ends(step, numbers)
        loaded = {**document, "padding": None, "truncation": None}
        if model.get("dropout"):
            loaded["model"] = {**model, "dropout": None}
    except UnfitError as unfit:
        raise DataError(path, f"is not a tokenizer that is read here ({unfit})", USE_BERTS) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise DataError(path, "is not a tokenizer (a part of it is missing or damaged)", FETCH_AGAIN) from None
    try:
        tokenizer = Tokenizer.from_str(json.dumps(loaded))
        tokenizer.encode("walk past the stairs")
    except BaseException as error:
        raise DataError(path, f"is not a tokenizer ({failure_gist(error)})", FETCH_AGAIN) from None
    return tokenizer


def numbers_problem(pieces: Mapping[Any, Any]) -> str | None:
    """The fault of numbered pieces, or None.

    Numbers may hardly exceed the count of pieces: an embedding has a row for each number, used or not.
    """
    numbers, count = pieces.values(), len(pieces)
    if count > MOST_PIECES:
        return f"more than {MOST_PIECES:,} pieces"
    if not all(isinstance(piece, str) and len(piece) <= LONGEST_PIECE for piece in pieces):
        return f"a piece has more than {LONGEST_PIECE:,} characters"
    if not all(type(number) is int and number >= 0 for number in numbers) or len(set(numbers)) != count:
        return "a piece has no number of its own"
    if (top := max(numbers, default=0)) >= count + UNUSED:
        return f"a piece has the number {top:,} among {count:,} pieces"
    return None


def _model_pieces(model: dict[str, Any]) -> dict[str, int]:
    """The numbered pieces of a model. Older files leave out its kind, which is added to the document."""
    vocabulary = model["vocab"]
    guess = "BPE" if "merges" in model else "Unigram" if isinstance(vocabulary, list) else "WordPiece"
    kind = model.setdefault("type", guess)
    if kind == "Unigram":
        require(all(is_number(score) for _, score in vocabulary), "a score is no number")
        pieces = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        require(len(pieces) == len(vocabulary) and "" not in pieces, "a piece is empty or there twice")
        size = len("".join(pieces).encode())
        if size > UNIGRAM:
            ordered = sorted(pieces)
            size -= sum(len(commonprefix(pair).encode()) for pair in pairwise(ordered))  # noqa: RUF071  # of texts
        require(size <= UNIGRAM, f"pieces of more than {UNIGRAM >> 20} MB in all")
        return pieces
    unknown = model.get("unk_token")
    require(unknown in vocabulary or (kind == "BPE" and unknown is None), "its unknown token is no piece")
    if kind == "WordPiece":
        require(1 <= model["max_input_chars_per_word"] <= LONGEST_WORD, "words without end")
        require(len(model["continuing_subword_prefix"]) <= ENDS, "a long prefix")
    elif prefix := model.get("continuing_subword_prefix"):
        pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        require(all(right.startswith(prefix) for _, right in pairs), "byte pairs without their prefix")
    return dict(vocabulary)


def _check_lengthening(document: dict[str, Any]) -> None:
    """Refuse steps that may lengthen a text without bounds; their effect on a text is checked when it is encoded."""
    growth = 1.0
    for part, within in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        steps = _flattened(document.get(part), within)
        kinds = [step["type"] for step in steps]
        few = len(kinds) <= MOST_PARTS and all(kinds.count(kind) <= 1 for kind in ONCE[within])
        require(few, "steps that multiply text")
        for step in steps:
            growth *= LENGTHENED.get(step["type"], 1)
            if step["type"] == "Replace":
                ((kind, pattern),) = step["pattern"].items()
                require(bool(pattern), "a replacement of nothing")
                # An expression may match the empty text beside every character.
                length = len(step["content"])
                growth *= max(1.0, length / len(pattern) if kind == "String" else length + 1.0)
            elif step["type"] == "Prepend":
                growth *= len(step["prepend"]) + 1.0
            elif step["type"] == "Precompiled":
                problem = charsmap_problem(step["precompiled_charsmap"])
                require(problem is None, f"it {problem}")
            elif step["type"] == "FixedLength":
                require(step["length"] > 0, "pieces of no length")
    require(growth <= MULTIPLIED, "steps that multiply text")


def _flattened(step: Any, within: str, depth: int = 0) -> list[dict[str, Any]]:
    """The steps of a sequence, of those in it, and so on; one step as a list of one."""
    if step is None:
        return []
    if step["type"] != "Sequence":
        return [step]
    require(depth < DEPTH and len(step[within]) <= MOST_PARTS, "a sequence of too many steps")
    return [inner for part in step[within] for inner in _flattened(part, within, depth + 1)]


def _check_ends(step: dict[str, Any], numbers: Mapping[str, int]) -> None:
    """Check a post-processor, whose tokens must be pieces with their own numbers."""
    ends = list[tuple[Any, Any]]()
    if step["type"] == "TemplateProcessing":
        special = step["special_tokens"]
        for name in ("single", "pair"):
            named = [part["SpecialToken"]["id"] for part in step[name] if "SpecialToken" in part]
            fits = len(step[name]) <= ENDS and all(token in special for token in named)
            require(fits, "a template that cannot be filled")
        require(sum("Sequence" in part for part in step["single"]) == 1, "a template that repeats the text")
        ends = [pair for token in special.values() for pair in zip(token["tokens"], token["ids"], strict=True)]
        require(len(ends) <= ENDS, "a template of too many tokens")
    elif step["type"] in ("BertProcessing", "RobertaProcessing"):
        ends = [(token, number) for token, number in (step["sep"], step["cls"])]
    for token, number in ends:
        require(token in numbers and numbers[token] == number, f"the token {str(token)[:20]!r} at the ends is no piece")


def charsmap_problem(encoded: object) -> str | None:
    """The fault of SentencePiece's table of characters, as a tokenizer.json holds it, or None.

    It is a trie (a double array as darts-clone lays it out, in blocks of 256 units) and the texts that its leaves point
    to, each with a zero byte at its end.
    """
    try:
        content = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else b""
    except (binascii.Error, ValueError):
        content = b""
    length = int.from_bytes(content[:4], "little")
    if not length or length % (4 * BLOCK) or 4 + length >= len(content):
        return "holds no whole table of characters"
    texts, trie = content[4 + length :], np.frombuffer(content, "<u4", length // 4, offset=4)
    try:
        texts.decode()
    except UnicodeDecodeError:
        return "holds a table of characters that is not UTF-8 text"
    if not texts.endswith(b"\0") or max(map(len, texts.split(b"\0"))) > LONGEST_CHARACTER:
        return "holds a table that makes long texts of characters"
    return None if _leads_to_texts(trie, texts) else "holds a table of characters that leads nowhere"


def _leads_to_texts(trie: np.ndarray, texts: bytes) -> bool:
    """Whether every step stays within the trie, and every leaf points to the beginning of a text."""
    leaf = (trie & LEAF) > 0
    # From a unit to its children.
    offset = (trie >> 10) << ((trie & (1 << 9)) >> 6)
    children = np.arange(len(trie), dtype=np.uint32) ^ offset
    if (children[~leaf] // BLOCK >= len(trie) // BLOCK).any():
        return False
    with_value = ~leaf & ((trie & (1 << 8)) > 0)
    if not leaf[children[with_value]].all():
        return False
    begins = np.flatnonzero(np.frombuffer(b"\0" + texts[:-1], np.uint8) == 0)
    return bool(np.isin(trie[leaf] & ~LEAF, begins).all())


def encode_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """The tokens of each text; UsageError where the library fails in any way or a text becomes far too long."""
    return _encoded(tokenizer, texts, lambda text: text.ids)


def token_spans(tokenizer: Tokenizer, texts: Iterable[str]) -> list[list[tuple[int, int]]]:
    """Start and end of each of these tokens in its text, in characters; [CLS] and [SEP] are empty."""
    return _encoded(tokenizer, texts, lambda text: text.offsets)


def _encoded(tokenizer: Tokenizer, texts: Iterable[str], part: Callable[[Encoding], T]) -> list[T]:
    """A part of each text's encoding: whole encodings would take hundreds of times the memory."""
    normalizer = tokenizer.normalizer
    lengthens = normalizer is not None and not isinstance(normalizer, BertNormalizer)
    parts = list[T]()
    try:
        for batch in _batches(texts):
            # Several honest steps may multiply.
            for text in batch if lengthens else ():
                for start in range(0, len(text), PIECE):
                    piece = text[start : start + PIECE]
                    if len(normalizer.normalize_str(piece).encode()) > GROWTH * len(piece.encode()) + ROOM:
                        raise UsageError(f"the tokenizer makes a text more than {GROWTH} times longer; {USE_BERTS}")
            parts += map(part, tokenizer.encode_batch(batch))
    except UsageError:
        raise
    except BaseException as error:
        raise UsageError(f"the tokenizer cannot read a text ({failure_gist(error)}); {USE_BERTS}") from None
    return parts


def failure_gist(error: BaseException) -> str:
    """The library's message, from an Exception or from a panic, which is none; interrupts are raised again."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
        raise error
    return str(error)[:100]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts of AT_ONCE characters in all, or one longer text."""
    batch, size = list[str](), 0
    for text in texts:
        if batch and size + len(text) > AT_ONCE:
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
