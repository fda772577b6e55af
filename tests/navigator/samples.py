"""Small navigators in double precision, and things for them to see."""

from dataclasses import replace

import torch
from torch import Tensor

from vlnbert.environment.environment import Observation, VisibleObjects
from vlnbert.navigator import Instruction, Navigator, NavigatorConfig, Step, fast

ROWS, LENGTH = 4, 9  # of the instructions in `step_of`

ONE = NavigatorConfig(
    hidden=24, heads=3, inner=40, layers=3, vocabulary=50, positions=40, feature_width=7, angle_width=8, critic_width=16
)
TWO = replace(ONE, backbone="two-stream", layers=2, cross_layers=2)
CONFIGS = {
    "one-stream": ONE,
    "one-stream embeddings": replace(ONE, language_attention="embeddings"),
    "one-stream initial": replace(ONE, language_attention="initial"),
    "one-stream previous": replace(ONE, language_attention="previous"),
    "one-stream without matching": replace(ONE, matching="off"),
    "one-stream objects": replace(ONE, matching="visual", object_width=5),
    "two-stream": TWO,
    "two-stream without matching": replace(TWO, matching="off"),
    "two-stream objects": replace(TWO, matching="visual", object_width=5),
}


def make(config: NavigatorConfig) -> Navigator:
    """A navigator whose random weights are large enough for everything to matter."""
    torch.manual_seed(0)
    navigator = Navigator(config).double().eval()
    with torch.no_grad():
        for name, weight in navigator.named_parameters():
            weight.normal_(std=0.4) if "norm.weight" not in name else weight.uniform_(0.5, 1.5)
    return navigator


def words(rows: int, length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Tokens and mask of instructions of different lengths, the first one the longest."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, ONE.vocabulary, (rows, length), generator=generator)
    count = torch.randint(3, length + 1, (rows,), generator=generator)
    count[0] = length
    mask = torch.arange(length) < count[:, None]
    return tokens * mask, mask


def sight(config: NavigatorConfig, rows: int, slots: int = 6, objects: int = 4, seed: int = 0) -> Observation:
    """What random agents see; stop and padding are zero, and one row has no object."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    choosable = torch.arange(slots) < torch.randint(2, slots + 1, (rows, 1), generator=generator)
    real = (choosable & (torch.arange(slots) > 0))[..., None]
    found = None
    if config.object_width:
        present = torch.arange(objects) < torch.arange(rows)[:, None]  # none in the first row
        parts = (draw(rows, objects, config.object_width), draw(rows, objects, 5), draw(rows, objects, 4))
        found = VisibleObjects(*(part * present[..., None] for part in parts), present)
    features, direction = draw(rows, slots, config.feature_width), draw(rows, slots, 4)
    return Observation(choosable, direction * real, draw(rows, 4), features * real, found)


def step_of(navigator: Navigator, dtype: torch.dtype | None) -> tuple[Instruction, Step]:
    """Encoded instructions, and the second of two steps, in a pass of this dtype."""
    with fast.enabled(dtype):
        instruction = navigator.encode(*words(ROWS, LENGTH))
        first = navigator.step(instruction.state, instruction, sight(navigator.config, ROWS))
        return instruction, navigator.step(first.state, first.instruction, sight(navigator.config, ROWS, seed=1))
