"""Connections: those that stand still are cut off, those that ask are not."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.responses import PlainTextResponse
from uvicorn.server import ServerState

from vlnbert.explorer.serving import BoundedConnection, server_for


@pytest.fixture
def connection() -> BoundedConnection:
    made = BoundedConnection(
        server_for(PlainTextResponse("yes")).config, ServerState(), {}, Mock(spec=asyncio.AbstractEventLoop)
    )
    transport: Any = Mock(spec=asyncio.Transport)
    transport.get_extra_info.return_value = None
    transport.is_closing.return_value = False
    made.connection_made(transport)
    return made


def test_who_asks_again_and_again_is_not_cut_off(connection: BoundedConnection) -> None:
    """Python may give the next request the place in memory that the last one had."""
    cycle: Any = SimpleNamespace(response_complete=True)
    for _ in range(3):
        connection.cycle = cycle
        connection.on_response_complete()
        connection._look()
    assert not connection.transport.abort.called  # type: ignore[attr-defined]
    connection._look()
    assert connection.transport.abort.called  # type: ignore[attr-defined]


def test_who_never_asks_is_cut_off(connection: BoundedConnection) -> None:
    connection._look()
    assert connection.transport.abort.called  # type: ignore[attr-defined]
