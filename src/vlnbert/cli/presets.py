"""`vlnbert presets`: the menu of experiments."""

from vlnbert.cli.options import Flag
from vlnbert.cli.tables import screen


def presets(json: Flag = False) -> None:
    """List the experiments that can be trained by name, and the data that each of them needs.

    Example: vlnbert presets

    Args:
        json: Print one JSON object instead of a table: of each preset its description, its needs and all its settings.
    """
    from json import dumps

    from rich.table import Table

    from vlnbert.learning.records import to_plain
    from vlnbert.presets import PRESETS

    if json:
        print(dumps({preset.name: to_plain(preset) for preset in PRESETS}))
        return
    table = Table("preset", "what it is", "data it needs", title="vlnbert train PRESET", title_justify="left")
    for preset in PRESETS:
        table.add_row(preset.name, preset.description, ", ".join(preset.needs) or "none")
    screen().print(table)
