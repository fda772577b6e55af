"""Which words of an instruction to attend to at each viewpoint of its path, by somebody's labels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.errors import UsageError
from vlnbert.sources.instructions import WordLabels, split_words
from vlnbert.sources.tokenizer import token_spans
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import Split
from vlnbert.world.world import World

LABELLED = "r2r/train"  # the split whose words have labels
MOST_MARKS = 1 << 30  # of all words at all viewpoints, as they are held

Span = tuple[int, int]  # where in a text something begins and ends, in characters


@dataclass(frozen=True)
class LabelReport:
    """How labels fit the instructions of a split."""

    unlabelled: int = 0  # instructions without any
    unknown: int = 0  # instructions that have labels and are not there
    elsewhere: int = 0  # viewpoints with labels that are not on the path
    beyond: int = 0  # words that the instruction does not have
    unread: int = 0  # words that no token is of: an instruction loses its end where it is cut

    def lines(self) -> list[str]:
        """What does not fit, in words."""
        told = [
            (self.unlabelled, "instructions have no word labels"),
            (self.unknown, "instructions that are not there have word labels"),
            (self.elsewhere, "labelled viewpoints are not on the path, and are left out"),
            (self.beyond, "labelled words are beyond the end of the instruction, and are left out"),
            (self.unread, "labelled words have no token, and are left out"),
        ]
        return [f"{count:,} {what}" for count, what in told if count]


def labelled_words(
    episodes: Episodes, labels: WordLabels, world: World
) -> tuple[list[dict[int, list[Span]]], LabelReport]:
    """For each episode, by hop of its path, where in the text the words stand that are due there."""
    rows, unlabelled, elsewhere, beyond = list[dict[int, list[Span]]](), 0, 0, 0
    paths = zip(episodes.path.tolist(), episodes.path_length.tolist(), strict=True)
    for id, text, (path, length) in zip(episodes.ids, episodes.texts, paths, strict=True):
        own, words = labels.get(id, {}), list(split_words(text))
        hops = {world.viewpoints[number]: hop for hop, number in reversed([*enumerate(path[:length])])}  # first visits
        unlabelled += not own
        elsewhere += sum(viewpoint not in hops for viewpoint in own)
        beyond += sum(place >= len(words) for places in own.values() for place in places)
        rows.append(
            {
                hops[viewpoint]: [words[place] for place in places if place < len(words)]
                for viewpoint, places in own.items()
                if viewpoint in hops
            }
        )
    return rows, LabelReport(unlabelled, len(labels.keys() - set(episodes.ids)), elsewhere, beyond)


def align_words(split: Split, labels: WordLabels, tokenizer: Tokenizer, world: World) -> tuple[Split, LabelReport]:
    """A split whose every instruction says at each viewpoint of its path which tokens are due there.

    Where a viewpoint has no words of its own, those that were due last still are; before the first, the first.
    """
    episodes, counts, lengths = split.episodes, split.tokens.count.tolist(), split.episodes.path_length.tolist()
    shape = (*episodes.path.shape, split.tokens.ids.shape[1])
    if (marks := torch.Size(shape).numel()) > MOST_MARKS:
        raise UsageError(f"{split.name} has {marks:,} words at viewpoints, more than {MOST_MARKS:,}; shorten its paths")
    aligned = torch.zeros(shape, dtype=torch.bool)
    words, report = labelled_words(episodes, labels, world)
    unread = 0
    for row, spans in enumerate(token_spans(tokenizer, episodes.texts)):
        tokens = spans[: counts[row] - 1]  # without [SEP], which stands last also where an instruction is cut
        found = {hop: [_overlapping(tokens, word) for word in said] for hop, said in words[row].items()}
        unread += sum(not those for said in found.values() for those in said)
        labelled = {hop: sorted({token for those in said for token in those}) for hop, said in found.items()}
        for hop, those in _due(labelled, lengths[row]):
            aligned[row, hop, those] = True
    return replace(split, aligned=aligned.to(split.tokens.ids.device)), replace(report, unread=unread)


def words_to_attend(aligned: Tensor, path: Tensor, viewpoint: Tensor) -> Tensor:
    """[row, token] the words that are due where each row stands; none where that is not on its path.

    `aligned` [row, hop, token], `path` [row, hop] and `viewpoint` [row].
    """
    here = path == viewpoint[:, None]
    hop = here.int().argmax(dim=1)  # the first; padding repeats the last
    rows = torch.arange(len(hop), device=hop.device)
    return aligned[rows, hop] & here.any(dim=1)[:, None]


def _overlapping(tokens: Sequence[Span], word: Span) -> list[int]:
    """The tokens, by where each stands in the text, that have a character of a word; [CLS] has none."""
    start, stop = word
    return [place for place, (begin, end) in enumerate(tokens) if max(begin, start) < min(end, stop)]


def _due(labelled: Mapping[int, Sequence[int]], length: int) -> Iterable[tuple[int, Sequence[int]]]:
    """For each hop of a path, what is due there: its own, else what was due last, else what is due first."""
    marked = sorted(hop for hop, tokens in labelled.items() if tokens)
    for hop in range(length if marked else 0):
        yield hop, labelled[next((earlier for earlier in reversed(marked) if earlier <= hop), marked[0])]
