"""The HTTP endpoints that Storm talks to: Nimbus asks for placements, probes deliver the performance log."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from stormwright.errors import Fault, InputError, NotLeadingError
from stormwright.formats import placement_to_dict, problem_to_dict
from stormwright.formats.nimbus_snapshot import SOURCE, SnapshotReader
from stormwright.model import Problem
from stormwright.service.auth.roles import HEALTH
from stormwright.service.dashboard.site import Site, wants_pages
from stormwright.service.http.asgi import App, Bodies
from stormwright.service.http.cluster_metrics import DETAILS
from stormwright.service.http.deliveries import MAX_DELIVERY_BYTES, MAX_WAITING_BYTES, PERFLOG, Deliveries, Recipient
from stormwright.service.http.metrics import CONTENT_TYPE, metrics_text
from stormwright.service.status import ServiceStatus
from stormwright.storm.bridge import Bridge, NimbusAnswer

#: How long Nimbus waits, in ms: where it says so in its configuration, and where it does not.
DEADLINE_MS = "stormwright.service.deadline.ms"
DEFAULT_DEADLINE_MS = 1500

#: The part of that after which it is answered, whoever has not decided yet; the rest is for the way back.
IN_TIME = 0.8

#: An initial scheduler that is to answer at all has so many seconds, even where reading took them.
_MIN_S = 0.05

#: Executors in a question, ten times what the service is built for: each takes memory, which few bytes could ask for.
MAX_EXECUTORS = 1_000_000

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


class NimbusRequests:
    """Answers Nimbus, one question at a time, on one thread, so that no other work of the service delays it.

    Parameters
    ----------
    bridge
        Scheduling bridge that computes the slots, only while this service leads.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._reader = SnapshotReader()
        self._thread = ThreadPoolExecutor(1, "stormwright-nimbus")
        self._busy = False

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """Return HTTP status and body for a request of Nimbus; 503 while another one is answered."""
        if self._busy:
            return 503, _error("busy with another request")
        self._busy = True
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.answer_now, body, time.monotonic())

    def answer_now(self, body: bytes, arrived_s: float) -> tuple[int, bytes]:
        """Answer on this thread a request that arrived at `arrived_s` (`time.monotonic`)."""
        try:
            with collection_paused():
                snapshot = self._reader.read(body)
                _require_size(snapshot.problem)
                left_s = _limit_s(snapshot.problem.conf) - (time.monotonic() - arrived_s)
                self._bridge.leads()
                answer = self._bridge.answer(snapshot.problem, snapshot.unfit, max(left_s, _MIN_S))
                epoch = self._bridge.leads()  # still, after all that time
        except InputError as error:  # also what only the scheduler can judge
            return 400, _error(str(error))
        except NotLeadingError as error:
            return 503, _error(str(error))
        finally:
            self._busy = False
        return 200, _answer_bytes(answer, epoch)


def _limit_s(conf: Mapping[str, Any]) -> float:
    """Return the deadline for Nimbus's questions, in seconds."""
    value = conf.get(DEADLINE_MS)
    deadline_ms = value if isinstance(value, int | float) and 0 < value < 1e9 else DEFAULT_DEADLINE_MS
    return IN_TIME * deadline_ms / 1000


def _require_size(problem: Problem) -> None:
    executors = sum(topology.num_executors for topology in problem.topologies)
    if executors > MAX_EXECUTORS:
        fault = Fault(f"asks for {executors:,} executors; at most {MAX_EXECUTORS:,} are taken", "$.topologies")
        raise InputError(SOURCE, [fault])


def _answer_bytes(answer: NimbusAnswer, epoch: int | None) -> bytes:
    """Return the answer as JSON, with the leader's epoch: Nimbus ignores answers of an earlier one."""
    value = {
        "schema": "stormwright-assignment/1",
        "assignments": {name: placement_to_dict(placement) for name, placement in answer.assignments.items()},
        "status": dict(answer.status),
        "held": sorted(answer.held),
    }
    return orjson.dumps(value if epoch is None else value | {"epoch": epoch})


def _error(text: str) -> bytes:
    return orjson.dumps({"error": text})


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
