"""`vlnbert data check` and `vlnbert presets`: what a data folder holds, and what can be trained with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from vlnbert.cli.options import Flag, screen, show, tell
from vlnbert.errors import PREFIX

if TYPE_CHECKING:
    from vlnbert.api.inspecting import DataReport


def check_data(
    folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]],
    json: Flag = False,
) -> None:
    """Read every file of a data folder and say what is there, what is damaged and what each preset still needs.

    Exits with code 2 when something is damaged; data that is merely absent is no fault.

    Example: vlnbert data check data

    Args:
        folder: The data folder.
        json: Print one JSON object instead of tables.
    """
    from json import dumps

    from vlnbert.api import inspecting

    found = inspecting.check_data(folder)
    if json:
        print(dumps(found.to_plain()))
    else:
        _print(found)
    if found.damaged:
        raise SystemExit(2)


def make_r4r(folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]]) -> None:
    """Make R4R of a data folder's R2R: paths joined in pairs, with every pair of their instructions.

    Two paths of a house are joined where the end of the first lies less than 3 m, along the graph, from the start of
    the second, by the shortest way between them (Jain et al. 2019). Writes r4r/R4R_<split>.json beside R2R's own files.

    Example: vlnbert data r4r data

    Args:
        folder: The data folder, with connectivity/ and r2r/.
    """
    from vlnbert.api import inspecting

    for split, (paths, instructions) in inspecting.make_r4r(folder).items():
        tell(f"{folder}/r4r/R4R_{split}.json: {paths:,} paths, {instructions:,} instructions")


def holdout_houses(
    folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]],
    holdout: int = 6,
    holdout_seed: int = 0,
    json: Flag = False,
) -> None:
    """List the houses that a training with --holdout keeps out, and their instructions in every train split.

    Example: vlnbert data holdout data --holdout 6 --holdout-seed 0

    Args:
        folder: The data folder.
        holdout: How many houses.
        holdout_seed: Chooses them.
        json: Print one JSON object instead of a table: by house, by split, the number of instructions.
    """
    from json import dumps

    from vlnbert.api import inspecting
    from vlnbert.tables import Table

    found = inspecting.holdout_houses(folder, holdout, holdout_seed)
    if json:
        print(dumps(found))
        return
    splits = next(iter(found.values()))
    rows = [[house, *(f"{count:,}" for count in counts.values())] for house, counts in found.items()]
    rows.append(["all", *(f"{sum(counts[split] for counts in found.values()):,}" for split in splits)])
    show(Table(["house", *splits], rows, f"kept out of {folder} for dev_unseen"))


def presets(
    name: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="PRESET")]] = None, json: Flag = False
) -> None:
    """List the experiments that can be trained by name, and the data that each of them needs.

    Example: vlnbert presets

    Example: vlnbert presets r2r-open > my.json

    Args:
        name: Print one preset, all of its settings, as a file that vlnbert train takes.
        json: Print one JSON object instead of a table: of each preset its description, its needs and all its settings.
    """
    from json import dumps

    from vlnbert.learning import presets as menu
    from vlnbert.learning.experiment_file import experiment_values
    from vlnbert.records import to_plain

    if name is not None:
        print(dumps(experiment_values(menu.presets[name]), indent=2))
    elif json:
        told = {name: {**to_plain(one), "needs": one.experiment.needs} for name, one in menu.presets.items()}
        for values in told.values():
            del values["asked"]  # nobody has chosen anything yet
        print(dumps(told))
    else:
        show(menu.presets.table())


def _print(report: "DataReport") -> None:
    from rich.table import Column, Table
    from rich.text import Text

    from vlnbert.data.inventory import describe_need
    from vlnbert.learning.presets import presets

    console = screen()
    table = Table("part", "holds", "state", title=f"{report.folder}", title_justify="left")
    for part in report.parts:
        state = Text("damaged", "red") if part.faults else Text("whole", "green")
        table.add_row(part.need, part.holds or "-", state)
    console.print(table)
    names = Column("preset", no_wrap=True, min_width=max(map(len, report.missing)))
    shown = Table(names, "what it is", "data it still needs", title="presets", title_justify="left")
    for name, missing in report.missing.items():
        needs = "\n".join(describe_need(need) for need in missing)
        shown.add_row(name, presets[name].description, needs or Text("nothing", "green"))
    console.print(shown)
    for path, note in ((part.path, note) for part in report.parts for note in part.notes):
        tell(f"{path}: {note}")
    for fault in (fault for part in report.parts for fault in part.faults):
        tell(f"{PREFIX}{fault}", aside=True)
