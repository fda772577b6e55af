"""The plan of an import: a navigator's configuration, inferred from shapes, and the fate of every key.

Everything is decided and checked before any weight is moved.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import DataError, Faults, UsageError, setting
from vlnbert.navigator import SIZES, NavigatorConfig, key_shapes
from vlnbert.navigator.model.bert import EPS
from vlnbert.navigator.storage.folder import (
    WHOLE_WEIGHTS,
    Shown,
    describe_shown,
    first_names,
    shape_text,
    weight_problem,
)
from vlnbert.weights.options import ImportOptions
from vlnbert.weights.reading import Checkpoint
from vlnbert.weights.tables import BERT_TOP_ROWS, KeyTable, modern_names, prefix_of, recognise

Shapes = Mapping[str, tuple[int, ...]]  # by the names of the family's table

# A size, the navigator's key whose shape shows it, and the axis.
SIZE_KEYS = (
    ("vocabulary", "backbone.embeddings.words.weight", 0),
    ("positions", "backbone.embeddings.positions.weight", 0),
    ("inner", "backbone.layers.0.feed_forward.inner.weight", 0),
    ("critic_width", "critic.0.weight", 0),
    ("action", "past_decision.project.weight", 1),  # the state and a direction
    ("view", "view_embedding.project.weight", 1),  # a feature and a direction
)
# Keys whose shapes show the width of a token, and the axis; if they differ, the majority decides.
HIDDEN = (
    ("backbone.embeddings.words.weight", 1),
    ("backbone.embeddings.positions.weight", 1),
    ("backbone.layers.0.attention.query.weight", 1),
    ("backbone.layers.0.feed_forward.inner.weight", 1),
    ("backbone.layers.0.feed_forward.outer.weight", 0),
)
STACKS = (("layers", "backbone.layers."), ("cross_layers", "backbone.cross_layers."))
REQUESTABLE = (
    *("layers", "cross_layers", "feature_width", "angle_width", "object_width"),
    *("matching", "language_attention", "critic_width"),
)
HALF = "half a checkpoint: fetch the file again"
HEAD_WIDTH = 64  # in most BERTs
FEW_HEADS = 4  # in models too small for that
CROSS_LAYERS = 3  # of a two-stream navigator from a BERT of no named size
GELU = ("gelu", "gelu_python")


@dataclass(frozen=True)
class ImportReport:
    """Keys by their fate; `loaded`, `unused` and `kept` are the source's names, `new` the navigator's."""

    source: str
    family: str
    title: str
    config: NavigatorConfig
    loaded: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)  # with the reason
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    features: Shown | None = None  # that one of our navigators was trained with, if its folder states them

    def as_json(self) -> dict[str, Any]:
        """One object of plain lists; the reasons are separate, by key."""
        return {
            "source": self.source,
            "family": self.family,
            "config": asdict(self.config),
            "features": self.features,
            "loaded": self.loaded,
            "new": self.new,
            "unused": list(self.unused),
            "reasons": self.unused,
            "kept": self.kept,
            "notes": self.notes,
        }

    def lines(self) -> list[str]:
        """A readable summary: counts, names in groups, reasons."""
        shape = self.config
        size = f"{shape.layers} layers" + (f" + {shape.cross_layers} cross layers" if shape.cross_layers else "")
        about = f"{shape.backbone}, {size}, {shape.hidden} wide, {shape.heads} heads, {shape.vocabulary:,} word pieces"
        sees = f"features {shape.feature_width} wide, directions {shape.angle_width}"
        if shape.object_width:
            sees += f", objects {shape.object_width}"
        lines = [f"{self.source}: {self.title}", f"  {about}; {sees}"]
        lines += [] if self.features is None else [f"  shown {describe_shown(self.features)}"]
        lines += _section("loaded", Counter(map(_group, self.loaded)))
        lines += _section("newly initialised", Counter(map(_group, self.new)))
        reasons = (f"{_group(name)}  ({reason})" for name, reason in self.unused.items())
        lines += _section("unused", Counter(reasons))
        lines += _section("kept beside, for an export", Counter(map(_group, self.kept)))
        return lines + [f"note: {note}" for note in self.notes]


@dataclass(frozen=True)
class ImportPlan:
    """The source's key for each key of the navigator that it fills, and the keys that only an export needs."""

    config: NavigatorConfig
    filled: dict[str, str]
    kept: dict[str, str]
    report: ImportReport


def make_plan(checkpoint: Checkpoint, options: ImportOptions) -> ImportPlan:
    """Decide what becomes of every key, or report all faults of the checkpoint at once."""
    for option in fields(options):
        value, least = getattr(options, option.name), 0 if option.name in ("object_width", "seed") else 1
        if isinstance(value, int) and value < least:
            raise UsageError(f"{setting(f'navigator.{option.name}', value)} is too few; choose {least} or more")
    family, names = recognise(checkpoint), modern_names(checkpoint)
    backbone: str = options.backbone or next(iter(family.rows))
    if backbone not in family.rows:
        raise UsageError(f"{checkpoint.path} is {family.title}; it cannot fill a {backbone} backbone")
    tensors = {name: checkpoint.tensors[original] for name, original in names.items()}
    prefix = prefix_of(checkpoint, family)
    config, source_layers, notes = _infer_config(checkpoint, KeyTable(family, backbone, prefix), tensors, options)
    table = KeyTable(family, backbone, prefix, source_layers - config.cross_layers)
    expected = key_shapes(config)
    wanted = {target: source for target in expected if (source := table.source(target)) is not None}
    twins = {source: target for target in expected if (source := table.kept(target)) is not None}
    absent = [target for target, source in wanted.items() if source not in tensors]
    left_out = {target: "" for target in absent if target.startswith(family.optional)}
    # If one of these does not fit, none of them is filled.
    group = [target for target in wanted if target.startswith(family.if_fitting)]
    for target in group:
        found = tensors.get(wanted[target])
        if found is not None and found.shape != expected[target]:
            widths = f"{shape_text(tuple(found.shape))}, where {shape_text(expected[target])} was requested"
            left_out |= dict.fromkeys(group, f"of another width: {widths}")
            break
    needed = [(source, target) for target, source in wanted.items() if target not in left_out] + list(twins.items())
    reasons = {wanted[target]: reason for target, reason in left_out.items()}
    used = {*wanted.values(), *twins} - reasons.keys()
    # The file's keys that fill nothing, with the reason; None for an unknown key.
    unused = dict[str, str | None]()
    for source in (name for name in names if name not in used):
        known = "no part of the navigator that was requested" if table.knows(source) else None
        unused[names[source]] = reasons.get(source) or table.reason_unused(source) or known
    _check(checkpoint, names, [(source, expected[target]) for source, target in needed], unused)
    filled = {target: names[source] for target, source in wanted.items() if target not in left_out}
    report = ImportReport(
        source=str(checkpoint.path),
        family=family.name,
        title=family.title,
        config=config,
        loaded=list(dict.fromkeys(filled.values())),
        new=[target for target in expected if target not in filled],
        unused={name: reason for name, reason in unused.items() if reason is not None},
        kept=[names[source] for source in twins],
        notes=[*checkpoint.notes, *notes],
    )
    return ImportPlan(config, filled, {source: names[source] for source in twins}, report)


def _check(
    checkpoint: Checkpoint,
    names: Mapping[str, str],
    needed: list[tuple[str, tuple[int, ...]]],
    unused: Mapping[str, str | None],
) -> None:
    """Report missing, misshapen and unknown keys, all at once; `needed` are sources and their expected shapes."""
    faults = Faults(checkpoint.path)
    missing = [source for source, _ in needed if source not in names]
    _add_missing(faults, missing)
    # An optimiser that was saved with the weights knows their number.
    if not missing and (parameters := checkpoint.parameters or 0) > len(names):
        faults.add("", f"has {len(names):,} tensors where its optimiser knew {parameters:,}", HALF)
    for source, expected in needed:
        if source not in names:
            continue
        name, tensor = names[source], checkpoint.tensors[names[source]]
        if (shape := tuple(tensor.shape)) != expected:
            faults.add(name, f"has shape {shape_text(shape)} where {shape_text(expected)} is expected", HALF)
        elif tensor.layout != torch.strided:
            faults.add(name, "is sparse", "save it dense")
        elif (problem := weight_problem(tensor)) is not None:
            faults.add(name, problem, WHOLE_WEIGHTS)
    for name, reason in unused.items():
        if reason is None:
            faults.add(name, "is a key that no table knows", "give an unmodified checkpoint, or remove the key")
    # One source may fill several targets.
    faults.found = list(dict.fromkeys(faults.found))
    faults.raise_if_any()


def _infer_config(
    checkpoint: Checkpoint, table: KeyTable, tensors: Mapping[str, Tensor], options: ImportOptions
) -> tuple[NavigatorConfig, int, list[str]]:
    """The configuration that the weights belong to, changed by the options; their layers; and what was assumed."""
    path, settings, backbone = checkpoint.path, checkpoint.settings(), table.backbone
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    # Cross layers are filled from a BERT's topmost layers, or else from the source's own cross layers.
    from_top = BERT_TOP_ROWS[0] in table.family.rows[backbone]
    found = {**_widths(path, table, shapes), **_stacks(path, table, shapes)}
    _check_settings(path, table, found, settings)
    directions = _directions(path, table, found)
    requested = _requested(path, found, directions, options, "layers" if from_top else "cross_layers")
    heads, notes = _heads(path, found["hidden"], settings, options)
    sizes = {name: value for name, value in found.items() if name not in ("action", "view")}
    base, like = SIZES["base"][backbone], _named(found["hidden"], backbone)
    if from_top:
        # A plain BERT is split into language and cross layers like the named size of its width.
        sizes["layers"] = min(found["layers"], like.layers if like else found["layers"])
        sizes["cross_layers"] = min(found["layers"], like.cross_layers if like else CROSS_LAYERS)
    dropout = {name: getattr(like or base, name) for name in ("hidden_dropout", "attention_dropout")}
    config = replace(base, **{**dropout, **sizes, **directions, **requested, "heads": heads})
    if (eps := settings.get("layer_norm_eps", EPS)) != EPS:
        notes = [*notes, f"its LayerNorm adds {eps}, a navigator's {EPS}"]
    return config, found["layers"], notes


def _requested(
    path: Path, found: Mapping[str, int], directions: Mapping[str, int], options: ImportOptions, cross_from: str
) -> dict[str, Any]:
    """The options that are set: no more layers than there are, and no widths other than those of the weights."""
    requested = {name: value for name in REQUESTABLE if (value := getattr(options, name)) is not None}
    for name, there in (("layers", "layers"), ("cross_layers", cross_from)):
        if 0 < found[there] < requested.get(name, 0):
            option = setting(f"navigator.{name}", requested[name])
            raise UsageError(f"{option} is more than the {found[there]} that {path} has; choose fewer")
    critic = {name: width for name, width in found.items() if name == "critic_width"}
    for name, width in {**directions, **critic}.items():
        if requested.get(name, width) != width:
            option = setting(f"navigator.{name}", requested[name])
            raise UsageError(f"{option}, but the weights in {path} are made for {width}; say {width} or leave it out")
    return requested


def _widths(path: Path, table: KeyTable, shapes: Shapes) -> dict[str, int]:
    """The sizes that the shape of a single tensor shows."""
    sources = [(name, source, axis) for name, target, axis in SIZE_KEYS if (source := table.source(target)) is not None]
    faults = Faults(path)
    _add_missing(faults, [source for _, source, _ in sources if source not in shapes])
    for source in dict.fromkeys(source for _, source, _ in sources if source in shapes):
        if len(shapes[source]) != 2 or min(shapes[source]) < 1:
            faults.add(source, f"has shape {shape_text(shapes[source])} where a matrix is expected", HALF)
    faults.raise_if_any()
    # Keys that disagree with the majority are named when all shapes are checked.
    widths = [(shapes.get(table.source(target) or "", ()), axis) for target, axis in HIDDEN]
    hidden = Counter(shape[axis] for shape, axis in widths if len(shape) == 2).most_common(1)[0][0]
    return {"hidden": hidden} | {name: shapes[source][axis] for name, source, axis in sources}


def _add_missing(faults: Faults, names: list[str]) -> None:
    """Add one line for all missing keys, however many."""
    if names:
        faults.add("", f"lacks {first_names(list(dict.fromkeys(names)))}", HALF)


def _stacks(path: Path, table: KeyTable, shapes: Shapes) -> dict[str, int]:
    """The numbers of layers; a gap between them is a fault."""
    counts, faults = dict[str, int](), Faults(path)
    for name, target in STACKS:
        numbers = table.layers(shapes, target)
        counts[name] = 1 + max(numbers or (), default=-1)
        if numbers is not None and max(1, counts[name]) > len(numbers):
            # Without counting up to the highest number, which may be of any size.
            gap = next(number for number in range(len(numbers) + 1) if number not in numbers)
            key = table.source(f"{target}{gap}.attention.query.weight")
            faults.add("", f"lacks {key} and the rest of its layer", HALF)
    faults.raise_if_any()
    return counts


def _directions(path: Path, table: KeyTable, found: Mapping[str, int]) -> dict[str, int]:
    """The widths of directions and features; empty if the weights are pre-trained without any."""
    if "action" not in found:
        return {}
    angle = found["action"] - found["hidden"]
    if angle < 4 or angle % 4:
        key = table.source("past_decision.project.weight") or ""
        problem = f"leaves {angle} columns for a direction beside a state of {found['hidden']}; not a multiple of 4"
        raise DataError(path, problem, HALF, key)
    if found["view"] <= angle:
        key = table.source("view_embedding.project.weight") or ""
        raise DataError(path, f"leaves no column for a feature beside a direction of {angle}", HALF, key)
    return {"angle_width": angle, "feature_width": found["view"] - angle}


def _named(hidden: int, backbone: str) -> NavigatorConfig | None:
    """The named size of this width, if any."""
    return next((pair[backbone] for pair in SIZES.values() if pair[backbone].hidden == hidden), None)


def _heads(path: Path, hidden: int, settings: Mapping[str, Any], options: ImportOptions) -> tuple[int, list[str]]:
    """The number of heads, which no shape shows: as requested, from a config.json, or the usual one."""
    stated = settings.get("num_attention_heads")
    if options.heads is not None:
        same = stated is None or stated == options.heads
        return options.heads, [] if same else [f"{options.heads} heads, as requested; the weights come with {stated}"]
    if isinstance(stated, int) and stated > 0:
        return stated, []
    like = _named(hidden, "one-stream")
    usual = hidden // HEAD_WIDTH if hidden % HEAD_WIDTH == 0 else FEW_HEADS
    heads = like.heads if like else usual
    say = setting("navigator.heads", "N")
    if hidden % heads:
        raise DataError(path, f"does not tell how many heads share its width of {hidden}", f"say so with {say}")
    return heads, [f"weights do not tell the number of heads: {heads} assumed; {say} changes that"]


def _check_settings(path: Path, table: KeyTable, found: Mapping[str, int], settings: Mapping[str, Any]) -> None:
    """Raise an error if a config.json contradicts the weights or needs what a navigator cannot do."""
    faults = Faults(path.with_name("config.json"))
    for name, size in table.family.settings:
        stated = settings.get(name)
        if isinstance(stated, int) and stated != found[size]:
            problem = f"says {stated}, but the weights have {found[size]}"
            faults.add(name, problem, "fetch both files again, from one place")
    if (act := settings.get("hidden_act", GELU[0])) not in GELU:
        faults.add("hidden_act", f"is {act}; a navigator computes gelu", "choose a BERT with gelu")
    faults.raise_if_any()


def _group(name: str) -> str:
    """The group of a key, up to a layer's number: `bert.encoder.layer.*` of `bert.encoder.layer.3.attention.output`."""
    number = re.search(r"\.\d+\.", name)
    parts = name[: number.start()].split(".") if number else name.split(".")[:-1][:2]
    return ".".join([*parts, "*"])


def _section(title: str, groups: dict[str, int]) -> list[str]:
    """A heading with the total, and a line for each group of keys."""
    if not groups:
        return [f"{title}: none"]
    return [f"{title}: {sum(groups.values()):,}", *(f"  {count:>5,}  {name}" for name, count in groups.items())]
