"""The command `vlnbert`: finds the verb, and turns what can go wrong into one line and exit code 2."""

import os
import sys
from collections.abc import Callable

from tyro.extras import SubcommandApp

from vlnbert import __version__
from vlnbert.cli.bench import bench_navigator, bench_world
from vlnbert.cli.data import check_data
from vlnbert.cli.demo import demo
from vlnbert.cli.evaluate import evaluate
from vlnbert.cli.house import house
from vlnbert.cli.score import score
from vlnbert.cli.submit import submit
from vlnbert.cli.weights import export_weights, import_weights, inspect_weights
from vlnbert.cli.world import candidates, check_world
from vlnbert.errors import VlnbertError
from vlnbert.runtime import keep_freed_memory

VERBS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "house": house,
    "data check": check_data,
    "world candidates": candidates,
    "world check": check_world,
    "evaluate": evaluate,
    "score": score,
    "submit": submit,
    "weights import": import_weights,
    "weights inspect": inspect_weights,
    "weights export": export_weights,
    "bench world": bench_world,
    "bench navigator": bench_navigator,
}


def main() -> None:
    """Run the command line; what a user can mend ends in one line a fault, never in a traceback."""
    keep_freed_memory()
    words = sys.argv[1:]
    if words in ([], ["-h"], ["--help"], ["--version"]):
        print(f"vlnbert {__version__}" if words == ["--version"] else _menu())
        sys.exit(0 if words else 2)
    try:
        _app(VERBS).cli(prog="vlnbert")
        sys.stdout.flush()
    except VlnbertError as error:
        for line in str(error).splitlines():
            print(f"vlnbert: {line}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("vlnbert: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _menu() -> str:
    """Every verb on a line; tyro's own overview would print all their explanations in full."""
    width = max(map(len, VERBS))
    lines = [f"  vlnbert {name:<{width}}  {(verb.__doc__ or '').splitlines()[0]}" for name, verb in VERBS.items()]
    about = "Agents that follow instructions through real houses: Recurrent VLN-BERT for R2R and REVERIE."
    return "\n".join([about, "", *lines, "", "vlnbert VERB --help explains a verb; start with: vlnbert demo"])


def _app(verbs: dict[str, Callable[..., None]]) -> SubcommandApp:
    """Verbs of two words become groups."""
    app, groups = SubcommandApp(), dict[str, SubcommandApp]()
    for name, verb in verbs.items():
        group, _, rest = name.partition(" ")
        if not rest:
            app.command(name=name)(verb)
            continue
        if group not in groups:
            groups[group] = app.command(SubcommandApp(), name=group)
        groups[group].command(name=rest)(verb)
    return app
