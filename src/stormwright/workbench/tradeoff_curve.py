"""Trade-off curve: the lowest cost of traffic found against the number of moved executors and restarted workers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from stormwright.base.tables import Tabular
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Problem, cost_of, diff, violations
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import counted, readable
from stormwright.model.problem import size_of
from stormwright.predict.throughput import SLOW, ThroughputPredictor
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.workbench.report import write_report

log = logging.getLogger(__name__)


# Report -------------------------------------------------------------------------------------------
# Curves of cost against moves and restarts as one self-contained HTML page.

#: The drawing, and what is left free for the words beside it.
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900.0, 320.0, 90.0, 40.0


def write_tradeoff(path: Path, found: Tradeoff) -> None:
    """Write the page."""
    problem = found.problem
    write_report(
        path,
        "tradeoff.html.j2",
        title=f"Cost against moves and restarts of {problem.name or 'a problem'}",
        lead=f"{size_of(problem)}.",
        found=found,
        curves=[(what, _marks(found, points)) for what, points in found.curves()],
        staying_y=_y(found, found.staying),
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        bottom=_BOTTOM,
    )


def _marks(
    found: Tradeoff, points: Sequence[tuple[int | None, TradeoffPoint]]
) -> list[tuple[float, float, int | None, TradeoffPoint]]:
    """Return the position of every point in the picture, equally spaced as each is a multiple of the previous one."""
    step = (_WIDTH - _LEFT) / len(points)
    return [
        (_LEFT + step * (number + 0.5), _y(found, point.cost), most, point)
        for number, (most, point) in enumerate(points)
    ]


def _y(found: Tradeoff, cost: float) -> float:
    highest = max([found.staying, *(point.cost for point in found.points)]) or 1.0
    return (_HEIGHT - _BOTTOM) * (1 - cost / highest / 1.08)


# Tradeoff curve -----------------------------------------------------------------------------------

#: Numbers to try, repeated in every power of ten.
_STEPS = (1, 2, 5)

#: Hint for a problem without a placement.
_NOTHING_RUNS = (
    "no current placement, so nothing can move; it is part of problems from `stormwright import nimbus`, "
    "of `stormwright history at`, and of a service (GET /v1/problem)"
)


@dataclass(frozen=True)
class MoveLimit:
    """Limits on the distance of a placement from the current one.

    Parameters
    ----------
    moves, restarts
        Executors that may move, and workers that may be restarted; None for all.
    """

    moves: int | None = None
    restarts: int | None = None

    def __str__(self) -> str:
        values = (self.moves, "executor", "move"), (self.restarts, "worker", "restart")
        texts = [f"at most {counted(most, noun)} may {verb}" for most, noun, verb in values if most is not None]
        return " and ".join(texts) or "anything goes"

    def allow(self, point: TradeoffPoint) -> bool:
        """Return whether a placement is within the limits."""
        moves = self.moves is None or point.moved <= self.moves
        return moves and (self.restarts is None or point.restarted <= self.restarts)

    def settings(self) -> dict[str, object]:
        """Return the limits as settings of the scheduler `optimizer`."""
        values = {"max_moves": self.moves, "max_restarts": self.restarts}
        return {name: most for name, most in values.items() if most is not None}


@dataclass(frozen=True)
class TradeoffPoint:
    """A placement within given limits of the current one.

    Parameters
    ----------
    limits
        Limits of the search.
    moved
        Number of moved executors.
    restarted
        Running workers that end or restart because their executors or slot change: the cost of moves in Storm.
        Workers that executors without a slot have to join may exceed the limit.
    broken
        Violations of the placement: too few moves may not repair the current ones.
    cost
        Cost of the placement.
    rate_factor
        Predicted factor by which all rates can grow, infinite without a known limit; None if no topology has a rate.
    sustained
        Whether all rates are sustained; None if no topology has a rate.
    seconds
        Duration of the search.
    """

    limits: MoveLimit
    moved: int
    restarted: int
    broken: int
    cost: float
    rate_factor: float | None
    sustained: bool | None
    seconds: float

    @property
    def rate_text(self) -> str:
        """Factor of the rates as text, marked if they are not sustained."""
        if self.rate_factor is None:
            return "–"
        mark = SLOW if self.sustained is False else ""
        return mark + (f"× {readable(self.rate_factor)}" if isfinite(self.rate_factor) else "no limit")


@dataclass(frozen=True, repr=False)
class Tradeoff(Tabular):
    """A trade-off: the more may change, the lower the cost; a sequence of its points.

    Parameters
    ----------
    staying
        Cost of the current placement.
    broken
        Limits broken by the current placement.
    points
        The last one has no limits. None breaks more limits than one with narrower ones, or costs more with as many.
    """

    problem: Problem
    staying: float
    broken: int
    points: tuple[TradeoffPoint, ...]

    def __iter__(self) -> Iterator[TradeoffPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return the points as a table."""
        return {"points": self.as_dict()["points"]}

    def headline(self) -> str:
        """Return the first line of the text."""
        name = self.problem.name or "problem"
        return f"{name}: cost of traffic {self.staying:,.1f} as it runs, {self.least:,.1f} at least"

    @property
    def least(self) -> float:
        """The lowest cost found under any limits."""
        return self.points[-1].cost

    def part_gained(self, point: TradeoffPoint) -> float:
        """Return the part of the total gain that a point reaches; 1 if there is nothing to gain."""
        gain = self.staying - self.least
        return (self.staying - point.cost) / gain if gain > 0 else 1.0

    def near_lowest_cost(self, part: float) -> list[TradeoffPoint]:
        """Return the points whose cost exceeds the lowest by at most `part`."""
        enough = self.least * (1 + part)
        return [p for p in self.points if p.cost <= enough and p.broken <= self.points[-1].broken]

    def curves(self) -> list[tuple[str, list[tuple[int | None, TradeoffPoint]]]]:
        """Return curves by kind of change: amount (None for all) and point, rising."""
        curves = []
        for restarts in dict.fromkeys(p.limits.restarts for p in self.points if p.limits.moves is not None):
            own = [(p.limits.moves, p) for p in self.points if p.limits.restarts == restarts]
            beside = "" if restarts is None else f", of workers at most {restarts:,} restarting"
            curves.append((f"executors that may move{beside}", own))
        own = [(p.limits.restarts, p) for p in self.points if p.limits.moves is None]
        if len(own) > 1 and not any(p.limits.moves is not None and p.limits.restarts is not None for p in self.points):
            curves.append(("workers that may restart", own))
        return curves

    def as_dict(self) -> dict[str, Any]:
        """Return the curve as JSON."""
        points = []
        for point in self.points:
            values = asdict(point)
            if values["rate_factor"] == inf:
                values["rate_factor"] = None
            limits = values.pop("limits")
            most = {"most_moves": limits["moves"], "most_restarts": limits["restarts"]}
            points.append({**most, **values, "part_gained": self.part_gained(point)})
        return {
            "problem": self.problem.name,
            "executors": self.problem.num_executors,
            "cost": self.staying,
            "limits_broken": self.broken,
            "least_cost": self.least,
            "points": points,
        }


def steps_up_to(most: int) -> list[int]:
    """Return 0, 1, 2, 5, 10, 20, 50 and so on, below `most`."""
    scales = [10**power for power in range(len(str(most)))]
    return [0, *(step * scale for scale in scales for step in _STEPS if step * scale < most)]


def tradeoff(
    problem: Problem,
    moves: Sequence[int] | None = None,
    restarts: Sequence[int] | None = None,
    *,
    seconds: float = 1.0,
    seed: int = 0,
) -> Tradeoff:
    """Search once for every limit, and once without any, for little traffic.

    Parameters
    ----------
    problem
        Problem with a current placement, from which moves and restarts are counted.
    moves, restarts
        Numbers of executors that may move, and of workers that may be restarted. Given both, every combination is
        looked at; given neither, `steps_up_to` all of either.
    seconds
        Time of every search.
    seed
        Seed of every search.

    Raises
    ------
    InputError
        Nothing runs.
    """
    now = problem.current_slot
    running = len(np.unique(now[now != UNPLACED]))
    if not running:
        raise InputError(problem.name or "problem", [Fault(_NOTHING_RUNS, "$.assignments")])
    if moves is None and restarts is None:
        wanted = [MoveLimit(moves=most) for most in steps_up_to(problem.num_executors)]
        wanted += [MoveLimit(restarts=most) for most in steps_up_to(running)]
    else:
        of_moves: list[int | None] = [None] if moves is None else [*sorted(set(moves))]
        of_restarts: list[int | None] = [None] if restarts is None else [*sorted(set(restarts))]
        wanted = [MoveLimit(*most) for most in product(of_moves, of_restarts)]
    points: list[TradeoffPoint] = []
    rates = ThroughputPredictor(problem)
    every = [*wanted, MoveLimit()]
    for number, limits in enumerate(every, start=1):
        log.info("%d of %d: %s …", number, len(every), limits)
        points.append(_point(problem, limits, rates, seconds, seed))
    staying = cost_of(problem, now).total
    best = tuple(_best_within(point, points) for point in points)
    return Tradeoff(problem, staying, len(violations(problem, now)), best)


def _point(problem: Problem, limits: MoveLimit, rates: ThroughputPredictor, seconds: float, seed: int) -> TradeoffPoint:
    settings = {"objective": "traffic", "time_budget_s": seconds, "seed": seed, **limits.settings()}
    scheduler = make_scheduler(DEFAULT_SCHEDULER, settings)
    warm_up(scheduler)
    begin = time.perf_counter()
    slots: IntArray = scheduler.schedule(problem).slot_of_executor
    took = time.perf_counter() - begin
    changes = diff(problem, problem.current_slot, slots)
    throughput = rates.predicted(slots)
    return TradeoffPoint(
        limits=limits,
        moved=len(changes.moved_executors),
        restarted=len(changes.stopped_workers),
        broken=len(violations(problem, slots)),
        cost=cost_of(problem, slots).total,
        rate_factor=throughput.factor if throughput else None,
        sustained=throughput.is_sustained if throughput else None,
        seconds=took,
    )


def _best_within(point: TradeoffPoint, found: Sequence[TradeoffPoint]) -> TradeoffPoint:
    """Return `point`, or a better one found under other limits that is within its own."""
    best = min([point, *filter(point.limits.allow, found)], key=lambda each: (each.broken, each.cost))
    return replace(best, limits=point.limits, seconds=point.seconds)
