"""What moving executors gains: the least cost found against how many of what runs may move."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Problem, cost_of, diff, violations
from stormwright.model.arrays import IntArray
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.support.warm_up import warm_up

#: Numbers of moves that are tried, and ten times as many, a hundred times and so on.
_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Point:
    """A placement that is as near to what runs as it was asked to be.

    Parameters
    ----------
    most
        Executors that were allowed to move; None for all.
    moved
        Executors that move.
    restarted
        Workers that run now and end or begin anew, as their executors or their slot change: what moves cost in Storm.
    broken
        Limits that the placement breaks: too few moves may not mend what runs now.
    cost
        Of the placement.
    seconds
        That the search took for it.
    """

    most: int | None
    moved: int
    restarted: int
    broken: int
    cost: float
    seconds: float


@dataclass(frozen=True)
class Tradeoff:
    """The curve: the more may move the less it costs.

    Parameters
    ----------
    staying
        Cost of what runs now.
    broken
        Limits that what runs now breaks.
    points
        By `most`, rising; none breaks more limits than one before, or costs more with as many.
    """

    problem: Problem
    staying: float
    broken: int
    points: tuple[Point, ...]

    @property
    def least(self) -> float:
        """The least cost found, whatever moves."""
        return self.points[-1].cost

    def part_gained(self, point: Point) -> float:
        """What part of all there is to gain a point gains; 1 where there is nothing to gain."""
        gain = self.staying - self.least
        return (self.staying - point.cost) / gain if gain > 0 else 1.0

    def within(self, part: float) -> Point:
        """The point with the fewest moves that costs no more than so much above the least cost, as a part of it."""
        enough = self.least * (1 + part)
        return next(p for p in self.points if p.cost <= enough and p.broken <= self.points[-1].broken)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        points = [{**asdict(point), "part_gained": self.part_gained(point)} for point in self.points]
        return {
            "problem": self.problem.name,
            "executors": self.problem.num_executors,
            "cost": self.staying,
            "limits_broken": self.broken,
            "least_cost": self.least,
            "points": points,
        }


def steps_up_to(executors: int) -> list[int]:
    """0, 1, 2, 5, 10, 20, 50 and so on, below `executors`."""
    scales = [10**power for power in range(len(str(executors)))]
    return [0, *(step * scale for scale in scales for step in _STEPS if step * scale < executors)]


def tradeoff(
    problem: Problem,
    most: Sequence[int] | None = None,
    *,
    seconds: float = 1.0,
    seed: int = 0,
    restarts: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Tradeoff:
    """Search once for every number of moves, and once without a limit.

    Parameters
    ----------
    most
        Numbers of executors that may move; `steps_up_to` all of them by default.
    seconds
        Time of every search.
    restarts
        Leave out placements that restart more workers than this.
    say
        Takes a line of progress.

    Raises
    ------
    InputError
        Nothing runs.
    """
    now = problem.current_slot
    if not np.any(now != UNPLACED):
        raise InputError(problem.name or "problem", [Fault("nothing runs, so nothing can move", "$.assignments")])
    wanted = sorted(set(steps_up_to(problem.num_executors) if most is None else most))
    points: list[Point] = []
    limits: list[int | None] = [*wanted, None]
    for number, limit in enumerate(limits, start=1):
        say(f"{number} of {len(limits)}: {'any number of' if limit is None else limit} moves …")
        points.append(_point(problem, limit, seconds, seed))
    kept = [point for point in points if restarts is None or point.restarted <= restarts]
    if not kept:
        fewest = min(point.restarted for point in points)
        reason = f"every placement found restarts more workers, at least {fewest}"
        raise InputError("--restarts", [Fault(reason, str(restarts))])
    staying = cost_of(problem, now).total
    return Tradeoff(problem, staying, len(violations(problem, now)), tuple(_falling(kept)))


def _point(problem: Problem, most: int | None, seconds: float, seed: int) -> Point:
    settings: dict[str, object] = {"time_budget_s": seconds, "seed": seed}
    if most is not None:
        settings["max_moves"] = most
    scheduler = make_scheduler("optimizer", settings)
    warm_up(scheduler)
    begin = time.perf_counter()
    slots: IntArray = scheduler.schedule(problem).slot_of_executor
    took = time.perf_counter() - begin
    changes = diff(problem, problem.current_slot, slots)
    return Point(
        most=most,
        moved=len(changes.moved_executors),
        restarted=len(changes.stopped_workers),
        broken=len(violations(problem, slots)),
        cost=cost_of(problem, slots).total,
        seconds=took,
    )


def _falling(points: Sequence[Point]) -> Iterator[Point]:
    """The points, each replaced by the one before if that costs less: what may move need not."""
    best: Point | None = None
    for point in points:
        if best is None or (point.broken, point.cost) < (best.broken, best.cost):
            best = point
        yield replace(best, most=point.most, seconds=point.seconds)
