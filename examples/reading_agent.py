"""An agent that reads: it goes where the words of a view overlap the instruction most. It learns nothing.

    python examples/reading_agent.py [DATA]                                        # without DATA it generates houses
    vlnbert evaluate --agent examples/reading_agent.py:ReadingAgent --data DATA    # the same from the command line

In twelve generated houses SR on val_unseen was 54.9 % (random: 12.6 %, stop: 0 %)."""

import re
import sys
from tempfile import mkdtemp

import torch

import vlnbert as vln

CLAUSE = re.compile(r"[.,;]|\band\b|\bthen\b")
IGNORED = {"a", "an", "at", "by", "from", "in", "into", "is", "it", "of", "on", "the", "through", "to", "with", "your"}


def words(text: str) -> set[str]:
    """What a text speaks of."""
    return set(re.findall("[a-z]+", text.lower())) - IGNORED


class ReadingAgent(vln.Agent):
    """Takes a step for each clause, to a new place that shows most of what is yet to come, and stops at the last."""

    reads_tokens = False  # it reads batch.texts
    sees_features = False  # it reads what views show: texts.slot(viewpoint, slot)
    wants = ("neighbours",)  # observation.neighbours [row, slot] are numbers of viewpoints, by which it knows places

    def __init__(self, texts):
        self.texts = texts  # data.texts

    def begin(self, batch):
        """The memory: the words of each clause and the places where each row has been, and how many steps were made."""
        clauses = [[found for part in CLAUSE.split(text) if (found := words(part))] for text in batch.texts]
        return clauses, [set() for _ in clauses], 0

    def act(self, observation, memory):
        clauses, been, step = memory
        slots, neighbours = [], observation.neighbours.tolist()
        for row, here in enumerate(observation.state.viewpoint.tolist()):
            been[row].add(here)
            ahead = set().union(*clauses[row][step:])
            new = [slot for slot, place in enumerate(neighbours[row]) if place not in been[row]]  # to stop is no place
            overlap = {slot: len(ahead & words(self.texts.slot(here, slot))) for slot in new}
            slots.append(max(new, key=overlap.get, default=0) if ahead else 0)
        return torch.tensor(slots, device=observation.choosable.device), (clauses, been, step + 1)


if __name__ == "__main__":
    data = vln.open_data(sys.argv[1]) if sys.argv[1:] else vln.generate_house(mkdtemp(), seed=0, scans=12)
    for agent in (ReadingAgent(data.texts), "random", "stop"):
        print(vln.evaluate(agent, data, "r2r/val_unseen", bar=False))
