"""What LAR2R's labels mean, held against the real paths: words are due at their viewpoint, not at one beside it."""

import math
from itertools import pairwise

import pytest

from vlnbert.sources.instructions import read_labelled_words, split_words
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import load_episodes
from vlnbert.world.world import World

SHARP = 0.5  # radians, of a turn that nobody would call straight on


def test_a_turn_is_labelled_where_it_is_made(open_data: DataFolder, open_data_world: World) -> None:
    world, labels = open_data_world, read_labelled_words(open_data.word_labels)
    train = load_episodes(open_data, world, "r2r", "train")
    right = dict.fromkeys((-1, 0, 1), 0)
    counted = dict.fromkeys(right, 0)
    for row, (name, text) in enumerate(zip(train.ids, train.texts, strict=True)):
        path = train.path[row, : train.path_length[row]].tolist()
        towards = [_heading(world, start, end) for start, end in pairwise(path)]
        turns = {hop: math.remainder(towards[hop] - towards[hop - 1], 2 * math.pi) for hop in range(1, len(towards))}
        words = [text[start:end].lower() for start, end in split_words(text)]
        for hop, number in enumerate(path):
            said = labels[name].get(world.viewpoints[number])
            action = {words[place] for place in said.action if place < len(words)} if said else set()
            if "turn" not in action or len(action & {"left", "right"}) != 1:
                continue
            for offset in right:
                turn = turns.get(hop + offset, 0.0)
                if abs(turn) > SHARP:
                    counted[offset] += 1
                    right[offset] += (turn > 0) == ("right" in action)
    shares = {offset: right[offset] / counted[offset] for offset in right}
    assert counted[0] > 5000
    assert shares[0] > 0.95
    assert shares[-1] == pytest.approx(0.5, abs=0.1), "near chance at the viewpoint before"
    assert shares[0] > shares[1] + 0.1


def test_the_first_words_are_due_at_the_start(open_data: DataFolder, open_data_world: World) -> None:
    labels = read_labelled_words(open_data.word_labels)
    train = load_episodes(open_data, open_data_world, "r2r", "train")
    starts = [open_data_world.viewpoints[number] for number in train.start.tolist()]
    said = [labels[name][start] for name, start in zip(train.ids, starts, strict=True) if start in labels[name]]
    assert len(said) > 0.98 * len(train)
    assert sum(words.places[0] < 3 for words in said) > 0.9 * len(said)


def _heading(world: World, start: int, end: int) -> float:
    return float(world.heading[start, world.neighbour[start].tolist().index(end)])
