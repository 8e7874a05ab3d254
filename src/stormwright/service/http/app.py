"""The HTTP endpoints that Storm talks to: Nimbus asks for placements, probes deliver the performance log."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from prometheus_client.core import Metric
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from stormwright import __version__
from stormwright.base.gc_pause import collection_paused
from stormwright.formats import problem_to_dict
from stormwright.model import Problem
from stormwright.service.auth.roles import HEALTH
from stormwright.service.dashboard.site import Site, wants_pages
from stormwright.service.http.asgi import App, Bodies
from stormwright.service.http.deliveries import MAX_DELIVERY_BYTES, MAX_WAITING_BYTES, PERFLOG, Deliveries, Recipient
from stormwright.service.http.metrics import CONTENT_TYPE, DETAILS, metrics_text
from stormwright.service.http.nimbus_requests import NimbusRequests
from stormwright.service.status import ServiceStatus
from stormwright.storm.bridge import Bridge

#: Ten times what Nimbus sends of a cluster of 1,000 topologies, 100,000 executors and 5,000 nodes.
MAX_QUESTION_BYTES = 96 * 2**20

_JSON = "application/json"

#: Told to who asks for ``/``.
_ENDPOINTS = {
    "POST /v1/schedule": "a problem, as Nimbus asks; the answer is an assignment",
    f"POST {PERFLOG.decode()}": "records of the performance log, a line each",
    "GET /v1/status": "what the service does, and what it measured last",
    "GET /v1/problem": "the cluster as it is now, with the load that was measured: a problem file",
    "GET /metrics": f"figures for Prometheus; ?detail={'|'.join(DETAILS[1:])} adds finer ones",
}

_OPERATING = {
    "GET /v1/overview": "health, proposed changes, latest changes, and plans that wait for approval",
    "GET /v1/openapi.json": "plans, history and modes: what operates the service, described",
}

#: Minimum seconds for which a text is used again, and that time as a multiple of the time that it took to make.
_RECENT_S, _TIMES = 0.25, 4.0


@dataclass(frozen=True)
class Endpoints:
    """The app, and the handler of deliveries that bypasses it."""

    app: App
    deliveries: Deliveries


def make_app(
    bridge: Bridge,
    recipient: Recipient[Any],
    status: Callable[[], ServiceStatus],
    problem: Callable[[], Problem | None] = lambda: None,
    operating: Sequence[Route] = (),
    pages: Site | None = None,
    figures: Callable[[str], Iterable[Metric]] = lambda _: (),
) -> Endpoints:
    """The service's routes. NimbusRequests and deliveries each have a thread of their own, apart from all others.

    Parameters
    ----------
    bridge
        Scheduling bridge that computes the answers to Nimbus.
    recipient
        Recipient of deliveries of records.
    status
        What the service does, for ``/v1/status`` and ``/metrics``.
    problem
        The cluster as it is now, with the load that was measured; None before the first poll of Nimbus.
    operating
        What people and programs operate the service by (`stormwright.service.http.api.api_routes`).
    pages
        The dashboard; browsers have its first page at ``/``, where programs get the list of endpoints.
    figures
        What ``/metrics`` has beyond the status, in one of `DETAILS`.
    """
    questions, deliveries = NimbusRequests(bridge), Deliveries(recipient)
    of_questions = Bodies(MAX_QUESTION_BYTES, 2 * MAX_QUESTION_BYTES)
    of_deliveries = Bodies(MAX_DELIVERY_BYTES, MAX_WAITING_BYTES)

    async def schedule(request: Request) -> Response:
        with deliveries.held():
            code, answer = await questions.answer(await of_questions.read(request))
        return Response(answer, code, media_type=_JSON)

    async def perflog(request: Request) -> Response:
        refusal = await deliveries.take(await of_deliveries.read(request))
        return Response(refusal.body(), refusal.code, media_type=_JSON) if refusal else Response(status_code=204)

    status_text = RecentText(lambda: orjson.dumps(status()))

    async def show_status(_: Request) -> Response:
        return Response(await run_in_threadpool(status_text), media_type=_JSON)

    async def show_problem(_: Request) -> Response:
        now = await run_in_threadpool(problem)
        if now is None:
            return _json({"error": "Nimbus has not polled the service yet: try again in 10 s"}, status_code=503)
        return await run_in_threadpool(lambda: _json(problem_to_dict(now)))

    async def show_endpoints(request: Request) -> Response:
        if pages and wants_pages(request):
            return await pages.home(request)
        endpoints = _ENDPOINTS | (_OPERATING if operating else {})
        return _json({"service": f"stormwright {__version__}", "endpoints": endpoints})

    async def refused(request: Request, error: Exception) -> Response:
        if pages and isinstance(error, HTTPException) and wants_pages(request):
            return await pages.refused(request, error.status_code, error.detail)
        return _refused(request, error)

    app = Starlette(
        routes=[
            Route("/", show_endpoints, methods=["GET"]),
            Route("/v1/schedule", schedule, methods=["POST"]),
            Route(PERFLOG.decode(), perflog, methods=["POST"]),
            Route(HEALTH, _health, methods=["GET"]),
            Route("/v1/status", show_status, methods=["GET"]),
            Route("/v1/problem", show_problem, methods=["GET"]),
            Route("/metrics", _metrics(status, figures), methods=["GET"]),
            *operating,
            *(pages.routes if pages else ()),
        ],
        exception_handlers={ClientDisconnect: _hung_up, HTTPException: refused},
    )

    return Endpoints(app, deliveries)


class RecentText:
    """A text that is cached for a quarter of a second, or for four times as long as it took to make.

    For a large cluster it is a megabyte, which several scrapers and people request at once.

    Parameters
    ----------
    make
        Returns the text as bytes; called by one thread at a time.
    """

    def __init__(self, make: Callable[[], bytes]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._text, self._until_s = b"", float("-inf")

    def __call__(self) -> bytes:
        """Return the text; of several callers one makes it, and the others wait for it."""
        with self._lock:
            begun_s = time.monotonic()
            if begun_s >= self._until_s:
                with collection_paused():
                    self._text = self._make()
                done_s = time.monotonic()
                self._until_s = done_s + max(_RECENT_S, _TIMES * (done_s - begun_s))
            return self._text


def _metrics(
    status: Callable[[], ServiceStatus], figures: Callable[[str], Iterable[Metric]]
) -> Callable[[Request], Awaitable[Response]]:
    def text_of(detail: str) -> bytes:
        return metrics_text(status(), figures(detail))

    texts = {detail: RecentText(partial(text_of, detail)) for detail in DETAILS}

    async def show_metrics(request: Request) -> Response:
        detail = request.query_params.get("detail", DETAILS[0])
        if detail not in DETAILS:
            return _json({"error": f"there is no detail {detail}: it is one of {', '.join(DETAILS)}"}, status_code=400)
        return Response(await run_in_threadpool(texts[detail]), media_type=CONTENT_TYPE)

    return show_metrics


async def _health(_: Request) -> Response:
    return _json({"ok": True})


def _hung_up(_: Request, __: Exception) -> Response:
    """Return an empty response for a worker that disconnected."""
    return Response(status_code=400)


def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return Response(orjson.dumps({"error": error.detail}), error.status_code, error.headers, _JSON)


def _json(content: dict[str, Any], status_code: int = 200) -> Response:
    return Response(orjson.dumps(content), status_code, media_type=_JSON)
