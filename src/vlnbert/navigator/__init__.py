"""The recurrent BERT: [CLS] becomes the state, attention scores become decisions.

`model/` is the paper, `fast/` the same numbers quicker, `storage/` its folder, here or on the hub.
"""

from vlnbert.navigator.model import (
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
)
from vlnbert.navigator.storage import Navigator

__all__ = [
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
]
