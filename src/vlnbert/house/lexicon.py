"""What a generated house is furnished with: rooms, kinds of objects, colours, and the words people use for them."""

from dataclasses import dataclass

HALLWAY, STAIRS = "hallway", "stairs"
COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple")
ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True)
class Kind:
    """A kind of object: `width` along a wall, `height` of the object and of its middle above the floor, in metres."""

    name: str
    width: float
    height: float
    middle: float
    family: str  # decides what one can be asked to do with it, and how its colour shows in a feature


def _kinds(family: str, *rows: tuple[str, float, float, float]) -> dict[str, Kind]:
    return {name: Kind(name, width, height, middle, family) for name, width, height, middle in rows}


KINDS: dict[str, Kind] = {
    **_kinds(
        "furniture",
        ("armchair", 0.8, 0.9, 0.45),
        ("bed", 1.5, 0.7, 0.35),
        ("bench", 1.1, 0.5, 0.25),
        ("bookshelf", 1.0, 1.8, 0.9),
        ("cabinet", 0.9, 1.2, 0.6),
        ("chair", 0.5, 0.9, 0.45),
        ("coffee table", 0.9, 0.5, 0.25),
        ("crib", 1.1, 1.0, 0.5),
        ("desk", 1.2, 0.8, 0.4),
        ("dining table", 1.4, 0.8, 0.4),
        ("dresser", 1.0, 1.0, 0.5),
        ("nightstand", 0.5, 0.6, 0.3),
        ("pool table", 1.5, 0.9, 0.45),
        ("sofa", 1.5, 0.8, 0.4),
        ("stool", 0.4, 0.7, 0.35),
    ),
    **_kinds(
        "machine",
        ("computer", 0.6, 0.5, 1.0),
        ("dryer", 0.7, 0.9, 0.45),
        ("exercise bike", 0.7, 1.2, 0.6),
        ("fan", 0.4, 1.2, 0.6),
        ("lamp", 0.4, 1.5, 0.9),
        ("oven", 0.7, 0.9, 0.45),
        ("printer", 0.5, 0.4, 0.9),
        ("refrigerator", 0.8, 1.8, 0.9),
        ("television", 1.1, 0.7, 1.2),
        ("treadmill", 0.9, 1.3, 0.65),
        ("washing machine", 0.7, 0.9, 0.45),
    ),
    **_kinds(
        "fixture",
        ("bathtub", 1.5, 0.6, 0.3),
        ("clock", 0.4, 0.4, 1.9),
        ("dartboard", 0.5, 0.5, 1.7),
        ("fireplace", 1.2, 1.1, 0.55),
        ("mirror", 0.7, 1.0, 1.5),
        ("painting", 0.8, 0.6, 1.6),
        ("piano", 1.4, 1.1, 0.55),
        ("sink", 0.6, 0.3, 0.9),
        ("toilet", 0.5, 0.8, 0.4),
    ),
    **_kinds(
        "trinket",
        ("basket", 0.4, 0.5, 0.25),
        ("candle", 0.2, 0.3, 1.0),
        ("globe", 0.4, 0.5, 1.0),
        ("kettle", 0.3, 0.3, 1.0),
        ("pillow", 0.5, 0.3, 0.6),
        ("plant", 0.5, 1.1, 0.55),
        ("statue", 0.5, 1.5, 0.75),
        ("towel", 0.5, 0.7, 1.2),
        ("toy", 0.3, 0.3, 0.15),
        ("vase", 0.3, 0.5, 1.0),
    ),
}

# The first kinds of a room make it what it is and are always there; the others come and go.
FURNISHING: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bathroom": (("toilet", "sink", "bathtub"), ("towel", "mirror", "cabinet", "basket", "plant")),
    "bedroom": (("bed", "nightstand"), ("dresser", "lamp", "mirror", "pillow", "painting", "chair", "plant")),
    "dining room": (("dining table", "chair"), ("vase", "candle", "painting", "cabinet", "plant", "chair")),
    "game room": (("pool table", "dartboard"), ("stool", "television", "painting", "bench", "lamp", "stool")),
    "gym": (("treadmill", "exercise bike"), ("bench", "towel", "fan", "mirror", "television", "clock")),
    "kitchen": (("oven", "refrigerator"), ("sink", "kettle", "stool", "cabinet", "basket", "plant", "clock")),
    "laundry room": (("washing machine", "dryer"), ("basket", "towel", "cabinet", "sink", "stool", "fan")),
    "library": (("bookshelf", "globe"), ("armchair", "lamp", "desk", "painting", "bookshelf", "statue")),
    "living room": (("sofa", "fireplace"), ("armchair", "television", "coffee table", "lamp", "plant", "pillow")),
    "music room": (("piano", "stool"), ("painting", "lamp", "armchair", "statue", "vase", "candle")),
    "nursery": (("crib", "toy"), ("dresser", "basket", "lamp", "toy", "painting", "armchair")),
    "office": (("desk", "computer"), ("printer", "chair", "bookshelf", "lamp", "plant", "clock")),
}
HALLWAY_KINDS = ("plant", "painting", "bench", "clock", "statue", "vase", "mirror", "basket")

SYNONYMS: dict[str, tuple[str, ...]] = {
    "armchair": ("arm chair",),
    "bookshelf": ("bookcase",),
    "exercise bike": ("spin bike",),
    "gray": ("grey",),
    "hallway": ("hall", "corridor"),
    "living room": ("lounge",),
    "office": ("study",),
    "painting": ("picture",),
    "refrigerator": ("fridge",),
    "sofa": ("couch",),
    "stairs": ("steps", "staircase"),
    "television": ("tv",),
    "washing machine": ("washer",),
}
