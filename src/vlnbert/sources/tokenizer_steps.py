"""The steps of a tokenizer.json around its model, by kind: those that encoders of text have, each within bounds."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from vlnbert.sources.charsmap import charsmap_problem

PARTS, DEPTH = 16, 4  # of a sequence of steps, and how deep one may lie in another
GROWTH = 8  # how many times longer all replacements together may make a text; what others do is seen with a text
ENDS = 8  # tokens that may be put around a text
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
GROWING = ("Precompiled", "ByteLevel", "Prepend", "BertNormalizer")  # normalizers of which there may be one each
GROWING_SPLITTERS = ("ByteLevel", "Metaspace")  # likewise
SPLITTERS = ("BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Whitespace", "WhitespaceSplit")
DECODERS = ("BPEDecoder", "ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Strip", "WordPiece")


class UnfitError(Exception):  # told as a DataError
    """Why a document is no tokenizer for us."""


def require(fits: bool, problem: str) -> None:
    if not fits:
        raise UnfitError(problem)


def check_steps(document: dict[str, Any], numbers: Mapping[str, int]) -> None:
    """Refuse steps of other kinds, or out of bounds; `numbers` are those of all pieces."""
    _steps(document.get("normalizer"), "normalizer", _check_normalizer, "normalizers")
    _steps(document.get("pre_tokenizer"), "pre-tokenizer", _check_splitter, "pretokenizers")
    _check_growth(document)
    _steps(document.get("decoder"), "decoder", _check_decoder, "decoders")
    _steps(document.get("post_processor"), "post-processor", lambda one: _check_ends(one, numbers), "processors")


def _steps(step: Any, what: str, check: Callable[[dict[str, Any]], None], within: str, depth: int = 0) -> None:
    """Check a step or a sequence of them; there may be none."""
    if step is None:
        return
    if step["type"] != "Sequence":
        check(step)
        return
    require(depth < DEPTH and len(step[within]) <= PARTS, f"a {what} of too many parts")
    for one in step[within]:
        _steps(one, what, check, within, depth + 1)


def _check_normalizer(step: dict[str, Any]) -> None:
    kind = step["type"]
    if kind == "Precompiled":
        problem = charsmap_problem(step["precompiled_charsmap"])
        require(problem is None, f"it {problem}")
    elif kind == "Replace":
        _check_pattern(step["pattern"])
        require(len(step["content"]) <= GROWTH, "a long replacement")
    elif kind == "Prepend":
        require(len(step["prepend"]) <= GROWTH, "a long beginning")
    else:
        require(kind in (*NORMALIZERS, *GROWING), f"a normalizer of the kind {kind}")


def _check_growth(document: dict[str, Any]) -> None:
    """What can be told without a text; what a normalizer makes of one is looked at when it is read."""
    flat = _flattened(document.get("normalizer"), "normalizers")
    splitters = [one["type"] for one in _flattened(document.get("pre_tokenizer"), "pretokenizers")]
    kinds = [one["type"] for one in flat]
    once = all(kinds.count(one) <= 1 for one in GROWING) and all(splitters.count(one) <= 1 for one in GROWING_SPLITTERS)
    require(once and max(len(kinds), len(splitters)) <= PARTS, "steps that multiply text")
    replacing = [one for one in flat if one["type"] == "Replace"]
    lengths = [len(one["content"]) / len(one["pattern"].get("String", " ")) for one in replacing]
    require(math.prod(max(1.0, one) for one in lengths) <= GROWTH, "steps that multiply text")


def _flattened(step: Any, within: str) -> list[dict[str, Any]]:
    if step is None or step["type"] != "Sequence":
        return [] if step is None else [step]
    return [one for part in step[within] for one in _flattened(part, within)]


def _check_splitter(step: dict[str, Any]) -> None:
    if step["type"] == "Split":
        _check_pattern(step["pattern"])
    else:
        require(step["type"] in SPLITTERS, f"a pre-tokenizer of the kind {step['type']}")


def _check_decoder(step: dict[str, Any]) -> None:
    if step["type"] == "Replace":
        _check_pattern(step["pattern"])
    else:
        require(step["type"] in DECODERS, f"a decoder of the kind {step['type']}")


def _check_pattern(pattern: dict[str, str]) -> None:
    ((kind, text),) = pattern.items()
    known = kind == "String" or (kind == "Regex" and text in KNOWN_PATTERNS)
    require(known and bool(text), "a regular expression that is not known")


def _check_ends(step: dict[str, Any], numbers: Mapping[str, int]) -> None:
    """A post-processor, whose tokens must be pieces with their own numbers."""
    kind = step["type"]
    if kind == "TemplateProcessing":
        special = step["special_tokens"]
        for name in ("single", "pair"):
            named = [part["SpecialToken"]["id"] for part in step[name] if "SpecialToken" in part]
            require(
                len(step[name]) <= ENDS and all(one in special for one in named), "a template that cannot be filled"
            )
        require(sum("Sequence" in part for part in step["single"]) == 1, "a template that repeats the text")
        told = [pair for one in special.values() for pair in zip(one["tokens"], one["ids"], strict=True)]
        require(len(told) <= ENDS, "a template of too many tokens")
    elif kind in ("BertProcessing", "RobertaProcessing"):
        told = [(token, number) for token, number in (step["sep"], step["cls"])]
    else:
        require(kind == "ByteLevel", f"a post-processor of the kind {kind}")
        told = []
    for token, number in told:
        require(token in numbers and numbers[token] == number, f"the token {str(token)[:20]!r} at the ends is no piece")
