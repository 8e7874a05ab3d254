"""View of the first page: health, next and last changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from stormwright import __version__
from stormwright.client.shapes import Concern, Level, Overview
from stormwright.model.humanize import counted, listed
from stormwright.model.topology_config import CONFINED
from stormwright.plans.states import HALTED_STATES, IN_PROGRESS_STATES, OPEN_STATES
from stormwright.service.dashboard.charts import Line, chart
from stormwright.service.dashboard.scene import Scene
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.views.cluster import fullest_node
from stormwright.service.dashboard.views.page import Page, waiting
from stormwright.service.status import ServiceStatus

#: Nimbus asks each 10 s; after so many without a question something is wrong. A load is measured each few seconds.
SILENT_S, OLD_LOAD_S = 60.0, 120.0

#: Things of a kind that are told by name.
_EACH = 3

#: Rows of its lists, and of those of what came of moves.
_ROWS, _OUTCOMES = 5, 3

#: Plans that are read for those that would move something.
_READ = 50

#: Entries of the history that are looked through for what came of moves.
_LOOKED_AT = 20


def findings(known: DashboardState, scene: Scene | None) -> list[Concern]:
    """All of them, worst first."""
    of_scene = _of_scene(scene) if scene else ()
    found = [*known.sources.health(), *_of_service(known, scene), *of_scene, *_of_plans(known)]
    return sorted(found, key=lambda each: ("bad", "warn", "note").index(each.level))


def _of_service(known: DashboardState, scene: Scene | None) -> Iterator[Concern]:
    status, age_s = known.status(), known.sources.age_s()
    if known.error:
        yield _concern("bad", f"What runs cannot be shown: {known.error}", "/cluster")
    if status is None:
        return
    if age_s is not None and age_s > SILENT_S:
        yield _concern(
            "bad", f"Nimbus has not polled for {_seconds(age_s)}: is it up, and does it reach this?", "/cluster"
        )
    names = {topology.id: topology.name for topology in scene.problem.topologies} if scene else {}
    for topology, why in known.sources.unfit().items():
        yield _concern("bad", f"{names.get(topology, topology)} cannot be placed: {why}", "/topologies")
    for each in status.anomalies[:_EACH]:
        action = each["action"] or (f"not drained: {each['waits']}" if each["waits"] else "")
        text = f"{each['text']}; {action}" if action else each["text"]
        level: Level = "note" if each["response"] == "ignore" else "warn"
        yield _concern(level, f"{text} ({each['kind']})", f"/cluster/nodes/{quote(each['supervisor'], safe='')}")
    is_empty = scene is not None and not scene.problem.topologies
    if is_empty:
        yield _concern("note", "No topology runs yet", "/topologies")
    elif status.hold:
        yield _concern(
            "note" if status.hold == "unmeasured" else "warn",
            f"Nothing moves ({status.hold}): {status.hold_why}",
            "/timeline",
        )
    yield from _pipeline_concerns(status.pipeline, is_empty)
    if status.damaged:
        yield _concern("warn", f"Damaged rows of operations.db were set aside: {listed(status.damaged)}", "/history")
    for part, error in status.history["errors"].items():
        yield _concern("warn", f"The history ({part}) has failed: {error['error']}", "/history")
    for topology, why_not in list(status.refused.items())[:_EACH]:
        text = f"A placement of {names.get(topology, topology)} that was rolled back is not tried again for now"
        yield _concern("note", f"{text}: {'; '.join(why_not)}", "/history")


def _pipeline_concerns(pipeline: Mapping[str, Any], is_empty: bool) -> Iterator[Concern]:
    if not pipeline["running"]:
        error = pipeline["error"]
        text = f"Loads are not measured: {error}" if error else "Loads are not measured yet: Spark is starting"
        yield _concern("bad" if error else "note", text, "/timeline")
        return
    age_s = pipeline.get("profile_age_s")
    if age_s is None and not is_empty:
        yield _concern("note", "No load was measured yet: do topologies have the probe?", "/timeline")
    elif age_s is not None and age_s > OLD_LOAD_S and not is_empty:
        yield _concern(
            "warn", f"The newest load is {_seconds(age_s)} old: do the probes reach the service?", "/timeline"
        )
    for alarm in ((pipeline.get("alarms") or {}).get("up") or [])[:_EACH]:
        yield _concern("warn", f"Overload alarm on node {alarm['node']}", "/timeline")


def _of_scene(scene: Scene) -> Iterator[Concern]:
    problem = scene.problem
    names = {topology.id: topology.name for topology in problem.topologies}
    lost = scene.unplaced
    concerns = [f"{counted(count, 'executor')} of {names[topology]}" for topology, count in lost.items()]
    have = "has" if list(lost.values()) == [1] else "have"
    yield from _together("bad", concerns, f"{have} no slot", [_topology(t) for t in lost], "/topologies")
    confined = [each for each in problem.topologies if each.conf.get(CONFINED)]
    for topology in confined[:_EACH]:
        text = f"Executors of {topology.name} that share a worker stay together: {topology.conf[CONFINED]}"
        yield _concern("note", text, _topology(topology.id))
    shown: Counter[str] = Counter()
    for topology_id, own in scene.peculiarities.items():
        for peculiarity in own:
            shown[peculiarity.kind] += 1
            if shown[peculiarity.kind] <= _EACH:
                yield _concern("note", f"{names[topology_id]}: {peculiarity.text}", _topology(topology_id))
    over = scene.nodes.over()
    over = over[np.argsort(-scene.nodes.use["cpu"][over], kind="stable")]
    nodes = problem.cluster.node_names
    concerns = [f"{nodes[node]} ({scene.nodes.use['cpu'][node]:.0%})" for node in over]
    pages = [f"/cluster/nodes/{quote(problem.supervisors[node].id, safe='')}" for node in over]
    text = "uses more CPU than it has" if len(concerns) == 1 else "use more CPU than they have"
    yield from _together("warn", concerns, text, pages, "/cluster")
    for sustained in ("no", "perhaps"):
        short = [each for each in scene.short() if each.sustained == sustained]
        concerns = [f"{names[each.topology]} ({each.rate_tps:,.0f} trees/s, {each.bottleneck})" for each in short]
        pages = [_topology(each.topology) for each in short]
        overloaded = "does not sustain its rate" if len(concerns) == 1 else "do not sustain their rates"
        text = overloaded if sustained == "no" else "may be overloaded"
        yield from _together("warn" if sustained == "no" else "note", concerns, text, pages, "/topologies")
    assumed = sum(load is None for load in problem.demand.measured)
    if assumed:
        of_all = f"{counted(assumed, 'topology')} of {len(problem.topologies):,}"
        yield _concern("note", f"The load of {of_all} is not measured, but assumed", "/topologies")


def _of_plans(known: DashboardState) -> Iterator[Concern]:
    for plan in known.plans("waiting", "stopped", most=_EACH).plans:
        text = f"Plan {plan.id} is {plan.state} and waits for you: {plan.why}"
        yield _concern("warn", text, f"/plans/{quote(plan.id)}")
    for host, drained in list(known.drained().items())[:_EACH]:
        left = f", and {counted(drained.workers, 'worker')} still there" if drained.workers else ""
        node = f"/cluster/nodes/{quote(drained.nodes[0], safe='')}" if drained.nodes else "/cluster"
        yield _concern("note", f"{host} is drained by {drained.by}{left}: {drained.reason}", node)
    modes = known.modes()
    if modes and modes.frozen:
        yield _concern("note", f"Everything is frozen: {modes.frozen}", "/plans")


def _together(level: Level, concerns: list[str], text: str, pages: list[str], of_all: str) -> Iterator[Concern]:
    """One finding of all of a kind, the first of them by name; it leads to the page of the one, or of all."""
    if concerns:
        yield _concern(level, f"{listed(concerns)} {text}", pages[0] if len(pages) == 1 else of_all)


def _concern(level: Level, text: str, page: str) -> Concern:
    return Concern(level=level, text=text, page=page)


def _topology(topology: str) -> str:
    return f"/topologies/{quote(topology, safe='')}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def overview(known: DashboardState) -> Page:
    """The page."""
    scene, status = known.scene(), known.status()
    if scene is None and status is None:
        return waiting("/", "Overview", known.error, served=False)
    now = overview_data(known)
    trouble = [each for each in now.findings if each.level != "note"]
    tight = sorted(scene.by_topology.values(), key=lambda each: each.headroom)[:_ROWS] if scene else []
    names = {topology.id: topology.name for topology in scene.problem.topologies} if scene else {}
    points = known.trace.points()
    rates = [(point.at_ms, sum(point.rate_tps.values())) for point in points if point.rate_tps]
    shows = {
        "verdict": now.verdict,
        "level": trouble[0].level if trouble else "good" if scene else "note",
        "findings": now.findings,
        "scene": scene,
        "fullest": fullest_node(scene) if scene else None,
        "runs": known.runs(),
        "service": status,
        "halted": [each for each in now.active if each.state in HALTED_STATES][:_ROWS],
        "active": [each for each in now.active if each.state not in HALTED_STATES][:_ROWS],
        "waits": now.waits,
        "first_steps": _first_steps(scene, status) if status else [],
        "open_plans": [each for each in now.pending if not each.outdated][:_ROWS],
        "can_plan": known.sources.plan_service is not None,
        "done": now.changes[:_ROWS],
        "evaluated": [
            (each.n, move, outcome) for each in now.changes for move in each.moves for outcome in move.evaluations
        ][:_OUTCOMES],
        "tight": [(names[each.topology], each) for each in tight],
        "rate": chart([Line("measured throughput", rates)], "trees/s") if len(rates) > 1 else None,
    }
    command = "stormwright status" if status else "stormwright predict problem.json"
    return Page("overview", "Overview", command, shows, "/")


@dataclass(frozen=True)
class _FirstStep:
    """A step from a new installation to the first plan: whether it is done, and its text and command."""

    is_done: bool
    text: str
    command: str = ""


def _first_steps(scene: Scene | None, status: ServiceStatus) -> list[_FirstStep]:
    """Return the steps of a new installation until loads are measured; none after that."""
    has_polled = scene is not None
    has_topologies = scene is not None and bool(scene.problem.topologies)
    is_measured = status.pipeline.get("profile_age_s") is not None
    if has_polled and has_topologies and is_measured:
        return []
    return [
        _FirstStep(has_polled, "Nimbus polls this service for placements", "stormwright install STORM_HOME"),
        _FirstStep(has_topologies, "A topology runs", "storm jar JAR CLASS"),
        _FirstStep(is_measured, "Its load is measured: a minute after its workers have started"),
        _FirstStep(False, "See what would move, and what that brings", "stormwright plan"),
    ]


def overview_data(known: DashboardState) -> Overview:
    """Return the page's data for programs."""
    scene, status, modes = known.scene(), known.status(), known.modes()
    found = findings(known, scene)
    trouble = sum(each.level != "note" for each in found)
    plans = known.plans(*OPEN_STATES, *IN_PROGRESS_STATES, *HALTED_STATES, most=_READ).plans
    problem = scene.problem if scene else None
    nodes = list(status.standbys.values()) if status else []
    standbys = sum(each.standbys for each in nodes)
    return Overview(
        service=f"stormwright {__version__}",
        healthy=scene is not None and not trouble,
        verdict=_verdict(trouble, scene is not None),
        findings=tuple(found),
        mode=modes.default if modes else "observe",
        frozen=modes.frozen if modes else "",
        scheduler=status.scheduler if status else "",
        nimbus_age_s=known.sources.age_s(),
        load_age_s=status.pipeline.get("profile_age_s") if status else None,
        topologies=len(problem.topologies) if problem else None,
        executors=problem.num_executors if problem else None,
        nodes=len(problem.supervisors) if problem else None,
        rate_tps=scene.rate_tps if scene else None,
        standbys=standbys if nodes else None,
        standby_mb=sum(each.memory_bytes for each in nodes) / standbys / 2**20 if standbys else None,
        decision=(status.decision if status else None) or "",
        # A finding says the same where nothing moves.
        waits=tuple(status.waits) if status and status.hold != "unmeasured" else (),
        active=tuple(each for each in plans if each.state not in OPEN_STATES),
        pending=tuple(each for each in plans if each.state in OPEN_STATES and each.step_count),
        changes=tuple(each for each in known.history(_LOOKED_AT).entries if each.kind != "modes"),
    )


def _verdict(trouble: int, known: bool) -> str:
    if trouble:
        return f"{counted(trouble, 'problem')} found"
    return "Healthy" if known else "Waiting for Nimbus"
