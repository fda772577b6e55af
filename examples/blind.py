"""Features that show nothing: how far do words and directions lead alone?

python examples/blind.py [DATA [OUT [UPDATES]]]
vlnbert --plugin examples/blind.py train demo --features.views nothing --data DATA --out OUT
"""

import sys
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor

import vlnbert as vln


@vln.register_features("nothing")
def nothing(world: Any) -> Tensor:
    """[viewpoint, 36, 1] of zeros: every view looks alike, and only its direction tells it from others."""
    return torch.zeros(len(world), 36, 1, device=world.device)


if __name__ == "__main__":
    folder, out, updates = [*sys.argv[1:], *("", "", "800")[len(sys.argv) - 1 :]]
    data = vln.open_data(folder) if folder else vln.generate_house(mkdtemp(), scans=12)
    run = vln.train("demo", data, out or mkdtemp(), features=nothing, iterations=int(updates))
    print(vln.evaluate(run, split="r2r/val_unseen"))
