"""Nobody's tokenizer is trusted: known kinds within bounds are read as they are, all else is refused in one line."""

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.sources.tokenizer_documents import (
    Document,
    added,
    bert,
    changed,
    charsmap,
    precompiled,
    replace,
    roberta,
    split,
    unigram,
)
from vlnbert.errors import DataError
from vlnbert.sources.charsmap import charsmap_problem
from vlnbert.sources.tokenizer_check import checked_tokenizer, read_tokenizer_file

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
KNOWN = {
    "a BERT's": bert(),
    "a RoBERTa's": roberta(),
    "an XLM-RoBERTa's": unigram(),
    "without a normalizer": changed(bert, normalizer=None),
    "GPT-2's words": changed(roberta, pre_tokenizer=split({"Regex": GPT2})),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_known_kinds_are_read_as_they_are(kind: str) -> None:
    found = checked_tokenizer("here", KNOWN[kind])
    plain = Tokenizer.from_str(json.dumps(KNOWN[kind]))
    assert found.to_str() == plain.to_str()
    assert found.encode("walking a A").ids == plain.encode("walking a A").ids


def test_a_file_that_leaves_out_the_kind_of_its_model() -> None:
    for make in (bert, roberta, unigram):
        document = make()
        del document["model"]["type"]
        assert checked_tokenizer("here", document).to_str() == checked_tokenizer("here", make()).to_str()


def test_padding_and_truncation_are_left_out() -> None:
    """Padding to 2^31 tokens would take 9 GB."""
    padding = {"strategy": {"Fixed": 2**31}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    assert checked_tokenizer("here", changed(bert, padding=padding)).encode("walk").ids == [2, 4, 3]


SLOW = split({"Regex": "(a+)+$"})
REFUSED: dict[str, tuple[Document, str]] = {
    "a regular expression": (changed(bert, pre_tokenizer=SLOW), "a regular expression that is not known"),
    "one within": (
        changed(bert, pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, SLOW]}),
        "a regular expression that is not known",
    ),
    "one to decode by": (changed(bert, decoder=replace({"Regex": "(a+)+$"})), "a regular expression that is not known"),
    "one to normalise by": (changed(bert, normalizer=replace({"Regex": "a?"})), "a regular expression that is not"),
    "nothing to replace": (changed(bert, normalizer=replace({"String": ""}, "x")), "a regular expression that is not"),
    "a text for a letter": (changed(bert, normalizer=replace({"String": "a"}, "a" * 99)), "a long replacement"),
    "many times": (
        changed(
            bert, normalizer={"type": "Sequence", "normalizers": [replace({"String": "a"}, "aa") for _ in range(9)]}
        ),
        "steps that multiply text",
    ),
    "bytes of bytes": (
        changed(roberta, pre_tokenizer={"type": "Sequence", "pretokenizers": [roberta()["pre_tokenizer"]] * 9}),
        "steps that multiply text",
    ),
    "two tables": (
        changed(bert, normalizer={"type": "Sequence", "normalizers": [precompiled(charsmap())] * 2}),
        "steps that multiply text",
    ),
    "a table of long texts": (changed(bert, normalizer=precompiled(charsmap(b"b" * 65))), "long texts of characters"),
    "half a table": (changed(bert, normalizer=precompiled(charsmap()[:99])), "holds no whole table of characters"),
    "no table": (changed(bert, normalizer={"type": "Precompiled", "precompiled_charsmap": "?"}), "no whole table"),
    "many steps": (
        changed(bert, normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 17}),
        "a normalizer of too many parts",
    ),
    "another model": (changed(bert, "model", type="WordLevel"), "a model of the kind WordLevel"),
    "another normalizer": (changed(bert, normalizer={"type": "Mine"}), "a normalizer of the kind Mine"),
    "another pre-tokenizer": (changed(bert, pre_tokenizer={"type": "UnicodeScripts"}), "of the kind UnicodeScripts"),
    "another decoder": (changed(bert, decoder={"type": "CTC"}), "a decoder of the kind CTC"),
    "another post-processor": (changed(bert, post_processor={"type": "Mine"}), "a post-processor of the kind Mine"),
    "a huge number": (changed(bert, "model", "vocab", walk=2**31), "a piece has the number 2,147,483,648 among 9"),
    "a huge number added": (changed(bert, added_tokens=[added("x", 2**31)]), "the number 2,147,483,648 among 9"),
    "a number twice": (changed(bert, "model", "vocab", walk=5), "a piece has no number of its own"),
    "no number": (changed(bert, "model", "vocab", walk=True), "a piece has no number of its own"),
    "below zero": (changed(bert, "model", "vocab", walk=-4), "a piece has no number of its own"),
    "a long piece": (changed(bert, "model", "vocab", **{"a" * 2000: 8}), "more than 1,024 characters"),
    "large pieces": (
        changed(unigram, "model", vocab=[["a", 0.0], *([f"{number:0>800}", 0.0] for number in range(4000))]),
        "pieces of more than 3 MB in all",
    ),
    "many added": (
        changed(bert, added_tokens=[added(f"{number:0>800}", 8 + number) for number in range(400)]),
        "it adds very many tokens",
    ),
    "long words": (changed(bert, "model", max_input_chars_per_word=10**9), "words without end"),
    "an unknown unknown": (changed(bert, "model", unk_token="?"), "its unknown token is no piece"),
    "no unknown": (changed(unigram, "model", unk_id=None), "it knows no unknown token"),
    "no score": (changed(unigram, "model", vocab=[["a", 1e999]]), "a score is no number"),
    "a long score": (changed(unigram, "model", vocab=[["a", -(10**400)]]), "a score is no number"),
    "a prefix": (changed(roberta, "model", continuing_subword_prefix="é"), "byte pairs with a prefix"),
    "chance": (changed(roberta, "model", dropout=0.5), "leaves out merges at random"),
    "an end beyond": (
        changed(bert, "post_processor", "special_tokens", "[CLS]", ids=[10**9]),
        "the token '[CLS]' at the ends is no piece",
    ),
    "a Roberta's beyond": (changed(roberta, "post_processor", sep=["</s>", 10**9]), "at the ends is no piece"),
    "an end of its own": (
        changed(bert, "post_processor", single=[{"SpecialToken": {"id": "[X]", "type_id": 0}}]),
        "a template that cannot be filled",
    ),
    "many ends": (
        changed(bert, "post_processor", single=[*bert()["post_processor"]["single"]] * 9),
        "cannot be filled",
    ),
    "the text twice": (
        changed(bert, "post_processor", single=[{"Sequence": {"id": "A", "type_id": 0}}] * 2),
        "a template that repeats the text",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_all_else_is_refused(tmp_path: Path, kind: str) -> None:
    document, expected = REFUSED[kind]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(DataError) as caught:
        read_tokenizer_file(tmp_path / "tokenizer.json")
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{tmp_path}/tokenizer.json: is not a tokenizer that is read here (")
    assert expected in line


@pytest.mark.parametrize("document", [[], {}, {"model": []}, {"model": {}}, {"model": {"vocab": 3}}, None])
def test_what_is_no_tokenizer(document: Any) -> None:
    with pytest.raises(DataError, match="is not a tokenizer"):
        checked_tokenizer("here", document)


@pytest.mark.parametrize("make", [bert, roberta, unigram])
def test_any_part_may_be_missing_or_something_else(make: Callable[[], Document]) -> None:
    """What is left is read, or refused in one line; nothing else is raised."""
    places, lines = list(leaves(make())), list[str]()
    assert len(places) > 30
    for place in places:
        for value in (None, 0, "x", [], {}, True, [["a"]], 2**40):
            document = inner = make()
            for name in place[:-1]:
                inner = inner[name]
            if value is None:
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            try:
                checked_tokenizer("here", document).encode("walking a A")
            except DataError as error:
                lines.append(str(error))
    assert len(lines) > 100
    assert all(line.startswith("here: is not a tokenizer") and "\n" not in line for line in lines)


def leaves(part: Any, place: tuple[Any, ...] = ()) -> Any:
    items = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, inner in items:
        yield (*place, name)
        yield from leaves(inner, (*place, name))


def test_a_table_with_a_flipped_bit_does_no_harm() -> None:
    """It is refused, or still makes texts of characters: the library does not end in a panic."""
    whole, draw, refused = charsmap("ß".encode()), random.Random(1), 0
    assert charsmap_problem(base64.b64encode(whole).decode()) is None
    used = [0, 1, 4, 5, 6, 7, *(4 + 4 * unit + byte for unit in (257, 321) for byte in range(4)), 2052, 2053, 2054]
    for at in (*used, *(draw.randrange(len(whole)) for _ in range(60))):
        for bit in range(8):
            table = bytearray(whole)
            table[at] ^= 1 << bit
            document = changed(bert, normalizer=precompiled(bytes(table)))
            try:
                checked_tokenizer("here", document).encode("A walk, ABA")
            except DataError:
                refused += 1
    assert refused > 50


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with path.open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(DataError, match="has 68 MB, too much for a vocabulary"):
        read_tokenizer_file(path)


def test_pieces_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vlnbert.sources.tokenizer_check.MOST_PIECES", 8)
    with pytest.raises(DataError, match="more than 8 pieces"):
        checked_tokenizer("here", bert())
