"""The plan of an import: what becomes of every key of a checkpoint, decided before any weight is moved."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from vlnbert.errors import Faults, UsageError, setting
from vlnbert.navigator import NavigatorConfig, key_shapes
from vlnbert.navigator.storage.folder import WHOLE_WEIGHTS, shown, weight_problem
from vlnbert.weights.infer_config import HALF, InferredConfig, add_missing, infer_config
from vlnbert.weights.keys import KeyTable, modern_names, prefix_of, recognise
from vlnbert.weights.options import ImportOptions
from vlnbert.weights.reading import Checkpoint
from vlnbert.weights.report import ImportReport
from vlnbert.weights.tables import Family


@dataclass(frozen=True)
class ImportPlan:
    """For each key of the navigator, the source's that fills it; and what is kept beside it."""

    config: NavigatorConfig
    filled: dict[str, str]
    kept: dict[str, str]
    report: ImportReport


@dataclass(frozen=True)
class _Draft:
    """A checkpoint beside the navigator that it will become."""

    checkpoint: Checkpoint
    table: KeyTable
    names: dict[str, str]  # the file's spelling of each of its names
    expected: dict[str, tuple[int, ...]]  # shapes of the navigator's keys
    wanted: dict[str, str]  # for each of them that the table fills, the source's name
    twins: dict[str, str]  # for each source that is kept, the key that has its shape

    def tensor(self, source: str) -> Tensor:
        return self.checkpoint.tensors[self.names[source]]


def make_plan(checkpoint: Checkpoint, options: ImportOptions) -> ImportPlan:
    """Decide, or report everything that is wrong with the checkpoint at once."""
    _check_options(options)
    family = recognise(checkpoint)
    names = modern_names(checkpoint)
    inferred, table = _infer(checkpoint, family, names, options)
    expected = key_shapes(inferred.config)
    wanted = {target: source for target in expected if (source := table.source(target)) is not None}
    twins = {source: target for target in expected if (source := table.kept(target)) is not None}
    draft = _Draft(checkpoint=checkpoint, table=table, names=names, expected=expected, wanted=wanted, twins=twins)
    left_out = {**_absent(draft), **_misfits(draft)}
    unused = _unused(draft, left_out)
    _check(draft, left_out, unused)
    filled = {target: names[source] for target, source in wanted.items() if target not in left_out}
    report = ImportReport(
        source=str(checkpoint.path),
        family=family.name,
        title=family.title,
        config=inferred.config,
        loaded=list(dict.fromkeys(filled.values())),
        new=[target for target in expected if target not in filled],
        unused={name: reason for name, reason in unused.items() if reason is not None},
        kept=[names[source] for source in twins],
        notes=[*checkpoint.notes, *inferred.notes],
    )
    return ImportPlan(inferred.config, filled, {source: names[source] for source in twins}, report)


def _check_options(options: ImportOptions) -> None:
    for field in fields(options):
        value, least = getattr(options, field.name), 0 if field.name in ("object_width", "seed") else 1
        if isinstance(value, int) and value < least:
            raise UsageError(f"{setting(f'navigator.{field.name}', value)} is too few; choose {least} or more")


def _infer(
    checkpoint: Checkpoint, family: Family, names: Mapping[str, str], options: ImportOptions
) -> tuple[InferredConfig, KeyTable]:
    backbone: str = options.backbone or next(iter(family.rows.keys()))
    if backbone not in family.rows:
        raise UsageError(f"{checkpoint.path} is {family.title}; it cannot fill a {backbone} backbone")
    shapes = {name: tuple(checkpoint.tensors[original].shape) for name, original in names.items()}
    prefix = prefix_of(checkpoint, family)
    inferred = infer_config(
        path=checkpoint.path,
        table=KeyTable(family, backbone, prefix),
        shapes=shapes,
        settings=checkpoint.settings(),
        options=options,
    )
    shift = inferred.source_layers - inferred.config.cross_layers
    return inferred, KeyTable(family, backbone, prefix, shift)


def _absent(draft: _Draft) -> dict[str, str]:
    """Targets that the source need not fill and does not."""
    optional = draft.table.family.optional
    return {
        target: ""
        for target, source in draft.wanted.items()
        if source not in draft.names and target.startswith(optional)
    }


def _misfits(draft: _Draft) -> dict[str, str]:
    """Targets that are filled only if all of them fit, with the reason, where they do not."""
    group = [target for target in draft.wanted if target.startswith(draft.table.family.if_fitting)]
    for target in group:
        source, expected = draft.wanted[target], draft.expected[target]
        if source in draft.names and (shape := tuple(draft.tensor(source).shape)) != expected:
            return dict.fromkeys(group, f"of another width: {shown(shape)}, where {shown(expected)} was asked for")
    return {}


def _unused(draft: _Draft, left_out: Mapping[str, str]) -> dict[str, str | None]:
    """The file's keys that fill nothing, with the reason; None for one that no table knows."""
    reasons = {draft.wanted[target]: reason for target, reason in left_out.items()}
    used = {*draft.wanted.values(), *draft.twins} - reasons.keys()
    found = dict[str, str | None]()
    for source, original in draft.names.items():
        if source not in used:
            known = "no part of the navigator that was asked for" if draft.table.knows(source) else None
            found[original] = reasons.get(source) or draft.table.reason_unused(source) or known
    return found


def _check(draft: _Draft, left_out: Mapping[str, str], unused: Mapping[str, str | None]) -> None:
    faults = Faults(draft.checkpoint.path)
    needed = [(source, target) for target, source in draft.wanted.items() if target not in left_out]
    needed += draft.twins.items()
    _check_whole(faults, draft, [source for source, _ in needed if source not in draft.names])
    for source, target in needed:
        if source in draft.names:
            _check_tensor(faults, draft.names[source], draft.tensor(source), draft.expected[target])
    for name, reason in unused.items():
        if reason is None:
            faults.add(name, "is a key that no table knows", "give an unmodified checkpoint, or remove the key")
    faults.found = list(dict.fromkeys(faults.found))  # one source may fill several targets
    faults.raise_if_any()


def _check_whole(faults: Faults, draft: _Draft, missing: list[str]) -> None:
    """Nothing may be missing; and an optimiser that was saved with the weights knows how many there were."""
    add_missing(faults, missing)
    if not missing and (knew := draft.checkpoint.parameters or 0) > len(draft.names):
        faults.add("", f"has {len(draft.names):,} tensors where its optimiser knew {knew:,}", HALF)


def _check_tensor(faults: Faults, name: str, tensor: Tensor, expected: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != expected:
        faults.add(name, f"has shape {shown(tuple(tensor.shape))} where {shown(expected)} is expected", HALF)
    elif tensor.layout != torch.strided:
        faults.add(name, "is sparse", "save it dense")
    elif (problem := weight_problem(tensor)) is not None:
        faults.add(name, problem, WHOLE_WEIGHTS)
