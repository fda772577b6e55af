"""Whatever a JSON file holds, and wherever, a reader gives records or raises a VlnbertError."""

import copy
import math
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vlnbert.errors import VlnbertError
from vlnbert.sources.annotations import read_boxes, read_captions, read_observations
from vlnbert.sources.connectivity import read_connectivity
from vlnbert.sources.instructions import read_augmented, read_r2r, read_reverie

AWKWARD = [None, True, 10**400, -(2**70), 1e300, -math.inf, math.nan, "", "\ud800", "nan", "\0", [], {}, [[]], {"a": 1}]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=6
)
READERS = {
    "connectivity/beta_connectivity.json": read_connectivity,
    "r2r/R2R_train.json": read_r2r,
    "r2r/prevalent_aug.json": read_augmented,
    "reverie/REVERIE_train.json": read_reverie,
    "reverie/REVERIE_val_unseen.json": read_reverie,
    "reverie/REVERIE_test.json": read_reverie,
    "reverie/BBox/alpha_a3.json": read_boxes,
    "captions/alpha.json": read_captions,
    "observations/alpha.json": read_observations,
}


def places(document, at=()):
    """The way to every value of a document, itself included."""
    yield at
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        yield from places(value, (*at, key))


def replaced(document, at, value):
    if not at:
        return value
    document = copy.deepcopy(document)
    inner = document
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return document


def check(path, read):
    try:
        found = read(path)
        if isinstance(found, Iterator):
            list(found)
    except VlnbertError as error:
        for line in str(error).splitlines():
            assert line.startswith(f"{path}: ")


@pytest.mark.parametrize("file", READERS)
@pytest.mark.parametrize("value", AWKWARD, ids=lambda value: ascii(value)[:8])
def test_awkward_values_in_each_field(tiny, file, value):
    good = tiny.read(file)
    for at in places(good):
        if all(key in (0, "0", "7") or not str(key).isdigit() for key in at):  # the first of each list will do
            check(tiny.write(file, replaced(good, at, value)), READERS[file])


@pytest.mark.parametrize("file", READERS)
@given(data=st.data())
def test_anything_in_place_of_any_field(tiny, file, data):
    good = tiny.__dict__.setdefault("good", tiny.read(file))
    at = data.draw(st.sampled_from(tiny.__dict__.setdefault("places", list(places(good)))))
    check(tiny.write(file, replaced(good, at, data.draw(ANYTHING))), READERS[file])


@pytest.mark.parametrize("file", READERS)
@given(content=st.binary(max_size=30))
@example(b"\xef\xbb\xbf[]")
@settings(max_examples=30)
def test_any_bytes_at_all(tiny, file, content):
    path = tiny.path(file)
    path.write_bytes(content)
    with pytest.raises(VlnbertError):
        list(READERS[file](path))
