"""The recurrent BERT: [CLS] becomes the state, attention scores become decisions.

`model/` is the paper, `fast/` the same numbers quicker, `storage/` its folder, here or on the hub.
"""

from vlnbert.navigator.model import (
    BACKBONES,
    SIZES,
    AttentionMaps,
    Backbone,
    BackboneOutput,
    Instruction,
    Language,
    NavigatorConfig,
    RecurrentVLNBert,
    Step,
    VisualTokens,
    key_shapes,
    named_size,
    register_backbone,
)
from vlnbert.navigator.storage import Navigator

__all__ = [
    "BACKBONES",
    "SIZES",
    "AttentionMaps",
    "Backbone",
    "BackboneOutput",
    "Instruction",
    "Language",
    "Navigator",
    "NavigatorConfig",
    "RecurrentVLNBert",
    "Step",
    "VisualTokens",
    "key_shapes",
    "named_size",
    "register_backbone",
]
