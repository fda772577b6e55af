"""The generated language as tables: templates whose `{slots}` are filled with facts about a path or an object."""

import re
import string
from collections.abc import Iterator

from vlnbert.house.objects import COLOURS, FURNISHING, OBJECT_KINDS
from vlnbert.house.plan import HALLWAY, STAIRS

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LEVELS = ("1", "2", "3")  # floors as `{level}` writes them
ORDINALS = ("zeroth", "first", "second", "third", "fourth", "fifth", "sixth")
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

TURNS: dict[str, tuple[str, ...]] = {
    "left": ("turn left", "take a left", "make a left", "turn to your left"),
    "right": ("turn right", "take a right", "make a right", "turn to your right"),
    "slight left": ("turn slightly left", "veer left", "bear left"),
    "slight right": ("turn slightly right", "veer right", "bear right"),
    "around": ("turn around", "turn all the way around"),
    "straight": ("go straight", "walk straight", "head straight", "walk forward", "go straight ahead"),
}

ACTIONS: dict[str, tuple[str, ...]] = {
    "leave": (
        "walk out of the {source} into the {target}",
        "leave the {source} through the door to the {target}",
        "go through the door to the {target}",
        "exit the {source} and go into the {target}",
    ),
    "leave to the hallway": (
        "walk out of the {source}",
        "leave the {source}",
        "exit the {source} into the {target}",
        "go out of the {source} into the {target}",
        "go through the door to the {target}",
    ),
    "take door": (
        "go into the {target}",
        "go through the door to the {target}",
        "walk through the doorway into the {target}",
        "enter the {target}",
    ),
    "take side door": (
        "go through the door on the {side} into the {target}",
        "enter the {target} on your {side}",
        "go into the {target} on the {side}",
    ),
    "take numbered door": (
        "take the {ordinal} door on the {side} into the {target}",
        "go through the {ordinal} door on your {side} into the {target}",
        "enter the {target} through the {ordinal} door on the {side}",
    ),
    "take end door": (
        "go through the door at the end of the {source} into the {target}",
        "enter the {target} at the end of the {source}",
    ),
    "reach door": (
        "go to the door of the {target}",
        "walk to the doorway of the {target}",
        "walk up to the door to the {target}",
    ),
    "enter": ("go into the {target}", "enter the {target}", "walk into the {target}"),
    "step": ("step into the {source}", "go out into the {source}", "walk into the {source}"),
    "along": ("walk down the {source}", "go along the {source}", "follow the {source}", "go down the {source}"),
    "along past": (
        "walk down the {source} past the {thing}",
        "go past the {thing} in the {source}",
        "follow the {source} past the {thing}",
    ),
    "reach": ("walk to the {stairs}", "go over to the {stairs}"),
    "cross": ("walk to the {thing}", "go over to the {thing}", "cross the {source} to the {thing}"),
    "cross bare": ("walk through the {source}", "cross the {source}"),
    "up": ("go up the {stairs}", "climb the {stairs}", "walk up the {stairs}"),
    "up to": ("go up the {stairs} to the {floor} floor", "take the {stairs} up to the {floor} floor"),
    "down": ("go down the {stairs}", "descend the {stairs}", "walk down the {stairs}"),
    "down to": ("go down the {stairs} to the {floor} floor", "take the {stairs} down to the {floor} floor"),
}

TURN_AFTER = ("and {turn}", "then {turn}")

STOPS: dict[str, tuple[str, ...]] = {
    "beside": ("stop next to the {thing}", "wait by the {thing}", "stop beside the {thing}", "stop at the {thing}"),
    "near": ("stop near the {thing}", "wait near the {thing}", "stop close to the {thing}"),
    "room": ("stop in the {place}", "wait in the {place}", "stop there"),
    "doorway": ("stop in the doorway", "wait in the doorway", "stop at the door"),
    "door ahead": ("stop in front of the door to the {place}", "wait at the door of the {place}"),
    "hall": ("stop in the {place}", "wait there", "stop there"),
    "foot": ("stop at the bottom of the {stairs}", "wait at the foot of the {stairs}"),
    "head": ("stop at the top of the {stairs}", "wait at the top of the {stairs}"),
    "landing": ("stop on the landing", "wait halfway on the {stairs}", "stop in the middle of the {stairs}"),
}

CONNECTIVES = ("and", "then", "and then")
OPENERS = ("next,", "then", "after that,", "once there,")

GO = ("go to {place}", "walk to {place}", "head to {place}", "go into {place}", "enter {place}")
GO_UP = ("go upstairs to {place}", "go up the {stairs} to {place}", "head upstairs to {place}")
GO_DOWN = ("go downstairs to {place}", "go down the {stairs} to {place}", "head downstairs to {place}")
GO_THROUGH = ("go through the {hall} to {place}", "walk through the {hall} into {place}")
TASKS: dict[str, tuple[str, ...]] = {
    "furniture": ("move {object}", "clean {object}", "dust {object}", "wipe down {object}", "check {object}"),
    "machine": ("turn on {object}", "switch off {object}", "clean {object}", "look at {object}", "check {object}"),
    "fixture": ("clean {object}", "wipe down {object}", "look at {object}", "inspect {object}"),
    "trinket": ("bring me {object}", "pick up {object}", "take {object}", "find {object}", "get {object}"),
}
REQUESTS = ("{go} and {task}", "{go}, then {task}", "{task} in {place}", "in {place}, {task}", "please {go} and {task}")
PLACE_FLOOR = ("{place} on the {floor} floor", "{floor} floor {place}", "{place} on level {level}")
PLACE_DETAIL = ("{place} with the {thing}", "{place} that has the {thing}")
OBJECT_BESIDE = ("{object} next to the {thing}", "{object} beside the {thing}")

VIEW_CAPTIONS = ("a {place} with {things}", "a view of a {place} with {things}")
BARE_CAPTIONS = ("a {place}", "an empty part of a {place}", "a wall in a {place}")
OBJECT_CAPTIONS = ("a {thing} in a {place}", "a close up of a {thing}", "a {thing} against a wall")
SEEN = {"door": "a door to a {place}", "up": "stairs going up", "down": "stairs going down"}


def vocabulary() -> list[str]:
    """The word pieces of vocab.txt, the same for every seed: every word whole, and every character."""
    characters = [*string.ascii_lowercase, *string.digits, *".,;:!?'-"]
    pieces = [*SPECIALS, *characters, *(f"##{c}" for c in string.ascii_lowercase + string.digits)]
    return [*pieces, *sorted(words() - set(pieces))]


def words() -> set[str]:
    """Every word that an instruction or a caption can use."""
    names = [*OBJECT_KINDS, *FURNISHING, HALLWAY, STAIRS, *COLOURS]
    tables = [value for name, value in globals().items() if name.isupper()]
    texts = [re.sub(r"\{\w+\}", " ", text) for text in _texts([names, tables])]
    return {*re.findall(r"[a-z0-9]+", " ".join(texts)), "an", "a", "the"}


def _texts(table: object) -> Iterator[str]:
    """The strings at the ends of nested tables."""
    if isinstance(table, str):
        yield table
    elif isinstance(table, dict):
        yield from _texts(list(table.values()))
    elif isinstance(table, list | tuple):
        for item in table:
            yield from _texts(item)
