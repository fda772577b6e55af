"""Signatures of verbs: settings that travel together are keywords of their own, and types are checked when called."""

from dataclasses import dataclass
from inspect import getdoc, signature
from typing import TYPE_CHECKING, Any

import pytest

import vlnbert as vln
from vlnbert.api.arguments import checked, spread
from vlnbert.errors import UsageError

if TYPE_CHECKING:
    from vlnbert.data.data import Data


@dataclass(frozen=True)
class Pace:
    """How to walk."""

    metres: float = 1.0
    """Of a step."""
    tired: bool = False
    """Whether to rest,
    now and then."""


@checked()
@spread
def walk(start: "str | Data", *, pace: Pace, **others: Any) -> tuple[object, Pace, dict[str, Any]]:
    """Walk.

    Args:
        start: Where.
        pace: ...
        others: More.
    """
    return start, pace, others


def test_settings_that_travel_together_are_keywords() -> None:
    assert list(signature(walk).parameters) == ["start", "metres", "tired", "others"]
    assert signature(walk).parameters["metres"].default == 1.0
    assert walk("here", tired=True, far=3) == ("here", Pace(tired=True), {"far": 3})
    assert walk("here") == ("here", Pace(), {})


def test_the_help_of_a_field_is_its_docstring() -> None:
    expected = "    start: Where.\n    metres: Of a step.\n    tired: Whether to rest, now and then.\n    others: More."
    assert (getdoc(walk) or "").partition("Args:\n")[2] == expected


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: walk("here", metres="3"), "metres is '3', where float is expected"),
        (lambda: walk("here", tired=1), "tired is 1, where bool is expected"),
        (lambda: walk(3), "start is 3, where str or Data is expected"),
        (lambda: walk(), "vln.walk: missing a required argument: 'start'; help(vln.walk) lists what it takes"),
    ],
)
def test_types_are_checked_by_name(call: Any, told: str) -> None:
    """A type that is imported for type checkers alone is known by its public name."""
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value) == told


def test_trainings_say_their_launch_options_alike() -> None:
    launch = ["device", "threads", "rank_timeout", "bar", "log", "tensorboard"]
    for verb in (vln.train, vln.resume):
        known = signature(verb).parameters
        assert [name for name in known if name in launch] == launch
