"""What views and objects look like: said once, by an experiment, a run, an evaluation or a user."""

from dataclasses import dataclass, fields, replace
from typing import Any

from vlnbert.weights.options import MINILM

CAPTIONS = "captions"  # where a file of view features could be named
NAMES, OFF = "names", "off"  # where a file of object features could


@dataclass(frozen=True)
class FeatureSpec:
    """What an agent sees of views and of objects."""

    views: str | None = None
    """What views look like: an image feature file, or the word captions for their captions and detected objects. By
    default the only file in the data folder's features/."""
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

    def updated_by(self, other: "FeatureSpec") -> "FeatureSpec":
        """The same, but for what the other says: a field of it that is not at its default."""
        usual = FeatureSpec()
        said: dict[str, Any] = {field.name: getattr(other, field.name) for field in fields(other)}
        return replace(self, **{name: value for name, value in said.items() if value != getattr(usual, name)})


def as_spec(features: "FeatureSpec | str | None") -> FeatureSpec:
    """A spec from itself, or from what views look like alone; nothing where nothing is said."""
    return features if isinstance(features, FeatureSpec) else FeatureSpec(views=features)
