"""Random steps, taken as long as they lower the score, and at first also if they do not raise it by much.

Simulated annealing: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by Simulated Annealing", Science 220,
1983, https://doi.org/10.1126/science.220.4598.671.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import compiled, inner
from stormwright.jit.draw import draw, draw_below
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.optimize.throughput.records import Sustained
from stormwright.optimize.throughput.score import NODES, THROUGHPUT, begin, rise, settle, take, try_topology
from stormwright.optimize.throughput.steps import (
    carry,
    draw_node,
    draw_worker,
    exchange,
    gather,
    is_allowed,
    join,
    put,
    take_back,
    take_note,
)

#: How often which step is tried, added up: an executor to another worker, two executors exchanged, a worker to another
#: node, two workers exchanged, a worker joined to another, and for the rest a whole topology in one worker.
_MOVE, _SWAP, _CARRY, _EXCHANGE, _JOIN = 0.4, 0.7, 0.82, 0.92, 0.98

#: Part of what nothing changes but rounding.
_ROUNDING = 1e-12


@compiled
def search(of: Sustained, steps: int, heat: float, cooler: float) -> None:
    """Make so many steps.

    Parameters
    ----------
    of
        The placement, its sums right (`stormwright.optimize.throughput.score.add_up`).
    steps
        How many to try.
    heat
        A step that makes things worse by this part is taken with probability 1/e.
    cooler
        By what `heat` is multiplied after each step.
    """
    if len(of.free) == 0:
        return
    for _ in range(steps):
        _step(of, heat)
        heat *= cooler


@inner
def _step(of: Sustained, heat: float) -> None:
    executor = of.free[draw_below(of, len(of.free))]
    topology, short = of.executors[executor].topology, of.state[0].short
    take_note(of)
    other = _change(of, executor, topology, draw(of))
    if of.state[0].logged == 0:
        return
    allowed = of.state[0].short <= short * (1 + _ROUNDING) + _ROUNDING
    if not allowed or not is_allowed(of):
        take_back(of)
        return
    begin(of)
    changed = 1 if other == NOWHERE else 2
    for number in range(changed):  # one call, as each would be compiled
        try_topology(of, topology if number == 0 else other)
    if not _accepts(of, rise(of), heat):
        settle(of, False)
        take_back(of)
        return
    for number in range(changed):
        take(of, topology if number == 0 else other)
    settle(of, True)


@inner
def _change(of: Sustained, executor: int, topology: int, kind: float) -> int:
    """Make a step of a kind; the other topology that it changes, if any."""
    worker, it = of.executors[executor].worker, of.topologies[topology]
    if kind < _MOVE:
        to = draw_worker(of, topology)
        if to != worker:
            put(of, executor, to)
    elif kind < _SWAP:
        partner = it.first + draw_below(of, it.last - it.first)
        to = of.executors[partner].worker
        if to != worker:
            put(of, executor, to)
            put(of, partner, worker)
    elif kind < _CARRY:
        node = draw_node(of)
        if node != of.workers[worker].node:
            carry(of, worker, node)
    elif kind < _EXCHANGE:
        other = exchange(of, worker)
        return NOWHERE if other == topology else other
    elif it.may_be_empty:
        to = draw_worker(of, topology)
        if kind < _JOIN and to != worker:
            join(of, worker, to)
        elif kind >= _JOIN:
            gather(of, topology, to)
    return NOWHERE


@inner
def _accepts(of: Sustained, rises: float, heat: float) -> bool:
    """Whether a step is taken that raises the score by so much."""
    if rises <= 0.0:
        return True
    kind, worse = of.state[0].kind, rises
    if kind != NODES:
        worse = math.log1p(rises / max(of.state[0].score, 1e-300))
    if kind == THROUGHPUT:
        worse /= 8.0
    return heat > 0.0 and draw(of) < math.exp(-worse / heat)


@compiled
def keep(of: Sustained, worker: IndexArray, node: IndexArray) -> None:
    """Note the placement as it is: worker of every executor, shape (E,), and node of every worker, shape (W,)."""
    for executor in range(len(worker)):
        worker[executor] = of.executors[executor].worker
    for number in range(len(node)):
        node[number] = of.workers[number].node
