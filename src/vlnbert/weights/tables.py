"""Key tables: which key of a checkpoint is which key of a navigator, and which family a checkpoint belongs to.

A row pairs a source with a target; both stand for their `.weight` and `.bias` unless one is named. `{n}` is the number
of a layer, the same on both sides; `{top}` counts so that the last layer of the source matches the last of the target.
Rows of published agents are in the order in which these have their keys, so that an export has it, too.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import FETCH_AGAIN
from vlnbert.weights.reading import Checkpoint, is_navigator

NUMBER = re.compile(r"\.(\d{1,4})\.")  # of a layer; tables contain the 0 of `critic.0.weight` literally
KINDS = (".weight", ".bias")
OLD_KINDS = {".gamma": ".weight", ".beta": ".bias"}  # names of LayerNorm's parts in the first BERTs

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Family:
    """One kind of checkpoint: how to recognise it, and what to do with each of its keys."""

    name: str
    title: str
    marks: tuple[str, ...]  # prefixes of keys that identify the family
    rows: dict[str, Rows]  # for each backbone that it can fill
    prefixes: tuple[str, ...] = ("",)  # possible prefixes of the names in the table
    kept: tuple[str, ...] = ()  # sources that only an export needs; their rows name a target of the same shape
    unused: tuple[tuple[str, str], ...] = ()  # patterns of other keys, and why they are unused
    optional: tuple[str, ...] = ()  # targets that may be missing in the source
    if_fitting: tuple[str, ...] = ()  # targets that are left out, together, unless all shapes fit
    settings: tuple[tuple[str, str], ...] = ()  # names in its config.json, and the sizes that they must agree with


def _under(source: str, target: str, rows: Rows) -> Rows:
    """Rows with a prefix on each side; an empty one adds nothing."""
    return tuple((f"{source}.{theirs}", f"{target}.{ours}" if target else ours) for theirs, ours in rows)


ATTENTION: Rows = (
    ("self.query", "query"),
    ("self.key", "key"),
    ("self.value", "value"),
    ("output.dense", "output"),
    ("output.LayerNorm", "norm"),
)


def _layer(attention: str, inner: str, outer: str) -> Rows:
    """The rows of self-attention and feed-forward, by what the source calls them."""
    return (
        *_under(attention, "attention", ATTENTION),
        (f"{inner}.dense", "feed_forward.inner"),
        (f"{outer}.dense", "feed_forward.outer"),
        (f"{outer}.LayerNorm", "feed_forward.norm"),
    )


EMBEDDINGS: Rows = (
    ("word_embeddings.weight", "words.weight"),
    ("position_embeddings.weight", "positions.weight"),
    ("token_type_embeddings.weight", "types.weight"),
    ("LayerNorm", "norm"),
)
LAYER = _layer("attention", "intermediate", "output")
VISUAL_HALF = _layer("visn_self_att", "visn_inter", "visn_output")
ACROSS: Rows = (
    ("visual_attention.att.query", "cross.query"),
    ("visual_attention.att.key", "cross.key"),
    ("visual_attention.att.value", "cross.value"),
    ("visual_attention.output.dense", "cross.output"),
    ("visual_attention.output.LayerNorm", "cross.norm"),
)
# No navigator has these; each has the shape of its visual counterpart.
LANGUAGE_HALF = _layer("lang_self_att", "lang_inter", "lang_output")
POOLER: Rows = (("pooler.dense", "backbone.pooler.dense"),)
VISION_ENCODER: Rows = (
    ("vision_encoder.visn_fc", "view_embedding.project"),
    ("vision_encoder.visn_layer_norm", "view_embedding.norm"),
)
PAST_DECISION: Rows = (
    ("action_state_project.0", "past_decision.project"),
    ("action_LayerNorm", "past_decision.norm"),
)
IMAGE: Rows = (
    ("img_projection", "view_embedding.project"),
    ("cand_LayerNorm", "view_embedding.norm"),
)
REFINEMENT: Rows = (
    ("vis_lang_LayerNorm", "refinement.match_norm"),
    ("state_proj", "refinement.project"),
    ("state_LayerNorm", "refinement.norm"),
)
CRITIC: Rows = (
    ("state2value.0", "critic.0"),
    ("state2value.3", "critic.3"),
)

BERT_ROWS: Rows = (
    *_under("embeddings", "backbone.embeddings", EMBEDDINGS),
    *_under("encoder.layer.{n}", "backbone.layers.{n}", LAYER),
    *POOLER,
)
BERT_TOP_ROWS: Rows = (
    *_under("encoder.layer.{top}.attention", "backbone.cross_layers.{n}.cross", ATTENTION),
    *_under("encoder.layer.{top}", "backbone.cross_layers.{n}", LAYER),
)
LXMERT_ROWS: Rows = (
    *BERT_ROWS,
    *_under("encoder.x_layers.{n}", "backbone.cross_layers.{n}", (*ACROSS, *VISUAL_HALF)),
)
PREVALENT_ROWS: Rows = (
    *_under("embeddings", "backbone.embeddings", EMBEDDINGS),
    *POOLER,
    *_under("lalayer.{n}", "backbone.layers.{n}", LAYER),
    *_under("addlayer.{n}", "backbone.cross_layers.{n}", (*VISUAL_HALF, *ACROSS)),
    *VISION_ENCODER,
)
ONE_STREAM_AGENT: Rows = (
    *_under("vln_bert.bert", "", BERT_ROWS),
    *_under("vln_bert", "", REFINEMENT),
    *PAST_DECISION,
    *IMAGE,
    *CRITIC,
)
TWO_STREAM_AGENT: Rows = (
    *_under("vln_bert.embeddings", "backbone.embeddings", EMBEDDINGS),
    *_under("vln_bert", "", POOLER),
    *_under("vln_bert.lalayer.{n}", "backbone.layers.{n}", LAYER),
    *_under("vln_bert.addlayer.{n}", "backbone.cross_layers.{n}", (*LANGUAGE_HALF, *VISUAL_HALF, *ACROSS)),
    *_under("vln_bert", "", VISION_ENCODER),
    *PAST_DECISION,
    *IMAGE,
    *REFINEMENT,
    *CRITIC,
)

BUFFER = ("embeddings.position_ids", "counts 0, 1, 2, ...; nothing to learn from")
PRETRAINING_HEAD = ("cls.*", "a pre-training head")
OTHER_INPUTS = "made for other inputs than views and directions"
WORDS_STAY = "the words do not change while navigating"
BERT_SETTINGS = (
    ("hidden_size", "hidden"),
    ("vocab_size", "vocabulary"),
    ("max_position_embeddings", "positions"),
    ("intermediate_size", "inner"),
)
LAYER_COUNT = ("num_hidden_layers", "layers")

PUBLISHED_ONE_STREAM = Family(
    name="published one-stream agent",
    title="a published Recurrent VLN-BERT agent, one-stream",
    marks=("vln_bert.bert.",),
    rows={"one-stream": ONE_STREAM_AGENT},
)
PUBLISHED_TWO_STREAM = Family(
    name="published two-stream agent",
    title="a published Recurrent VLN-BERT agent, two-stream",
    marks=("vln_bert.lalayer.", "vln_bert.addlayer."),
    rows={"two-stream": TWO_STREAM_AGENT},
    kept=("vln_bert.addlayer.{n}.lang_", "img_projection.", "cand_LayerNorm."),
)
OSCAR = Family(
    name="oscar",
    title="a pre-trained OSCAR",
    marks=("bert.img_embedding.",),
    prefixes=("bert.",),
    rows={"one-stream": BERT_ROWS},
    unused=(
        BUFFER,
        ("img_embedding.*", OTHER_INPUTS),
        ("LayerNorm.*", OTHER_INPUTS),  # OSCAR's optional norm of the image embedding
        PRETRAINING_HEAD,
        ("classifier.*", "a head of another task"),
    ),
    settings=(*BERT_SETTINGS, LAYER_COUNT),
)
PREVALENT = Family(
    name="prevalent",
    title="a pre-trained PREVALENT",
    marks=("bert.lalayer.", "bert.addlayer."),
    prefixes=("bert.",),
    rows={"two-stream": PREVALENT_ROWS},
    unused=(
        BUFFER,
        ("addlayer.*.lang_*", WORDS_STAY),
        PRETRAINING_HEAD,
        ("next_action.*", "a pre-training head"),
    ),
    if_fitting=("view_embedding.project.", "view_embedding.norm."),
    settings=BERT_SETTINGS,
)
LXMERT = Family(
    name="lxmert",
    title="an LXMERT",
    marks=("lxmert.encoder.x_layers.", "bert.encoder.x_layers.", "encoder.x_layers."),
    prefixes=("lxmert.", "bert.", ""),
    rows={"two-stream": LXMERT_ROWS},
    unused=(
        BUFFER,
        ("encoder.visn_fc.*", OTHER_INPUTS),
        ("encoder.r_layers.*", "a layer among objects alone"),
        ("encoder.x_layers.*.lang_*", WORDS_STAY),
        PRETRAINING_HEAD,
        ("obj_predict_head.*", "a pre-training head"),
        ("answer_head.*", "a pre-training head"),
    ),
    settings=(*BERT_SETTINGS, ("l_layers", "layers"), ("x_layers", "cross_layers")),
)
BERT = Family(
    name="bert",
    title="a BERT",
    marks=("bert.encoder.layer.", "encoder.layer.", "bert.embeddings.", "embeddings."),
    prefixes=("bert.", ""),
    rows={"one-stream": BERT_ROWS, "two-stream": (*BERT_ROWS, *BERT_TOP_ROWS)},
    unused=(
        BUFFER,
        ("embeddings.token_type_ids", "all zero; nothing to learn from"),
        PRETRAINING_HEAD,
        ("classifier.*", "a head of another task"),
        ("qa_outputs.*", "a head of another task"),
    ),
    # Models trained on masked words alone come without.
    optional=("backbone.pooler.",),
    settings=(*BERT_SETTINGS, LAYER_COUNT),
)

FAMILIES = (PUBLISHED_ONE_STREAM, PUBLISHED_TWO_STREAM, OSCAR, PREVALENT, LXMERT, BERT)  # the first match wins
PUBLISHED = {"one-stream": PUBLISHED_ONE_STREAM, "two-stream": PUBLISHED_TWO_STREAM}


def recognise(checkpoint: Checkpoint) -> Family:
    """The family of a checkpoint; the error lists the keys that were looked for."""
    for family in FAMILIES:
        if any(name.startswith(family.marks) for name in checkpoint.tensors):
            return family
    if is_navigator(checkpoint):
        raise DataError(checkpoint.path, "is a vlnbert navigator already", "use its folder as it is")
    marks = ", ".join(f"{family.marks[0]}* ({family.title})" for family in FAMILIES)
    first = next(iter(checkpoint.tensors), "none at all")
    raise DataError(
        checkpoint.path, f"is of no known kind: looked for keys {marks}; found {first}", "see `vlnbert weights --help`"
    )


def prefix_of(checkpoint: Checkpoint, family: Family) -> str:
    """The prefix of the family's names in this file."""
    return next(prefix for prefix in family.prefixes if any(name.startswith(prefix) for name in checkpoint.tensors))


def modern_names(checkpoint: Checkpoint) -> dict[str, str]:
    """A map from today's name of each key to its name in the file."""
    names, faults = dict[str, str](), Faults(checkpoint.path)
    for name in checkpoint.tensors:
        modern = name
        for old, new in OLD_KINDS.items():
            modern = modern.removesuffix(old) + new if modern.endswith(old) else modern
        if modern in names:
            faults.add(name, f"is the same weight as {names[modern]}", FETCH_AGAIN)
        names[modern] = name
    faults.raise_if_any()
    return names


class KeyTable:
    """The rows of a family for one backbone, for looking up keys."""

    def __init__(self, family: Family, backbone: str, prefix: str = "", top_shift: int = 0) -> None:
        """`prefix` precedes the source's names; `top_shift` is {top} minus {n}."""
        self.family, self.backbone, self.prefix, self.top_shift = family, backbone, prefix, top_shift
        self._sources, self._twins = dict[str, str](), dict[str, str]()
        for name, target in expand_rows(family.rows[backbone]):
            names = self._twins if name.startswith(family.kept) else self._sources
            names[target] = prefix + name
        self._known = {name.replace("{top}", "{n}") for name in (*self._sources.values(), *self._twins.values())}

    def source(self, target: str) -> str | None:
        """The source's name of a navigator's key, if any."""
        return self._find(self._sources, target)

    def kept(self, target: str) -> str | None:
        """The source's name of a kept key that has the shape of this key of the navigator, if any."""
        return self._find(self._twins, target)

    def knows(self, source: str) -> bool:
        """Whether checkpoints of this family, of any size, have such a key."""
        return source in self._known or _generic(source)[0] in self._known

    def reason_unused(self, source: str) -> str | None:
        """The reason why the family does not use a key, if it is a known one."""
        plain = source.removeprefix(self.prefix)
        return next((reason for pattern, reason in self.family.unused if fnmatchcase(plain, pattern)), None)

    def layers(self, sources: Iterable[str], target: str) -> set[int] | None:
        """The numbers of the source's layers that fill a target such as `backbone.layers.`.

        None if the table fills no layers there, or only from layers that are counted elsewhere.
        """
        names = {name for ours, name in self._sources.items() if ours.startswith(target) and "{n}" in name}
        return {number for pattern, number in map(_generic, sources) if pattern in names} if names else None

    def _find(self, names: dict[str, str], target: str) -> str | None:
        if target in names:
            return names[target]
        pattern, number = _generic(target)
        if (source := names.get(pattern)) is None:
            return None
        return source.replace("{n}", str(number)).replace("{top}", str(number + self.top_shift))


def expand_rows(rows: Rows) -> list[tuple[str, str]]:
    """Rows with `.weight` and `.bias` spelled out."""
    pairs = list[tuple[str, str]]()
    for theirs, ours in rows:
        pairs += [(theirs, ours)] if theirs.endswith(KINDS) else [(theirs + kind, ours + kind) for kind in KINDS]
    return pairs


def ordered_keys(rows: Rows, layers: int, cross_layers: int) -> list[tuple[str, str, str]]:
    """Every source key, its pattern and its target, layer by layer as in the source."""
    counts = {"backbone.layers.": layers, "backbone.cross_layers.": cross_layers}
    keys = list[tuple[str, str, str]]()
    for before, group in groupby(expand_rows(rows), key=lambda pair: pair[1].partition("{n}")[0]):
        members = list(group)
        for number in map(str, range(counts.get(before, 1))):
            keys += [(name.replace("{n}", number), name, ours.replace("{n}", number)) for name, ours in members]
    return keys


def _generic(key: str) -> tuple[str, int]:
    """A key with its layer's number replaced by {n}, and the number."""
    if (number := NUMBER.search(key)) is None:
        return key, 0
    return f"{key[: number.start()]}.{{n}}.{key[number.end() :]}", int(number[1])
