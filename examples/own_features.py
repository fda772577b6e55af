"""Features of one's own, in one file outside the package.

python examples/own_features.py [DATA [OUT [UPDATES]]]
vlnbert --plugin examples/own_features.py train demo --features.views layout --data DATA --out OUT
"""

import sys
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor

import vlnbert as vln


@vln.register_features("layout")
def layout(world: Any) -> Tensor:
    """[viewpoint, slot, 4] of each choice: metres to it, metres up, ways on from there, and how far these lead.

    A tensor by view, [viewpoint, 36, width], or a bank, such as the class below, will do as well.
    """
    here = torch.arange(len(world), device=world.device)[:, None]
    metres = world.metres(here, world.neighbour)  # [viewpoint, slot]
    rise = world.position[world.neighbour, 2] - world.position[:, None, 2]
    ways = world.choices[world.neighbour] - 1
    farthest = metres.max(dim=1).values[world.neighbour]
    return torch.stack([metres / 10, rise, ways / 10, farthest / 10], dim=-1).float()


class Beside:
    """A bank, anything with `width` and `look`: what a file shows, and the layout beside it."""

    def __init__(self, data: vln.Data) -> None:
        self.pictures, self.layout = data.view_bank, layout(data.world)
        self.width = self.pictures.width + self.layout.shape[-1]

    def look(self, viewpoint: Tensor) -> Tensor:
        """[row] viewpoints -> [row, slot, width]"""
        return torch.cat((self.pictures.look(viewpoint), self.layout[viewpoint]), dim=-1)


def train(data: vln.Data, out: str, features: Any = layout, **changes: Any) -> vln.Run:
    """The demo's training with other features: by name, by the function, or with a bank in memory."""
    return vln.train("demo", data, out, features=features, **changes)


if __name__ == "__main__":
    folder, out, updates = [*sys.argv[1:], *("", "", "800")[len(sys.argv) - 1 :]]
    data = vln.open_data(folder) if folder else vln.generate_house(mkdtemp(), scans=12)
    bank = Beside(data)
    run = train(data, out or mkdtemp(), bank, iterations=int(updates))
    print(vln.evaluate(run, split="r2r/val_unseen", features=bank))  # what was in memory is given again
