"""Requests are read word by word: what is wrong with one is said in a line."""

import json
import math

import pytest

from vlnbert.explorer.requests import (
    RefusedError,
    agent_number,
    heading_angle,
    instruction_text,
    page_number,
    read_instruction,
    read_query,
)

GOOD = {"agent": 0, "task": "r2r", "scan": "a", "start": "b", "heading": 0.5, "text": " Go \n on "}


def test_a_typed_instruction_is_read() -> None:
    query = read_instruction(json.dumps(GOOD).encode(), agents=1)
    assert (query.agent, query.scan, query.start, query.heading, query.text) == (0, "a", "b", 0.5, "Go on")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"", "the body is no JSON"),
        (b"\xff\xfe", "the body is no JSON"),
        (b"[" * 5000, "the body is no JSON"),
        (b'{"heading": NaN}', "the body is no JSON"),
        (b"[]", "the body is a list, where an object is expected"),
        (b"{}", "agent is missing"),
        (json.dumps({**GOOD, "more": 1}).encode(), 'no field "more"; known: agent, task, scan, start, heading, text'),
        (json.dumps({**GOOD, "agent": True}).encode(), "no agent true; there are 1, counted from 0"),
        (json.dumps({**GOOD, "agent": 1}).encode(), "no agent 1; there are 1, counted from 0"),
        (json.dumps({**GOOD, "agent": [0]}).encode(), "no agent [0]; there are 1, counted from 0"),
        (json.dumps({**GOOD, "scan": 3}).encode(), "scan is 3, where a name is expected"),
        (json.dumps({**GOOD, "start": "x" * 300}).encode(), "start is a string, where a name is expected"),
        (json.dumps({**GOOD, "heading": "1.5"}).encode(), 'heading is "1.5", where radians are expected'),
        (json.dumps({**GOOD, "heading": 10**400}).encode(), "heading is a number, where radians are expected"),
        (json.dumps({**GOOD, "heading": None}).encode(), "heading is null, where radians are expected"),
        (json.dumps({**GOOD, "text": {}}).encode(), "text is an object, where a string is expected"),
        (json.dumps({**GOOD, "text": " \x00 "}).encode(), "the instruction is empty; type some words"),
        (json.dumps({**GOOD, "text": "go \ud800"}).encode(), "the instruction holds half characters"),
        (
            json.dumps({**GOOD, "text": "x" * 1001}).encode(),
            "the instruction has 1,001 characters; 1,000 are read at most",
        ),
    ],
    ids=range(19),
)
def test_damaged_bodies_are_refused(body: bytes, line: str) -> None:
    with pytest.raises(RefusedError) as refused:
        read_instruction(body, agents=1)
    assert refused.value.line == line
    assert 400 <= refused.value.status < 500


@pytest.mark.parametrize(
    "query",
    [b"split", b"split=a&split=b", b"split=%ff&x=%zz", b"&".join([b"a=b"] * 40), b"split=" + b"x" * 300, b"\xff=a"],
)
def test_damaged_queries_are_refused(query: bytes) -> None:
    with pytest.raises(RefusedError):
        read_query(query, "split")


def test_queries_are_read() -> None:
    assert read_query(b"split=r2r%2Ftest&id=3", "split", "id") == {"split": "r2r/test", "id": "3"}
    assert read_query(b"") == {}


def test_numbers_of_queries() -> None:
    assert heading_angle(-math.pi / 2) == pytest.approx(1.5 * math.pi)
    assert heading_angle("1.5", (str,)) == 1.5
    assert agent_number("1", 2) == 1
    assert page_number("12") == 12
    for wrong in ("-1", "1.5", "٣", "1" * 20, ""):
        with pytest.raises(RefusedError):
            page_number(wrong)


def test_control_characters_are_blanks() -> None:
    assert instruction_text("go\x00to\u0085the\tdoor") == "go to the door"
