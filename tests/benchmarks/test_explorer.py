"""Visitors of the explorer's bench: they act, and what fails is noted."""

import socket
from collections.abc import Iterator

import pytest

from benchmarks.explorer import Visits, crowd, typed_seconds
from tests.explorer.conftest import serving
from vlnbert.api.exploring import open_explorer
from vlnbert.errors import UsageError
from vlnbert.explorer.app import make_app
from vlnbert.explorer.walk_queue import WalkQueue


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    explorer = open_explorer([], device=None, threads=1)
    queue = WalkQueue(explorer.walk)
    with serving(make_app(explorer, queue)) as (address, _):
        yield address
    queue.close()


def test_a_crowd_is_counted(url: str) -> None:
    visits = crowd(url, visitors=4, seconds=1.5, pause=0.2)
    assert visits.errors == []
    told = visits.summary()
    assert told["page"]["requests"] == 4
    assert told["all"]["requests"] == sum(one["requests"] for kind, one in told.items() if kind != "all")
    assert {"typed", "episode", "plan", "list", "file"} <= set(told)


def test_one_visitor_types(url: str) -> None:
    assert len(typed_seconds(url, rounds=3)) == 3


def test_who_is_not_answered_is_told() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # which does not listen
        with pytest.raises(UsageError, match="the explorer refused: page: ConnectionRefusedError"):
            typed_seconds(f"http://127.0.0.1:{nobody.getsockname()[1]}/", rounds=1)


def test_percentiles() -> None:
    visits = Visits()
    for number in range(100):
        visits.add("typed", float(number))
    told = visits.summary()["typed"]
    assert (told["requests"], told["median"], told["p95"], told["longest"]) == (100, 49.5, 95.0, 99.0)
