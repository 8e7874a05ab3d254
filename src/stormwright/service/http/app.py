"""The HTTP endpoints that Storm talks to: Nimbus asks for placements, probes deliver the performance log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
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
from stormwright.formats import problem_to_dict
from stormwright.model import Problem
from stormwright.service.access.roles import HEALTH
from stormwright.service.http.bodies import Bodies
from stormwright.service.http.connections import App
from stormwright.service.http.deliveries import MAX_DELIVERY_BYTES, MAX_WAITING_BYTES, PERFLOG, Deliveries, Take
from stormwright.service.http.figures.cluster import DETAILS
from stormwright.service.http.metrics import CONTENT_TYPE, metrics_text
from stormwright.service.http.questions import Questions
from stormwright.service.pages.site import Site, wants_pages
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
    "GET /v1/overview": "whether all is well, what would change, what was changed, what waits for a person",
    "GET /v1/openapi.json": "plans, history and modes: what operates the service, described",
}


@dataclass(frozen=True)
class Endpoints:
    """What the server serves: the app, and deliveries, which need not go through it."""

    app: App
    deliveries: Deliveries


def make_app(
    bridge: Bridge,
    ingest: Take,
    status: Callable[[], ServiceStatus],
    problem: Callable[[], Problem | None] = lambda: None,
    count: Take = lambda _: None,
    operating: Sequence[Route] = (),
    pages: Site | None = None,
    figures: Callable[[str], Iterable[Metric]] = lambda _: (),
) -> Endpoints:
    """The service's routes. Questions and deliveries each have a thread of their own, apart from all others.

    Parameters
    ----------
    bridge
        Answers Nimbus's questions.
    ingest
        Takes bodies of perflog deliveries; returns once they are safe on disk.
    status
        What the service does, for ``/v1/status`` and ``/metrics``.
    problem
        The cluster as it is now, with the load that was measured; None while Nimbus has not asked yet.
    count
        Counts what is in bodies that are safe, some at a time; a question of Nimbus comes in between.
    operating
        What people and programs operate the service by (`stormwright.service.http.api.api_routes`).
    pages
        The dashboard; browsers have its first page at ``/``, where programs are told the endpoints.
    figures
        What ``/metrics`` has beyond the status, in one of `DETAILS`.
    """
    questions, deliveries = Questions(bridge), Deliveries(ingest, count)
    of_questions = Bodies(MAX_QUESTION_BYTES, 2 * MAX_QUESTION_BYTES)
    of_deliveries = Bodies(MAX_DELIVERY_BYTES, MAX_WAITING_BYTES)

    async def schedule(request: Request) -> Response:
        with deliveries.held():
            code, answer = await questions.answer(await of_questions.read(request))
        return Response(answer, code, media_type=_JSON)

    async def perflog(request: Request) -> Response:
        refusal = await deliveries.take(await of_deliveries.read(request))
        return Response(refusal.body(), refusal.code, media_type=_JSON) if refusal else Response(status_code=204)

    async def show_status(_: Request) -> Response:
        return _json((await run_in_threadpool(status)).as_dict())

    async def show_problem(_: Request) -> Response:
        now = await run_in_threadpool(problem)
        if now is None:
            return _json({"error": "Nimbus has not asked yet: try again in 10 s"}, status_code=503)
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


def _metrics(
    status: Callable[[], ServiceStatus], figures: Callable[[str], Iterable[Metric]]
) -> Callable[[Request], Awaitable[Response]]:
    async def show_metrics(request: Request) -> Response:
        detail = request.query_params.get("detail", DETAILS[0])
        if detail not in DETAILS:
            return _json({"error": f"there is no detail {detail}: it is one of {', '.join(DETAILS)}"}, status_code=400)
        text = await run_in_threadpool(lambda: metrics_text(status(), figures(detail)))
        return Response(text, media_type=CONTENT_TYPE)

    return show_metrics


async def _health(_: Request) -> Response:
    return _json({"ok": True})


def _hung_up(_: Request, __: Exception) -> Response:
    """A worker ended in the middle of a delivery: nobody reads what is answered."""
    return Response(status_code=400)


def _refused(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return Response(orjson.dumps({"error": error.detail}), error.status_code, error.headers, _JSON)


def _json(content: dict[str, Any], status_code: int = 200) -> Response:
    return Response(orjson.dumps(content), status_code, media_type=_JSON)
