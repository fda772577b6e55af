"""The recurrent BERT: [CLS] becomes the state, attention scores become decisions."""

from vlnbert.navigator.config import SIZES, NavigatorConfig
from vlnbert.navigator.navigator import Navigator
from vlnbert.navigator.types import Instruction, Maps, Step

__all__ = ["SIZES", "Instruction", "Maps", "Navigator", "NavigatorConfig", "Step"]
