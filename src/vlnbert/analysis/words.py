"""The words of an instruction as a navigator reads them, in the spelling of its text where that is known."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer
from tokenizers.models import WordPiece

TIGHT = tuple(".,;:!?)'%\N{RIGHT SINGLE QUOTATION MARK}")  # what no space stands before


@dataclass(frozen=True)
class ReadWords:
    """Words, and which of them each token between the first and the last belongs to."""

    words: tuple[str, ...]
    word_of: tuple[int, ...]  # [token]
    unknown: tuple[int, ...] = ()  # places of the words that the vocabulary does not have

    def gathered(self, weights: Sequence[float]) -> tuple[float, ...]:
        """[word] the sums of weights [token or more] of the tokens behind the first."""
        sums = [0.0] * len(self.words)
        for word, weight in zip(self.word_of, weights, strict=False):  # the last token, [SEP], is no word
            sums[word] += weight
        return tuple(sums)


def read_words(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> ReadWords:
    """The words of tokens, of which the first and the last stand for no word; `text` is what they were made of."""
    inner = list(ids[1:-1])
    pieces = [tokenizer.id_to_token(id) or "" for id in inner]
    encoded = tokenizer.encode(text)
    known = encoded.ids[1 : 1 + len(inner)] == inner  # or they came ready made
    spans = encoded.offsets[1 : 1 + len(inner)] if known else []
    if isinstance(tokenizer.model, WordPiece):
        return _join_pieces(pieces, text, spans, tokenizer.model.unk_token)
    return _cut_text(text, spans) if known else ReadWords(tuple(pieces), tuple(range(len(pieces))))


def most_read(words: Sequence[str], weights: Sequence[float], count: int) -> list[str]:
    """The words that got most attention, in their order; punctuation tells nobody anything."""
    places = [place for place, word in enumerate(words) if any(map(str.isalnum, word))]
    strongest = sorted(places, key=lambda place: -weights[place])[:count]
    return list(dict.fromkeys(words[place] for place in sorted(strongest)))


def laid_out(text: str, words: Sequence[str]) -> list[tuple[str, int | None]]:
    """The text in pieces, each a word with its place or what stands between; words of another spelling replace it."""
    pieces, at = list[tuple[str, int | None]](), 0
    for place, word in enumerate(words):
        found = text.find(word, at) if word else -1
        if found < 0 or text[at:found].strip():
            return _spaced(words)
        pieces += [(text[at:found], None), (word, place)]
        at = found + len(word)
    return [piece for piece in (*pieces, (text[at:], None)) if piece[0]]


def _spaced(words: Sequence[str]) -> list[tuple[str, int | None]]:
    pieces = list[tuple[str, int | None]]()
    for place, word in enumerate(words):
        pieces += [(word, place)] if place == 0 or word.startswith(TIGHT) else [(" ", None), (word, place)]
    return pieces


def _join_pieces(
    pieces: Sequence[str], text: str, spans: Sequence[tuple[int, int]], unknown_piece: str | None
) -> ReadWords:
    """BERT's pieces: those that go on with a word begin with ##. Where nobody knows their places, as they are read."""
    words, places, word_of, unknown = list[str](), list[list[int]](), list[int](), list[int]()
    for number, piece in enumerate(pieces):
        begin, end = spans[number] if spans else (0, 0)
        if piece.startswith("##") and words:
            words[-1] += piece.removeprefix("##")
            places[-1][1] = end
        else:
            words.append(piece)
            places.append([begin, end])
        if piece == unknown_piece:
            unknown.append(len(words) - 1)
        word_of.append(len(words) - 1)
    if spans:
        words = [text[begin:end] for begin, end in places]
    return ReadWords(tuple(words), tuple(word_of), tuple(unknown))


def _cut_text(text: str, offsets: Sequence[tuple[int, int]]) -> ReadWords:
    """Any other tokenizer's: pieces that touch in the text are one word."""
    spans, word_of, end = list[list[int]](), list[int](), -1
    for begin, stop in offsets:
        begin += len(text[begin:stop]) - len(text[begin:stop].lstrip())  # some count the blank before a word as its own
        if begin == end and spans:
            spans[-1][1] = stop
        else:
            spans.append([begin, stop])
        word_of.append(len(spans) - 1)
        end = stop
    return ReadWords(tuple(text[begin:stop] for begin, stop in spans), tuple(word_of))
