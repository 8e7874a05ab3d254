"""Expected pauses of moves: a model of their parts, scaled by the pauses that were measured on this cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median

from stormwright.model import Problem
from stormwright.model.requests import CPU
from stormwright.plans.figures import Range
from stormwright.plans.plan import Move, TopologyMove

#: Seconds of a leg whatever starts: spouts pause, trees complete, Nimbus and supervisors poll, connections are checked.
#: And of every worker that starts on a node, per core of it, with standby workers (docs/results/storm-moves.md).
LEG_S, START_CORE_S = 3.1, 0.6

#: Shortest and longest pause of a cluster that has measured none, as parts of the modelled one: without standby
#: workers a start takes several times as long.
_UNMEASURED = (0.7, 4.0)

#: Past moves of a topology from which on those of others do not count.
_ENOUGH = 2

#: Cores of a node that does not declare them, and the lowest number that is taken for right.
_UNDECLARED_CORES, _MIN_CORES = 2.0, 0.1


@dataclass(frozen=True)
class Pause:
    """Expected length of a pause, and its source.

    Parameters
    ----------
    seconds
        Expected length in seconds, with low and high estimate.
    source
        What it was derived from.
    measured
        Whether moves of the topology itself were measured.
    """

    seconds: Range
    source: str
    measured: bool = False


#: Name of a topology, and its modelled pause in seconds → its expected pause.
PauseOf = Callable[[str, float], Pause]


def starts_per_core(problem: Problem, moves: Sequence[TopologyMove]) -> tuple[float, ...]:
    """Return, for each leg of moves that are made together, the workers that start on a node, per core of it.

    Of the node with the most.

    Parameters
    ----------
    problem
        Problem whose supervisors declare the cores of each node.
    moves
        Moves of one step.
    """
    found = []
    for legs in zip_longest(*(move.legs for move in moves)):
        starts = Counter(slot.supervisor for leg in legs if leg is not None for slot in leg.started_workers)
        found.append(max((count / _cores(problem, node) for node, count in starts.items()), default=0.0))
    return tuple(found)


def _cores(problem: Problem, node: str) -> float:
    declared = problem.supervisors[problem.node_index[node]].resources.get(CPU)
    return max(declared / 100, _MIN_CORES) if declared else _UNDECLARED_CORES


def modelled_pause_s(step: Move) -> float:
    """Return the pause of a step in seconds by the model of its parts."""
    seconds = sum(LEG_S + START_CORE_S * starts for starts in step.starts_per_core)
    # While supervisors look for another configuration, workers end: most of a leg without starts.
    return seconds + max(step.wait_s - LEG_S, 0.0)


def expected_pause(modelled_s: float, own: Sequence[float], all_of_them: Sequence[float]) -> Pause:
    """Return the expected pause of a topology: modelled, and scaled as its past moves were longer, else all.

    Parameters
    ----------
    modelled_s
        Pause in seconds by the model, from `modelled_pause_s`.
    own, all_of_them
        Past pauses as parts of the modelled ones, of this topology and of all; newest first.
    """
    known, whose = (own, "its own") if len(own) >= _ENOUGH or not all_of_them else (all_of_them, "this cluster's")
    if not known:
        shortest, longest = (part * modelled_s for part in _UNMEASURED)
        seconds = Range(value=modelled_s, low=shortest, high=longest)
        return Pause(seconds, "modelled, as no move was measured yet")
    seconds = Range(**{name: part * modelled_s for name, part in _parts(known).items()})
    last = f"{whose} last {len(known)} moves" if len(known) > 1 else f"{whose} last move"
    return Pause(seconds, last, measured=whose == "its own")


def _parts(known: Sequence[float]) -> dict[str, float]:
    return {"value": median(known), "low": min(known), "high": max(known)}
