"""The first page: is all well, what would stormwright change, what did it change, what came of it."""

from __future__ import annotations

from stormwright.client.shapes import PlanLine
from stormwright.model.texts import counted
from stormwright.service.pages.drawn.chart import Line, chart
from stormwright.service.pages.seen.known import Known
from stormwright.service.pages.views.health import findings
from stormwright.service.pages.views.page import Page, waiting
from stormwright.service.pages.views.plans import OPEN

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
    found, history = findings(known, scene), known.history(_LOOKED_AT)
    done = [each for each in history.done if each.kind != "modes"]
    trouble = [each for each in found if each.level != "note"]
    tight = sorted(scene.by_topology.values(), key=lambda each: each.headroom)[:_ROWS] if scene else []
    names = {topology.id: topology.name for topology in scene.problem.topologies} if scene else {}
    points = known.trace.points()
    rates = [(point.at_ms, sum(point.rate_tps.values())) for point in points if point.rate_tps]
    shows = {
        "verdict": _verdict(len(trouble), scene is not None),
        "level": trouble[0].level if trouble else "good" if scene else "note",
        "findings": found,
        "scene": scene,
        "runs": known.runs(),
        "service": status,
        "open_plans": _open_plans(known),
        "has_desk": known.sources.desk is not None,
        "done": done[:_ROWS],
        "judged": [(each.n, move, judged) for each in done for move in each.moves for judged in move.judged][:_JUDGED],
        "tight": [(names[each.topology], each) for each in tight],
        "rate": chart([Line("measured throughput", rates)], "trees/s") if len(rates) > 1 else None,
    }
    return Page("overview", "Overview", "stormwright plan --list", shows, "/")


def _open_plans(known: Known) -> list[PlanLine]:
    """Plans that would move something, or of which that is not known yet."""
    found = known.plans("proposed", "planned", "planning", "applying", "judging", most=_READ).plans
    return [each for each in found if each.steps or each.state not in OPEN][:_ROWS]


def _verdict(trouble: int, known: bool) -> str:
    if trouble:
        return f"{counted(trouble, 'thing')} {'needs' if trouble == 1 else 'need'} a look"
    return "All is well" if known else "Waiting for Nimbus"
