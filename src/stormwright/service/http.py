"""The HTTP endpoints that Storm talks to: Nimbus asks for placements, probes deliver the performance log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from stormwright.errors import ClusterError, InputError
from stormwright.formats import placement_to_dict, problem_to_dict, snapshot_from_dict
from stormwright.model import Problem
from stormwright.service.metrics import CONTENT_TYPE, metrics_text
from stormwright.service.status import ServiceStatus
from stormwright.storm.bridge import Bridge

#: Takes the body of a perflog delivery; returns once it is safe on disk.
Ingest = Callable[[bytes], None]

#: More than a probe ever delivers at once.
MAX_DELIVERY_BYTES = 64 * 2**20


def make_app(
    bridge: Bridge,
    ingest: Ingest,
    status: Callable[[], ServiceStatus],
    problem: Callable[[], Problem | None] = lambda: None,
) -> Starlette:
    """The service's routes.

    Parameters
    ----------
    problem
        The cluster as it is now, with the load that was measured; None while Nimbus has not asked yet.
    """

    async def schedule(request: Request) -> Response:
        body = await request.body()
        return await run_in_threadpool(_schedule, bridge, body)

    async def perflog(request: Request) -> Response:
        if int(request.headers.get("content-length", 0)) > MAX_DELIVERY_BYTES:
            return _too_much()
        body = bytearray()
        # What comes in chunks does not say how long it is.
        async for part in request.stream():
            body += part
            if len(body) > MAX_DELIVERY_BYTES:
                return _too_much()
        await run_in_threadpool(ingest, bytes(body))
        return Response(status_code=204)

    async def show_status(_: Request) -> Response:
        return _json((await run_in_threadpool(status)).as_dict())

    async def show_metrics(_: Request) -> Response:
        return Response(await run_in_threadpool(lambda: metrics_text(status())), media_type=CONTENT_TYPE)

    async def show_problem(_: Request) -> Response:
        now = await run_in_threadpool(problem)
        if now is None:
            return _json({"error": "Nimbus has not asked yet: try again in 10 s"}, status_code=503)
        return _json(await run_in_threadpool(problem_to_dict, now))

    return Starlette(
        routes=[
            Route("/v1/schedule", schedule, methods=["POST"]),
            Route("/v1/perflog", perflog, methods=["POST"]),
            Route("/v1/status", show_status, methods=["GET"]),
            Route("/v1/problem", show_problem, methods=["GET"]),
            Route("/metrics", show_metrics, methods=["GET"]),
        ],
        exception_handlers={ClientDisconnect: _hung_up},
    )


def _schedule(bridge: Bridge, body: bytes) -> Response:
    try:
        snapshot = orjson.loads(body)
        problem, unfit = snapshot_from_dict(snapshot["problem"], source="snapshot of Nimbus")
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        return _json({"error": f"not a snapshot: {error}"}, status_code=400)
    except InputError as error:
        return _json({"error": str(error)}, status_code=400)
    try:
        answer = bridge.answer(problem, unfit)
    except InputError as error:  # what nodes tell in supervisor.scheduler.meta only the scheduler can judge
        return _json({"error": str(error)}, status_code=400)
    return _json(
        {
            "schema": "stormwright-assignment/1",
            "assignments": {name: placement_to_dict(placement) for name, placement in answer.assignments.items()},
            "status": dict(answer.status),
        }
    )


def _too_much() -> Response:
    return _json({"error": f"a delivery may have {MAX_DELIVERY_BYTES} bytes"}, status_code=413)


def _hung_up(_: Request, __: Exception) -> Response:
    """A worker ended in the middle of a delivery: nobody reads what is answered."""
    return Response(status_code=400)


def _json(content: dict[str, Any], status_code: int = 200) -> Response:
    return Response(orjson.dumps(content), status_code, media_type="application/json")


class HttpServer:
    """Serves an app from a thread of its own while the `with` block runs.

    Raises
    ------
    ClusterError
        On entering, where the address cannot be had.
    """

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        self._address = f"{host}:{port}"
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="stormwright-http", daemon=True)

    def _run(self) -> None:
        try:
            self._server.run()
        except SystemExit:
            # uvicorn's way of saying that the address is taken; __enter__ reports it.
            return

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.05)
            if not self._thread.is_alive():
                raise ClusterError(
                    f"cannot listen on {self._address}: not an address of this machine, or another service is there"
                )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join(10)
