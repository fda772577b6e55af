"""Recurrent VLN-BERT as the paper has it: read navigator.py first, then recurrence.py and the backbones."""

from vlnbert.navigator.model.config import SIZES, NavigatorConfig, named_size
from vlnbert.navigator.model.navigator import RecurrentVLNBert, key_shapes
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
    "key_shapes",
    "named_size",
]
