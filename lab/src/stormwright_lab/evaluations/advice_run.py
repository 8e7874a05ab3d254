"""Advisers compared with an exhaustive search, and in a closed loop over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from stormwright.advise.adviser import Adviser, Observation, TargetSize
from stormwright.advise.search.cheapest import CheapestSearch
from stormwright.advise.search.goals import AdviceGoals
from stormwright.advise.search.trials import MixTrials
from stormwright.errors import InputError
from stormwright.model import LoadProfile
from stormwright.model.arrays import FloatArray
from stormwright_lab.advisers.pace import Patience
from stormwright_lab.advisers.patient import PredictiveAdviser
from stormwright_lab.advisers.rules import AdaStorm, Dhalion, Ds2, Stela
from stormwright_lab.evaluations.advice_cases import AdviceCase, AdviceWorld, PredictedWorld
from stormwright_lab.evaluations.exhaustive_search import exhaustive_minimum

#: Of what is wanted, the part with which a rate counts as reached.
_REACHED = 0.99

#: Nodes of the mixes that are tried out.
_MAX_NODES = 6

#: Windows for which an adviser may go on changing after a step.
_MAX_STEPS = 8

#: Initial workers of advisers that choose a number; of DS2 and Dhalion, which do not: one per node.
_WORKERS, _NODES = 2, 12


def world_of(case: AdviceCase) -> AdviceWorld:
    """Return the world of a case; replaceable by another one that runs its topology."""
    return PredictedWorld(case.base, case.costs, case.known_costs, case.noise, case.seed)


def advisers(case: AdviceCase, p95_ms: float | None = None) -> dict[str, Adviser]:
    """Return a new instance of each adviser."""
    predictive = PredictiveAdviser(AdviceGoals(p95_ms=p95_ms), case.kinds, Patience())
    return {
        "stormwright": predictive,
        "DS2": Ds2(),
        "DS2 with headroom": Ds2(1 / (1 - predictive.headroom)),
        "Dhalion": Dhalion(),
        "Stela": Stela(),
        "AdaStorm": AdaStorm(p95_ms),
    }


@dataclass(frozen=True)
class AdviceOutcome:
    """The advice for a case, and the true minimum.

    Parameters
    ----------
    case
        Name of the case.
    nodes, executors
        Recommended nodes and executors; without advice the first is the reason.
    least_nodes, least_executors
        Result of the exhaustive search, the nearest of equally good ones; empty without a search.
    p95_ms
        Required latency, if any.
    sustained
        Whether the rate is sustained in truth, as advised.
    fullest, true_p95_ms
        True utilisation of the fullest resource, and true 95th percentile of latency.
    """

    case: str
    nodes: str
    executors: Mapping[str, int]
    least_nodes: str
    least_executors: Mapping[str, int]
    p95_ms: float | None
    sustained: bool
    fullest: float
    true_p95_ms: float

    @property
    def off(self) -> int:
        """Largest deviation in the number of executors over components."""
        return max((abs(self.executors[name] - count) for name, count in self.least_executors.items()), default=0)


def compare_with_exhaustive_search(case: AdviceCase, world: AdviceWorld) -> AdviceOutcome:
    """Return advice from one window at half the rate, two executors a component, compared with the truth."""
    topology = case.base.topologies[0]
    names = [component.id for component in topology.components]
    observed = world.run(TargetSize(_initial_executors(case, 2), _WORKERS), 0.5 * case.rate_tps)
    true_costs = {"schema": case.known_costs["schema"], "costs": {}}
    load = case.base.load or LoadProfile({})
    truth = MixTrials(
        case.base.with_load(replace(load, costs=true_costs)), AdviceGoals(rates={"": case.rate_tps}), case.kinds
    )
    known = exhaustive_minimum(truth, _MAX_NODES)
    p95_ms = None if case.p95_factor is None or known is None else case.p95_factor * truth.p95_ms(known[0])
    goals = AdviceGoals(rates={"": case.rate_tps}, p95_ms=p95_ms)
    trials = MixTrials(observed.problem or case.base, goals, case.kinds)
    try:
        found = CheapestSearch(trials).best()
    except InputError as error:
        return AdviceOutcome(case.name, f"none: {error.faults[0].message}", {}, "", {}, p95_ms, False, np.inf, np.inf)
    counts = trials.counts(found)
    evaluated = truth.evaluated_at(
        replace(truth.made(counts)[0], supervisors=found.problem.supervisors), found.mix, found.assignment, counts
    )
    nearest: Mapping[tuple[int, int], int] = {}
    if known is not None and p95_ms is None:
        nearest = min(known[1], key=lambda each: max(abs(each[key] - counts[key]) for key in each))
    return AdviceOutcome(
        case=case.name,
        nodes=str(found.used),
        executors={names[key[1]]: count for key, count in counts.items()},
        least_nodes=str(known[0].mix) if known and p95_ms is None else "",
        least_executors={names[key[1]]: count for key, count in nearest.items()},
        p95_ms=p95_ms,
        sustained=evaluated.highest_tps(0) >= case.rate_tps,
        fullest=evaluated.fullest({0}),
        true_p95_ms=evaluated.p95_ms(0),
    )


def _initial_executors(case: AdviceCase, executors: int) -> dict[str, int]:
    """Return `executors` for each component, or as many as it has tasks."""
    return {one.id: min(executors, one.parallelism) for one in case.base.topologies[0].components}


@dataclass(frozen=True)
class AdviserRun:
    """Results of an adviser over a trace.

    Parameters
    ----------
    case, adviser, trace
        Names of the case, the adviser and the trace.
    steps
        Number of changes until the offered rate was first reached; None if never.
    restarts
        Changes, each of which restarts the topology.
    reached_windows, windows
        Number of windows in which the offered rate was reached, and of all windows.
    executors, nodes
        Mean number of executors and of used nodes over the windows.
    """

    case: str
    adviser: str
    trace: str
    steps: int | None
    restarts: int
    reached_windows: int
    windows: int
    executors: float
    nodes: float


def run_adviser(
    case: AdviceCase, world: AdviceWorld, name: str, adviser: Adviser, trace: str, rates_tps: FloatArray
) -> AdviserRun:
    """Return the run of an adviser that is consulted after every window; its advice holds in the next.

    Parameters
    ----------
    case, world
        Case of the adviser, and the world that runs it.
    name, adviser
        Name and instance of the adviser.
    trace, rates_tps
        Name of the trace, and its offered trees/s by window.
    """
    workers = _WORKERS if name in ("stormwright", "Stela", "AdaStorm") else _NODES
    wanted = TargetSize(_initial_executors(case, 1), workers)
    restarts = reached_windows = 0
    steps: int | None = None
    executors, nodes = [], []
    for rate_tps in rates_tps.tolist():
        observed = world.run(wanted, rate_tps)
        reached = observed.reached_tps >= _REACHED * rate_tps
        reached_windows += reached
        if reached and steps is None:
            steps = restarts
        executors.append(observed.total)
        nodes.append(_nodes(observed))
        advised = adviser.advise(observed)
        if advised.changes(observed):
            restarts += 1
            wanted = advised if advised.workers is not None else replace(advised, workers=wanted.workers)
    return AdviserRun(
        case.name, name, trace, steps, restarts, reached_windows, len(rates_tps), _mean(executors), _mean(nodes)
    )


def steps_to_target(case: AdviceCase, make: Callable[[], AdviceWorld]) -> list[AdviserRun]:
    """Run each adviser from one executor per component, always at the full rate."""
    rates = np.full(_MAX_STEPS, case.rate_tps)
    return [run_adviser(case, make(), name, each, "start", rates) for name, each in advisers(case).items()]


def over_traces(
    case: AdviceCase, traces: Mapping[str, FloatArray], make: Callable[[], AdviceWorld]
) -> list[AdviserRun]:
    """Run each adviser over each trace."""
    return [
        run_adviser(case, make(), name, advisers(case)[name], trace, case.rate_tps * parts)
        for (trace, parts), name in product(traces.items(), advisers(case))
    ]


def _nodes(observed: Observation) -> int:
    problem = observed.problem
    return 0 if problem is None else len(set(problem.slot_node[problem.current_slot].tolist()))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
