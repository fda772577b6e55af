"""The web application: a page, its files, and the few queries that the page makes."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from vlnbert.analysis.page import viewer_script, viewer_style
from vlnbert.explorer.explorer import Explorer
from vlnbert.explorer.guard import LOOPBACK, Guard, refusal
from vlnbert.explorer.pages import card_page, front_page
from vlnbert.explorer.requests import (
    EpisodeQuery,
    InstructionQuery,
    Query,
    RefusedError,
    agent_number,
    heading_angle,
    instruction_text,
    page_number,
    read_instruction,
    read_query,
)
from vlnbert.explorer.walk_queue import WalkQueue

OURS = Path(__file__).parent / "web"
SCRIPT, STYLE, ICON = "text/javascript; charset=utf-8", "text/css; charset=utf-8", "image/svg+xml"
# All that is served as a file: nothing in an address ever names a path.
FILES = {
    "explorer.js": SCRIPT,
    "asking.js": SCRIPT,
    "choosing.js": SCRIPT,
    "exporting.js": SCRIPT,
    "explorer.css": STYLE,
    "without-script.css": STYLE,
    "icon.svg": ICON,
}
VIEWER = {"viewer.js": (viewer_script, SCRIPT), "viewer.css": (viewer_style, STYLE)}  # which reports have, too


def make_app(explorer: Explorer, queue: WalkQueue, hosts: frozenset[str] | None = LOOPBACK) -> ASGIApp:
    """The application behind its guard; `hosts` are the names that it is served under, None for any."""
    pages = _Pages(explorer, queue)
    files = {name: Response((OURS / name).read_bytes(), media_type=kind) for name, kind in FILES.items()}
    files |= {name: Response(read(), media_type=kind) for name, (read, kind) in VIEWER.items()}

    async def file(request: Request) -> Response:
        found = files.get(request.path_params["name"])
        if found is None:
            raise RefusedError(404, "no such file")
        return found

    routes = [
        Route("/", pages.front),
        Route("/episode", pages.episode),
        Route("/instruction", pages.instruction),
        Route("/files/{name}", file),
        Route("/api/catalogue", pages.catalogue),
        Route("/api/houses", pages.houses),
        Route("/api/instructions", pages.instructions),
        Route("/api/plan", pages.plan),
        Route("/api/walk", pages.walk_episode, methods=["GET"]),
        Route("/api/walk", pages.walk_instruction, methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _not_here, RefusedError: _refused})
    return Guard(app, hosts)


class _Pages:
    """One method a route."""

    def __init__(self, explorer: Explorer, queue: WalkQueue) -> None:
        self.explorer, self.queue = explorer, queue

    async def front(self, request: Request) -> Response:
        """The page, whatever its query: link trackers add fields of their own."""
        return HTMLResponse(await run_in_threadpool(front_page, self.explorer))

    async def episode(self, request: Request) -> Response:
        """A card without JavaScript: an episode."""
        return await self._card(self._episode_query(request))

    async def instruction(self, request: Request) -> Response:
        """A card without JavaScript: a typed instruction."""
        query = _fields(request, "task", "scan", "start", "heading", "text", optional=("agent", "step"))
        instruction = InstructionQuery(
            agent=agent_number(query.get("agent", "0"), len(self.explorer.walkers)),
            task=query["task"],
            scan=query["scan"],
            start=query["start"],
            heading=heading_angle(query["heading"], (str,)),
            text=instruction_text(query["text"]),
        )
        return await self._card(instruction)

    async def catalogue(self, request: Request) -> Response:
        _fields(request)
        return JSONResponse(await run_in_threadpool(self.explorer.describe))

    async def houses(self, request: Request) -> Response:
        query = _fields(request, "split")
        return JSONResponse(await run_in_threadpool(self.explorer.catalogue.houses, query["split"]))

    async def instructions(self, request: Request) -> Response:
        query, catalogue = _fields(request, "split", "scan", optional=("page", "around")), self.explorer.catalogue
        if "around" in query:
            page = await run_in_threadpool(catalogue.page_with, query["split"], query["around"])
        else:
            page = page_number(query.get("page", "0"))
        return JSONResponse(await run_in_threadpool(catalogue.instructions, query["split"], query["scan"], page))

    async def plan(self, request: Request) -> Response:
        query = _fields(request, "scan")
        return Response(await run_in_threadpool(self.explorer.plan, query["scan"]), media_type="application/json")

    async def walk_episode(self, request: Request) -> Response:
        return Response(await self._walked(self._episode_query(request)), media_type="application/json")

    async def walk_instruction(self, request: Request) -> Response:
        query = read_instruction(await request.body(), len(self.explorer.walkers))
        return Response(await self._walked(query), media_type="application/json")

    def _episode_query(self, request: Request) -> Query:
        query = _fields(request, "split", "id", optional=("agent", "step"))
        agent = agent_number(query.get("agent", "0"), len(self.explorer.walkers))
        return EpisodeQuery(agent, query["split"], query["id"])

    async def _walked(self, query: Query) -> bytes:
        await run_in_threadpool(self.explorer.check, query)
        # Shielded: others may wait for the same walk.
        return await asyncio.shield(asyncio.wrap_future(self.queue.submit(query)))

    async def _card(self, query: Query) -> Response:
        return HTMLResponse(await run_in_threadpool(card_page, self.explorer, query, await self._walked(query)))


def _fields(request: Request, *needed: str, optional: Iterable[str] = ()) -> dict[str, str]:
    return read_query(request.url.query.encode(), *needed, optional=optional)


async def _refused(request: Request, error: Any) -> Response:
    return refusal(request.url.path, error)


async def _not_here(request: Request, error: Any) -> Response:
    line = "this address takes other methods" if error.status_code == 405 else "there is nothing at this address"
    return refusal(request.url.path, RefusedError(error.status_code, line, error.headers))
