"""`vlnbert bench`: how fast this machine trains and walks. The checkout has more benches: `python -m benchmarks`."""

from pathlib import Path
from typing import Any, Literal

from vlnbert.cli.output import answer
from vlnbert.cli.parser import command
from vlnbert.errors import UsageError
from vlnbert.runtime import Precision, chosen_precision, require_device, require_within, use_threads, usual_batch
from vlnbert.tables import Table

MOST = 1_000_000
IN_THE_CHECKOUT = ("world", "navigator", "objects", "growth", "explore", "speak")  # verbs of the package once


def check_place(words: list[str]) -> None:
    """Say where a bench is that only the checkout has, given the words of a command."""
    plain = " --plain" if "--plain" in words else ""
    if words[0] == "bench" and words[1:] and (plain or words[1] in IN_THE_CHECKOUT):
        command = f"python -m benchmarks {words[1]}{plain}"
        raise UsageError(f"this bench is not part of the package; run, in a checkout of vlnbert, {command}")


@command("bench train", places=["preset"])
def bench_train(
    preset: str = "demo",
    data: Path | None = None,
    batch: tuple[int, ...] = (),
    precision: Literal["float32", "bfloat16"] | None = None,
    graphs: bool = True,
    updates: int = 10,
    rounds: int = 5,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Measure how fast this machine trains a preset: updates and episodes a second, and memory.

    Weights are random and features are noise; instructions are those of R2R's train split. Memory is the peak that
    torch has allocated on a GPU.

    Example: vlnbert bench train r2r-two-stream --data data --batch 16 256 --device cuda

    Args:
        preset: Whose navigator and recipe; see vlnbert presets.
        data: A folder with connectivity/ and r2r/; without one, a small house is generated for the occasion.
        batch: Rows of an update, one or several sizes; the preset's own otherwise.
        precision: Of the forward pass; the preset's own otherwise.
        graphs: On a GPU, replay updates as CUDA graphs.
        updates: How many make a block.
        rounds: How many blocks are timed; their median counts.
        threads: CPU threads; torch's choice otherwise.
        device: Where to train, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from dataclasses import replace

    from vlnbert.benchmarking import folder_or_house, open_setup, time_training
    from vlnbert.learning.presets import presets

    experiment = presets.navigator(preset)
    require_within(rounds=(rounds, 2, MOST), updates=(updates, 1, MOST))
    require_device(device)
    use_threads(threads)
    training = replace(experiment.training, split_weights=(), final_split_weights=(), graphs=graphs)
    training = replace(training, precision=precision or training.precision)
    sizes = [replace(training, batch=rows) for rows in batch or (training.batch,)]
    with folder_or_house(data) as folder:
        aligned = training.objective.alignment > 0
        setup = open_setup(folder, "r2r/train", experiment.navigator, device, aligned)
    rates = [time_training(setup, size, rounds, updates) for size in sizes]
    _print({"preset": preset, "precision": training.precision, "device": device, "batches": rates}, json)


@command("bench evaluate", places=["preset"])
def bench_evaluate(
    preset: str = "demo",
    data: Path | None = None,
    split: str = "val_unseen",
    episodes: int | None = None,
    batch: tuple[int, ...] = (),
    precision: Precision = "float32",
    rounds: int = 5,
    threads: int | None = None,
    device: str = "cpu",
    json: bool = False,
) -> None:
    """Measure how fast this machine walks an R2R split, 15 steps in each episode: episodes and steps a second.

    Weights are random, features are noise, and nobody stops before the limit. Reading, walking and scoring are timed
    together. Memory is the peak that torch has allocated on a GPU.

    Example: vlnbert bench evaluate r2r-two-stream --data data --device cuda --batch 1024

    Args:
        preset: Whose navigator; see vlnbert presets.
        data: A folder with connectivity/ and r2r/; without one, a small house is generated for the occasion.
        split: Whose episodes, such as val_seen or val_unseen.
        episodes: Walk the first so many of them; all otherwise.
        batch: Episodes that walk together, one or several sizes; 64 otherwise, or 1024 on a GPU.
        precision: Of the navigator's tokens; fastest is what multiplies faster on this device.
        rounds: How often the split is walked; medians are compared.
        threads: CPU threads; torch's choice otherwise.
        device: Where to walk, such as cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from dataclasses import replace

    from vlnbert.benchmarking import first_episodes, folder_or_house, open_setup, time_evaluation
    from vlnbert.learning.presets import presets

    experiment = presets.navigator(preset)
    require_within(rounds=(rounds, 2, MOST), episodes=(MOST if episodes is None else episodes, 1, MOST))
    for rows in batch:
        require_within(batch=(rows, 1, MOST))
    require_device(device)
    use_threads(threads)
    with folder_or_house(data) as folder:
        setup = open_setup(folder, f"r2r/{split}", experiment.navigator, device)
    setup = replace(setup, split=first_episodes(setup.split, episodes or MOST))
    chosen = chosen_precision(precision, setup.world.device, setup.shape.hidden)
    batches = batch or (usual_batch(setup.world.device),)
    rates = [time_evaluation(setup, rows, chosen, rounds) for rows in batches]
    facts = {"preset": preset, "split": split, "episodes": len(setup.split.episodes), "precision": chosen}
    _print({**facts, "device": device, "batches": rates}, json)


def _print(facts: dict[str, Any], json: bool) -> None:
    """Print what was measured as JSON, or as a table with a row for each size of batch."""
    names = {name: name.replace("_per_second", "/s").replace("_", " ") for name in facts["batches"][0]}
    rows = [[_cell(name, row[name]) for name in names] for row in facts["batches"]]
    title = ", ".join(str(value) for name, value in facts.items() if name != "batches")
    answer(facts, Table([*names.values()], rows, title), json)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1%}" if name == "spread" else f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
