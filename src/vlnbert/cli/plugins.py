"""`vlnbert plugins`: all that can be named, ours and what plugins have added."""

from vlnbert.cli.options import Flag, show


def plugins(json: Flag = False) -> None:
    """List what can be chosen by name (rewards, features and others) and where each comes from.

    Example: vlnbert --plugin my.py plugins

    Args:
        json: Print one JSON object instead of a table: by kind, the home of each name.
    """
    from json import dumps

    from vlnbert.api import evaluating, training  # noqa: F401  # these bring every registry
    from vlnbert.registry import REGISTRIES, place
    from vlnbert.tables import Table

    found = {one.kind: {name: place(one.home(name)) for name in one} for one in REGISTRIES}
    if json:
        print(dumps(found))
    else:
        rows = [(kind, name, home) for kind, names in found.items() for name, home in names.items()]
        show(Table(("kind", "name", "from"), rows, title="what can be chosen by name"))
