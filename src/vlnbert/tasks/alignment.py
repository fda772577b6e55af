"""Which words of an instruction to attend to at each viewpoint of its path, by somebody's labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.sources.encoding import encoded_texts
from vlnbert.sources.word_labels import WordLabels, split_words
from vlnbert.tasks.splits import Split
from vlnbert.world.world import World


@dataclass(frozen=True)
class AlignmentReport:
    """What became of the labels of a split."""

    instructions: int  # that have labels
    unlabelled: int  # that have none
    beyond: int  # labels of words that an instruction does not have
    elsewhere: int  # labels of viewpoints that are not on the path

    def lines(self) -> list[str]:
        """What does not fit, in words."""
        told = [
            (self.unlabelled, "instructions have no word labels"),
            (self.beyond, "labels name words that their instruction does not have, and are left out"),
            (self.elsewhere, "labels are of viewpoints that are not on the path, and are left out"),
        ]
        return [f"{count:,} {what}" for count, what in told if count]


def align_words(split: Split, labels: WordLabels, tokenizer: Tokenizer, world: World) -> tuple[Split, AlignmentReport]:
    """A split whose every instruction says at each viewpoint of its path which words lead on from there.

    They are those of the next viewpoint that has some; from the last such one on, its own, which also tell to stop.
    """
    episodes, width = split.episodes, split.tokens.ids.shape[1]
    paths, lengths = episodes.path.tolist(), episodes.path_length.tolist()
    aligned = torch.zeros(len(episodes), episodes.path.shape[1], width, dtype=torch.bool)
    unlabelled = beyond = elsewhere = 0
    for row, encoded in enumerate(encoded_texts(tokenizer, episodes.texts)):
        said = labels.get(episodes.ids[row], {})
        unlabelled += not said
        words = list(split_words(episodes.texts[row]))
        hops = {world.viewpoints[number]: hop for hop, number in enumerate(paths[row][: lengths[row]])}
        ahead = dict[int, list[int]]()
        for viewpoint, places in said.items():
            beyond += sum(place >= len(words) for place in places)
            spans = [words[place] for place in places if place < len(words)]
            if viewpoint not in hops:
                elsewhere += 1
            elif pieces := _pieces(encoded.offsets[:width], spans):
                ahead[hops[viewpoint]] = pieces
        for hop in range(lengths[row]):
            labelled = [place for place in ahead if place > hop]
            said_there = min(labelled) if labelled else max(ahead, default=None)
            if said_there is not None:
                aligned[row, hop, ahead[said_there]] = True
    report = AlignmentReport(len(episodes) - unlabelled, unlabelled, beyond, elsewhere)
    return replace(split, aligned=aligned.to(split.tokens.ids.device)), report


def words_to_attend(aligned: Tensor, path: Tensor, viewpoint: Tensor) -> Tensor:
    """[row, token] the words that lead on from where each row stands; none where that is not on its path.

    `aligned` [row, hop, token], `path` [row, hop] and `viewpoint` [row].
    """
    here = path == viewpoint[:, None]
    hop = here.int().argmax(dim=1)  # the first; padding repeats the last
    rows = torch.arange(len(hop), device=hop.device)
    return aligned[rows, hop] & here.any(dim=1)[:, None]


def _pieces(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[int]:
    """The word pieces, by where each stands in the text, that overlap some words."""
    return [
        piece
        for piece, (begin, end) in enumerate(offsets)
        if begin < end and any(begin < stop and start < end for start, stop in spans)
    ]
