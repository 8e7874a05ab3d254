"""API of a standby service: stored data can be read; other requests are redirected to the leader."""

from __future__ import annotations

from collections.abc import Sequence
from errno import EAGAIN
from typing import cast

import orjson
from prometheus_client import CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stormwright import __version__
from stormwright.plans.modes import Modes, without_expired_freeze
from stormwright.service.auth.middleware import AuthMiddleware
from stormwright.service.auth.roles import HEALTH
from stormwright.service.dashboard.login import Login
from stormwright.service.dashboard.rendering import ASSETS, HEADERS, asset, written_outside
from stormwright.service.dashboard.site import wants_pages
from stormwright.service.dashboard.views.page import Page
from stormwright.service.http.api import routes_of
from stormwright.service.http.app import Endpoints
from stormwright.service.http.deliveries import BodyRecipient, Deliveries
from stormwright.service.http.endpoints import ENDPOINTS
from stormwright.service.http.metric_families import gauge
from stormwright.service.http.metrics import CONTENT_TYPE, LEADS, ReadyMetrics
from stormwright.service.leader_election.standby import StandbyService
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plan_service import PlanService
from stormwright.service.plans.queries import PlanQueries
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import State

#: What is read of what is kept.
_READ = {"/v1/plans", "/v1/plans/{plan}", "/v1/history", "/v1/modes"}

_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]


def standing_app(standing: StandbyService, auth: AuthMiddleware) -> Endpoints:
    """The routes of a service that stands by.

    Parameters
    ----------
    standing
        The standby service, which knows the leader and its state.
    auth
        Lets in who has a token.
    """

    def refuse(_: Sequence[bytes]) -> None:
        raise OSError(EAGAIN, refusal_reason(standing))

    async def home(request: Request) -> Response:
        return await (elsewhere if wants_pages(request) else status)(request)

    async def elsewhere(request: Request) -> Response:
        if wants_pages(request):
            return Response(await run_in_threadpool(_page, standing, request), 503, HEADERS, "text/html")
        leader = standing.leader.address if standing.leader else None
        body = orjson.dumps({"error": refusal_reason(standing), "leader": leader})
        return Response(body, 503, media_type="application/json")

    async def health(_: Request) -> Response:
        return Response(b'{"ok":true}', media_type="application/json")

    async def status(_: Request) -> Response:
        document = {"service": f"stormwright {__version__}", "pair": _pair(standing)}
        return Response(orjson.dumps(document), media_type="application/json")

    async def metrics(_: Request) -> Response:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(ReadyMetrics([gauge("leads", LEADS, (), {(): 0.0})]))
        return Response(generate_latest(registry), media_type=CONTENT_TYPE)

    async def show_asset(request: Request) -> Response:
        name = request.path_params["name"]
        return Response(asset(name), 200, HEADERS, ASSETS[name]) if name in ASSETS else await elsewhere(request)

    reading = [each for each in ENDPOINTS if each.method == "GET" and each.path in _READ]
    app = Starlette(
        routes=[
            Route("/", home, methods=["GET"]),
            Route(HEALTH, health, methods=["GET"]),
            Route("/v1/status", status, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/assets/{name}", show_asset, methods=["GET"]),
            # The endpoints use only the methods that this class provides.
            *routes_of(cast(PlanService, reading_of(standing.state)), reading),
            *(Login(auth).routes if auth.tokens else ()),
            Route("/{path:path}", elsewhere, methods=_METHODS),
        ]
    )
    return Endpoints(app, Deliveries(BodyRecipient(refuse)))


def refusal_reason(standing: StandbyService) -> str:
    """Return the reason why a request is refused."""
    if standing.leader is None:
        return "this service stands by, and no service leads yet: try again in a few seconds"
    return f"this service stands by: ask {standing.leader.address}, which leads"


def reading_of(state: State) -> PlanQueries:
    """Return queries to a state that others change."""

    def modes() -> Modes:
        stored = state.read("SELECT document FROM modes")
        found = Modes.model_validate_json(stored[0]["document"]) if stored else Modes()
        return without_expired_freeze(found, state.clock.time())

    return PlanQueries(PlanStore(state), Journal(state), modes)


def _pair(standing: StandbyService) -> dict[str, object]:
    pair: dict[str, object] = {"leads": None, "stands_by": True, "entries": standing.position}
    if leader := standing.leader:
        pair |= {"leads": leader.address, "since_ms": leader.since_ms, "epoch": leader.epoch}
    return pair


def _page(standing: StandbyService, request: Request) -> str:
    reading: PlanQueries = reading_of(standing.state)
    shows = {
        "reason": refusal_reason(standing),
        "leader": standing.leader.address if standing.leader else "",
        "path": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "history": reading.history(10).entries,
        "plans": reading.plans(most=10).plans,
        "mode": reading.modes().default,
    }
    return written_outside(Page("standby", "This service stands by", "stormwright history", shows, "", 503))
