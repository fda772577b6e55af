"""Verbs to extend it: plugins, other people's weights, completion of commands."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from vlnbert import __version__
from vlnbert.cli.output import print_json, show, tell
from vlnbert.cli.parser import command


@command("plugins")
def plugins(json: bool = False) -> None:
    """List rewards, features and others that can be named.

    Example: vlnbert --plugin my.py plugins

    Args:
        json: Print one JSON object instead of a table: by kind, the home of each name.
    """
    from vlnbert.api import agents, training  # noqa: F401  # these bring every registry
    from vlnbert.registry import REGISTRIES, place
    from vlnbert.tables import Table

    found = {one.kind: {name: place(one.home(name)) for name in one} for one in REGISTRIES}
    if json:
        print_json(found)
    else:
        rows = [(kind, name, home) for kind, names in found.items() for name, home in names.items()]
        show(Table(("kind", "name", "from"), rows, title="what can be chosen by name"))


@command("completion", places=["shell"], metavars={"shell": "SHELL"})
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print what completes commands in a shell.

    Example: source <(vlnbert completion bash)

    Example: source <(vlnbert completion zsh)

    Example: vlnbert completion fish > ~/.config/fish/completions/vlnbert.fish

    Args:
        shell: bash, zsh or fish.
    """
    from vlnbert.cli.completion import script

    print(script(shell), end="")


@command("version")
def version() -> None:
    """Print the version.

    Example: vlnbert version
    """
    print(f"vlnbert {__version__}")


@command("weights import", "vlnbert.api.weights:import_weights", ["source", "out"], metavars={"out": "DEST"})
def import_weights(verb: Callable[..., Any], json: bool = False, **options: Any) -> None:
    """Make a navigator of somebody's weights.

    Example: vlnbert weights import all-MiniLM-L6-v2 minilm --feature-width 384

    Args:
        json: Print one JSON object instead of a summary: family, config, and lists loaded, new, unused, kept, notes.
    """
    _print(verb(**options), json)


@command("weights inspect", "vlnbert.api.weights:inspect_weights", ["source"])
def inspect_weights(verb: Callable[..., Any], json: bool = False, **options: Any) -> None:
    """Say what an import of weights would do.

    Example: vlnbert weights inspect snap/VLNBERT-PREVALENT-final/state_dict/best_val_unseen

    Args:
        json: Print one JSON object instead of a summary: family, config, features (what a navigator of ours was shown,
            or null), and lists loaded, new, unused, kept, notes.
    """
    _print(verb(**options), json)


def _print(report: Any, json: bool) -> None:
    if json:
        print_json(report.as_json())
    else:
        tell("\n".join(report.lines()))


@command(
    "weights export",
    "vlnbert.api.weights:export_weights",
    ["folder", "out"],
    metavars={"out": "DEST", "folder": "FOLDER"},
)
def export_weights(verb: Callable[..., Any], folder: str, out: Path, json: bool = False) -> None:
    """Write a navigator in the published agents' format.

    Example: vlnbert weights export runs/r2r-open my-agent.pt

    Args:
        json: Print one JSON object instead of a sentence.
    """
    done = verb(folder, out)
    if json:
        print_json(asdict(done))
        return
    print(f"{out}: a {done.backbone} agent, {done.model} tensors and {done.critic} of its critic, epoch {done.epoch}")
    if done.made_up:
        print(f"  {len(done.made_up)} of them, which the reference holds and never uses, are copies of others")
