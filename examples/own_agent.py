"""An agent of one's own, without a network: it turns as the instruction says and walks straight on in between.

    python examples/own_agent.py [DATA]                                   # without DATA it generates houses
    vlnbert evaluate --agent examples/own_agent.py:MyAgent --data DATA    # the same from the command line

In twelve generated houses SR on val_unseen was 28.4 % (random: 12.6 %, stop: 0 %)."""

import re
import sys
from math import pi
from tempfile import mkdtemp

import torch

import vlnbert as vln

TURNS = {"left": -pi / 2, "right": pi / 2, "around": pi, "back": pi}  # clockwise, from where one faces
CLAUSE = re.compile(r"[.,;]|\band\b|\bthen\b")
ASIDE = re.compile(r"\b(on|to) (the|your) (left|right)\b")  # where a door is; no turn


def turns(text: str) -> list[float]:
    """An angle for each clause of an instruction."""
    clauses = [ASIDE.sub("", clause) for clause in CLAUSE.split(text.lower()) if clause.strip()]
    return [next((TURNS[word] for word in clause.split() if word in TURNS), 0.0) for clause in clauses]


class MyAgent(vln.Agent):
    """Takes a step for each clause, towards where that turns, and stops when there are no more."""

    reads_tokens = False  # it reads batch.texts; batch.tokens [row, token] are what a network would read
    sees_features = False  # directions are enough for it; observation.features [row, slot, width] are the views

    def begin(self, batch):
        """The memory: [row, clause] angles, how many each row has, and how many are used."""
        angles = [torch.tensor(turns(text)) for text in batch.texts]
        count = torch.tensor([len(row) for row in angles])
        padded = torch.nn.utils.rnn.pad_sequence([*angles, torch.zeros(1)], batch_first=True)[:-1]
        device = batch.state.viewpoint.device
        return padded.to(device), count.to(device), 0

    def act(self, observation, memory):
        """[row] the slot that is nearest to the wanted direction; 0, which stops, once all clauses are used."""
        angles, count, used = memory
        wanted = angles[:, min(used, angles.shape[1] - 1), None]
        sin, cos = observation.direction[..., 0], observation.direction[..., 1]  # [row, slot] of each candidate
        nearness = sin * wanted.sin() + cos * wanted.cos()
        nearness = nearness.masked_fill(~observation.choosable, -2)
        nearness[:, 0] = -2  # to stop is no direction
        slot = nearness.argmax(dim=1).masked_fill(count <= used, 0)
        return slot, (angles, count, used + 1)


if __name__ == "__main__":
    data = vln.open_data(sys.argv[1]) if sys.argv[1:] else vln.generate_house(mkdtemp(), seed=0, scans=12)
    for agent in (MyAgent(), "random", "stop"):
        print(vln.evaluate(agent, data, "r2r/val_unseen", bar=False))
