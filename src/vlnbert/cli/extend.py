"""Verbs to extend it: plugins, other people's weights, completion of commands."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from vlnbert import __version__
from vlnbert.cli.output import answer
from vlnbert.cli.parser import Command, command

FOR_BASH = """# Put this into ~/.bashrc: source <(vlnbert completion bash)
_vlnbert() {
    local said="${COMP_WORDS[*]:1:COMP_CWORD-1} " known
    case "$said" in
CASES
    esac
    COMPREPLY=($(compgen -W "$known" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _vlnbert vlnbert
"""
FOR_ZSH = """# Put this into ~/.zshrc, behind compinit: source <(vlnbert completion zsh)
_vlnbert() {
    local said="${(j: :)words[2,CURRENT-1]} " known
    case "$said" in
CASES
    esac
    compadd -- ${=known}
    _files
}
compdef _vlnbert vlnbert
"""
FOR_FISH = """# vlnbert completion fish > ~/.config/fish/completions/vlnbert.fish
function __vlnbert
    set -l said (commandline -opc)
    switch "$said[2..] "
CASES
    end
end
complete -c vlnbert -a '(__vlnbert)'
"""
AROUND = {"bash": FOR_BASH, "zsh": FOR_ZSH, "fish": FOR_FISH}


@command("plugins")
def plugins(json: bool = False) -> None:
    """List rewards, features and others that can be named.

    Example: vlnbert --plugin my.py plugins

    Args:
        json: Print one JSON object instead of a table: by kind, the home of each name.
    """
    from vlnbert.api import training  # noqa: F401  # it brings every registry
    from vlnbert.registry import REGISTRIES, place
    from vlnbert.tables import Table

    found = {one.kind: {name: place(one.home(name)) for name in one} for one in REGISTRIES}
    rows = [(kind, name, home) for kind, names in found.items() for name, home in names.items()]
    answer(found, Table(("kind", "name", "from"), rows, title="what can be chosen by name"), json)


@command("completion", places=["shell"], metavars={"shell": "SHELL"})
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print what completes commands in a shell.

    Example: source <(vlnbert completion bash)
    Example: source <(vlnbert completion zsh)
    Example: vlnbert completion fish > ~/.config/fish/completions/vlnbert.fish

    Args:
        shell: bash, zsh or fish.
    """
    case = "        case '{}*'; string split ' ' '{}'" if shell == "fish" else '        "{}"*) known="{}" ;;'
    cases = "\n".join(case.format(begun, " ".join(known)) for begun, known in _words())
    print(AROUND[shell].replace("CASES", cases), end="")


def _words() -> Iterator[tuple[str, list[str]]]:
    """What may follow what was said; longer beginnings come first."""
    from vlnbert.cli.train import beginning, resuming
    from vlnbert.learning.presets import presets

    groups = dict[str, list[str]]()
    for name, one in Command.every.items():
        first, _, second = name.partition(" ")
        groups.setdefault(first, []).extend([second] if second else [])
        # Settings are those of a preset of either kind.
        commands = [resuming(), beginning("demo"), beginning("speaker-demo")] if name == "train" else [one]
        places = {"train": [*presets], "presets": [*presets], "completion": [*AROUND]}.get(name, [])
        options = dict.fromkeys(option for one in commands for option in one.by_name)
        yield f"{name} ", [*places, *options, "--help", *(["--help-all"] if name == "train" else [])]
    yield from ((f"{first} ", members) for first, members in groups.items() if members)
    yield "help ", [*groups]
    yield "", [*groups, "help", "--plugin", "--version"]


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
    report = verb(**options)
    answer(report.as_json(), "\n".join(report.lines()), json)


@command("weights inspect", "vlnbert.api.weights:inspect_weights", ["source"])
def inspect_weights(verb: Callable[..., Any], json: bool = False, **options: Any) -> None:
    """Say what an import of weights would do.

    Example: vlnbert weights inspect snap/VLNBERT-PREVALENT-final/state_dict/best_val_unseen

    Args:
        json: Print one JSON object instead of a summary: family, config, features (what a navigator of ours was shown,
            or null), and lists loaded, new, unused, kept, notes.
    """
    report = verb(**options)
    answer(report.as_json(), "\n".join(report.lines()), json)


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
    text = f"{out}: a {done.backbone} agent, {done.model} tensors and {done.critic} of its critic, epoch {done.epoch}"
    if done.made_up:
        text += f"\n  {len(done.made_up)} of them, which the reference holds and never uses, are copies of others"
    answer(asdict(done), text, json)
