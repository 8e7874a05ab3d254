"""Routes of the dashboard; every failure is explained on its page."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from stormwright.base.gc_pause import collection_paused
from stormwright.client.shapes import Overview
from stormwright.errors import ConflictError, InputError, NotAllowedError, NotFoundError, StormwrightError
from stormwright.service.auth.middleware import AuthMiddleware, visitor_of
from stormwright.service.dashboard import forms
from stormwright.service.dashboard.login import Login
from stormwright.service.dashboard.rendering import ASSETS, HEADERS, asset, written
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.views import cluster, over_time, overview, plans, topologies
from stormwright.service.dashboard.views.page import Page, Query
from stormwright.service.http.asgi import Bodies, from_here

log = logging.getLogger(__name__)

#: Listeners at most, seconds from one look to the next, and after which a line goes out although nothing has changed.
MAX_LISTENERS, LOOK_S, BEAT_S = 64, 2.0, 20.0

#: A stream ends after so long; browsers begin the next one by themselves.
_LENGTH_S = 600.0

#: Of a form.
_MAX_BYTES = 64 * 1024

Path = dict[str, str]

#: Path → the page that is there.
VIEWS: dict[str, Callable[[DashboardState, Path, Query], Page]] = {
    "/cluster": lambda known, _, query: cluster.cluster(known, query),
    "/cluster/racks/{rack}": lambda known, path, query: cluster.rack(known, path["rack"], query),
    "/cluster/nodes/{node}": lambda known, path, _: cluster.node(known, path["node"]),
    "/topologies": lambda known, _, query: topologies.topologies(known, query),
    "/topologies/{topology}": lambda known, path, _: topologies.topology(known, path["topology"]),
    "/topologies/{topology}/why": lambda known, path, query: topologies.why(known, path["topology"], query),
    "/traffic": lambda known, _, __: over_time.traffic(known),
    "/timeline": lambda known, _, __: over_time.timeline(known),
    "/plans": lambda known, _, __: plans.plans(known),
    "/plans/{plan}": lambda known, path, _: plans.plan(known, path["plan"]),
    "/history": lambda known, _, query: plans.history(known, query),
    "/try": lambda known, _, __: plans.trying(known),
    "/try/{trial}": lambda known, path, _: plans.tried(known, path["trial"]),
}

#: Path → what a form that is sent there does.
FORMS: dict[str, Callable[[DashboardState, Path, forms.Form], str]] = {
    "/plans": lambda known, _, form: forms.ask_for_plan(known, form),
    "/plans/{plan}/{button}": lambda known, path, form: forms.press(known, path["plan"], path["button"], form),
    "/topologies/{topology}/tune": lambda known, path, form: forms.tune(known, path["topology"], form),
    "/topologies/{topology}/stop-tuning": lambda known, path, form: forms.stop_tuning(known, path["topology"], form),
    "/history/{n}/revert": lambda known, path, form: forms.revert(known, path["n"], form),
    "/cluster/nodes/{node}/{button}": lambda known, path, form: forms.press_node(
        known, path["node"], path["button"], form
    ),
    "/try/compare": lambda known, _, form: forms.ask_to_compare(known, form),
    "/try/what-if": lambda known, _, form: forms.ask_what_if(known, form),
}


class Live:
    """Notifies listeners of changes; used on the thread of the event loop.

    Parameters
    ----------
    version
        Returns a text that changes when a page does; called once for all listeners.
    """

    def __init__(self, version: Callable[[], str]) -> None:
        self._version = version
        self._listeners = 0
        self._last = ""
        self._refreshed_s = float("-inf")
        self._asking = asyncio.Lock()

    async def listen(self, request: Request) -> Response:
        """The stream of events of one listener; 503 where there are too many."""
        if self._listeners >= MAX_LISTENERS:
            return Response("too many pages listen: this one refreshes less often\n", 503, {"retry-after": "30"})
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._events(request), headers=headers, media_type="text/event-stream")

    async def _events(self, request: Request) -> AsyncIterator[str]:
        self._listeners += 1
        try:
            event, beat_s = await self._now(), 0.0
            yield f"retry: 5000\nevent: version\ndata: {event}\n\n"
            for _ in range(round(_LENGTH_S / LOOK_S)):
                await asyncio.sleep(LOOK_S)
                if await request.is_disconnected():
                    return
                now, beat_s = await self._now(), beat_s + LOOK_S
                if now != event:
                    event, beat_s = now, 0.0
                    yield f"event: version\ndata: {event}\n\n"
                elif beat_s >= BEAT_S:
                    beat_s = 0.0
                    yield "event: beat\ndata: 1\n\n"
        finally:
            self._listeners -= 1

    async def _now(self) -> str:
        async with self._asking:
            loop = asyncio.get_running_loop()
            if loop.time() - self._refreshed_s >= LOOK_S / 2:
                self._last = await run_in_threadpool(self._version)
                self._refreshed_s = loop.time()
            return self._last


class Site:
    """The dashboard.

    Parameters
    ----------
    known
        State of the service or problem from which all pages are made.
    auth
        Admits requests with a token; None disables authentication.
    """

    def __init__(self, known: DashboardState, auth: AuthMiddleware | None = None) -> None:
        self.known = known
        self._bodies = Bodies(_MAX_BYTES, 16 * _MAX_BYTES)
        # Forms first: of two routes of one path, the second is asked only where the first has another method.
        self.routes = [
            *(Route(path, self._taking(do), methods=["POST"]) for path, do in FORMS.items()),
            *(Route(path, self._showing(view), methods=["GET"]) for path, view in VIEWS.items()),
            Route("/live", Live(known.version).listen, methods=["GET"]),
            Route("/assets/{name}", _asset, methods=["GET"]),
            *(Login(auth).routes if auth and auth.tokens else ()),
        ]

    async def home(self, request: Request) -> Response:
        """The first page."""
        return await self._answered(request, lambda: overview.overview(self.known))

    def overview(self) -> Overview:
        """Return the data of the first page."""
        return overview.overview_data(self.known)

    async def refused(self, request: Request, status: int, why: str) -> Response:
        """A page that says why there is none."""
        return await self._answered(request, lambda: _message(status, why))

    def _showing(self, view: Callable[[DashboardState, Path, Query], Page]) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            return await self._answered(request, lambda: view(self.known, request.path_params, request.query_params))

        return show

    def _taking(
        self, do: Callable[[DashboardState, Path, forms.Form], str]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def take(request: Request) -> Response:
            if not from_here(request):
                return await self.refused(request, 403, "another site has sent this form: nothing was done")
            body = await self._bodies.read(request)
            where = ""

            def done() -> Page | None:
                nonlocal where
                form = forms.signed(forms.form_of(body), visitor_of(request.scope))
                request.scope.get("noted", {}).update(forms.noted(form))
                where = do(self.known, request.path_params, form)
                return None

            answer = await self._answered(request, done)
            return RedirectResponse(where, 303, HEADERS) if where else answer

        return take

    async def _answered(self, request: Request, make: Callable[[], Page | None]) -> Response:
        return await run_in_threadpool(self._answer, request, make)

    @collection_paused()
    def _answer(self, request: Request, make: Callable[[], Page | None]) -> Response:
        try:
            page = make()
        except NotFoundError as error:
            page = _message(404, str(error))
        except NotAllowedError as error:
            page = _message(403, str(error))
        except ConflictError as error:
            page = _message(409, str(error))
        except InputError as error:
            page = _message(400, "; ".join(f"{fault.path}: {fault.message}" for fault in error.faults) or str(error))
        except (sqlite3.Error, StormwrightError) as error:
            log.warning("a page cannot be shown: %s", error)
            page = _message(503, str(error))
        if page is None:
            return Response(status_code=204)
        return Response(written(page, self.known, visitor_of(request.scope)), page.status, HEADERS, "text/html")


def wants_pages(request: Request) -> bool:
    """Whether a browser asks, which says that it takes HTML; programs do not."""
    return request.method in ("GET", "HEAD", "POST") and "text/html" in request.headers.get("accept", "")


def _message(status: int, why: str) -> Page:
    titles = {400: "Invalid request", 403: "Refused", 404: "There is no such page", 409: "Not now"}
    return Page("error", titles.get(status, "That did not work"), "", {"why": why}, "", status)


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        return Response("there is no such file\n", 404, HEADERS, "text/plain")
    content = "public, max-age=31536000, immutable" if request.url.query else "no-cache"
    return Response(asset(name), 200, HEADERS | {"cache-control": content}, ASSETS[name])
