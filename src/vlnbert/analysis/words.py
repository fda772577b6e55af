"""The words of an instruction on a page: laid out as in its text, and those with most attention."""

from collections.abc import Sequence

TIGHT = tuple(".,;:!?)'%\N{RIGHT SINGLE QUOTATION MARK}")  # what no space stands before


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
