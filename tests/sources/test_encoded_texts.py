"""Texts as token ids: whatever a tokenizer does with them, it takes bounded memory and ends in ids or in one line."""

import json
from pathlib import Path

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
    unigram,
)
from vlnbert.errors import UsageError
from vlnbert.sources.tokenizer import checked_tokenizer, encode_texts, read_tokenizer_file


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
