"""Refinement: random steps, taken if they lower the cost or, while it is hot, raise it by little.

No step breaks a limit. The steps: an executor goes to another worker of its topology, or changes places with one there;
a worker goes to another node, or changes places with one there; a topology, with up to two that share nodes with it, is
taken out and placed anew (ruin and recreate, after Schrimpf, Schneider, Stamm-Wilbrandt, Dueck, "Record Breaking
Optimization Results Using the Ruin and Recreate Principle", 2000, https://doi.org/10.1006/jcph.1999.6413).
"""

from __future__ import annotations

from stormwright.jit.compiled import compiled, inner
from stormwright.jit.random_numbers import draw, draw_below
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE, Layout
from stormwright.optimize.search.accept import stays_near
from stormwright.optimize.search.replace import replace_topologies
from stormwright.optimize.search.steps import draw_member, step_executor, step_worker

#: Part of the steps of executors and workers that are of workers.
_WORKERS = 0.3

#: Part of all steps that goes into placing topologies anew where there are many; none where there are at most so many,
#: since nearly everything would be taken out.
_RUIN, _FEW_TOPOLOGIES = 0.85, 4

#: Steps are made of so many executors that follow each other, as many times as there are: these are of one topology or
#: two, and so stay in the nearest cache. Fewer where there would be less than so many windows.
_WINDOW, _FEWEST_WINDOWS = 64, 32

#: How much hotter the steps of workers are than those of executors, as they change more at once.
_WORKER_HEAT = 1.5

#: Steps that are tried on each overloaded node before the search, at most.
_RELIEVING = 2000


@compiled
def refine(layout: Layout, steps: int, temperature: float) -> None:
    """Make so many steps, those of the executors of topologies placed anew included.

    Parameters
    ----------
    temperature
        A rise of the cost by this much is taken with probability 1/e in steps of executors.
    """
    until = layout.totals[0].steps + steps
    ruin = 0.0
    if not stays_near(layout) and len(layout.free_topologies) > _FEW_TOPOLOGIES:
        ruin = _RUIN * (1 - _FEW_TOPOLOGIES / len(layout.free_topologies))
    spent, executors = 0.0, len(layout.free_executors)
    window = max(1, min(executors // _FEWEST_WINDOWS, _WINDOW))
    while layout.totals[0].steps < until:
        if spent < ruin:
            before = layout.totals[0].steps
            replace_topologies(layout, temperature)
            spent += (layout.totals[0].steps - before) * (1 - ruin)
            continue
        spent -= ruin * window
        layout.totals[0].steps += window
        first = draw_below(layout, executors)
        for _ in range(window):
            executor = layout.free_executors[(first + draw_below(layout, window)) % executors]
            if draw(layout) < _WORKERS:
                _step_any_worker(layout, layout.executors[executor].topology, _WORKER_HEAT * temperature)
            else:
                step_executor(layout, executor, temperature)


@inner
def _step_any_worker(layout: Layout, topology: int, temperature: float) -> None:
    """A step of any worker of a topology; none if the one drawn may not move."""
    first, last = layout.topologies[topology].first_worker, layout.topologies[topology].last_worker
    worker = first + draw_below(layout, last - first)
    if layout.workers[worker].movable and layout.workers[worker].node != NOWHERE:
        step_worker(layout, worker, temperature)


@compiled
def relieve(layout: Layout, nodes: IndexArray) -> None:
    """Take load off those of `nodes` that have too much, by random steps of what is on them; some may stay overloaded.

    These are no steps of the search, and not counted. Nor is the cost looked at in steps that relieve a node; others
    are taken only if they do not raise it.

    Parameters
    ----------
    layout
        With its cost added up, as steps add to it.
    nodes
        Numbers of nodes, int64; those that have not too much are passed over.
    """
    for node in nodes:
        for _ in range(_RELIEVING):
            relieved = layout.nodes[node].cpu_hz_left >= 0 and layout.nodes[node].memory_mb_left >= 0
            if relieved or layout.nodes[node].used == 0:
                break
            worker = layout.workers_on[layout.nodes[node].first + draw_below(layout, layout.nodes[node].used)]
            if not layout.workers[worker].movable:
                continue
            if draw(layout) < _WORKERS:
                step_worker(layout, worker, 0.0)
            else:
                step_executor(layout, draw_member(layout, worker), 0.0)
                layout.workers[worker].any = layout.executors[layout.workers[worker].any].next
