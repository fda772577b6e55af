"""`vlnbert bench objects`: what REVERIE's objects cost, here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vlnbert.cli.bench.shared import MOST, folder_or_house
from vlnbert.cli.output import screen
from vlnbert.cli.parser import command
from vlnbert.runtime import require_device, require_within, use_threads

if TYPE_CHECKING:
    from vlnbert.benchmarks.objects import ObjectsCost, StepCost

ROWS = {
    "without": "without objects",
    "trimmed": "with objects, trimmed to the batch",
    "padded": "with objects, padded to the widest viewpoint",
}
MEGABYTE = 1_000_000


@command("bench objects")
def bench_objects(
    data: Path | None = None,
    size: str = "base",
    backbone: Literal["one-stream", "two-stream"] | None = None,
    agents: int = 8,
    tokens: int = 50,
    rounds: int = 7,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Measure what REVERIE's objects cost: time and memory of a step without them, with them trimmed, and padded.

    A step observes and decides. A training step does so with dropout, then passes gradients back to the weights it
    used. Neither reads the instruction. Agents stand at random viewpoints of the data: four batches, the same for all.

    Trimmed, a batch has room for the objects of its fullest viewpoint, as on the CPU by default; padded, for those of
    the fullest viewpoint of all, as always on a GPU, where the trimmed row is left out.

    MB is the most that a step takes beyond what was there before it (weights, gradients and features of the world
    were), averaged over the batches: what torch's own allocator hands out, on the CPU as told by torch's profiler, on a
    GPU by torch.cuda.max_memory_allocated. In a training step these are mostly activations kept for the way back; all
    the steps of an episode keep theirs.

    Example: vlnbert bench objects --data data --size base --threads 1

    Args:
        data: A folder with connectivity/ and reverie/BBox/; without one, a small house is generated for the occasion.
            Features are random, an object's as wide as a view's, so no file of them is needed.
        size: A named size: base, minilm, small or tiny.
        backbone: One backbone alone; both otherwise.
        agents: Agents that walk together.
        tokens: Length of their instructions; REVERIE's limit is 50.
        rounds: How often each rival is timed, in turn; medians are compared.
        threads: CPU threads; torch's choice otherwise.
        device: Where the tensors are: cpu or cuda.
        json: Print one JSON object instead of a table; its seconds and bytes are those of one step.
    """
    from dataclasses import replace
    from json import dumps

    import torch

    from vlnbert.benchmarks.objects import compare_objects
    from vlnbert.navigator import named_size
    from vlnbert.world import open_object_table, open_world

    require_within(agents=(agents, 1, MOST), tokens=(tokens, 3, 512))
    require_within(rounds=(rounds, 2, MOST))
    _require_measured(device)
    use_threads(threads)
    shapes = {name: named_size(size, name) for name in ([backbone] if backbone else ["one-stream", "two-stream"])}
    with folder_or_house(data) as folder:
        world = open_world(folder)
        objects = open_object_table(world, folder.boxes)
    found = {}
    for name, shape in shapes.items():
        config = replace(shape, object_width=shape.feature_width, matching="visual")
        found[name] = compare_objects(world.to(device), objects, config, agents=agents, tokens=tokens, rounds=rounds)
    mean = len(objects) / len(world)
    if json:
        facts = {"size": size, "agents": agents, "tokens": tokens, "threads": torch.get_num_threads(), "device": device}
        shown = {"viewpoints": len(world), "mean": mean, "most": objects.widest}
        backbones = {name: {each.sees: _as_json(each, rows[0]) for each in rows} for name, rows in found.items()}
        print(dumps({**facts, "objects": shown, "backbones": backbones}))
        return
    _print_table(found, f"{size}, {agents} agents, {tokens} tokens, on {device}")
    print(f"objects at a viewpoint: {mean:.1f} on average, {objects.widest} at most ({len(world):,} viewpoints)")


def _require_measured(device: str) -> None:
    """Refuse a device that is not here, or whose memory nobody counts."""
    import torch

    from vlnbert.errors import UsageError

    require_device(device)
    if torch.device(device).type not in ("cpu", "cuda"):
        raise UsageError(f"memory is not measured on '{device}'; choose cpu or cuda")


def _as_json(row: "ObjectsCost", plain: "ObjectsCost") -> dict[str, Any]:
    def told(cost: "StepCost", without: "StepCost") -> dict[str, float]:
        return {
            "seconds": cost.seconds,
            "spread": cost.timing.spread,
            "ratio": cost.seconds / without.seconds,
            "peak_bytes": cost.peak,
            "peak_bytes_most": max(cost.memory),
        }

    steps = {"step": told(row.step, plain.step), "training": told(row.training, plain.training)}
    return {"visual_tokens": row.tokens, **steps}


def _print_table(found: dict[str, list["ObjectsCost"]], title: str) -> None:
    from rich.table import Column, Table

    costs = ("ms", "spread", "times", "MB")
    names = ("visual\ntokens", *(f"step\n{cost}" for cost in costs), *(f"training\n{cost}" for cost in costs))
    table = Table("", *(Column(name, justify="right") for name in names), title=title, title_justify="left")
    for backbone, rows in found.items():
        table.add_row(backbone)
        for row in rows:
            cells = (*_cells(row.step, rows[0].step), *_cells(row.training, rows[0].training))
            table.add_row(f"  {ROWS[row.sees]}", f"{row.tokens:.1f}", *cells)
    screen().print(table)


def _cells(cost: "StepCost", without: "StepCost") -> tuple[str, ...]:
    times = cost.seconds / without.seconds
    return f"{1000 * cost.seconds:,.1f}", f"{cost.timing.spread:.0%}", f"{times:.2f}", f"{cost.peak / MEGABYTE:,.1f}"
