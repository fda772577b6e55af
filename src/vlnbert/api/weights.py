"""Other people's checkpoints in, the published agents' format out."""

from pathlib import Path
from typing import TYPE_CHECKING

from vlnbert.api.arguments import checked, spread
from vlnbert.errors import UsageError
from vlnbert.weights.options import ImportOptions

if TYPE_CHECKING:
    from vlnbert.weights.exporting import ExportReport
    from vlnbert.weights.plan import ImportReport


@checked()
@spread
def import_weights(source: str | Path, out: str | Path, *, options: ImportOptions) -> "ImportReport":
    """Make a navigator of somebody's weights, and say what became of every key.

    Knows published Recurrent VLN-BERT agents of both kinds, pre-trained OSCAR and PREVALENT, LXMERT, and any BERT. The
    kind is told from the keys. Loading never executes code. A key that is not known, is missing or does not fit is an
    error that names it; then nothing is written.

    Args:
        source: A checkpoint file, a folder with model.safetensors or pytorch_model.bin, or a model's name on the hub.
        out: The navigator's folder; must be new or empty.
        options: ...
    """
    from vlnbert.weights import importing

    return importing.import_weights(source, Path(out), options)


@checked()
@spread
def inspect_weights(source: str | Path, *, options: ImportOptions) -> "ImportReport":
    """Say what somebody's weights are and what an import would do with every key; write nothing.

    Args:
        source: A checkpoint file, a folder of weights (a navigator's or a run's too), or a model's name on the hub.
        options: ...
    """
    from vlnbert.learning.run_folder import while_trained
    from vlnbert.weights import importing

    return while_trained(Path(source), lambda _: importing.inspect_weights(_weights_at(source), options))


@checked()
def export_weights(folder: str | Path, out: str | Path) -> "ExportReport":
    """Write a navigator in the format of the published Recurrent VLN-BERT agents.

    What was imported from such an agent comes back bit for bit, tensors that no navigator uses included; for another
    navigator those are filled with copies of others of the same shape. The optimiser's state is not part of it.

    Args:
        folder: A navigator's folder, or its name on the hub; or a run's folder, whose best navigator is taken.
        out: The file to write; must be new.
    """
    from vlnbert.learning.run_folder import while_trained
    from vlnbert.weights import exporting

    return while_trained(Path(folder), lambda _: exporting.export_weights(_weights_at(folder), Path(out)))


def _weights_at(source: str | Path) -> str | Path:
    """The best navigator of a run, or its last where none was validated; any other source as it is."""
    from vlnbert.api.runs import open_run
    from vlnbert.learning.run_folder import is_run
    from vlnbert.navigator.storage.folder import describes_speaker
    from vlnbert.plugins import load_recorded
    from vlnbert.rollout.policies import describes_policy

    folder = source
    if is_run(Path(source)):
        run = open_run(source)
        load_recorded(run.record.plugins)
        folder = run.weights
    if describes_policy(Path(folder)):
        problem = f"{source} holds a policy of its own kind, which published agents have no format for"
        raise UsageError(f"{problem}; open it with vln.open_policy, or name a navigator")
    if describes_speaker(Path(folder)):
        raise UsageError(f"{source} holds a speaker, not a navigator; name a navigator or other people's weights")
    return folder
