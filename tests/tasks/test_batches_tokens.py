"""Instructions as tokens, against a plain WordPiece."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vlnbert.errors import UsageError, VlnbertError
from vlnbert.tasks import batches as tokens_module
from vlnbert.tasks.batches import load_tokenizer, tokenise
from vlnbert.tasks.episodes import load_episodes

PAD, UNK, CLS, SEP = range(4)


@pytest.fixture
def episodes(tiny, world):
    return load_episodes(tiny.folder, world, "r2r", "train")


@pytest.fixture
def tokenizer(tiny):
    return load_tokenizer(tiny.folder.vocabulary)


def texts(episodes, *given):
    """The same kind of episodes with other texts."""
    count = len(given)
    return replace(episodes, ids=tuple(f"1_{k}" for k in range(count)), texts=given, tokens=(None,) * count)


def wordpiece(text, vocabulary, limit=80):
    """Longest match first, on lower-cased words and single punctuation marks."""
    words = "".join(letter if letter.isalnum() else f" {letter} " for letter in text.lower()).split()
    ids = []
    for word in words:
        pieces, at = [], 0
        while at < len(word):
            ends = [end for end in range(len(word), at, -1) if ("##" * (at > 0)) + word[at:end] in vocabulary]
            if not ends:
                pieces = [vocabulary["[UNK]"]]
                break
            pieces.append(vocabulary[("##" * (at > 0)) + word[at : ends[0]]])
            at = ends[0]
        ids += pieces
    return [vocabulary["[CLS]"], *ids[: limit - 2], vocabulary["[SEP]"]]


def rows(tokens):
    return [ids[:count].tolist() for ids, count in zip(tokens.ids, tokens.count, strict=True)]


def test_words_are_lower_cased_and_split(tiny, episodes, tokenizer):
    vocabulary = tokenizer.get_vocab()
    tokens = tokenise(episodes, tokenizer, tiny.root)
    assert rows(tokens)[:2] == [
        [CLS, *(vocabulary[word] for word in ("walk", "to", "the", "blue", "door", ".")), SEP],
        [CLS, *(vocabulary[word] for word in ("go", "up", "the", "stair", "##s", "and", "stop")), SEP],
    ]
    assert tokens.ids.shape == (4, 9)
    assert tokens.ids[0, 8] == PAD


def test_accents_fall_and_unknown_words_are_unknown(tiny, episodes, tokenizer):
    tokens = tokenise(texts(episodes, "WÂLK zzz"), tokenizer, tiny.root)
    assert rows(tokens) == [[CLS, tokenizer.get_vocab()["walk"], UNK, SEP]]


@pytest.mark.parametrize("limit", [3, 5, 80])
def test_the_limit_counts_both_ends_and_keeps_the_last(tiny, episodes, tokenizer, limit):
    tokens = tokenise(texts(episodes, "walk " * 200, "go"), tokenizer, tiny.root, limit)
    assert tokens.ids.shape == (2, limit)
    assert tokens.count.tolist() == [limit, 3]
    assert tokens.ids[0, [0, limit - 2, limit - 1]].tolist() == [CLS, tokenizer.get_vocab()["walk"], SEP]


def test_exactly_the_limit_is_not_cut(tiny, episodes, tokenizer):
    tokens = tokenise(texts(episodes, "walk " * 78, "walk " * 79), tokenizer, tiny.root)
    assert tokens.count.tolist() == [80, 80]


def test_a_limit_without_room_for_words(tiny, episodes, tokenizer):
    with pytest.raises(UsageError, match="max_tokens=2"):
        tokenise(episodes, tokenizer, tiny.root, max_tokens=2)


def test_one_limit_does_not_outlive_its_call(tiny, episodes, tokenizer):
    long = texts(episodes, "walk " * 30)
    tokenise(long, tokenizer, tiny.root, max_tokens=5)
    assert len(tokenizer.encode(long.texts[0]).ids) == 32


@given(st.lists(st.text("Walk uptohe dors.,s!", min_size=1), min_size=1, max_size=4))
def test_any_text_as_by_a_plain_wordpiece(tiny, episodes, tokenizer, given_texts):
    given_texts = [text for text in given_texts if text.strip()] or ["walk"]
    tokens = tokenise(texts(episodes, *given_texts), tokenizer, tiny.root)
    vocabulary = tokenizer.get_vocab()
    assert rows(tokens) == [wordpiece(text, vocabulary) for text in given_texts]
    padding = torch.arange(tokens.ids.shape[1]) >= tokens.count[:, None]
    assert (tokens.ids[padding] == PAD).all()


def test_augmented_tokens_are_kept(tiny, world, tokenizer):
    augmented = load_episodes(tiny.folder, world, "r2r", "aug")
    assert rows(tokenise(augmented, tokenizer, tiny.root)) == [[2, 5, 6, 7, 8, 3]]
    assert rows(tokenise(augmented, tokenizer, tiny.root, max_tokens=4)) == [[2, 5, 6, 3]]


def test_the_last_piece_is_a_token(tiny, world, tokenizer):
    assert len(tokenizer.get_vocab()) == 22
    tiny.edit("r2r/prevalent_aug.json", lambda items: items[0].update(instr_enc=[2, 21, 3]))
    assert rows(tokenise(load_episodes(tiny.folder, world, "r2r", "aug"), tokenizer, tiny.root)) == [[2, 21, 3]]


def test_augmented_data_without_tokens_is_tokenised(tiny, world, tokenizer):
    tiny.edit("r2r/prevalent_aug.json", lambda items: items[0].update(instr_enc=[0, 0]))
    augmented = load_episodes(tiny.folder, world, "r2r", "aug")
    assert rows(tokenise(augmented, tokenizer, tiny.root)) == [wordpiece(augmented.texts[0], tokenizer.get_vocab())]


@pytest.mark.parametrize(
    ("given_tokens", "words"),
    [
        ([2, 3], "has no words"),
        ([2, 99, 3], "token 99 is not in the voc"),
        ([2, 22, 3], "token 22 is not in the voc"),  # of 22 pieces, numbered from 0
    ],
)
def test_wrong_augmented_tokens(tiny, world, tokenizer, refuses, given_tokens, words):
    path = tiny.edit("r2r/prevalent_aug.json", lambda items: items[0].update(instr_enc=given_tokens))
    augmented = load_episodes(tiny.folder, world, "r2r", "aug")
    refuses(path, lambda: tokenise(augmented, tokenizer, path), f"instruction x_1: {words}")


def test_texts_that_leave_no_words(tiny, episodes, tokenizer, refuses):
    empty = texts(episodes, "\x00", "walk", "\u200b")
    place = tiny.path("r2r/R2R_train.json")
    refuses(place, lambda: tokenise(empty, tokenizer, place), "instruction 1_0: has no words", "1_2: has no words")


def test_half_a_character_is_a_fault(tiny, world):
    """JSON may spell a lone surrogate: valid JSON, but no text."""
    path = tiny.edit("r2r/R2R_train.json", lambda items: items[0].update(instructions=["walk \ud83d"]))
    with pytest.raises(VlnbertError, match=str(path)):
        tokenise(load_episodes(tiny.folder, world, "r2r", "train"), load_tokenizer(tiny.folder.vocabulary), path)


def test_no_instructions_make_no_tokens(tiny, episodes, tokenizer):
    tokens = tokenise(texts(episodes), tokenizer, tiny.root)
    assert (tokens.ids.shape, tokens.ids.dtype, tokens.count.dtype) == ((0, 0), torch.long, torch.long)


def test_tokens_move(tiny, episodes, tokenizer):
    tokens = tokenise(episodes, tokenizer, tiny.root).to("meta")
    assert tokens.ids.device.type == tokens.count.device.type == "meta"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["[PAD]", "[UNK]", "walk"], ["lacks the token [CLS]", "lacks the token [SEP]"]),
        (["walk", "[PAD]", "[UNK]", "[CLS]", "[SEP]"], ["line 2: [PAD] is not the first token"]),
        ([], ["lacks the token [PAD]", "lacks the token [UNK]", "lacks the token [CLS]", "lacks the token [SEP]"]),
    ],
)
def test_a_wrong_vocabulary(tmp_path, refuses, pieces, words):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(pieces))
    refuses(path, lambda: load_tokenizer(path), *words)


def test_a_missing_or_foreign_vocabulary(tmp_path, refuses):
    path = tmp_path / "vocab.txt"
    refuses(path, lambda: load_tokenizer(path), "no such vocabulary")
    path.write_bytes(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\ncaf\xe9\n")
    refuses(path, lambda: load_tokenizer(path), "is not UTF-8 text")


SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (SPECIAL + 3000 * "\n" + "walk", "a piece has the number 3,004 among 5 pieces"),
        (SPECIAL + 2000 * "a", "has more than 1,024 characters"),
    ],
    ids=["far apart", "long"],
)
def test_a_vocabulary_out_of_bounds(tmp_path, refuses, pieces, words):
    """An embedding would have a row for every line."""
    path = tmp_path / "vocab.txt"
    path.write_text(pieces)
    refuses(path, lambda: load_tokenizer(path), words)


def test_a_large_vocabulary_is_not_read(tmp_path, refuses):
    path = tmp_path / "vocab.txt"
    with path.open("wb") as file:
        file.truncate(65 << 20)
    refuses(path, lambda: load_tokenizer(path), "has 68 MB, too much for a vocabulary")


def test_line_ends_of_another_system(tiny, episodes):
    path = tiny.path("vocab.txt")
    plain = rows(tokenise(episodes, load_tokenizer(path), path))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert rows(tokenise(episodes, load_tokenizer(path), path)) == plain


def test_a_piece_twice_does_not_shift_the_last_ones(tiny, episodes):
    """The ids of tokens are line numbers, so the last id may exceed the number of distinct pieces."""
    path = tiny.path("vocab.txt")
    path.write_text(path.read_text() + "walk\nlast\n")
    tokens = tokenise(texts(episodes, "last"), load_tokenizer(path), Path("R2R.json"))
    assert rows(tokens) == [[CLS, len(path.read_text().split()) - 1, SEP]]


class Idle:
    """A tokenizer that is never asked for tokens."""

    def __init__(self, tokenizer):
        self.to_str, self.get_vocab = tokenizer.to_str, tokenizer.get_vocab


@pytest.fixture
def kept(cache, monkeypatch):
    """The entries of the cache, where even two texts are many."""
    monkeypatch.setattr(tokens_module, "MANY", 2)
    return lambda: list(cache.glob("tokens-*"))


def test_the_tokens_of_many_texts_are_made_once(tiny, episodes, tokenizer, kept, monkeypatch):
    first = tokenise(episodes, tokenizer, tiny.root)
    assert len(kept()) == 1
    again = tokenise(episodes, Idle(tokenizer), tiny.root)
    assert (again.ids.tolist(), again.count.tolist()) == (first.ids.tolist(), first.count.tolist())
    assert again.ids.dtype == first.ids.dtype == torch.long
    cut = tokenise(episodes, Idle(tokenizer), tiny.root, max_tokens=5)
    monkeypatch.setattr(tokens_module, "MANY", 1000)
    assert rows(cut) == rows(tokenise(episodes, tokenizer, tiny.root, max_tokens=5)), "cut afterwards"
    assert rows(first) == rows(tokenise(episodes, tokenizer, tiny.root))


def test_other_texts_and_other_vocabularies_have_tokens_of_their_own(tiny, episodes, tokenizer, kept):
    tokenise(texts(episodes, "walk", "go"), tokenizer, tiny.root)
    assert rows(tokenise(texts(episodes, "go", "walk"), tokenizer, tiny.root)) != rows(
        tokenise(texts(episodes, "walk", "go"), tokenizer, tiny.root)
    )
    path = tiny.path("other.txt")
    path.write_text(tiny.folder.vocabulary.read_text().replace("walk", "swim"))
    assert UNK in rows(tokenise(texts(episodes, "walk", "go"), load_tokenizer(path), tiny.root))[0]
    assert len(kept()) == 3


def test_few_texts_are_not_kept(tiny, episodes, tokenizer, kept):
    tokenise(texts(episodes, "walk"), tokenizer, tiny.root)
    assert kept() == []


def test_kept_tokens_are_checked_as_new_ones_are(tiny, episodes, tokenizer, kept, refuses):
    empty, place = texts(episodes, "walk", ""), tiny.root
    for _ in range(2):
        refuses(place, lambda: tokenise(empty, tokenizer, place), "instruction 1_1: has no words")
    assert len(kept()) == 1
