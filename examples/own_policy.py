"""A policy of one's own in one file: it remembers a map of all that it saw, and may go back to any of it, as DUET does.

vlnbert house house
vlnbert --plugin examples/own_policy.py train demo --policy.name map-memory --data house --out runs/map
vlnbert train --resume runs/map
vlnbert evaluate runs/map --data house --splits val_unseen
"""

import sys
from dataclasses import dataclass, replace
from tempfile import mkdtemp

import torch
from torch import Tensor, nn

import vlnbert as vln
from vlnbert.environment.environment import Observation
from vlnbert.rollout.agents import EpisodeBatch

NOWHERE = -1  # the place of padding, and of what was seen again since
STEPS = 32  # steps that it tells apart


@dataclass(frozen=True)
class MapConfig:
    """Its settings: --policy.settings width=128."""

    width: int = 64
    heads: int = 4
    layers: int = 1
    dropout: float = 0.1


@dataclass(frozen=True)
class Map:
    """What it remembers. All tensors have the row first; their shapes follow the number of the step."""

    words: Tensor  # [row, token, width]
    padding: Tensor  # [row, token] bool
    nodes: Tensor  # [row, node, width] what was made of each place where it was, or looked like when last seen
    places: Tensor  # [row, node] the viewpoints that these are
    visited: Tensor  # [row, step] the viewpoints at which it was


@vln.register_policy("map-memory")
class MapPolicy(vln.Policy):
    """What is here and all nodes of the map attend to each other and to the words; where it is asks which is next."""

    wants = ("neighbours",)
    goes_back = True
    teaches_going_back = True

    def __init__(self, config: MapConfig, inputs: vln.Inputs) -> None:
        super().__init__()
        width, self.hidden_width = config.width, config.width
        self.words = nn.Embedding(inputs.vocabulary, width, padding_idx=0)
        self.order = nn.Embedding(512, width)
        self.sights = nn.Sequential(nn.Linear(inputs.feature_width + 4, width), nn.LayerNorm(width), nn.GELU())
        self.when, self.been = nn.Embedding(STEPS, width), nn.Parameter(torch.zeros(width))
        shape = {"d_model": width, "nhead": config.heads, "dim_feedforward": 2 * width, "dropout": config.dropout}
        shape |= {"batch_first": True, "norm_first": True}
        reader, walker = nn.TransformerEncoderLayer(**shape), nn.TransformerDecoderLayer(**shape)
        self.reader = nn.TransformerEncoder(reader, config.layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.walker = nn.TransformerDecoder(walker, config.layers, nn.LayerNorm(width))
        self.ask, self.answer = nn.Linear(width, width), nn.Linear(width, width)

    def begin(self, batch: EpisodeBatch) -> Map:
        """Read the instructions; the map is empty."""
        tokens = batch.tokens
        words, padding = self.words(tokens) + self.order.weight[: tokens.shape[1]], tokens == 0
        nowhere = tokens.new_zeros(len(tokens), 0)
        nodes = words.new_zeros(len(tokens), 0, words.shape[2])
        return Map(self.reader(words, src_key_padding_mask=padding), padding, nodes, nowhere, nowhere)

    def step(self, seen: Observation, memory: Map, attention: bool = False) -> vln.Decision:
        """Look around, draw the map on, and score the slots and all places that were seen and not visited yet."""
        visited = torch.cat((memory.visited, seen.state.viewpoint[:, None]), dim=1)
        around = seen.neighbours.masked_fill(~seen.choosable, NOWHERE)  # slot 0 is where it stands
        sights = self.sights(torch.cat((seen.features, seen.direction), dim=2)) * seen.choosable[..., None]
        here = sights[:, 1:].sum(dim=1, keepdim=True) / seen.choosable[:, 1:].sum(dim=1).clamp(min=1)[:, None, None]
        tokens = torch.cat((here, sights[:, 1:]), dim=1) + self.when.weight[min(visited.shape[1], STEPS) - 1]
        tokens = tokens + among(around, visited)[..., None] * self.been
        places = memory.places.masked_fill(among(memory.places, around), NOWHERE)  # what is seen again is drawn anew
        nodes, everything = torch.cat((tokens, memory.nodes), dim=1), torch.cat((around, places), dim=1)
        hidden = self.walker(
            nodes,
            memory.words,
            tgt_key_padding_mask=everything == NOWHERE,
            memory_key_padding_mask=memory.padding,
        )
        query = self.ask(hidden[:, :1]) / hidden.shape[2] ** 0.5
        logits, slots = (query * self.answer(hidden)).sum(dim=2), around.shape[1]
        back = (places != NOWHERE) & ~among(places, visited)
        return vln.Decision(
            logits=logits[:, :slots].masked_fill(~seen.choosable, -torch.inf),
            memory=replace(
                memory, nodes=torch.cat((hidden[:, :1], nodes[:, 1:]), dim=1), places=everything, visited=visited
            ),
            hidden=hidden[:, 0],
            place_logits=logits[:, slots:].masked_fill(~back, -torch.inf),
            places=places.masked_fill(~back, NOWHERE),
        )


def among(places: Tensor, others: Tensor) -> Tensor:
    """[row, n] whether each of [row, n] places is one of [row, m] others."""
    return (places[:, :, None] == others[:, None]).any(dim=2)


if __name__ == "__main__":
    data = vln.generate_house(mkdtemp(), seed=0)
    run = vln.train("demo", data, sys.argv[1] if sys.argv[1:] else mkdtemp(), policy="map-memory")
    print(vln.evaluate(run, split="r2r/val_unseen"))
