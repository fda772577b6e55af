"""What views and objects look like: said once, by an experiment, a run, an evaluation or a user."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from vlnbert.errors import UsageError
from vlnbert.registry import Registry
from vlnbert.weights.options import MINILM

CAPTIONS = "captions"  # where a file of view features could be named
IN_MEMORY = "<in memory>"  # the same, for what somebody holds in memory
NAMES, OFF = "names", "off"  # where a file of object features could

AnyMaker = TypeVar("AnyMaker", bound=Callable[..., Any])
FEATURES: Registry[Callable[..., Any]] = Registry("features")


def register_features(name: str) -> Callable[[AnyMaker], AnyMaker]:
    """A decorator that gives features of one's own a name: `vln.train(..., features="my-depth")`.

    It decorates a function `f(world)` that gives what views look like: a [viewpoint, 36, width] tensor by view, a
    [viewpoint, slot, width] tensor by choice, or a bank, any object with `width` and `look(viewpoint)`. A class of such
    objects, made with a world, will do as well.

    Args:
        name: What the setting `features.views` calls it, in place of a file.
    """
    if name in (CAPTIONS, IN_MEMORY):
        raise UsageError(f"the name {name} is taken; choose another for features of your own")

    def register(maker: AnyMaker) -> AnyMaker:
        FEATURES.register(name, maker)
        return maker

    return register


@dataclass(frozen=True)
class FeatureSpec:
    """What an agent sees of views and of objects."""

    views: str | None = None
    """What views look like: an image feature file, the word captions for their captions and detected objects, or the
    name of features that were registered (vlnbert plugins lists them). By default the only file in the data folder's
    features/."""
    view_width: int | None = None
    """How many numbers of an image feature to use, the first ones: some files append class scores. All by default."""
    objects: str | None = None
    """What REVERIE's objects look like: a feature file, the word names for their names and the captions of the views
    that show them, or off to see none. By default the only such file in the data folder's features/."""
    object_width: int | None = None
    """How many numbers of an object's feature to use, the first ones. All by default."""
    max_objects: int | None = None
    """Objects that a viewpoint shows at most, those with the largest boxes; all of them by default."""
    encoder: str = MINILM
    """The BERT that turns captions and names into features: a folder or a hub name."""

    @property
    def reads_captions(self) -> bool:
        return self.views == CAPTIONS or self.objects == NAMES

    @property
    def own_views(self) -> bool:
        """Whether views look like what somebody made: registered by name, or held in memory."""
        return self.views is not None and self.views != CAPTIONS and (self.views == IN_MEMORY or self.views in FEATURES)

    @property
    def reads_view_file(self) -> bool:
        return self.views != CAPTIONS and not self.own_views

    def updated_by(self, other: "FeatureSpec") -> "FeatureSpec":
        """The same, but for what the other says: a field of it that is not at its default."""
        usual = FeatureSpec()
        said: dict[str, Any] = {field.name: getattr(other, field.name) for field in fields(other)}
        return replace(self, **{name: value for name, value in said.items() if value != getattr(usual, name)})


def as_spec(features: Any) -> FeatureSpec:
    """A spec from itself, or from what views look like alone, a text or a path; nothing where nothing is said."""
    if isinstance(features, FeatureSpec):
        return features
    return FeatureSpec(views=None if features is None else str(features))
