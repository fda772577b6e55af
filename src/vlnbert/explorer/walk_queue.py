"""Many visitors, one navigator: requests wait in a bounded queue, and one thread walks those that wait as one batch."""

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from vlnbert.explorer.requests import COME_BACK, Query, RefusedError

Answer = bytes | RefusedError
Walk = Callable[[Sequence[Query]], Sequence[Answer]]

MOST_WAITING = 128  # requests in the queue; more are asked to come back
MOST_TOGETHER = 64  # of one batch
GATHERING = 0.004  # seconds to wait for others after the first
REMEMBERED = 256  # answers; the same walk comes out the same


class WalkQueue:
    """Answers queries in batches. A recent query, or one that is being walked, is not walked again."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._waiting: queue.Queue[tuple[Query, Future[bytes]] | None] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._under_way: dict[Query, Future[bytes]] = {}
        self._answers: OrderedDict[Query, bytes] = OrderedDict()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="walks", daemon=True)
        self._thread.start()

    def submit(self, query: Query) -> "Future[bytes]":
        """The answer to come; refused where too many wait."""
        with self._lock:
            if query in self._under_way:
                return self._under_way[query]
            future: Future[bytes] = Future()
            if query in self._answers:
                self._answers.move_to_end(query)
                future.set_result(self._answers[query])
                return future
            try:
                self._waiting.put_nowait((query, future))
            except queue.Full:
                line = "too many walks at once; try again in a moment"
                raise RefusedError(503, line, {"Retry-After": COME_BACK}) from None
            self._under_way[query] = future
            return future

    def close(self) -> None:
        """Walk what waits, then end."""
        self._waiting.put(None)
        self._thread.join(timeout=30)

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            answers: Sequence[bytes | Exception]
            try:
                answers = self._walk([query for query, _ in batch])
            # Of one batch; the thread lives on.
            except Exception as error:
                answers = [error] * len(batch)
            for (query, future), answer in zip(batch, answers, strict=True):
                # At every moment a walk is under way or known.
                with self._lock:
                    self._under_way.pop(query, None)
                    if isinstance(answer, bytes):
                        self._answers[query] = answer
                        while len(self._answers) > REMEMBERED:
                            self._answers.popitem(last=False)
                if isinstance(answer, bytes):
                    future.set_result(answer)
                else:
                    future.set_exception(answer)

    def _next_batch(self) -> "list[tuple[Query, Future[bytes]]] | None":
        """The first that waits, with those that come soon after; None when it is over."""
        first = None if self._ended else self._waiting.get()
        if first is None:
            return None
        batch, until = [first], time.monotonic() + GATHERING
        while len(batch) < MOST_TOGETHER:
            try:
                one = self._waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            # Put back, it would wait for room in a full queue.
            if one is None:
                self._ended = True
                break
            batch.append(one)
        return batch
