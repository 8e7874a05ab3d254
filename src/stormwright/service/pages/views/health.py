"""Whether all is well: what needs a look, worst first, each in a sentence with where to look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from stormwright.model.texts import counted
from stormwright.predict.told.prediction import NOT_SUSTAINED
from stormwright.service.pages.seen.known import Known
from stormwright.service.pages.seen.scene import Scene
from stormwright.service.status import ServiceStatus

#: Nimbus asks each 10 s; after so many without a question something is wrong. A load is measured each few seconds.
SILENT_S, OLD_LOAD_S = 60.0, 120.0

#: Things of a kind that are told one by one.
_EACH = 3

Level = Literal["bad", "warn", "note"]


@dataclass(frozen=True)
class Finding:
    """Something that needs a look.

    Parameters
    ----------
    level
        ``bad``: something does not work. ``warn``: something is short. ``note``: good to know.
    text
        A sentence.
    href
        Where more is told of it.
    """

    level: Level
    text: str
    href: str


def findings(known: Known, scene: Scene | None) -> list[Finding]:
    """All of them, worst first."""
    found = [*_of_service(known), *(_of_scene(scene) if scene else ()), *_of_plans(known)]
    return sorted(found, key=lambda each: ("bad", "warn", "note").index(each.level))


def _of_service(known: Known) -> Iterator[Finding]:
    status, age_s = known.status(), known.sources.age_s()
    if known.error:
        yield Finding("bad", f"What runs cannot be shown: {known.error}", "/cluster")
    if status is None:
        return
    if age_s is not None and age_s > SILENT_S:
        yield Finding("bad", f"Nimbus has not asked for {_seconds(age_s)}: is it up, and does it reach this?", "/cluster")
    for topology, why in known.sources.unfit().items():
        yield Finding("bad", f"{topology} cannot be placed: {why}", "/topologies")
    yield from _of_pipeline(status)
    for part, error in status.history["errors"].items():
        yield Finding("warn", f"The history ({part}) has failed: {error['error']}", "/history")
    for topology, why_not in list(status.refused.items())[:_EACH]:
        yield Finding("note", f"{topology} was moved back: {'; '.join(why_not)}", "/history")


def _of_pipeline(status: ServiceStatus) -> Iterator[Finding]:
    told = status.pipeline
    if not told["running"]:
        yield Finding("bad", f"Loads are not measured: {told['error'] or 'the stream does not run'}", "/timeline")
        return
    age_s = told.get("profile_age_s")
    if age_s is None:
        yield Finding("note", "No load was measured yet: do topologies have the probe?", "/timeline")
    elif age_s > OLD_LOAD_S:
        yield Finding("warn", f"The newest load is {_seconds(age_s)} old: do the probes reach this?", "/timeline")
    for alarm in ((told.get("alarms") or {}).get("up") or [])[:_EACH]:
        node = alarm["supervisor"]
        yield Finding("warn", f"Node {node} is overloaded, says its alarm", f"/cluster/nodes/{quote(node, safe='')}")


def _of_scene(scene: Scene) -> Iterator[Finding]:
    problem = scene.problem
    names = {topology.id: topology.name for topology in problem.topologies}
    for topology, count in list(scene.unplaced.items())[:_EACH]:
        text = f"{counted(count, 'executor')} of {names[topology]} {'has' if count == 1 else 'have'} no slot"
        yield Finding("bad", text, _topology(topology))
    if len(scene.unplaced) > _EACH:
        yield Finding("bad", f"{counted(len(scene.unplaced), 'topology')} in all have executors without a slot", "/topologies")
    over = scene.nodes.over().tolist()
    for node in over[:_EACH]:
        supervisor, part = problem.supervisors[node], scene.nodes.use["cpu"][node]
        text = f"{supervisor.host} uses {part:.0%} of its CPU"
        yield Finding("warn", text, f"/cluster/nodes/{quote(supervisor.id, safe='')}")
    if len(over) > _EACH:
        yield Finding("warn", f"{counted(len(over), 'node')} in all use more CPU than they have", "/cluster")
    short = scene.short()
    for each in short[:_EACH]:
        kept = NOT_SUSTAINED[each.sustained] if each.sustained else ""
        text = f"{names[each.topology]}: {each.rate_tps:,.0f} trees/s are {kept}; {each.bottleneck} limits it"
        yield Finding("warn" if each.sustained == "no" else "note", text, _topology(each.topology))
    if len(short) > _EACH:
        yield Finding("warn", f"{counted(len(short), 'topology')} in all may not sustain their rates", "/topologies")
    assumed = sum(load is None for load in problem.demand.measured)
    if assumed:
        text = f"{counted(assumed, 'topology')} of {len(problem.topologies):,} {'is' if assumed == 1 else 'are'} not measured"
        yield Finding("note", f"{text}: their load is assumed", "/topologies")


def _of_plans(known: Known) -> Iterator[Finding]:
    for plan in known.plans("waiting", "stopped", most=_EACH).plans:
        yield Finding("warn", f"Plan {plan.id} is {plan.state} for a person: {plan.why}", f"/plans/{quote(plan.id)}")
    modes = known.modes()
    if modes and modes.frozen:
        yield Finding("note", f"Everything is frozen: {modes.frozen}", "/plans")


def _topology(topology: str) -> str:
    return f"/topologies/{quote(topology, safe='')}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
