"""The key tables: which name in somebody's checkpoint is which name in a navigator.

A row pairs a source with a target; both stand for their `.weight` and `.bias` unless one is named. `{n}` is the number
of a layer, the same on both sides; `{top}` counts so that the last layer of the source meets the last of the target.
Rows are in the order in which the source has its keys, so that an export is in order too.
"""

from dataclasses import dataclass

Rows = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Family:
    """One kind of checkpoint: how to know it, and what to do with each of its keys."""

    name: str
    title: str
    marks: tuple[str, ...]  # it is this family when a key begins with one of these
    prefixes: tuple[str, ...]  # what may stand before the names of the table
    rows: dict[str, Rows]  # for each backbone that it can fill
    kept: tuple[str, ...] = ()  # sources that no navigator uses but an export needs; their rows name a twin in shape
    unused: tuple[tuple[str, str], ...] = ()  # patterns of other keys, and why they are left out
    optional: tuple[str, ...] = ()  # targets that may be missing in the source
    if_fitting: tuple[str, ...] = ()  # targets that are left out, together, where their shapes do not fit
    settings: tuple[tuple[str, str], ...] = ()  # names in its config.json, and the measures that they must agree with


def _under(source: str, target: str, rows: Rows) -> Rows:
    """Rows with a prefix on either side; an empty one adds nothing."""
    return tuple((f"{source}.{theirs}", f"{target}.{ours}" if target else ours) for theirs, ours in rows)


EMBEDDINGS: Rows = (
    ("word_embeddings.weight", "words.weight"),
    ("position_embeddings.weight", "positions.weight"),
    ("token_type_embeddings.weight", "types.weight"),
    ("LayerNorm", "norm"),
)
ATTENTION: Rows = (
    ("self.query", "query"),
    ("self.key", "key"),
    ("self.value", "value"),
    ("output.dense", "output"),
    ("output.LayerNorm", "norm"),
)
LAYER: Rows = (
    *_under("attention", "attention", ATTENTION),
    ("intermediate.dense", "feed_forward.inner"),
    ("output.dense", "feed_forward.outer"),
    ("output.LayerNorm", "feed_forward.norm"),
)
VISUAL_HALF: Rows = (
    *_under("visn_self_att", "attention", ATTENTION),
    ("visn_inter.dense", "feed_forward.inner"),
    ("visn_output.dense", "feed_forward.outer"),
    ("visn_output.LayerNorm", "feed_forward.norm"),
)
ACROSS: Rows = (
    ("visual_attention.att.query", "cross.query"),
    ("visual_attention.att.key", "cross.key"),
    ("visual_attention.att.value", "cross.value"),
    ("visual_attention.output.dense", "cross.output"),
    ("visual_attention.output.LayerNorm", "cross.norm"),
)
LANGUAGE_HALF: Rows = (  # no navigator has it; each is shaped as its visual twin
    *_under("lang_self_att", "attention", ATTENTION),
    ("lang_inter.dense", "feed_forward.inner"),
    ("lang_output.dense", "feed_forward.outer"),
    ("lang_output.LayerNorm", "feed_forward.norm"),
)
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
    *_under("embeddings", "backbone.embeddings", EMBEDDINGS),
    *_under("encoder.layer.{n}", "backbone.layers.{n}", LAYER),
    *_under("encoder.x_layers.{n}", "backbone.cross_layers.{n}", (*ACROSS, *VISUAL_HALF)),
    *POOLER,
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
    prefixes=("",),
    rows={"one-stream": ONE_STREAM_AGENT},
)
PUBLISHED_TWO_STREAM = Family(
    name="published two-stream agent",
    title="a published Recurrent VLN-BERT agent, two-stream",
    marks=("vln_bert.lalayer.", "vln_bert.addlayer."),
    prefixes=("",),
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
    optional=("backbone.pooler.",),  # models trained on masked words alone come without
    settings=(*BERT_SETTINGS, LAYER_COUNT),
)
OWN = "vlnbert"  # our own folders, which need no table
OWN_MARK = "backbone."

FAMILIES = (PUBLISHED_ONE_STREAM, PUBLISHED_TWO_STREAM, OSCAR, PREVALENT, LXMERT, BERT)  # the first that fits is it
PUBLISHED = {"one-stream": PUBLISHED_ONE_STREAM, "two-stream": PUBLISHED_TWO_STREAM}
