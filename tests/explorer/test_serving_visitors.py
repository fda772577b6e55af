"""Fifty visitors at once: all are answered, none waits for long."""

import json
import threading
import time
from urllib.request import Request, urlopen

from starlette.types import ASGIApp

from tests.explorer.conftest import serving, typed
from vlnbert.explorer.explorer import Explorer

VISITORS, ROUNDS, PATIENCE = 50, 3, 5.0  # seconds


def test_fifty_visitors_are_answered(app: ASGIApp, explorer: Explorer) -> None:
    ids = explorer.catalogue.index("r2r/val_unseen").episodes.ids
    seconds, faults = list[float](), list[str]()

    def ask(path: str, body: dict[str, object] | None = None) -> None:
        data = None if body is None else json.dumps(body).encode()
        request = Request(url.rstrip("/") + path, data, {"Content-Type": "application/json"} if data else {})
        began = time.monotonic()
        with urlopen(request, timeout=30) as answer:
            answer.read()
        seconds.append(time.monotonic() - began)

    def visit(number: int) -> None:
        try:
            ask("/")
            for round_ in range(ROUNDS):
                ask(f"/api/walk?split=r2r/val_unseen&id={ids[(number * ROUNDS + round_) % len(ids)]}")
                ask("/api/walk", typed(explorer, f"go out and stop near door {number} {round_}"))
        except OSError as error:
            faults.append(str(error))

    with serving(app) as (url, _):
        threads = [threading.Thread(target=visit, args=(number,)) for number in range(VISITORS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert faults == []
    assert len(seconds) == VISITORS * (1 + 2 * ROUNDS)
    assert sorted(seconds)[int(0.95 * len(seconds))] < PATIENCE
