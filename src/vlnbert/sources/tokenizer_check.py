"""What a tokenizer.json may be made of: the kinds that BERT and other encoders of text have, each within bounds.

Nobody's tokenizer is trusted. The library that runs them takes any regular expression, any number for a piece and any
amount of padding; some of these take hours or gigabytes, others end the process. What is checked here is what is
loaded: a copy of the document, without padding and truncation.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from vlnbert.errors import DataError
from vlnbert.sources.checks import is_number
from vlnbert.sources.encoding import USE_BERTS, failure_gist
from vlnbert.sources.files import FETCH_AGAIN, read_json
from vlnbert.sources.tokenizer_steps import ENDS, UnfitError, check_steps, require

LARGEST_FILE = 64 << 20  # bytes; those of the largest vocabularies, of a million pieces, have 60 MB
MOST_PIECES = 1 << 20
LONGEST_PIECE = 1024  # characters
UNIGRAM = 3 << 20  # bytes of all pieces of a Unigram, each of which takes 350 of memory
ADDED = 1 << 18  # characters of all tokens that are added, which take time to look for
UNUSED = 1024  # numbers below the largest that no piece need have
LONGEST_WORD = 200  # characters that are looked up as one word, in time that grows by the cube; 100 in every BERT


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
        require(isinstance(document, dict) and isinstance(document.get("model"), dict), "does not describe one")
        numbers = _model_pieces(document["model"])
        added = document.get("added_tokens") or []
        require(isinstance(added, list) and all(isinstance(one, dict) for one in added), "adds no list of tokens")
        require(sum(len(one["content"]) for one in added) <= ADDED, "it adds very many tokens")
        both = {**{one.get("content"): one.get("id") for one in added}, **numbers}
        problem = numbers_problem(both)
        require(problem is None, f"{problem}")
        require(len({one.get("content") for one in added}) == len(added), "adds a token twice")
        check_steps(document, both)
    except UnfitError as unfit:
        raise DataError(path, f"is not a tokenizer that is read here ({unfit})", USE_BERTS) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise DataError(path, "is not a tokenizer (a part of it is missing or damaged)", FETCH_AGAIN) from None
    return _loaded(path, json.dumps({**document, "padding": None, "truncation": None}))


def numbers_problem(pieces: Mapping[Any, Any]) -> str | None:
    """What is wrong with numbered pieces, if anything: numbers are about as large as there are pieces.

    An embedding has a row for each number, used or not.
    """
    numbers, count = pieces.values(), len(pieces)
    if count > MOST_PIECES:
        return f"more than {MOST_PIECES:,} pieces"
    if not all(isinstance(one, str) and 0 < len(one) <= LONGEST_PIECE for one in pieces):
        return f"a piece is empty or has more than {LONGEST_PIECE:,} characters"
    if not all(type(one) is int and one >= 0 for one in numbers) or len(set(numbers)) != count:
        return "a piece has no number of its own"
    if (top := max(numbers, default=0)) >= count + UNUSED:
        return f"a piece has the number {top:,} among {count:,} pieces"
    return None


def _loaded(path: Path | str, text: str) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.encode("walk past the stairs")
    except BaseException as error:
        raise DataError(path, f"is not a tokenizer ({failure_gist(error)})", FETCH_AGAIN) from None
    return tokenizer


def _model_pieces(model: dict[str, Any]) -> dict[str, int]:
    """The numbered pieces of a model of a known kind; older files leave out the kind, which is then written."""
    vocabulary = model["vocab"]
    guess = "BPE" if "merges" in model else "Unigram" if isinstance(vocabulary, list) else "WordPiece"
    kind = model.setdefault("type", guess)
    if kind == "Unigram":
        require(all(is_number(score) for _, score in vocabulary), "a score is no number")
        require(type(model["unk_id"]) is int or model.get("byte_fallback") is True, "it knows no unknown token")
        pieces = {piece: number for number, (piece, _) in enumerate(vocabulary)}
        require(len(pieces) == len(vocabulary), "a piece is there twice")
        require(len("".join(pieces).encode()) <= UNIGRAM, f"pieces of more than {UNIGRAM >> 20} MB in all")
        return pieces
    require(kind in ("WordPiece", "BPE"), f"a model of the kind {kind}")
    unknown = model.get("unk_token")
    require(unknown in vocabulary or (kind == "BPE" and unknown is None), "its unknown token is no piece")
    if kind == "WordPiece":
        require(1 <= model["max_input_chars_per_word"] <= LONGEST_WORD, "words without end")
        require(len(model["continuing_subword_prefix"]) <= ENDS, "a long prefix")
    else:
        require(not model.get("continuing_subword_prefix"), "byte pairs with a prefix")
        require(not model.get("dropout"), "it leaves out merges at random")
    return dict(vocabulary)
