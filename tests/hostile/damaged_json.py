"""Damage to a JSON document, one that still is JSON or nearly: other values, other types, other keys, other sizes."""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

Place = tuple[Any, Any]  # a container and the key or index in it
DEEP = 100_000
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *(2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63)),
    *(
        "",
        " ",
        "0",
        "nan",
        "a",
        "../../etc/passwd",
        "/dev/zero",
        "\x00",
        "\x1b[2J\x1b]0;x\x07",
        "\ud800",
        "\u202e",
        "\U0001d54f" * 50,
    ),
    *([], {}, [None], [[]], {"": None}, [0] * 1000, {"a": {"b": [1]}}, "word " * 20_000, "x" * 1_000_000),
)


def other_value(document: Any, rng: Random) -> Any:
    return _put(document, rng, lambda value: copy.deepcopy(rng.choice(VALUES)))


def other_number(document: Any, rng: Random) -> Any:
    """Numbers become others, as large as they come; texts lose or gain something."""

    def change(value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return rng.choice((-value, value + 1, value * 10**6, value / 3, int(value) << 40, float("nan")))
        if isinstance(value, str):
            return rng.choice((value[:-1], value + "x", value.upper(), value * 2, value + "\x1b[31m", value + "\n"))
        return rng.choice(VALUES)

    return _put(document, rng, change)


def other_type(document: Any, rng: Random) -> Any:
    wraps: tuple[Callable[[Any], Any], ...] = (
        lambda value: [value],
        lambda value: {"value": value},
        lambda value: str(value)[:1000],
        lambda value: list(value.items()) if isinstance(value, dict) else {"0": value},
    )
    return _put(document, rng, rng.choice(wraps))


def delete_one(document: Any, rng: Random) -> Any:
    container, key = _place(document, rng)
    if container is None:
        return None
    del container[key]
    return document


def repeat_one(document: Any, rng: Random) -> Any:
    container, key = _place(document, rng)
    if isinstance(container, list):
        container[key:key] = [copy.deepcopy(container[key])] * rng.choice((1, 1, 50))
    elif isinstance(container, dict):
        container[f"{key} "] = copy.deepcopy(container[key])
    return document


def rename_key(document: Any, rng: Random) -> Any:
    places = [(container, key) for container, key in _places(document) if isinstance(container, dict)]
    if places:
        container, key = rng.choice(places)
        new = rng.choice((key.upper(), f"_{key}", key[:-1], "", "\x1b[2J", "__class__", "x" * 100_000, "\ud800"))
        container[new] = container.pop(key)
    return document


def swap_two(document: Any, rng: Random) -> Any:
    (one, a), (other, b) = _place(document, rng), _place(document, rng)
    if one is not None and other is not None:
        one[a], other[b] = copy.deepcopy(other[b]), copy.deepcopy(one[a])
    return document


def grow_list(document: Any, rng: Random) -> Any:
    """A list that has its first item a hundred thousand times."""
    lists = [one for one in _nodes(document) if isinstance(one, list) and one]
    if lists:
        chosen = rng.choice(lists)
        size = len(json.dumps(chosen[0]))
        chosen += [chosen[0]] * min(100_000, 4_000_000 // size)
    return document


Damage = Callable[[Any, Random], Any]
JSON_DAMAGE: tuple[Damage, ...] = (
    *(other_value, other_value, other_value, other_number, other_number, other_type, delete_one, delete_one),
    *(repeat_one, rename_key, rename_key, swap_two, grow_list),
)


def nested(text: str, rng: Random) -> str:
    """A value replaced by brackets in brackets, some so deep that a parser gives up and some not."""
    depth = rng.choice((60, 900, DEEP))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
    return _in_place_of_a_value(text, rng, opening * depth + "1" + closing * depth)


def long_number(text: str, rng: Random) -> str:
    return _in_place_of_a_value(text, rng, rng.choice(("9" * 5000, "1e999999", "-" + "9" * 400, "0." + "3" * 10_000)))


def repeated_key(text: str, rng: Random) -> str:
    """An object that says the same key twice."""
    places = [place for place, letter in enumerate(text) if letter == "{" and '"' in text[place:]]
    if not places:
        return text
    place = rng.choice(places)
    key = text[place:].partition('"')[2].partition('"')[0]
    return f'{text[: place + 1]}"{key}": {rng.choice(("null", "0", "[]"))}, {text[place + 1 :]}'


TEXT_DAMAGE: tuple[Callable[[str, Random], str], ...] = (nested, long_number, repeated_key)


def damaged_json(content: bytes, rng: Random) -> tuple[str, bytes]:
    """What was done, and what came of it."""
    if rng.random() < 0.2:
        change = rng.choice(TEXT_DAMAGE)
        return change.__name__, change(content.decode(), rng).encode(errors="surrogatepass")
    damage, document = rng.choice(JSON_DAMAGE), json.loads(content)
    return damage.__name__, json.dumps(damage(document, rng), indent=rng.choice((None, 1))).encode()


def _in_place_of_a_value(text: str, rng: Random, value: str) -> str:
    """The first occurrence of a random leaf, or else the whole, is replaced."""
    leaves = [json.dumps(one) for one in _nodes(json.loads(text)) if not isinstance(one, list | dict)]
    return text.replace(rng.choice(leaves), value, 1) if leaves else value


def _put(document: Any, rng: Random, change: Callable[[Any], Any]) -> Any:
    container, key = _place(document, rng)
    if container is None:
        return change(document)
    container[key] = change(container[key])
    return document


def _place(document: Any, rng: Random) -> Place:
    """Anywhere in a document; (None, None) is the whole of it."""
    places = list(_places(document))
    return rng.choice([(None, None), *places]) if rng.random() < 0.1 or not places else rng.choice(places)


def _places(document: Any) -> list[Place]:
    found = list[Place]()
    for node in _nodes(document):
        if isinstance(node, dict):
            found += [(node, key) for key in node]
        elif isinstance(node, list):
            found += [(node, index) for index in range(len(node))]
    return found


def _nodes(document: Any) -> list[Any]:
    """A document and all within it, outer ones first."""
    found = [document]
    for node in found:
        if isinstance(node, dict):
            found += node.values()
        elif isinstance(node, list):
            found += node
    return found
