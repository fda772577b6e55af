"""Settings as plain values: what JSON brings back is what was put in, and what does not fit is refused by its place."""

import json
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlnbert.errors import UsageError, printable
from vlnbert.features.spec import FeatureSpec
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.rewards import RewardConfig
from vlnbert.records import from_plain, to_plain


def places(kind: type, before: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Every setting of a dataclass and of those within it, with its type."""
    found: dict[tuple[str, ...], Any] = {}
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint, place = hints[field.name], (*before, field.name)
        found |= places(hint, place) if is_dataclass(hint) else {place: hint}
    return found


PLACES = places(Experiment)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def nested(place: tuple[str, ...], value: Any) -> Any:
    for name in reversed(place):
        value = {name: value}
    return value


def fits(hint: Any, value: Any) -> bool:
    """By hand, for each type that there is."""
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool, str):
        return type(value) is hint
    if hint in (str | None, int | None):
        return value is None or type(value) is get_args(hint)[0]
    if hint == tuple[str, ...]:
        return type(value) is list and all(type(item) is str for item in value)
    if hint == tuple[float, ...]:
        return type(value) is list and all(type(item) in (int, float) for item in value)
    if get_origin(hint) is dict:
        return type(value) is dict  # what it holds is for the setting's own check
    return type(value) is str and value in get_args(hint)  # one of some words


@settings(max_examples=200)
@given(st.sampled_from(sorted(PLACES)), JSON)
def test_only_what_fits_is_taken(place: tuple[str, ...], value: Any) -> None:
    """A value of the wrong type is refused by the name of its setting; what is taken has the right one."""
    if not fits(PLACES[place], value):
        with pytest.raises(UsageError, match=rf"^{'.'.join(place)} is "):
            from_plain(Experiment, nested(place, value))
        return
    with suppress(UsageError):  # of the right type, yet out of range
        found: Any = from_plain(Experiment, nested(place, value))
        for name in place:
            found = getattr(found, name)
        expected = tuple(value) if isinstance(value, list) else value
        assert found == expected or value != value  # a number that is none


@given(st.sampled_from(sorted(PLACES)), st.text(min_size=1))
def test_unknown_settings_are_named(place: tuple[str, ...], name: str) -> None:
    *above, _ = place
    if any(known[: len(place)] == (*above, name) for known in PLACES):
        return
    with pytest.raises(UsageError) as caught:
        from_plain(Experiment, nested((*above, name), 1))
    told = f"{'.'.join(above) or 'Experiment'} has no {name}"
    assert str(caught.value) == printable(told)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"iterations": True}, "iterations is True, where int is expected"),
        ({"iterations": 10.0}, "iterations is 10.0, where int is expected"),
        ({"learning_rate": False}, "learning_rate is False, where float is expected"),
        ({"learning_rate": 10**400}, "learning_rate is 10+, where float is expected"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast', where float is expected"),
        ({"graphs": 1}, "graphs is 1, where bool is expected"),
        ({"precision": "half"}, "precision is 'half', where"),
        ({"rewards": []}, r"rewards is \[\], where settings are expected"),
        ({"rewards": {"unit": "feet"}}, "rewards.unit is 'feet', where"),
        ({"batch": 3}, "a batch of 3 has no two halves"),
    ],
)
def test_wrong_values_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        from_plain(TrainConfig, values)


def test_what_is_missing_takes_its_default() -> None:
    assert from_plain(TrainConfig, {}) == TrainConfig()
    assert from_plain(TrainConfig, {"rewards": {"unit": "hops"}}) == TrainConfig(rewards=RewardConfig(unit="hops"))


@given(
    st.integers(1, 10**6),
    st.floats(1e-9, 1),
    st.lists(st.text(), min_size=1, max_size=3),
    st.none() | st.text(),
    st.booleans(),
)
def test_json_brings_back_what_was_put_in(
    iterations: int, rate: float, train_on: list[str], features: str | None, graphs: bool
) -> None:
    training = TrainConfig(iterations=iterations, learning_rate=rate, graphs=graphs)
    experiment = replace(
        Experiment(), train_on=tuple(train_on), features=FeatureSpec(views=features), training=training
    )
    assert from_plain(Experiment, json.loads(json.dumps(to_plain(experiment)))) == experiment
