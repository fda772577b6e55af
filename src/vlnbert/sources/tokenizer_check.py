"""What a tokenizer.json may be made of: the kinds that BERT and other encoders of text have, each within bounds.

Nobody's tokenizer is trusted. The library that runs them takes any regular expression, any number for a piece and any
amount of padding; some of these take hours or gigabytes, others end the process. What is checked here is what is
loaded: a copy of the document, without padding and truncation.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from vlnbert.errors import DataError, UsageError
from vlnbert.sources.charsmap import charsmap_problem
from vlnbert.sources.files import FETCH_AGAIN, read_json

LARGEST_FILE = 64 << 20  # bytes; those of the largest vocabularies, of a million pieces, have 60 MB
LONGEST_PIECE = 1024  # characters
UNUSED = 1024  # numbers below the largest that no piece need have
LONGEST_WORD = 1000  # characters that are looked up as one word; 100 in every BERT
PARTS, DEPTH = 16, 4  # of a sequence of steps, and how deep one may lie in another
GROWTH = 8  # how many times longer all replacements together may make a text
ENDS = 8  # tokens that may be put around a text
USE_BERTS = "use the tokenizer of a BERT or of another encoder of text"
WORDS = r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CASELESS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
KNOWN_PATTERNS = (  # regular expressions of published tokenizers, none of which takes long
    *(r" {2,}", r"\s+", r"\n", r"[\n\r\t]", r"\s{2,}|[\n\r\t]"),
    rf"'s|'t|'re|'ve|'m|'ll|'d|{WORDS}",  # GPT-2's
    rf"'(?:[sdmt]|ll|ve|re)|{WORDS}",
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",  # CLIP's
    rf"{CASELESS}\p{{N}}{REST}",
    rf"{CASELESS}\p{{N}}{{1,3}}{REST}",
)
NORMALIZERS = ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents")
GROWING = ("Precompiled", "ByteLevel", "Prepend")  # normalizers of which there may be one each
SPLITTERS = ("BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Whitespace", "WhitespaceSplit")
DECODERS = ("BPEDecoder", "ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Strip", "WordPiece")


class _Unfit(Exception):  # told as a DataError
    """Why a document is no tokenizer for us."""


def read_tokenizer_file(path: Path) -> Tokenizer:
    """The tokenizer of a tokenizer.json."""
    require_size(path)
    return checked_tokenizer(path, read_json(path, "tokenizer"))


def require_size(path: Path) -> None:
    """Refuse a file that is too large to be a vocabulary."""
    if path.is_file() and (size := path.stat().st_size) > LARGEST_FILE:
        raise DataError(path, f"has {size / 1e6:,.0f} MB, too much for a vocabulary", USE_BERTS)


def checked_tokenizer(path: Path | str, document: Any) -> Tokenizer:
    """The tokenizer that a JSON document describes; `path` is named where it is none, or is of kinds that we refuse."""
    try:
        _require(isinstance(document, dict) and isinstance(document.get("model"), dict), "does not describe one")
        numbers = _model_pieces(document["model"])
        added = document.get("added_tokens") or []
        _require(isinstance(added, list) and all(isinstance(one, dict) for one in added), "adds no list of tokens")
        both = {**{one.get("content"): one.get("id") for one in added}, **numbers}
        problem = numbers_problem(both)
        _require(problem is None, f"{problem}")
        _require(len({one.get("content") for one in added}) == len(added), "adds a token twice")
        _steps(document.get("normalizer"), "normalizer", _check_normalizer, "normalizers")
        _check_growth(document.get("normalizer"))
        _steps(document.get("pre_tokenizer"), "pre-tokenizer", _check_splitter, "pretokenizers")
        _steps(document.get("decoder"), "decoder", _check_decoder, "decoders")
        _steps(document.get("post_processor"), "post-processor", lambda one: _check_ends(one, both), "processors")
    except _Unfit as unfit:
        raise DataError(path, f"is not a tokenizer that is read here ({unfit})", USE_BERTS) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise DataError(path, "is not a tokenizer (a part of it is missing or damaged)", FETCH_AGAIN) from None
    return _loaded(path, json.dumps({**document, "padding": None, "truncation": None}))


def numbers_problem(pieces: Mapping[Any, Any]) -> str | None:
    """What is wrong with numbered pieces, if anything: numbers are about as large as there are pieces.

    An embedding has a row for each number, used or not.
    """
    numbers, count = pieces.values(), len(pieces)
    if not all(isinstance(one, str) and 0 < len(one) <= LONGEST_PIECE for one in pieces):
        return f"a piece is empty or has more than {LONGEST_PIECE:,} characters"
    if not all(type(one) is int and one >= 0 for one in numbers) or len(set(numbers)) != count:
        return "a piece has no number of its own"
    if (top := max(numbers, default=0)) >= count + UNUSED:
        return f"a piece has the number {top:,} among {count:,} pieces"
    return None


def encode_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """The tokens of each text, or one line where the library fails in whatever way."""
    try:
        return [item.ids for item in tokenizer.encode_batch(list(texts))]
    except BaseException as error:
        raise UsageError(f"the tokenizer cannot read a text ({failure_gist(error)}); {USE_BERTS}") from None


def _loaded(path: Path | str, text: str) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode("walk past the stairs")
    except BaseException as error:
        raise DataError(path, f"is not a tokenizer ({failure_gist(error)})", FETCH_AGAIN) from None
    return tokenizer


def failure_gist(error: BaseException) -> str:
    """What the library says, be it one of its bare Exceptions or a panic, which is no Exception; interrupts go on."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
        raise error
    return str(error)[:100]


def _require(fits: bool, problem: str) -> None:
    if not fits:
        raise _Unfit(problem)


def _model_pieces(model: dict[str, Any]) -> dict[str, int]:
    """The numbered pieces of a model of a known kind; older files leave out the kind, which is then written."""
    vocabulary = model["vocab"]
    guess = "BPE" if "merges" in model else "Unigram" if isinstance(vocabulary, list) else "WordPiece"
    kind = model.setdefault("type", guess)
    if kind == "Unigram":
        _require(all(math.isfinite(score) for _, score in vocabulary), "a score is no number")
        _require(type(model["unk_id"]) is int or model.get("byte_fallback") is True, "it knows no unknown token")
        pieces = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        _require(len(pieces) == len(vocabulary), "a piece is there twice")
        return pieces
    _require(kind in ("WordPiece", "BPE"), f"a model of the kind {kind}")
    unknown = model.get("unk_token")
    _require(unknown in vocabulary or (kind == "BPE" and unknown is None), "its unknown token is no piece")
    if kind == "WordPiece":
        _require(1 <= model["max_input_chars_per_word"] <= LONGEST_WORD, "words without end")
        _require(len(model["continuing_subword_prefix"]) <= ENDS, "a long prefix")
    else:
        _require(not model.get("continuing_subword_prefix"), "byte pairs with a prefix")
        _require(not model.get("dropout"), "it leaves out merges at random")
    return dict(vocabulary)


def _steps(step: Any, what: str, check: Callable[[dict[str, Any]], None], within: str, depth: int = 0) -> None:
    """Check a step or a sequence of them; there may be none."""
    if step is None:
        return
    if step["type"] != "Sequence":
        check(step)
        return
    _require(depth < DEPTH and len(step[within]) <= PARTS, f"a {what} of too many parts")
    for one in step[within]:
        _steps(one, what, check, within, depth + 1)


def _check_normalizer(step: dict[str, Any]) -> None:
    kind = step["type"]
    if kind == "Precompiled":
        problem = charsmap_problem(step["precompiled_charsmap"])
        _require(problem is None, f"it {problem}")
    elif kind == "Replace":
        _check_pattern(step["pattern"])
        _require(len(step["content"]) <= GROWTH, "a long replacement")
    elif kind == "Prepend":
        _require(len(step["prepend"]) <= GROWTH, "a long beginning")
    else:
        _require(kind in (*NORMALIZERS, *GROWING), f"a normalizer of the kind {kind}")


def _check_growth(step: Any) -> None:
    flat = _flattened(step, "normalizers")
    kinds = [one["type"] for one in flat]
    _require(all(kinds.count(one) <= 1 for one in GROWING) and len(flat) <= PARTS, "a normalizer that multiplies text")
    replacing = [one for one in flat if one["type"] == "Replace"]
    lengths = [len(one["content"]) / len(one["pattern"].get("String", " ")) for one in replacing]
    _require(math.prod(max(1.0, one) for one in lengths) <= GROWTH, "a normalizer that multiplies text")


def _flattened(step: Any, within: str) -> list[dict[str, Any]]:
    if step is None or step["type"] != "Sequence":
        return [] if step is None else [step]
    return [one for part in step[within] for one in _flattened(part, within)]


def _check_splitter(step: dict[str, Any]) -> None:
    if step["type"] == "Split":
        _check_pattern(step["pattern"])
    else:
        _require(step["type"] in SPLITTERS, f"a pre-tokenizer of the kind {step['type']}")


def _check_decoder(step: dict[str, Any]) -> None:
    if step["type"] == "Replace":
        _check_pattern(step["pattern"])
    else:
        _require(step["type"] in DECODERS, f"a decoder of the kind {step['type']}")


def _check_pattern(pattern: dict[str, str]) -> None:
    ((kind, text),) = pattern.items()
    known = kind == "String" or (kind == "Regex" and text in KNOWN_PATTERNS)
    _require(known and bool(text), "a regular expression that is not known")


def _check_ends(step: dict[str, Any], numbers: Mapping[str, int]) -> None:
    """A post-processor, whose tokens must be pieces with their own numbers."""
    kind = step["type"]
    if kind == "TemplateProcessing":
        special = step["special_tokens"]
        for name in ("single", "pair"):
            named = [part["SpecialToken"]["id"] for part in step[name] if "SpecialToken" in part]
            _require(
                len(step[name]) <= ENDS and all(one in special for one in named), "a template that cannot be filled"
            )
        _require(sum("Sequence" in part for part in step["single"]) == 1, "a template that repeats the text")
        told = [pair for one in special.values() for pair in zip(one["tokens"], one["ids"], strict=True)]
        _require(len(told) <= ENDS, "a template of too many tokens")
    elif kind in ("BertProcessing", "RobertaProcessing"):
        told = [(token, number) for token, number in (step["sep"], step["cls"])]
    else:
        _require(kind == "ByteLevel", f"a post-processor of the kind {kind}")
        told = []
    for token, number in told:
        _require(
            token in numbers and numbers[token] == number, f"the token {str(token)[:20]!r} at the ends is no piece"
        )
