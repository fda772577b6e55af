"""Backbones by name: ours, and those that others register.

    @register_backbone("my-transformer")
    class MyTransformer(nn.Module):
        def __init__(self, config: NavigatorConfig) -> None: ...

A configuration that names it (`backbone="my-transformer"`) then makes navigators with it, and opens them.
"""

from collections.abc import Callable
from typing import TypeVar

from vlnbert.errors import UnknownNameError
from vlnbert.external import ExternalCall, is_ours
from vlnbert.navigator.model.config import NavigatorConfig
from vlnbert.navigator.model.types import Backbone
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.registry import Registry, require_name

Factory = Callable[[NavigatorConfig], Backbone]  # a class or a function; gives an nn.Module
BACKBONES: Registry[Factory] = Registry("backbone")

AnyFactory = TypeVar("AnyFactory", bound=Factory)


def register_backbone(name: str) -> Callable[[AnyFactory], AnyFactory]:
    """A decorator: navigators whose configuration has this name get their backbone from what it decorates.

    That is a class or a function which takes a `NavigatorConfig` and gives an `nn.Module` that keeps the protocol
    `Backbone`. Its weights are its own to initialise; those that it leaves on the meta device are drawn as BERT's.

    Args:
        name: What `NavigatorConfig.backbone` calls it.
    """
    require_name(BACKBONES.kind, name)

    def register(factory: AnyFactory) -> AnyFactory:
        BACKBONES.register(name, factory)
        return factory

    return register


def make_backbone(config: NavigatorConfig) -> Backbone:
    """The backbone that a configuration names."""
    require_backbone(config.backbone)
    factory = BACKBONES[config.backbone]
    if is_ours(factory):
        return factory(config)
    with ExternalCall(f"the backbone '{config.backbone}'"):
        return factory(config)


def require_backbone(name: str) -> None:
    """One line where no backbone has this name: it may be a plugin's that is not loaded."""
    if name not in BACKBONES:
        error = UnknownNameError("backbone", name, BACKBONES)
        error.args = (f"{error}{' or' if str(error).endswith('?') else ';'} {LOAD_PLUGIN}",)
        raise error
