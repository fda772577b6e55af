"""The web application: a page, its files, and the few questions that the page asks."""

import asyncio
from collections.abc import Callable
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
    Asked,
    EpisodeAsked,
    InstructionAsked,
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
FILES = {  # all that is served as a file: nothing in an address ever names a path
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
        """The page, whatever its query says: those who pass links on add marks of their own."""
        return HTMLResponse(await run_in_threadpool(front_page, self.explorer))

    async def episode(self, request: Request) -> Response:
        """A card without JavaScript: an episode."""
        return await self._card(request, self._asked_episode)

    async def instruction(self, request: Request) -> Response:
        """A card without JavaScript: somebody's own words."""
        return await self._card(request, self._asked_instruction)

    async def catalogue(self, request: Request) -> Response:
        read_query(request.url.query.encode())
        return JSONResponse(await run_in_threadpool(self.explorer.describe))

    async def houses(self, request: Request) -> Response:
        asked = read_query(request.url.query.encode(), "split")
        return JSONResponse(await run_in_threadpool(self.explorer.catalogue.houses, asked["split"]))

    async def instructions(self, request: Request) -> Response:
        asked = read_query(request.url.query.encode(), "split", "scan", optional=("page", "around"))
        if "around" in asked:
            page = await run_in_threadpool(self.explorer.page_with, asked["split"], asked["around"])
        else:
            page = page_number(asked.get("page", "0"))
        found = self.explorer.catalogue.instructions
        return JSONResponse(await run_in_threadpool(found, asked["split"], asked["scan"], page))

    async def plan(self, request: Request) -> Response:
        asked = read_query(request.url.query.encode(), "scan")
        return Response(await run_in_threadpool(self.explorer.plan, asked["scan"]), media_type="application/json")

    async def walk_episode(self, request: Request) -> Response:
        return await self._walk(self._asked_episode(request))

    async def walk_instruction(self, request: Request) -> Response:
        return await self._walk(read_instruction(await request.body(), len(self.explorer.walkers)))

    def _asked_episode(self, request: Request) -> Asked:
        asked = read_query(request.url.query.encode(), "split", "id", optional=("agent", "step"))
        return EpisodeAsked(
            agent_number(asked.get("agent", "0"), len(self.explorer.walkers)), asked["split"], asked["id"]
        )

    def _asked_instruction(self, request: Request) -> Asked:
        fields = ("task", "scan", "start", "heading", "text")
        asked = read_query(request.url.query.encode(), *fields, optional=("agent", "step"))
        return InstructionAsked(
            agent=agent_number(asked.get("agent", "0"), len(self.explorer.walkers)),
            task=asked["task"],
            scan=asked["scan"],
            start=asked["start"],
            heading=heading_angle(asked["heading"], (str,)),
            text=instruction_text(asked["text"]),
        )

    async def _walk(self, asked: Asked) -> Response:
        return Response(await self._walked(asked), media_type="application/json")

    async def _walked(self, asked: Asked) -> bytes:
        await run_in_threadpool(self.explorer.check, asked)
        return await asyncio.shield(asyncio.wrap_future(self.queue.submit(asked)))  # others may wait for it, too

    async def _card(self, request: Request, read: Callable[[Request], Asked]) -> Response:
        asked = read(request)
        record = await self._walked(asked)
        return HTMLResponse(await run_in_threadpool(card_page, self.explorer, asked, record))


async def _refused(request: Request, error: Any) -> Response:
    return refusal(request.url.path, error)


async def _not_here(request: Request, error: Any) -> Response:
    line = "this address takes other methods" if error.status_code == 405 else "there is nothing at this address"
    return refusal(request.url.path, RefusedError(error.status_code, line, error.headers))
