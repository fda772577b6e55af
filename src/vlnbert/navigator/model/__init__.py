"""Recurrent VLN-BERT as the paper has it: read navigator.py first, then recurrence.py and the backbones."""

from vlnbert.navigator.model import huggingface, one_stream, two_stream  # noqa: F401  # these register their backbones
from vlnbert.navigator.model.backbones import BACKBONES, make_backbone, register_backbone, require_backbone
from vlnbert.navigator.model.config import SIZES, NavigatorConfig, named_size
from vlnbert.navigator.model.navigator import RecurrentVLNBert, allocate, key_shapes
from vlnbert.navigator.model.types import (
    AttentionMaps,
    Backbone,
    BackboneOutput,
    Instruction,
    Language,
    Step,
    VisualTokens,
)

__all__ = [
    "BACKBONES",
    "SIZES",
    "AttentionMaps",
    "Backbone",
    "BackboneOutput",
    "Instruction",
    "Language",
    "NavigatorConfig",
    "RecurrentVLNBert",
    "Step",
    "VisualTokens",
    "allocate",
    "key_shapes",
    "make_backbone",
    "named_size",
    "register_backbone",
    "require_backbone",
]
