"""What a value from a file is, and what it only looks like."""

import math

import pytest

from vlnbert.sources.files import is_list_of, is_name, is_number, is_numbers, is_text, is_texts


@pytest.mark.parametrize("value", [0, -1, 2.5, 10**17, -1e17])
def test_numbers(value):
    assert is_number(value)
    assert is_numbers([value] * 3, 3)
    assert not is_numbers([value] * 3, 4)


@pytest.mark.parametrize("value", [True, None, "1", [], math.nan, math.inf, -math.inf, 1e300, 10**400, -(10**400)])
def test_what_is_no_number(value):
    assert not is_number(value)
    assert not is_numbers([0, value], 2)


@pytest.mark.parametrize("value", ["", "plain", "café", "\U0001f600", "\0"])
def test_texts(value):
    assert is_text(value)
    assert is_name(value)
    assert is_texts([value])


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", 3.5, None, True, ["a"], {"a": 1}])
def test_what_is_no_text(value):
    assert not is_text(value)
    assert not is_name(value)
    assert not is_texts(["a", value])


def test_lists_of_one_kind():
    assert is_list_of([], int)
    assert is_list_of([1, 2], int)
    assert not is_list_of([1, True], int)
    assert not is_list_of((1, 2), int)
    assert not is_texts([])
    assert is_name(10**400)
