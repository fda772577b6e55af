"""Walks wait together, walk together, and are walked once."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from vlnbert.explorer import walk_queue
from vlnbert.explorer.requests import EpisodeQuery, Query, RefusedError
from vlnbert.explorer.walk_queue import Answer, WalkQueue


def query(number: int) -> EpisodeQuery:
    return EpisodeQuery(0, "r2r/test", str(number))


class Walks:
    """Notes the batches that it is given; it does not begin before it may."""

    def __init__(self) -> None:
        self.batches: list[list[Query]] = []
        self.may = threading.Event()

    def __call__(self, batch: Sequence[Query]) -> list[Answer]:
        assert self.may.wait(10)
        self.batches.append(list(batch))
        return [RefusedError(404, "no") if one == query(13) else one.id.encode() for one in batch]  # type: ignore[union-attr]


def test_those_that_wait_walk_as_one_batch() -> None:
    walks = Walks()
    queue = WalkQueue(walks)
    first = queue.submit(query(0))
    others = [queue.submit(query(number)) for number in range(1, 30)]
    walks.may.set()
    assert first.result(10) == b"0"
    assert others[11].result(10) == b"12"
    with pytest.raises(RefusedError):
        others[12].result(10)
    assert others[28].result(10) == b"29"
    queue.close()
    assert sum(map(len, walks.batches)) == 30
    assert len(walks.batches) <= 3


def test_the_same_walk_is_made_once() -> None:
    walks = Walks()
    queue = WalkQueue(walks)
    one, same = queue.submit(query(1)), queue.submit(query(1))
    assert one is same
    walks.may.set()
    assert one.result(10) == b"1"
    assert queue.submit(query(1)).result(10) == b"1"
    queue.close()
    assert walks.batches == [[query(1)]]


def test_too_many_are_asked_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_queue, "MOST_WAITING", 4)
    walks = Walks()
    queue = WalkQueue(walks)

    def crowd() -> None:
        for number in range(walk_queue.MOST_TOGETHER + 6):
            queue.submit(query(number))

    with pytest.raises(RefusedError) as refused:
        crowd()
    assert refused.value.status == 503
    assert refused.value.headers == {"Retry-After": "2"}
    walks.may.set()
    queue.close()


def test_refusals_and_faults_reach_who_asked_and_nobody_else() -> None:
    walks = Walks()
    walks.may.set()
    queue = WalkQueue(walks)
    with pytest.raises(RefusedError, match="no"):
        queue.submit(query(13)).result(10)
    assert queue.submit(query(14)).result(10) == b"14"
    queue.close()

    def broken(batch: Sequence[Query]) -> list[Answer]:
        raise ZeroDivisionError

    queue = WalkQueue(broken)
    for number in (1, 2):  # the thread lives on
        with pytest.raises(ZeroDivisionError):
            queue.submit(query(number)).result(10)
    queue.close()


def test_a_walk_that_is_done_is_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks just before the answer is kept does not let it be walked again."""
    walks = Walks()
    walks.may.set()
    queue = WalkQueue(walks)
    lock, known = threading.Lock(), list[bool]()

    class Watched:
        def __enter__(self) -> None:
            lock.acquire()
            known.append(query(1) in queue._under_way or query(1) in queue._answers)

        def __exit__(self, *_: object) -> None:
            known.append(query(1) in queue._under_way or query(1) in queue._answers)
            lock.release()

    monkeypatch.setattr(queue, "_lock", Watched())
    assert queue.submit(query(1)).result(10) == b"1"
    queue.close()
    assert known == [False, True, True, True], "whenever others may look"


def test_it_ends_though_the_queue_is_full_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_queue, "MOST_WAITING", 1)
    monkeypatch.setattr(walk_queue, "GATHERING", 5.0)
    walks = Walks()
    walks.may.set()
    queue = WalkQueue(walks)
    taken = queue._waiting.get

    def get(*args: Any, **options: Any) -> Any:
        found = taken(*args, **options)
        if found is None:
            queue._waiting.put_nowait((query(2), Future()))  # somebody who came later
        return found

    monkeypatch.setattr(queue._waiting, "get", get)
    first = queue.submit(query(1))
    queue._waiting.put(None)
    assert first.result(10) == b"1"
    queue._thread.join(10)
    assert not queue._thread.is_alive()
