"""The words of an instruction as a navigator reads them: its tokens, with the pieces of a word joined again."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer
from tokenizers.models import WordPiece


@dataclass(frozen=True)
class ReadWords:
    """Words, and which of them each token between the first and the last belongs to."""

    words: tuple[str, ...]
    word_of: tuple[int, ...]  # [token]

    def gathered(self, weights: Sequence[float]) -> tuple[float, ...]:
        """[word] the sums of weights [token or more] of the tokens behind the first."""
        sums = [0.0] * len(self.words)
        for word, weight in zip(self.word_of, weights, strict=False):  # the last token, [SEP], is no word
            sums[word] += weight
        return tuple(sums)


def read_words(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> ReadWords:
    """The words of tokens, of which the first and the last stand for no word; `text` is what they were made of."""
    inner = list(ids[1:-1])
    if isinstance(tokenizer.model, WordPiece):
        return _join_pieces([tokenizer.id_to_token(id) or "" for id in inner])
    return _cut_text(tokenizer, text, inner)


def _join_pieces(pieces: Sequence[str]) -> ReadWords:
    """BERT's pieces: those that go on with a word begin with ##. Unknown words read [UNK], as the navigator does."""
    words, word_of = list[str](), list[int]()
    for piece in pieces:
        if piece.startswith("##") and words:
            words[-1] += piece.removeprefix("##")
        else:
            words.append(piece)
        word_of.append(len(words) - 1)
    return ReadWords(tuple(words), tuple(word_of))


def _cut_text(tokenizer: Tokenizer, text: str, inner: list[int]) -> ReadWords:
    """Any other tokenizer's: pieces that touch in the text are one word."""
    encoded = tokenizer.encode(text)
    if encoded.ids[1 : 1 + len(inner)] != inner:  # they came ready made
        return ReadWords(tuple(tokenizer.id_to_token(id) or "" for id in inner), tuple(range(len(inner))))
    spans, word_of, end = list[list[int]](), list[int](), -1
    for begin, stop in encoded.offsets[1 : 1 + len(inner)]:
        begin += len(text[begin:stop]) - len(text[begin:stop].lstrip())  # some count the blank before a word as its own
        if begin == end and spans:
            spans[-1][1] = stop
        else:
            spans.append([begin, stop])
        word_of.append(len(spans) - 1)
        end = stop
    return ReadWords(tuple(text[begin:stop] for begin, stop in spans), tuple(word_of))
