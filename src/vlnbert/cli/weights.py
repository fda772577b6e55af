"""`vlnbert weights`: other people's checkpoints in, the published agents' format out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from vlnbert.cli.options import Flag, tell
from vlnbert.cli.parsing import as_option
from vlnbert.errors import spelling
from vlnbert.weights.options import ImportOptions

if TYPE_CHECKING:
    from vlnbert.weights.report import ImportReport

Source = Annotated[str, tyro.conf.arg(metavar="SOURCE")]
Flat = Annotated[ImportOptions, tyro.conf.arg(name="")]


def import_weights(
    source: tyro.conf.Positional[Source],
    dest: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DEST")]],
    options: Flat = ImportOptions(),  # noqa: B008  # frozen
    json: Flag = False,
) -> None:
    """Make a navigator of somebody's weights, and say what became of every key.

    Knows published Recurrent VLN-BERT agents of both kinds, pre-trained OSCAR and PREVALENT, LXMERT, and any BERT. The
    kind is told from the keys. Nothing in a file is ever run. A key that is not known, is missing or does not fit is an
    error that names it; then nothing is written.

    Example: vlnbert weights import all-MiniLM-L6-v2 minilm --feature-width 384

    Args:
        source: A checkpoint file, a folder with model.safetensors or pytorch_model.bin, or a model's name on the hub.
        dest: The navigator's folder; must be new or empty.
        json: Print one JSON object instead of a summary: family, config, and lists loaded, new, unused, kept, notes.
    """
    from vlnbert.api import weights

    with spelling(_as_option):
        _print(weights.import_weights(source, dest, **vars(options)), json)


def inspect_weights(
    source: tyro.conf.Positional[Source],
    options: Flat = ImportOptions(),  # noqa: B008  # frozen
    json: Flag = False,
) -> None:
    """Say what somebody's weights are and what an import would do with every key; write nothing.

    Example: vlnbert weights inspect snap/VLNBERT-PREVALENT-final/state_dict/best_val_unseen

    Args:
        source: A checkpoint file, a folder of weights (a navigator's or a run's too), or a model's name on the hub.
        json: Print one JSON object instead of a summary: family, config, features (what
            a navigator of ours was shown, or null), and lists loaded, new, unused, kept, notes.
    """
    from vlnbert.api import weights

    with spelling(_as_option):
        _print(weights.inspect_weights(source, **vars(options)), json)


def export_weights(
    folder: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="FOLDER")]],
    dest: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DEST")]],
    json: Flag = False,
) -> None:
    """Write a navigator in the format of the published Recurrent VLN-BERT agents.

    What was imported from such an agent comes back bit for bit, tensors that no navigator uses included; for another
    navigator those are filled with copies of others of the same shape. The optimiser's state is not part of it.

    Example: vlnbert weights export runs/r2r-open my-agent.pt

    Args:
        folder: A navigator's folder, or its name on the hub; or a run's folder, whose best navigator is taken.
        dest: The file to write; must be new.
        json: Print one JSON object instead of a sentence.
    """
    from dataclasses import asdict
    from json import dumps

    from vlnbert.api import weights

    done = weights.export_weights(folder, dest)
    if json:
        print(dumps(asdict(done)))
        return
    print(f"{dest}: a {done.backbone} agent, {done.model} tensors and {done.critic} of its critic, epoch {done.epoch}")
    if done.made_up:
        print(f"  {len(done.made_up)} of them, which the reference holds and never uses, are copies of others")


def _as_option(place: str, value: object) -> str:
    """A navigator's settings are options of these verbs themselves."""
    return as_option(place.removeprefix("navigator."), value)


def _print(report: "ImportReport", as_json: bool) -> None:
    from json import dumps

    tell(dumps(report.as_json()) if as_json else "\n".join(report.lines()))
