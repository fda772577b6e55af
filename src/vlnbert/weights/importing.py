"""From somebody's checkpoint to a navigator, and to a folder that holds one."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from vlnbert.errors import DataError
from vlnbert.navigator import Navigator
from vlnbert.sources.folders import built_beside, refuse_full
from vlnbert.weights.options import Options
from vlnbert.weights.own import KEPT, read_own
from vlnbert.weights.plan import Plan, make_plan
from vlnbert.weights.reading import Checkpoint, read_checkpoint
from vlnbert.weights.recognition import is_own
from vlnbert.weights.report import Report
from vlnbert.weights.vocabulary import find_tokenizer

DEFAULTS = Options()


@dataclass(frozen=True)
class Imported:
    """A navigator with somebody's weights, and what stays beside it for an export."""

    navigator: Navigator
    kept: dict[str, Tensor]  # by the published agents' names
    metadata: dict[str, str]
    report: Report


def import_weights(source: str | Path, folder: Path, options: Options = DEFAULTS) -> Report:
    """Write a navigator's folder from a checkpoint, a folder or a hub name; the folder must be new or empty."""
    refuse_full(folder)  # before minutes are spent
    imported = load_weights(source, options)
    with built_beside(folder) as beside:
        try:
            imported.navigator.save_pretrained(beside, model_card_kwargs=_origin(source, imported.report))
            if imported.kept or imported.metadata:
                save_file(imported.kept, beside / KEPT, metadata=imported.metadata)
        except SafetensorError as error:
            raise DataError(
                folder, f"cannot be written ({error})", "free some space or choose another folder"
            ) from None
    return imported.report


def load_weights(source: str | Path, options: Options = DEFAULTS) -> Imported:
    """A navigator from a checkpoint, a folder or a hub name, ready to train or to evaluate."""
    checkpoint = read_checkpoint(source)
    plan = make_plan(checkpoint, options)
    tokenizer = find_tokenizer(checkpoint, options.vocabulary, plan.config.vocabulary)
    navigator = _filled(checkpoint, plan, options.seed)
    navigator.tokenizer = tokenizer
    kept = {
        plain: checkpoint.tensors[name].clone(memory_format=torch.contiguous_format)
        for plain, name in plan.kept.items()
    }
    metadata = {name: value for name, value in checkpoint.metadata.items() if name == "epoch"}
    return Imported(navigator.eval(), kept, metadata, _told(plan.report, checkpoint, navigator))


def open_navigator(source: str | Path) -> Navigator:
    """A navigator to walk with: a folder of ours, by path or hub name, or anybody's agent, imported on the fly."""
    checkpoint = read_checkpoint(source)
    if not is_own(checkpoint):
        return load_weights(source).navigator
    own = read_own(checkpoint)
    navigator = Navigator(own.config)
    navigator.load_state_dict(own.tensors)
    navigator.tokenizer = find_tokenizer(checkpoint, None, own.config.vocabulary)
    return navigator.eval()


def inspect_weights(source: str | Path, options: Options = DEFAULTS) -> Report:
    """What an import of the source would do, or what a folder of our own holds; nothing is written."""
    checkpoint = read_checkpoint(source)
    if is_own(checkpoint):
        return read_own(checkpoint).report()
    plan = make_plan(checkpoint, options)
    find_tokenizer(checkpoint, options.vocabulary, plan.config.vocabulary)
    return plan.report


def _filled(checkpoint: Checkpoint, plan: Plan, seed: int) -> Navigator:
    """A navigator whose new weights depend on nothing but the seed, in the precision that the source is in."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**63)
        navigator = Navigator(plan.config)
    tensors = {target: checkpoint.tensors[name] for target, name in plan.filled.items()}
    precisions = {tensor.dtype for tensor in tensors.values()}
    if len(precisions) == 1:
        navigator.to(precisions.pop())
    navigator.load_state_dict(tensors, strict=False)  # the plan has named what is missing, and why
    return navigator


def _origin(source: str | Path, report: Report) -> dict[str, str]:
    """What the model card tells: a name on the hub as it is; of a path, which is nobody's business, the last part."""
    name = Path(source).resolve().name if Path(source).exists() else str(source)
    return {"source": name, "family": report.title}


def _told(report: Report, checkpoint: Checkpoint, navigator: Navigator) -> Report:
    """The report with what only the import itself knows."""
    notes = list(report.notes)
    if navigator.tokenizer is None:
        notes.append("no vocabulary lies beside the weights; --vocabulary FILE keeps one with the navigator")
    precision = str(next(navigator.parameters()).dtype).removeprefix("torch.")
    if precision != "float32":
        notes.append(f"the weights are kept in {precision}, as they are in {checkpoint.path.name}")
    return replace(report, notes=notes)
