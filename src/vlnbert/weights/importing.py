"""From a checkpoint to a navigator with its tokenizer, and to a folder that holds both."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.normalizers import BertNormalizer
from torch import Tensor

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.digests import noting
from vlnbert.navigator.storage.folder import Limits, read_tokenizer
from vlnbert.sources.files import read_json
from vlnbert.sources.folders import built_beside, refuse_full
from vlnbert.tasks.tokens import load_tokenizer, require_fit
from vlnbert.weights.options import ImportOptions, resolve_source
from vlnbert.weights.plan import ImportPlan, make_plan
from vlnbert.weights.reading import KEPT, Checkpoint, is_navigator, read_checkpoint, read_navigator_folder
from vlnbert.weights.report import ImportReport

DEFAULTS = ImportOptions()
VOCABULARY_FILES = ("vocab.txt", "tokenizer.json")


@dataclass(frozen=True)
class Imported:
    """A navigator with imported weights, and what stays beside it for an export."""

    navigator: Navigator
    kept: dict[str, Tensor]  # by the published agents' names
    metadata: dict[str, str]
    report: ImportReport


def import_weights(source: str | Path, folder: Path, options: ImportOptions = DEFAULTS) -> ImportReport:
    """Write a navigator's folder from a checkpoint, a folder or a hub name; the folder must be new or empty."""
    refuse_full(folder)  # before minutes are spent
    imported = load_weights(source, options)
    with built_beside(folder) as beside:
        try:
            imported.navigator.save_pretrained(beside, model_card_kwargs=_card_origin(source, imported.report))
            if imported.kept or imported.metadata:
                with noting(beside, {KEPT: imported.kept}):
                    save_file(imported.kept, beside / KEPT, metadata=imported.metadata)
        except SafetensorError as error:
            raise DataError(
                folder, f"cannot be written ({error})", "free some space or choose another folder"
            ) from None
    return imported.report


def load_weights(source: str | Path, options: ImportOptions = DEFAULTS) -> Imported:
    """A navigator from a checkpoint, a folder or a hub name, ready to train or to evaluate."""
    checkpoint = read_checkpoint(resolve_source(source))
    plan = make_plan(checkpoint, options)
    tokenizer = find_tokenizer(checkpoint, options.vocabulary, plan.config.vocabulary)
    navigator = _load_navigator(checkpoint, plan, options.seed)
    navigator.tokenizer, navigator.limits = tokenizer, Limits.from_values(checkpoint.told)
    kept = {
        plain: checkpoint.tensors[name].clone(memory_format=torch.contiguous_format)
        for plain, name in plan.kept.items()
    }
    metadata = {name: value for name, value in checkpoint.metadata.items() if name == "epoch"}
    return Imported(navigator.eval(), kept, metadata, _with_import_notes(plan.report, checkpoint, navigator))


def open_navigator(source: str | Path) -> Navigator:
    """A navigator to walk with: its folder, by path or hub name, or a published agent, imported on the fly."""
    checkpoint = read_checkpoint(source)
    if not is_navigator(checkpoint):
        return load_weights(source).navigator
    folder = read_navigator_folder(checkpoint)
    navigator = Navigator(folder.config)
    navigator.load_state_dict(folder.tensors)
    navigator.limits, navigator.features = folder.limits, folder.features
    if hasattr(navigator.backbone, "tokenizer"):  # that of a backbone which brings its own is no BERT's
        navigator.read_tokenizer(folder.path.parent)
    else:
        navigator.tokenizer = find_tokenizer(checkpoint, None, folder.config.vocabulary)
    return navigator.eval()


def inspect_weights(source: str | Path, options: ImportOptions = DEFAULTS) -> ImportReport:
    """What an import of the source would do, or what a navigator's folder holds; nothing is written."""
    checkpoint = read_checkpoint(resolve_source(source))
    if is_navigator(checkpoint):
        if options != DEFAULTS:
            raise UsageError(f"{source} is a navigator already; leave out what it should become")
        return read_navigator_folder(checkpoint).report()
    plan = make_plan(checkpoint, options)
    find_tokenizer(checkpoint, options.vocabulary, plan.config.vocabulary)
    return plan.report


def find_tokenizer(checkpoint: Checkpoint, asked: str | Path | None, rows: int) -> Tokenizer | None:
    """The tokenizer that was asked for, or the one beside the weights, if it fits their embedding of so many rows."""
    path = None if asked is None else Path(asked)
    if path is None and checkpoint.folder is not None:
        path = next(
            (checkpoint.folder / name for name in VOCABULARY_FILES if (checkpoint.folder / name).exists()), None
        )
    if path is None:
        return None
    if not path.exists() or path.is_dir():
        problem = "is a folder" if path.exists() else "no such vocabulary"
        raise DataError(path, problem, f"give a {' or a '.join(VOCABULARY_FILES)}")
    tokenizer = read_tokenizer(path) if path.suffix == ".json" else _tokenizer_from_vocabulary(path)
    require_fit(path, tokenizer, rows)
    return tokenizer


def _tokenizer_from_vocabulary(path: Path) -> Tokenizer:
    """A tokenizer from a vocab.txt; the tokenizer_config.json beside it may say that case matters."""
    tokenizer = load_tokenizer(path)
    beside = path.with_name("tokenizer_config.json")
    settings = read_json(beside, "tokenizer configuration") if beside.exists() else {}
    if isinstance(settings, dict) and settings.get("do_lower_case") is False:
        tokenizer.normalizer = BertNormalizer(lowercase=False)
    return tokenizer


def _load_navigator(checkpoint: Checkpoint, plan: ImportPlan, seed: int) -> Navigator:
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


def _card_origin(source: str | Path, report: ImportReport) -> dict[str, str]:
    """What the model card tells of the source: a hub name as it is; of a path, which is private, the last part."""
    name = Path(source).resolve().name if Path(source).exists() else str(source)
    return {"source": name, "family": report.title}


def _with_import_notes(report: ImportReport, checkpoint: Checkpoint, navigator: Navigator) -> ImportReport:
    """The report with what only the import itself knows."""
    notes = list(report.notes)
    if navigator.tokenizer is None:
        notes.append(
            f"no vocabulary lies beside the weights; {setting('vocabulary', 'FILE')} keeps one with the navigator"
        )
    precision = str(next(navigator.parameters()).dtype).removeprefix("torch.")
    if precision != "float32":
        notes.append(f"the weights are kept in {precision}, as they are in {checkpoint.path.name}")
    return replace(report, notes=notes)
