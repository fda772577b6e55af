"""Uses of word labels: instructions cut in two, and the words of an instruction to attend to at each viewpoint.

A sub-instruction is the beginning or the end of an R2R instruction, with the part of the path that it describes. The
term is Fine-Grained R2R's (Hong et al. 2020, arXiv:2004.02707). Word labels say where to cut: before the first word
that is due at a viewpoint, if that is one of an action, and if all words that are due earlier come before all that are
due there or later. The beginning then describes the path to that viewpoint, and the end the path from there.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.sources.instructions import EpisodeRecord, LabelledWords, WordLabels, read_labelled_words, split_words
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.tokenizer import token_spans
from vlnbert.tasks.episodes import Episodes, bind, load_episodes, walkable
from vlnbert.tasks.made_paths import find_leaks, path_items
from vlnbert.tasks.task import R2R, SUB_INSTRUCTIONS
from vlnbert.world.world import World

if TYPE_CHECKING:
    from vlnbert.tasks.splits import Split

FEWEST_VIEWPOINTS = 3  # of a part
FEWEST_WORDS = 4
DANGLING = ("and", ",", "then", ".", "the")  # words that the beginning does not end in
LABELLED = "r2r/train"  # the split whose words have labels
MOST_MARKS = 1 << 30  # words of an instruction times viewpoints of its path, over the split

Span = tuple[int, int]  # start and end in a text, in characters
DueSpans = dict[int, list[Span]]  # by hop, those of the words that are due there
Kind = Literal["beginning", "end"]


@dataclass(frozen=True)
class Part:
    """The beginning or the end of an instruction, and the hops of its path from `first` to `last`."""

    kind: Kind
    text: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """A name unique in the instruction, by the hop at which it was cut."""
        return f"{self.kind}_{self.last if self.kind == 'beginning' else self.first}"


@dataclass(frozen=True)
class SubInstructions:
    """The parts of a train split's instructions, and counts of what was left out."""

    episodes: Episodes  # one a part; their ids become path ids, as every part is a path with one instruction
    instructions: int  # of the train split
    left_out: dict[str, int]  # how many, by what

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def cut(self) -> int:
        """The number of instructions that have parts here."""
        return len({name.rsplit("_", 2)[0] for name in self.episodes.ids})

    def count(self, kind: Kind) -> int:
        """The number of beginnings, or of ends."""
        return sum(name.rsplit("_", 2)[1] == kind for name in self.episodes.ids)

    def items(self, world: World) -> Iterator[dict[str, Any]]:
        """The items of a file in R2R's form."""
        parts = self.episodes
        metres = world.metres(parts.path[:, :-1], parts.path[:, 1:]).sum(dim=1).tolist()
        rounded = [round(distance, 2) for distance in metres]
        return path_items(world, parts.ids, parts.path, parts.path_length, parts.heading, rounded, parts.texts)

    def values(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "sub_instructions": len(self),
            "beginnings": self.count("beginning"),
            "ends": self.count("end"),
            "instructions": self.instructions,
            "cut": self.cut,
            "left_out": self.left_out,
        }

    def __str__(self) -> str:
        made = f"{len(self):,} sub-instructions, {self.count('beginning'):,} beginnings and {self.count('end'):,} ends"
        why = ", ".join(f"{count:,} {what}" for what, count in self.left_out.items())
        return f"{made}, of {self.cut:,} of {self.instructions:,} instructions" + f"; left out: {why}" * bool(why)


def cut_train_instructions(folder: DataFolder, world: World) -> SubInstructions:
    """Cut R2R's train instructions by the folder's word labels; parts along paths of val_seen are left out.

    World and result are on the CPU.
    """
    labels = read_labelled_words(folder.word_labels)
    train = load_episodes(folder, world, R2R.name, "train")
    left_out, records = Counter[str](), list[EpisodeRecord]()
    whole = walkable(world, train.path, train.path_length).tolist()
    paths, lengths = train.path.tolist(), train.path_length.tolist()
    for row, (name, text) in enumerate(zip(train.ids, train.texts, strict=True)):
        path, due = paths[row][: lengths[row]], labels.get(name, {})
        if not due:
            left_out["instructions without labels"] += 1
            continue
        if not whole[row]:
            left_out["instructions of paths that are not connected"] += 1
            continue
        hops = [world.viewpoints[viewpoint] for viewpoint in path]
        left_out["labels of viewpoints off the path"] += len(due.keys() - set(hops))
        size = sum(1 for _ in split_words(text))
        beyond = sum(place >= size for words in due.values() for place in words.places)
        left_out["labels of words beyond the text"] += beyond
        for part in cut_in_parts(text, [due.get(viewpoint) for viewpoint in hops]):
            heading = float(train.heading[row])
            if part.first:
                # The direction in which its first viewpoint is walked to.
                before, start = path[part.first - 1], path[part.first]
                slot = world.neighbour[before].tolist().index(start)
                heading = float(world.heading[before, slot]) % (2 * math.pi)
            scan, walked = world.scans[int(world.scan_of[path[0]])], tuple(hops[part.first : part.last + 1])
            records.append(EpisodeRecord(f"{name}_{part.name}", scan, walked, heading, part.text))
    left_out["labelled instructions that the train split does not have"] = len(labels.keys() - set(train.ids))
    episodes = bind(folder.word_labels, records, world, task=R2R.name, split=SUB_INSTRUCTIONS)
    if len(episodes):
        leaks = find_leaks(folder, world, episodes)
        left_out["parts along paths of val_seen"] = int(leaks.described.sum())
        left_out["parts in houses that nobody trains in"] = int(leaks.house.sum())
        episodes = episodes.select((~leaks.any).nonzero().flatten())
    if not len(episodes):
        remedy = (
            f"take labels and instructions of one data set, or leave r2r/sub_instructions out of {setting('train_on')}"
        )
        raise DataError(folder.word_labels, "cuts no instruction of r2r/train", remedy)
    return SubInstructions(episodes, len(train), {what: count for what, count in left_out.items() if count})


def labels_of_parts(parts: Episodes, train: Episodes, labels: WordLabels) -> WordLabels:
    """The labels of parts: those of the whole instruction's words that a part has, by their places in the part."""
    texts = dict(zip(train.ids, train.texts, strict=True))
    labels_of = dict[str, dict[str, tuple[int, ...]]]()
    for name, text in zip(parts.ids, parts.texts, strict=True):
        whole, kind, _ = name.rsplit("_", 2)
        size = len(list(split_words(text)))
        # An end has the last words of the whole; a beginning the first, and a full stop that the whole does not have.
        first, stop = (len(list(split_words(texts[whole]))) - size, size) if kind == "end" else (0, size - 1)
        inside = {
            viewpoint: tuple(place - first for place in places if 0 <= place - first < stop)
            for viewpoint, places in labels[whole].items()
        }
        labels_of[name] = {viewpoint: places for viewpoint, places in inside.items() if places}
    return labels_of


def cut_in_parts(text: str, due: Sequence[LabelledWords | None]) -> Iterator[Part]:
    """Cut an instruction, by the words that are due at each hop of its path, if any."""
    spans = list(split_words(text))
    words = [text[start:end].lower() for start, end in spans]
    within = {hop: here.before(len(words)) for hop, here in enumerate(due) if here is not None}
    labelled = {hop: here for hop, here in within.items() if here.places}
    for hop in hops_to_cut_at(labelled):
        cut, last = labelled[hop].places[0], len(due) - 1
        if hop <= last + 1 - FEWEST_VIEWPOINTS and _count_words(words[cut:]) >= FEWEST_WORDS:
            yield Part("end", text[spans[cut][0] :].strip(), hop, last)
        while cut > 1 and words[cut - 1] in DANGLING:
            cut -= 1
        if FEWEST_VIEWPOINTS <= hop + 1 <= last and _count_words(words[:cut]) >= FEWEST_WORDS:
            yield Part("beginning", text[: spans[cut - 1][1]].strip() + ".", 0, hop)


def hops_to_cut_at(labelled: Mapping[int, LabelledWords]) -> Iterator[int]:
    """Hops whose words begin with an action and come after all words of earlier hops, as those of later hops do."""
    hops = sorted(labelled)
    for number, hop in enumerate(hops[1:], start=1):
        so_far = max(labelled[earlier].places[-1] for earlier in hops[:number])
        from_here = min(labelled[later].places[0] for later in hops[number:])
        if so_far < from_here and labelled[hop].places[0] in labelled[hop].action:
            yield hop


def _count_words(words: Sequence[str]) -> int:
    """The number of words without punctuation."""
    return sum(word[0].isalnum() for word in words)


def labelled_words(episodes: Episodes, labels: WordLabels, world: World) -> tuple[list[DueSpans], list[str]]:
    """For each episode, by hop of its path, the spans in the text of the words that are due there.

    The sentences count the labels that do not fit the instructions.
    """
    rows, unlabelled, elsewhere, beyond = list[DueSpans](), 0, 0, 0
    paths = zip(episodes.path.tolist(), episodes.path_length.tolist(), strict=True)
    for id, text, (path, length) in zip(episodes.ids, episodes.texts, paths, strict=True):
        own, words = labels.get(id, {}), list(split_words(text))
        # A viewpoint that is passed twice counts as its first visit.
        hops = {world.viewpoints[number]: hop for hop, number in reversed([*enumerate(path[:length])])}
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
    misfits = {
        "instructions have no word labels": unlabelled,
        "instructions that are not there have word labels": len(labels.keys() - set(episodes.ids)),
        "labelled viewpoints are not on the path, and are left out": elsewhere,
        "labelled words are beyond the end of the instruction, and are left out": beyond,
    }
    return rows, [f"{count:,} {what}" for what, count in misfits.items() if count]


def align_words(split: "Split", labels: WordLabels, tokenizer: Tokenizer, world: World) -> tuple["Split", list[str]]:
    """Add to a split the tokens that are due at each viewpoint of a path; count the word labels that do not fit.

    Where a viewpoint has no words of its own, those of the last labelled one stay due; before the first, those of the
    first.
    """
    episodes, counts, lengths = split.episodes, split.tokens.count.tolist(), split.episodes.path_length.tolist()
    shape = (*episodes.path.shape, split.tokens.ids.shape[1])
    if (marks := torch.Size(shape).numel()) > MOST_MARKS:
        raise UsageError(f"{split.name} has {marks:,} words at viewpoints, more than {MOST_MARKS:,}; shorten its paths")
    aligned = torch.zeros(shape, dtype=torch.bool)
    words, misfits = labelled_words(episodes, labels, world)
    unread = 0
    for row, spans in enumerate(token_spans(tokenizer, episodes.texts)):
        # [SEP] stands last, also where an instruction is cut.
        tokens = spans[: counts[row] - 1]
        read = {hop: [_overlapping(tokens, word) for word in due] for hop, due in words[row].items()}
        unread += sum(not places for due in read.values() for places in due)
        labelled = {hop: sorted(set(chain(*due))) for hop, due in read.items() if any(due)}
        marked = sorted(labelled)
        for hop in range(lengths[row] if marked else 0):
            last = next((earlier for earlier in reversed(marked) if earlier <= hop), marked[0])
            aligned[row, hop, labelled[last]] = True
    misfits += [f"{unread:,} labelled words have no token, and are left out"] if unread else []
    return replace(split, aligned=aligned.to(split.tokens.ids.device)), misfits


def words_to_attend(aligned: Tensor, path: Tensor, viewpoint: Tensor) -> Tensor:
    """[row, token] the words that are due where each row stands; none where that is not on its path.

    `aligned` [row, hop, token], `path` [row, hop] and `viewpoint` [row].
    """
    here = path == viewpoint[:, None]
    # The first hop there: padding repeats the last.
    hop = here.int().argmax(dim=1)
    rows = torch.arange(len(hop), device=hop.device)
    return aligned[rows, hop] & here.any(dim=1)[:, None]


def _overlapping(tokens: Sequence[Span], word: Span) -> list[int]:
    """The tokens, given by their spans, that have a character of a word; [CLS] has none."""
    start, stop = word
    return [place for place, (begin, end) in enumerate(tokens) if max(begin, start) < min(end, stop)]
