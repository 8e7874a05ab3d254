"""Sites to ask, with and without a service, and what is read out of a page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx

from stormwright.base.tables import TextTable
from stormwright.model import Problem
from stormwright.service.dashboard.over_file import app_of
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.trials import Change, TrialAnswer, Trials
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.store import PlanStore
from stormwright.service.status import ServiceStatus
from stormwright.service.storage.database import FILE, State
from tests.service.http.test_metrics import STATUS
from tests.service.plans.nimbus import Forced, Nimbus


def _alarm(node: int, peak_cores: float) -> dict[str, object]:
    named = {"node": f"node-{node:04d}.example", "supervisor": f"sup-{node:04d}"}
    return named | {"start_s": 1, "capacity_cores": 2.0, "peak_cores": peak_cores}


#: Of a service where all goes as it should, but that a node is over its CPU.
SERVED = replace(
    STATUS,
    waits=(),
    history=STATUS.history | {"errors": {}},
    pipeline=STATUS.pipeline  # type: ignore[arg-type]
    | {
        "nodes": {"sup-0001": STATUS.pipeline["nodes"]["a"], "sup-0002": STATUS.pipeline["nodes"]["b"]},
        "alarms": {
            "up": [
                {
                    "node": "node-0001.example",
                    "supervisor": "sup-0001",
                    "start_s": 1,
                    "capacity_cores": 2.0,
                    "peak_cores": 2.4,
                }
            ],
            "ended": [
                {
                    "node": "node-0002.example",
                    "supervisor": "sup-0002",
                    "start_s": 1,
                    "capacity_cores": 2.0,
                    "peak_cores": 2.1,
                }
            ],
            "raised": 2,
        },
    },
)

#: Elements that have no end.
_VOID = {"meta", "link", "input", "img", "br", "hr"}


class Page(HTMLParser):
    """The elements of a page in order, each with its attributes and those that it is in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.elements: list[tuple[str, dict[str, str], tuple[str, ...]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, tuple(self._open)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}, tuple(self._open)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} is closed where it is not open"

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.words.append(data.strip())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes, _ in self.elements if name == tag]

    @property
    def links(self) -> list[str]:
        return [each["href"] for each in self.all("a")]

    @property
    def visible_text(self) -> str:
        return " ".join(" ".join(self.words).split())


class Client:
    """Asks an app, without a network."""

    def __init__(self, app: Any, accept: str = "text/html") -> None:
        self._transport, self._accept = httpx.ASGITransport(app), accept

    def get(self, path: str) -> httpx.Response:
        return self._ask("GET", path)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self._ask("POST", path, **more)

    def _ask(self, method: str, path: str, headers: Any = None, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://here") as client:
                return await client.request(method, path, headers={"accept": self._accept} | (headers or {}), **more)

        return asyncio.run(ask())


class Browser:
    """Asks a site as a browser does."""

    def __init__(self, site: Site) -> None:
        self.site, self.client = site, Client(app_of(site))

    def get(self, path: str, status: int = 200) -> Page:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return Page(answer.text)

    def post(self, path: str, headers: dict[str, str] | None = None, **fields: Any) -> str:
        """Where a form leads to."""
        answer = self.client.post(path, data=fields, headers=headers or {"sec-fetch-site": "same-origin"})
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def refused(self, path: str, status: int, headers: dict[str, str] | None = None, **fields: Any) -> str:
        """The message on a form that is refused."""
        answer = self.client.post(path, data=fields, headers=headers or {"sec-fetch-site": "same-origin"})
        assert answer.status_code == status, answer.text
        return Page(answer.text).visible_text


class Parrot:
    """Answers questions with their text."""

    def schedulers(self) -> dict[str, str]:
        return {"even": "as Storm does", "online": "as is best"}

    def compare(self, problem: Problem, schedulers: Any) -> TrialAnswer:
        table = TextTable(["scheduler", "cost"], [[name, "1.0"] for name in schedulers])
        return TrialAnswer(table, [f"of {problem.name}"])

    def what_if(self, problem: Problem, change: Change) -> TrialAnswer:
        return TrialAnswer(TextTable(["topology", "rate"], [["t", change.rate]]))


@contextmanager
def browsing(tmp_path: Path, problem: Problem | None, trials: Trials | None = None) -> Iterator[Browser]:
    """A service that knows a problem, and does nothing unattended; without one, Nimbus has sent no request yet."""
    state = State(tmp_path / FILE)
    plans, journal = PlanStore(state), Journal(state)
    makers = (
        PlanMakers("throughput", lambda _: Forced(problem.current_slot), Forced(problem.current_slot))
        if problem
        else None
    )
    plan_service = PlanService(plans, journal, Guard(state, plans, journal), lambda: problem, makers)  # type: ignore[arg-type]
    sources = Sources(lambda: problem, lambda: SERVED, lambda: 4.0, dict, plan_service, trials or Parrot())
    try:
        with DashboardState(sources) as known:
            yield Browser(Site(known))
    finally:
        plan_service.close()
        state.close()


@contextmanager
def over_nimbus(nimbus: Nimbus, served: ServiceStatus = SERVED) -> Iterator[Browser]:
    """The pages of a service that applies plans to a virtual Nimbus."""
    with DashboardState(Sources(nimbus.look, lambda: served, lambda: 4.0, dict, nimbus.plan_service)) as known:
        yield Browser(Site(known))


def until(true: Any, seconds: float = 30.0) -> Any:
    """What a function gives once it is true."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "that takes too long"
        time.sleep(0.02)
    return found
