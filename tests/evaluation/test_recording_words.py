"""Words of an instruction as they are read, by tokenizers of several kinds."""

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from tokenizers.processors import TemplateProcessing

from vlnbert.analysis.page import laid_out, most_read
from vlnbert.evaluation.recording import read_words

TEXT = "Walk past Zoe's bookshelves."


def word_pieces() -> Tokenizer:
    pieces = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "walk", "past", "book", "##shel", "##ves", ".", "'", "s")
    tokenizer = Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def bytes_of_pairs() -> Tokenizer:
    letters = {"<pad>": 0, "<s>": 1, "</s>": 2} | {
        letter: n + 3 for n, letter in enumerate(sorted(ByteLevel.alphabet()))
    }
    tokenizer = Tokenizer(BPE(letters, []))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def test_pieces_of_a_word_are_joined() -> None:
    tokenizer = word_pieces()
    read = read_words(tokenizer, TEXT, tokenizer.encode(TEXT).ids)
    assert read.words == ("Walk", "past", "Zoe", "'", "s", "bookshelves", "."), "spelled as they were written"
    assert read.unknown == (2,)
    weights = [0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.1, 0.15, 0.1, 0.1]  # of the tokens after [CLS], [SEP] last
    assert read.gathered(weights) == pytest.approx((0.1, 0.1, 0.1, 0.1, 0.1, 0.3, 0.1))


def test_words_are_laid_out_as_they_were_typed() -> None:
    tokenizer = word_pieces()
    read = read_words(tokenizer, TEXT, tokenizer.encode(TEXT).ids)
    pieces = laid_out(TEXT, read.words)
    assert "".join(piece for piece, _ in pieces) == TEXT
    assert [piece for piece, place in pieces if place is not None] == list(read.words)
    cut = read_words(tokenizer, TEXT, [*tokenizer.encode(TEXT).ids[:3], 3])
    assert laid_out(TEXT, cut.words)[-1] == (" Zoe's bookshelves.", None), "what was not read stays"


def test_tokens_that_came_ready_made_are_laid_out_as_they_are_read() -> None:
    tokenizer = word_pieces()
    read = read_words(tokenizer, "Something else", tokenizer.encode(TEXT).ids)
    assert read.words == ("walk", "past", "[UNK]", "'", "s", "bookshelves", ".")
    assert "".join(piece for piece, _ in laid_out("Something else", read.words)) == "walk past [UNK]' s bookshelves."


def test_punctuation_is_not_what_was_read_most() -> None:
    assert most_read(["go", ",", "left", ",", "."], [0.1, 0.5, 0.2, 0.1, 0.1], 3) == ["go", "left"]


def test_other_tokenizers_are_read_by_their_places_in_the_text() -> None:
    tokenizer = bytes_of_pairs()
    ids = tokenizer.encode(TEXT).ids
    read = read_words(tokenizer, TEXT, ids)
    assert "".join(read.words) == TEXT.replace(" ", "")
    assert read.words[:2] == ("Walk", "past")
    assert sum(read.gathered([1.0] * (len(ids) - 1))) == len(ids) - 2
    assert len(read_words(tokenizer, "something else", ids).words) == len(ids) - 2, "tokens that came ready made"
