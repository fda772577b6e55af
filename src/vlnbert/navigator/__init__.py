"""The recurrent BERT: [CLS] becomes the state, attention scores become decisions.

`model/` is the paper, `fast/` computes the same numbers faster, `storage/` reads and writes a navigator's folder.
"""

from vlnbert.navigator.model import huggingface  # noqa: F401  # registers its backbone
from vlnbert.navigator.model.backbone import (
    BACKBONES,
    AttentionMaps,
    Backbone,
    BackboneOutput,
    Instruction,
    Language,
    VisualTokens,
    register_backbone,
)
from vlnbert.navigator.model.config import SIZES, NavigatorConfig, named_size
from vlnbert.navigator.model.navigator import RecurrentVLNBert, Step, key_shapes
from vlnbert.navigator.storage.navigator import Navigator

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
