"""The dashboard for a problem file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from stormwright.model import Problem
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.trials import Trials
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import FILE, State


@contextmanager
def site_over(problem: Problem, makers: PlanMakers, trials: Trials | None) -> Iterator[Site]:
    """Yield pages for a problem; its plans exist while the block runs, and cannot be applied.

    Parameters
    ----------
    problem
        Problem to show, with its placement and load.
    makers
        Schedulers for the plans that a user requests.
    trials
        Who compares schedulers and predicts changes.
    """
    with tempfile.TemporaryDirectory(prefix="stormwright-") as directory:
        state = State(Path(directory) / FILE)
        plans, ledger = PlanStore(state), Journal(state)
        plan_service = PlanService(plans, ledger, Guard(state, plans, ledger), lambda: problem, makers)
        try:
            with DashboardState(Sources(lambda: problem, plan_service=plan_service, trials=trials)) as known:
                yield Site(known)
        finally:
            plan_service.close()
            state.close()


def app_of(site: Site) -> Starlette:
    """An app that serves pages, and nothing else."""

    async def refused(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return await site.refused(request, error.status_code, error.detail)
        return PlainTextResponse("that did not work\n", 500)

    home = Route("/", site.home, methods=["GET"])
    return Starlette(routes=[home, *site.routes], exception_handlers={HTTPException: refused})


def serve(site: Site, host: str, port: int) -> None:
    """Serve pages until the process is terminated.

    Raises
    ------
    ClusterError
        The address cannot be had.
    """
    import uvicorn

    config = uvicorn.Config(
        app_of(site),
        host=host,
        port=port,
        loop="stormwright.service.http.server:ServerLoop",  # which says it where the address cannot be had
        log_level="error",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run()
