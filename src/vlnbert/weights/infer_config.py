"""The configuration of a navigator, inferred from the shapes of weights."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, Faults, UsageError, setting
from vlnbert.navigator import SIZES, NavigatorConfig
from vlnbert.navigator.model.bert import EPS
from vlnbert.navigator.storage.folder import listed, shown
from vlnbert.weights.keys import KeyTable
from vlnbert.weights.options import ImportOptions
from vlnbert.weights.tables import BERT_TOP_ROWS

Shapes = Mapping[str, tuple[int, ...]]  # by the names of the family's table

SHOWN_BY = (  # a size, the navigator's key that shows it, along which axis
    ("vocabulary", "backbone.embeddings.words.weight", 0),
    ("positions", "backbone.embeddings.positions.weight", 0),
    ("inner", "backbone.layers.0.feed_forward.inner.weight", 0),
    ("critic_width", "critic.0.weight", 0),
    ("action", "past_decision.project.weight", 1),  # the state and a direction
    ("view", "view_embedding.project.weight", 1),  # a feature and a direction
)
HIDDEN = (  # keys that show the width of a token, and along which axis; should they differ, most are right
    ("backbone.embeddings.words.weight", 1),
    ("backbone.embeddings.positions.weight", 1),
    ("backbone.layers.0.attention.query.weight", 1),
    ("backbone.layers.0.feed_forward.inner.weight", 1),
    ("backbone.layers.0.feed_forward.outer.weight", 0),
)
STACKS = (("layers", "backbone.layers."), ("cross_layers", "backbone.cross_layers."))
ASKED = (
    *("layers", "cross_layers", "feature_width", "angle_width", "object_width"),
    *("matching", "language_attention", "critic_width"),
)
HALF = "half a checkpoint: fetch the file again"
HEAD_WIDTH = 64  # of a head in most BERTs
FEW_HEADS = 4  # of models too small for that
CROSS_LAYERS = 3  # of a two-stream navigator from a BERT of no named size
GELU = ("gelu", "gelu_python")


@dataclass(frozen=True)
class InferredConfig:
    """A configuration, how many layers it was cut from, and what had to be assumed."""

    config: NavigatorConfig
    source_layers: int
    notes: tuple[str, ...]


def infer_config(
    *, path: Path, table: KeyTable, shapes: Shapes, settings: Mapping[str, Any], options: ImportOptions
) -> InferredConfig:
    """The navigator that the weights are of, with what the options ask for."""
    found = {**_widths(path, table, shapes), **_stacks(path, table, shapes)}
    _check_settings(path, table, found, settings)
    asked, directions = _asked(path, table, found, options), _directions(path, table, found)
    _check_agreed(path, asked, {**directions, **{name: found[name] for name in ("critic_width",) if name in found}})
    heads, notes = _heads(path, found["hidden"], settings, options)
    fields = {**_stacked(table, found), **directions, **asked, "heads": heads}
    config = replace(_like_named(found["hidden"], table.backbone), **fields)
    if (eps := settings.get("layer_norm_eps", EPS)) != EPS:
        notes = (*notes, f"its LayerNorm adds {eps}, a navigator's {EPS}")
    return InferredConfig(config, found["layers"], notes)


def _asked(path: Path, table: KeyTable, found: Mapping[str, int], options: ImportOptions) -> dict[str, Any]:
    """What the options ask for, which may not be more layers than there are."""
    asked = {name: value for name in ASKED if (value := getattr(options, name)) is not None}
    from_top = _from_top(table)
    for name, there in (("layers", "layers"), ("cross_layers", "layers" if from_top else "cross_layers")):
        if 0 < found[there] < asked.get(name, 0):
            said = setting(f"navigator.{name}", asked[name])
            raise UsageError(f"{said} is more than the {found[there]} that {path} has; choose fewer")
    return asked


def _check_agreed(path: Path, asked: Mapping[str, Any], directions: Mapping[str, int]) -> None:
    """Widths that the weights have are not a matter of choice."""
    for name, width in directions.items():
        if asked.get(name, width) != width:
            said = setting(f"navigator.{name}", asked[name])
            raise UsageError(f"{said}, but the weights in {path} are made for {width}; say {width} or leave it out")


def _from_top(table: KeyTable) -> bool:
    """Whether cross layers are filled from a BERT's topmost layers, not from such layers of the source's own."""
    return BERT_TOP_ROWS[0] in table.family.rows[table.backbone]


def _widths(path: Path, table: KeyTable, shapes: Shapes) -> dict[str, int]:
    """Everything that the shape of one tensor shows."""
    sources = [(name, source, axis) for name, target, axis in SHOWN_BY if (source := table.source(target)) is not None]
    faults = Faults(path)
    add_missing(faults, [source for _, source, _ in sources if source not in shapes])
    for source in dict.fromkeys(source for _, source, _ in sources if source in shapes):
        if len(shapes[source]) != 2 or min(shapes[source]) < 1:
            faults.add(source, f"has shape {shown(shapes[source])} where a matrix is expected", HALF)
    faults.raise_if_any()
    return {"hidden": _hidden(table, shapes)} | {name: shapes[source][axis] for name, source, axis in sources}


def _hidden(table: KeyTable, shapes: Shapes) -> int:
    """The width of a token, on which most keys agree: those that do not are named when all shapes are checked."""
    found = [(shapes.get(table.source(target) or "", ()), axis) for target, axis in HIDDEN]
    return Counter(shape[axis] for shape, axis in found if len(shape) == 2).most_common(1)[0][0]


def add_missing(faults: Faults, names: list[str]) -> None:
    """One line for all keys that are not there, however many."""
    if names:
        faults.add("", f"lacks {listed(list(dict.fromkeys(names)))}", HALF)


def _stacks(path: Path, table: KeyTable, shapes: Shapes) -> dict[str, int]:
    """How many layers there are; a gap between them is a fault."""
    counts, faults = dict[str, int](), Faults(path)
    for name, target in STACKS:
        numbers = table.layers(shapes, target)
        counts[name] = 1 + max(numbers or (), default=-1)
        if numbers is not None and max(1, counts[name]) > len(numbers):  # a number may be of any size
            gap = next(number for number in range(len(numbers) + 1) if number not in numbers)
            key = table.source(f"{target}{gap}.attention.query.weight")
            faults.add("", f"lacks {key} and the rest of its layer", HALF)
    faults.raise_if_any()
    return counts


def _directions(path: Path, table: KeyTable, found: Mapping[str, int]) -> dict[str, int]:
    """The widths of directions and features, where the weights have seen any."""
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


def _stacked(table: KeyTable, found: Mapping[str, int]) -> dict[str, int]:
    """The sizes that were found; a plain BERT is cut into language layers and cross layers as the named sizes are."""
    plain = {name: value for name, value in found.items() if name not in ("action", "view")}
    if _from_top(table):
        like = _named(found["hidden"], table.backbone)
        plain["layers"] = min(found["layers"], like.layers if like else found["layers"])
        plain["cross_layers"] = min(found["layers"], like.cross_layers if like else CROSS_LAYERS)
    return plain


def _named(hidden: int, backbone: str) -> NavigatorConfig | None:
    """The named size of this width."""
    return next((pair[backbone] for pair in SIZES.values() if pair[backbone].hidden == hidden), None)


def _like_named(hidden: int, backbone: str) -> NavigatorConfig:
    """A configuration with the dropout of the named size of this width, or else of the paper's."""
    base = SIZES["base"][backbone]
    like = _named(hidden, backbone) or base
    return replace(base, hidden_dropout=like.hidden_dropout, attention_dropout=like.attention_dropout)


def _heads(path: Path, hidden: int, settings: Mapping[str, Any], options: ImportOptions) -> tuple[int, tuple[str, ...]]:
    """The number of heads, which no shape shows: asked for, told by a config.json, or the usual one."""
    told = settings.get("num_attention_heads")
    if options.heads is not None:
        other = told is not None and told != options.heads
        return options.heads, (f"{options.heads} heads, as asked for; the weights come with {told}",) if other else ()
    if isinstance(told, int) and told > 0:
        return told, ()
    like = _named(hidden, "one-stream")
    usual = hidden // HEAD_WIDTH if hidden % HEAD_WIDTH == 0 else FEW_HEADS
    heads = like.heads if like else usual
    if hidden % heads:
        raise DataError(
            path,
            f"does not tell how many heads share its width of {hidden}",
            f"say so with {setting('navigator.heads', 'N')}",
        )
    return heads, (
        f"weights do not tell the number of heads: {heads} assumed; {setting('navigator.heads', 'N')} changes that",
    )


def _check_settings(path: Path, table: KeyTable, found: Mapping[str, int], settings: Mapping[str, Any]) -> None:
    """A config.json that contradicts the weights, or asks for what a navigator cannot do, is a fault."""
    faults = Faults(path.with_name("config.json"))
    for name, size in table.family.settings:
        said = settings.get(name)
        if isinstance(said, int) and said != found[size]:
            problem = f"says {said}, but the weights have {found[size]}"
            faults.add(name, problem, "fetch both files again, from one place")
    if (act := settings.get("hidden_act", GELU[0])) not in GELU:
        faults.add("hidden_act", f"is {act}; a navigator computes gelu", "choose a BERT with gelu")
    faults.raise_if_any()
