"""Advice for goals: the result of the search compared with the running placement."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import ceil

import numpy as np

from stormwright.advise.search.advice import Advice, Alternative, ComponentAdvice, NodeAdvice, TopologyAdvice, now_text
from stormwright.advise.search.cheapest import CheapestSearch
from stormwright.advise.search.evaluation import EvaluatedPlacement
from stormwright.advise.search.goals import AdviceGoals
from stormwright.advise.search.kinds import NodeKind, kinds_of
from stormwright.advise.search.trials import Key, MixTrials
from stormwright.errors import InputError
from stormwright.model import UNPLACED, Problem
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.changes import tasks_of
from stormwright.predict.prediction import TopologyPrediction

log = logging.getLogger(__name__)

#: Headrooms of the alternatives, as fractions.
_HEADROOMS = (0.05, 0.2, 0.35, 0.5)


def advised(
    problem: Problem,
    goals: AdviceGoals,
    kinds: Sequence[NodeKind] = (),
    held_cores: Mapping[Key, float] | None = None,
    alternatives: bool = True,
) -> Advice:
    """Return the fewest sufficient executors, workers and nodes for some goals, cheapest first.

    Parameters
    ----------
    problem
        Problem with a measured load.
    goals
        Required rates, latency and headroom.
    kinds
        Available kinds of nodes; by default those of the cluster, at a price per core.
    held_cores
        Busy threads by component, as for `MixTrials`.
    alternatives
        Whether to find clusters with other headrooms, too: sufficient ones, not always the cheapest.

    Raises
    ------
    InputError
        Nothing suffices within the goals, or they do not fit the problem; the faults state why, and a remedy.
    """
    trials = MixTrials(problem, goals, kinds or kinds_of(problem), held_cores)
    search = CheapestSearch(trials)
    found = search.best()
    nodes = tuple(_node(found, node) for node in sorted(found.used_nodes()))
    return Advice(
        problem=found.problem,
        assignment=found.assignment,
        components=tuple(_components(problem, trials, found)),
        topologies=tuple(_topologies(problem, trials, found)),
        nodes=nodes,
        mix=str(found.used),
        price=found.used.price,
        headroom=1 - found.fullest(set(trials.requested)),
        steps=(now_text(problem), *search.steps),
        alternatives=tuple(_alternatives(problem, trials, found, held_cores)) if alternatives else (),
    )


def _components(problem: Problem, trials: MixTrials, found: EvaluatedPlacement) -> Iterator[ComponentAdvice]:
    counts = trials.counts(found)
    for (topology, component), size in trials.sizes.items():
        one = problem.topologies[topology]
        yield ComponentAdvice(
            topology=one.name,
            component=one.components[component].id,
            executors_now=int(np.count_nonzero(one.executor_component == component)),
            executors=counts[topology, component],
            tasks=int(tasks_of(one)[component]),
            handled_tps=size.handled_tps,
            use=found.component_use[topology, component],
        )


def _topologies(problem: Problem, trials: MixTrials, found: EvaluatedPlacement) -> Iterator[TopologyAdvice]:
    runs = {t: problem.current_slot[problem.executors_of(t)] for t in trials.requested}
    rates = {problem.topologies[t].id: rate for t, rate in trials.requested.items()}
    now = None
    if any(np.any(slots != UNPLACED) for slots in runs.values()):
        now = predict(problem, None, replace(Assumptions.of(problem), rate_tps=rates))
    for topology, rate_tps in trials.requested.items():
        one, slots = problem.topologies[topology], runs[topology]
        layout = found.placed.profile.layout
        needs = None
        if found.pending(topology) > layout.pending[topology] * trials.allowed:
            tasks = layout.pending[topology] / _max_pending(problem, topology)
            needs = ceil(found.pending(topology) / trials.allowed / tasks)
        runs_now = now.topologies[topology] if now and not np.any(slots == UNPLACED) else None
        yield TopologyAdvice(
            topology=one.id,
            name=one.name,
            measured_tps=now.topologies[topology].measured_tps if now else rate_tps,
            rate_tps=rate_tps,
            highest_tps=found.highest_tps(topology),
            bottleneck=found.bottleneck(topology),
            mean_ms=found.mean_ms(topology),
            p95_ms=found.p95_ms(topology),
            workers_now=len(set(slots.tolist()) - {UNPLACED}),
            workers=found.workers(topology),
            needs_pending=needs,
            free_now=_free(runs_now) if runs_now else None,
            enough_now=_free(runs_now) >= trials.goals.headroom if runs_now else None,
        )


def _free(now: TopologyPrediction) -> float:
    """Return the part of its fullest thread, node or link that a running topology leaves free; 0 if overloaded."""
    if now.sustained != "yes" or not now.highest_tps.value:
        return 0.0
    return max(1 - now.rate_tps / now.highest_tps.value, 0.0)


def _max_pending(problem: Problem, topology: int) -> float:
    return float({**problem.conf, **problem.topologies[topology].conf}[MAX_SPOUT_PENDING])


def _node(found: EvaluatedPlacement, node: int) -> NodeAdvice:
    kind, supervisor = found.mix.kind_of(node), found.problem.supervisors[node]
    slots = found.assignment.slot_of_executor
    return NodeAdvice(
        node=found.problem.cluster.node_names[node],
        kind=kind.name,
        price=kind.price,
        exists=supervisor in kind.existing,
        cpu=float(found.cpu_use[node]),
        link=float(found.link_use[node]),
        executors=int(np.count_nonzero(found.problem.slot_node[slots[slots != UNPLACED]] == node)),
    )


def _alternatives(
    problem: Problem, trials: MixTrials, best: EvaluatedPlacement, held_cores: Mapping[Key, float] | None
) -> Iterator[Alternative]:
    """Yield clusters with other headrooms, without dominated ones."""
    found = [(trials, best)]
    for headroom in _HEADROOMS:
        if abs(headroom - trials.goals.headroom) > 1e-9:
            log.info("searching an alternative with %.0f%% headroom …", 100 * headroom)
            other = MixTrials(problem, replace(trials.goals, headroom=headroom), trials.kinds, held_cores)
            with suppress(InputError):
                if one := CheapestSearch(other).near(best):
                    found.append((other, one))
    chosen = set(trials.requested)
    made = [
        Alternative(
            nodes=str(one.used),
            price=one.used.price,
            executors=sum(of.counts(one).values()),
            headroom=1 - one.fullest(chosen),
            p95_ms=of.p95_ms(one),
        )
        for of, one in found
    ]
    most = -1.0
    for each in sorted(made, key=lambda each: (each.price, -each.headroom, each.executors)):
        if each.headroom > most + 1e-9:
            most = each.headroom
            yield each
