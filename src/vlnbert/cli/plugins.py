"""`vlnbert plugins`: all that can be named, ours and what plugins have added."""

import sys

from vlnbert.cli.options import Flag, show


def plugins(json: Flag = False) -> None:
    """List what can be chosen by name (rewards, features and others) and where each comes from.

    Example: vlnbert --plugin my.py plugins

    Args:
        json: Print one JSON object instead of a table: by kind, the home of each name.
    """
    from json import dumps

    from vlnbert.api import evaluating, training  # noqa: F401  # these bring every registry
    from vlnbert.registry import REGISTRIES
    from vlnbert.tables import Table

    found = {one.kind: {name: _place(one.home(name)) for name in one} for one in REGISTRIES}
    if json:
        print(dumps(found))
    else:
        rows = [(kind, name, home) for kind, names in found.items() for name, home in names.items()]
        show(Table(("kind", "name", "from"), rows, title="what can be chosen by name"))


def _place(home: str) -> str:
    """A module of ours by its name, a plugin by its file."""
    module = sys.modules.get(home)
    return home if home.startswith("vlnbert.") else getattr(module, "__file__", None) or home
