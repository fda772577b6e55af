"""`vlnbert bench train`: how fast a preset learns, here and now."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from vlnbert.cli.bench import MOST, folder_or_house
from vlnbert.cli.devices import require_device, require_within
from vlnbert.cli.options import Flag
from vlnbert.cli.tables import screen

if TYPE_CHECKING:
    from vlnbert.benchmarks.training import TrainingSpeed


def bench_train(
    preset: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="PRESET")]] = "demo",
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    batch: tuple[int, ...] = (),
    precision: Literal["float32", "bfloat16"] | None = None,
    graphs: bool = True,
    rounds: int = 5,
    threads: int | None = None,
    device: str = "cpu",
    json: Flag = False,
) -> None:
    """Time the updates of a preset: how many a second, what they take in memory, and how near to the floor that is.

    Weights are random and features are noise as wide as the preset's navigator sees; instructions and graphs are
    those of R2R's train split. Blocks of updates are timed after a warm-up. Operations are counted by torch on one
    update, padding included; the ceiling is a large matrix product, timed on the same device in the same precision.

    Example: vlnbert bench train r2r-two-stream --data data --batch 16 256 --device cuda

    Args:
        preset: Whose navigator and recipe; see vlnbert presets.
        data: A folder with connectivity/ and r2r/; without one, a small house is generated for the occasion.
        batch: Rows of an update, one or several sizes; the preset's own otherwise.
        precision: Of the forward pass; the preset's own otherwise.
        graphs: On a GPU, replay updates as CUDA graphs.
        rounds: How many blocks are timed; their median counts.
        threads: CPU threads; torch's choice otherwise.
        device: Where to train, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from dataclasses import replace
    from json import dumps

    import torch

    from vlnbert.benchmarks.training import matrix_rate, time_training
    from vlnbert.presets import find_preset
    from vlnbert.tasks.splits import open_split
    from vlnbert.tasks.tokens import load_tokenizer
    from vlnbert.world import open_world

    experiment = find_preset(preset).experiment
    require_within(rounds=(rounds, 2, MOST), threads=(1 if threads is None else threads, 1, 256))
    require_device(device)
    torch.set_num_threads(threads or torch.get_num_threads())
    training = replace(experiment.training, graphs=graphs, precision=precision or experiment.training.precision)
    sizes = [replace(training, batch=rows) for rows in batch or (training.batch,)]
    with folder_or_house(data) as folder:
        world, tokenizer = open_world(folder, device=device), load_tokenizer(folder.vocabulary)
        split = open_split(folder, world, tokenizer, "r2r/train")
    pieces = 1 + max(tokenizer.get_vocab().values())
    shape = replace(experiment.navigator, vocabulary=max(pieces, experiment.navigator.vocabulary))
    ceiling = matrix_rate(world.device, getattr(torch, training.precision))
    found = [time_training(world, [split], shape, config, rounds) for config in sizes]
    if json:
        facts = {"preset": preset, "precision": training.precision, "device": device, "ceiling_flops": ceiling}
        print(dumps({**facts, "batches": [_as_json(speed, ceiling) for speed in found]}))
    else:
        _print(found, ceiling, f"{preset}, {training.precision}, on {device}")


def _as_json(speed: "TrainingSpeed", ceiling: float) -> dict[str, Any]:
    return {
        "batch": speed.batch,
        "updates_per_second": speed.updates_per_second,
        "episodes_per_second": speed.episodes_per_second,
        "spread": speed.block.spread,
        "flops": speed.flops,
        "share_of_ceiling": speed.flops * speed.updates_per_second / ceiling,
        "peak_bytes": speed.peak_bytes,
    }


def _print(found: list["TrainingSpeed"], ceiling: float, title: str) -> None:
    from rich.table import Column, Table

    names = ("rows", "updates/s", "episodes/s", "spread", "TFLOP an update", "of the ceiling", "peak GiB")
    table = Table(*(Column(name, justify="right") for name in names), title=title, title_justify="left")
    for speed in found:
        share = speed.flops * speed.updates_per_second / ceiling
        peak = "-" if speed.peak_bytes is None else f"{speed.peak_bytes / 2**30:.2f}"
        rates = (f"{speed.updates_per_second:,.2f}", f"{speed.episodes_per_second:,.0f}", f"{speed.block.spread:.0%}")
        table.add_row(f"{speed.batch:,}", *rates, f"{speed.flops / 1e12:.3f}", f"{share:.1%}", peak)
    screen().print(table)
    print(f"the ceiling, a large matrix product: {ceiling / 1e12:,.2f} TFLOP/s")
