"""The first page: is all well, what would stormwright change, what did it change, what came of it."""

from __future__ import annotations

from stormwright import __version__
from stormwright.client.overview import Overview
from stormwright.model.humanize import counted
from stormwright.service.pages.drawn.chart import Line, chart
from stormwright.service.pages.seen.known import Known
from stormwright.service.pages.views.health import findings
from stormwright.service.pages.views.page import Page, waiting
from stormwright.service.pages.views.plans import HALTED, MOVING, OPEN

#: Rows of its lists, and of those of what came of moves.
_ROWS, _JUDGED = 5, 3

#: Plans that are read for those that would move something.
_READ = 50

#: Entries of the history that are looked through for what came of moves.
_LOOKED_AT = 20


def overview(known: Known) -> Page:
    """The page."""
    scene, status = known.scene(), known.status()
    if scene is None and status is None:
        return waiting("/", "Overview", known.error, served=False)
    now = told(known)
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
        "runs": known.runs(),
        "service": status,
        "open_plans": [each for each in (*now.waiting, *now.under_way) if each.state not in HALTED][:_ROWS],
        "has_desk": known.sources.desk is not None,
        "done": now.done[:_ROWS],
        "judged": [(each.n, move, judged) for each in now.done for move in each.moves for judged in move.judged][
            :_JUDGED
        ],
        "tight": [(names[each.topology], each) for each in tight],
        "rate": chart([Line("measured throughput", rates)], "trees/s") if len(rates) > 1 else None,
    }
    command = "stormwright status" if status else "stormwright predict problem.json"
    return Page("overview", "Overview", command, shows, "/")


def told(known: Known) -> Overview:
    """What the page tells in words, for programs, too."""
    scene, status, modes = known.scene(), known.status(), known.modes()
    found = findings(known, scene)
    trouble = sum(each.level != "note" for each in found)
    plans = known.plans(*OPEN, *MOVING, *HALTED, most=_READ).plans
    problem = scene.problem if scene else None
    return Overview(
        service=f"stormwright {__version__}",
        well=scene is not None and not trouble,
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
        decision=(status.decision if status else None) or "",
        waits=tuple(status.waits) if status else (),
        under_way=tuple(each for each in plans if each.state not in OPEN),
        waiting=tuple(each for each in plans if each.state in OPEN and each.steps),
        done=tuple(each for each in known.history(_LOOKED_AT).done if each.kind != "modes"),
    )


def _verdict(trouble: int, known: bool) -> str:
    if trouble:
        return f"{counted(trouble, 'thing')} {'needs' if trouble == 1 else 'need'} a look"
    return "All is well" if known else "Waiting for Nimbus"
