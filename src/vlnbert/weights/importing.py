"""Importing: from a checkpoint to a navigator with its tokenizer, and to a folder that holds both."""

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
from vlnbert.navigator.storage.folder import Limits, noting, read_tokenizer
from vlnbert.sources.files import read_json
from vlnbert.sources.writing import built_beside, refuse_full
from vlnbert.tasks.tokens import load_tokenizer, require_fit
from vlnbert.weights.options import ImportOptions, resolve_source
from vlnbert.weights.plan import ImportReport, make_plan
from vlnbert.weights.reading import KEPT, Checkpoint, is_navigator, read_checkpoint, read_navigator_folder

DEFAULTS = ImportOptions()
VOCABULARY_FILES = ("vocab.txt", "tokenizer.json")


@dataclass(frozen=True)
class Imported:
    """A navigator with imported weights, and the tensors that only an export needs."""

    navigator: Navigator
    kept: dict[str, Tensor]  # by the published agents' names
    metadata: dict[str, str]
    report: ImportReport


def import_weights(source: str | Path, folder: Path, options: ImportOptions = DEFAULTS) -> ImportReport:
    """Write a navigator's folder from a checkpoint, a folder or a hub name; the folder must be new or empty."""
    # Before minutes are spent.
    refuse_full(folder)
    imported = load_weights(source, options)
    # The model card names a hub model in full; of a path, which is private, the last part.
    name = Path(source).resolve().name if Path(source).exists() else str(source)
    card = {"source": name, "family": imported.report.title}
    with built_beside(folder) as beside:
        try:
            imported.navigator.save_pretrained(beside, model_card_kwargs=card)
            if imported.kept or imported.metadata:
                with noting(beside, {KEPT: imported.kept}):
                    save_file(imported.kept, beside / KEPT, metadata=imported.metadata)
        except SafetensorError as error:
            raise DataError(
                folder, f"cannot be written ({error})", "free some space or choose another folder"
            ) from None
    return imported.report


def load_weights(source: str | Path, options: ImportOptions = DEFAULTS) -> Imported:
    """Import a navigator from a checkpoint, a folder or a hub name, ready to train or to evaluate."""
    checkpoint = read_checkpoint(resolve_source(source))
    plan = make_plan(checkpoint, options)
    tokenizer = find_tokenizer(checkpoint, options.vocabulary, plan.config.vocabulary)
    # New weights depend on the seed alone.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed % 2**63)
        navigator = Navigator(plan.config)
    tensors = {target: checkpoint.tensors[name] for target, name in plan.filled.items()}
    precisions = {tensor.dtype for tensor in tensors.values()}
    if len(precisions) == 1:
        navigator.to(precisions.pop())
    # The plan lists what is missing, and why.
    navigator.load_state_dict(tensors, strict=False)
    navigator.tokenizer, navigator.limits = tokenizer, Limits.from_values(checkpoint.extras)
    kept = {
        plain: checkpoint.tensors[name].clone(memory_format=torch.contiguous_format)
        for plain, name in plan.kept.items()
    }
    metadata = {name: value for name, value in checkpoint.metadata.items() if name == "epoch"}
    notes, precision = list(plan.report.notes), str(next(navigator.parameters()).dtype).removeprefix("torch.")
    if tokenizer is None:
        keep = setting("vocabulary", "FILE")
        notes.append(f"no vocabulary lies beside the weights; {keep} keeps one with the navigator")
    if precision != "float32":
        notes.append(f"the weights are kept in {precision}, as they are in {checkpoint.path.name}")
    return Imported(navigator.eval(), kept, metadata, replace(plan.report, notes=notes))


def open_navigator(source: str | Path) -> Navigator:
    """Open a navigator for evaluation: its folder, by path or hub name, or a published agent, imported on the fly."""
    checkpoint = read_checkpoint(source)
    if not is_navigator(checkpoint):
        return load_weights(source).navigator
    folder = read_navigator_folder(checkpoint)
    navigator = Navigator(folder.config)
    navigator.load_state_dict(folder.tensors)
    navigator.limits, navigator.features = folder.limits, folder.features
    # A backbone that brings its own tokenizer has other rules than a BERT's.
    if hasattr(navigator.backbone, "tokenizer"):
        navigator.read_tokenizer(folder.path.parent)
    else:
        navigator.tokenizer = find_tokenizer(checkpoint, None, folder.config.vocabulary)
    return navigator.eval()


def inspect_weights(source: str | Path, options: ImportOptions = DEFAULTS) -> ImportReport:
    """Report what an import of the source would do, or the contents of a navigator's folder; writes nothing."""
    checkpoint = read_checkpoint(resolve_source(source))
    if is_navigator(checkpoint):
        if options != DEFAULTS:
            raise UsageError(f"{source} is a navigator already; leave out what it should become")
        folder = read_navigator_folder(checkpoint)
        return ImportReport(
            source=str(folder.path),
            family="vlnbert",
            title="a vlnbert navigator",
            config=folder.config,
            loaded=list(folder.tensors),
            kept=list(folder.kept),
            features=folder.features,
        )
    plan = make_plan(checkpoint, options)
    find_tokenizer(checkpoint, options.vocabulary, plan.config.vocabulary)
    return plan.report


def find_tokenizer(checkpoint: Checkpoint, requested: str | Path | None, rows: int) -> Tokenizer | None:
    """The requested tokenizer, or the one beside the weights; it must fit an embedding of so many rows."""
    beside = [] if checkpoint.folder is None else [checkpoint.folder / name for name in VOCABULARY_FILES]
    path = next((one for one in beside if one.exists()), None) if requested is None else Path(requested)
    if path is None:
        return None
    if not path.exists() or path.is_dir():
        problem = "is a folder" if path.exists() else "no such vocabulary"
        raise DataError(path, problem, f"give a {' or a '.join(VOCABULARY_FILES)}")
    if path.suffix == ".json":
        tokenizer = read_tokenizer(path)
    else:
        tokenizer, config = load_tokenizer(path), path.with_name("tokenizer_config.json")
        settings = read_json(config, "tokenizer configuration") if config.exists() else {}
        if isinstance(settings, dict) and settings.get("do_lower_case") is False:
            tokenizer.normalizer = BertNormalizer(lowercase=False)
    require_fit(path, tokenizer, rows)
    return tokenizer
