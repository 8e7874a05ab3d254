"""Tabu search of small problems: the best of all steps each time, and never straight back.

A step puts an executor into another worker, or lets two executors change places. The best one is made even if it raises
the cost; for a while the executor may then not return, unless that is better than the best of the round:
F. Glover, "Tabu Search, Part I", ORSA Journal on Computing 1, 1989, https://doi.org/10.1287/ijoc.1.3.190, with lengths
sampled as in É. Taillard, "Robust taboo search for the quadratic assignment problem", Parallel Computing 17, 1991,
https://doi.org/10.1016/S0167-8191(05)80147-4. Nodes may be overloaded in between: the price of that rises while they
are and falls while they are not, so that the search oscillates across the border, as in M. Gendreau, A. Hertz,
G. Laporte, "A Tabu Search Heuristic for the Vehicle Routing Problem", Management Science 40, 1994,
https://doi.org/10.1287/mnsc.40.10.1276. When a round has found nothing better for long enough, the next begins from the
best of it or from where it began, with workers on other nodes or some executors exchanged at random. The best
placement is improved by whole workers at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from stormwright.jit.compiled import compiled, inner
from stormwright.jit.random_numbers import draw, draw_below
from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.kernel.rules import is_limited
from stormwright.optimize.search.dense import (
    MAX_DENSE,
    NOTHING,
    Checkpoint,
    DensePlacement,
    add_up,
    between,
    broken_by_step,
    broken_by_worker,
    copy,
    keep,
    overload_by,
    restore,
    shift,
    shift_worker,
)


@compiled
def settle_workers(dense: DensePlacement) -> None:
    """Make the best move of a worker to a node, until none improves; overload never rises.

    One iteration takes O(N E²), for N nodes and E executors: every worker on every node that has a port for it.
    """
    while True:
        least, worker, to = -NOTHING * dense.state[0].mean, -1, -1
        for candidate in dense.free_workers:
            cpu, memory = 0.0, 0.0
            for executor in range(len(dense.worker)):
                if dense.worker[executor] == candidate:
                    cpu, memory = cpu + dense.cpu[executor], memory + dense.memory[executor]
            for node in range(len(dense.ports)):
                if node == dense.node[candidate] or dense.used[node] >= dense.ports[node]:
                    continue
                over = overload_by(dense, dense.node[candidate], node, cpu, memory)
                if over + broken_by_worker(dense, candidate, node) > NOTHING:
                    continue
                rise = _rise(dense, candidate, node)
                if rise < least:
                    least, worker, to = rise, candidate, node
        if worker < 0:
            return
        shift_worker(dense, worker, to)
        add_up(dense)


@inner
def _rise(dense: DensePlacement, worker: int, to: int) -> float:
    """Return the increase of the cost if a worker goes to a node."""
    rise = 0.0
    for executor in range(len(dense.worker)):
        if dense.worker[executor] != worker:
            continue
        for other in range(len(dense.worker)):
            beside = dense.worker[other]
            if dense.tps[executor, other] > 0 and beside != worker:
                apart = between(dense, to, dense.node[beside]) - dense.far[worker, beside]
                rise += dense.tps[executor, other] * apart
    return rise


#: Least steps for which an executor may not return, and the range of the random addition.
_BARRED, _BARRED_MORE = 4, 6

#: Steps per executor without improvement that end a round: drawn for every round from these limits, small ones more
#: often. Some problems want many short rounds, others longer ones.
_MIN_PATIENCE, _MAX_PATIENCE = 0.7, 4.0

#: Price of an overload, relative to the mean traffic of an executor: its limits, and the factor of its change.
_CHEAPEST, _DEAREST, _DEARER = 0.01, 10.0, 1.1

#: Fraction of the rounds that begin with moved workers, and that of moves to nodes without a worker of the topology, or
#: any.
_WORKERS, _ANYWHERE = 0.4, 0.5

#: Increase of the cost in a round, relative to all traffic, at which the next begins from it with probability 1/e.
_HEAT = 0.003

#: Evaluations of all steps between two checks of the clock.
_STRETCH = 100


def is_small(layout: Layout) -> bool:
    """Return whether `improve_small` supports a layout: few executors, and only supported costs and limits.

    It supports fixed traffic and all limits of placements; no flows, no prices, no limits on changes.
    """
    prices = layout.move_price, layout.restart_price, layout.node_price, layout.imbalance_price
    limited = layout.max_moves >= 0 or layout.max_restarts >= 0
    return len(layout.executors) <= MAX_DENSE and len(layout.sinks) == 0 and not (limited or any(prices))


def improve_small(layout: Layout, steps: int, is_over: Callable[[], bool]) -> tuple[DensePlacement, int]:
    """Search from the current placement of `layout`; return the state at the best one found, and the steps made.

    Parameters
    ----------
    layout
        Read only: the search has separate arrays.
    steps
        Number of steps, one for each movable executor and each evaluation of all steps; 0 for as many as
        there are until `is_over`.
    is_over
        Called between stretches, if `steps` is 0.
    """
    dense = DensePlacement.of(layout)
    free = len(dense.free_executors)
    looks = math.ceil(steps / free)
    while not is_over() if steps == 0 else dense.state[0]["made"] < looks:
        search(dense, _STRETCH if steps == 0 else looks)
    end_round(dense)
    restore(dense, dense.best)
    settle_workers(dense)
    keep(dense, dense.best)
    return dense, free * int(dense.state[0]["made"])


@compiled
def search(dense: DensePlacement, looks: int) -> None:
    """Make `looks` steps of executors, and begin rounds in between.

    One evaluation takes O(E W + E²): every executor to every worker of its topology, and every two of a topology. Each
    step costs a few additions to evaluate, as `reach` holds the cost of each executor in each worker::

        a to w:        reach[a, w] - reach[a, own]
        a and b:       reach[a, v] - reach[a, w] + reach[b, w] - reach[b, v] + 2 tps[a, b] far[w, v]     a in w, b in v

    Of steps with equal cost the first one counts: by executor, and of each its moves before its exchanges.
    """
    for _ in range(looks):
        if dense.state[0].idle > dense.state[0].patience:
            end_round(dense)
            _begin_round(dense)
        _step(dense)
        dearer = _DEARER if dense.state[0].overload > 0 else 1 / _DEARER
        price = dense.state[0].price * dearer
        dense.state[0].price = min(max(price, _CHEAPEST * dense.state[0].mean), _DEAREST * dense.state[0].mean)
        dense.state[0].made += 1
        dense.state[0].idle += 1
        if _is_better(dense, dense.state[0].overload, dense.state[0].cost, dense.round):
            keep(dense, dense.round)
            dense.state[0].idle = 0


@inner
def _is_better(dense: DensePlacement, overload: float, cost: float, checkpoint: Checkpoint) -> bool:
    """Return whether overload, then cost, is less than that of a placement; rounding does not count."""
    same = NOTHING * dense.state[0].mean
    return bool(
        overload < checkpoint.rank[0] - NOTHING or (overload <= checkpoint.rank[0] and cost < checkpoint.rank[1] - same)
    )


@inner
def _step(dense: DensePlacement) -> None:
    """Make the best step that is not barred, the price of an overload included."""
    price = dense.state[0].price
    # The remaining overload cannot fall by more than all of it: more expensive steps need not be evaluated.
    least, most_relief = math.inf, price * dense.state[0].overload
    executor, partner, to, overload = -1, -1, -1, 0.0
    for number in range(len(dense.free_executors)):
        a = dense.free_executors[number]
        own, topology = dense.worker[a], dense.topology[a]
        node, reach, limited = dense.node[own], dense.reach[a, own], is_limited(dense.rules, topology)
        if dense.size[own] > 1:
            for worker in range(dense.first_worker[topology], dense.last_worker[topology]):
                rise = dense.reach[a, worker] - reach
                if rise - most_relief >= least or worker == own:
                    continue
                if dense.size[worker] >= dense.most[topology] or not dense.movable[worker]:
                    continue
                over = overload_by(dense, node, dense.node[worker], dense.cpu[a], dense.memory[a])
                if limited:
                    over += broken_by_step(dense, a, worker, -1)
                if rise + price * over < least and _may(dense, a, worker, -1, rise, over):
                    least, executor, partner, to, overload = rise + price * over, a, -1, worker, over
        for before in range(number):
            b = dense.free_executors[before]
            other = dense.worker[b]
            if dense.topology[b] != topology or other == own:
                continue
            rise = dense.reach[a, other] - reach + dense.reach[b, own] - dense.reach[b, other]
            rise += 2 * dense.tps[a, b] * dense.far[own, other]
            if rise - most_relief >= least:
                continue
            cpu, memory = dense.cpu[a] - dense.cpu[b], dense.memory[a] - dense.memory[b]
            over = overload_by(dense, node, dense.node[other], cpu, memory)
            if limited:
                over += broken_by_step(dense, a, other, b)
            if rise + price * over < least and _may(dense, a, other, b, rise, over):
                least, executor, partner, to, overload = rise + price * over, a, b, other, over
    if executor >= 0:
        _make(dense, executor, to, partner, overload)


@inner
def _may(dense: DensePlacement, executor: int, to: int, partner: int, rise: float, over: float) -> bool:
    """Return whether neither executor of a step is barred, or the step leads to the best placement of the round."""
    now = dense.state[0].made
    barred = dense.barred[executor, to] > now
    if partner >= 0:
        barred = barred or dense.barred[partner, dense.worker[executor]] > now
    if not barred:
        return True
    overload = dense.state[0].overload + over
    return _is_better(dense, overload if overload > NOTHING else 0.0, dense.state[0].cost + rise, dense.round)


@inner
def _make(dense: DensePlacement, executor: int, to: int, partner: int, over: float) -> None:
    """Make a step, and bar the way back.

    The number of steps for which an executor may not return is sampled each time, so that the
    search does not run in circles of a fixed length.
    """
    own, until = dense.worker[executor], dense.state[0].made + _BARRED + draw_below(dense, _BARRED_MORE)
    dense.barred[executor, own] = until
    shift(dense, executor, to)
    if partner >= 0:
        dense.barred[partner, to] = until
        shift(dense, partner, own)
    overload = dense.state[0].overload + over
    dense.state[0].overload = overload if overload > NOTHING else 0.0


@compiled
def end_round(dense: DensePlacement) -> None:
    """Record the best of a round, and whether the next begins from it.

    Always if it has less overload than the current base, or the same and no more cost; if it costs more, with
    probability exp(-rise / heat).
    """
    found = dense.round
    if _is_better(dense, found.rank[0], found.rank[1], dense.best):
        copy(found, dense.best)
    rise = found.rank[1] - dense.base.rank[1]
    heat = _HEAT * dense.state[0].mean * len(dense.worker) / 2
    as_valid = found.rank[0] <= dense.base.rank[0]
    if as_valid and (found.rank[0] < dense.base.rank[0] or rise <= 0 or draw(dense) < math.exp(-rise / heat)):
        copy(found, dense.base)


@inner
def _begin_round(dense: DensePlacement) -> None:
    """Restore the base of rounds, and perturb it."""
    restore(dense, dense.base)
    if draw(dense) < _WORKERS:
        for _ in range(1 + draw_below(dense, 2)):
            _scatter_worker(dense)
    else:
        for _ in range(2 + draw_below(dense, len(dense.free_executors) // 4)):
            _exchange_any(dense)
    add_up(dense)
    factor = _MIN_PATIENCE * (_MAX_PATIENCE / _MIN_PATIENCE) ** draw(dense)
    dense.state[0].idle, dense.state[0].patience = 0, int(factor * len(dense.free_executors))
    keep(dense, dense.round)


@inner
def _scatter_worker(dense: DensePlacement) -> None:
    """Move a random worker to another node, or exchange it with one there."""
    worker = dense.free_workers[draw_below(dense, len(dense.free_workers))]
    if draw(dense) < _ANYWHERE:
        to = draw_below(dense, len(dense.ports))
    else:
        to = dense.node[dense.free_workers[draw_below(dense, len(dense.free_workers))]]
    node, partner, count = dense.node[worker], -1, 0
    if to == node or dense.ports[to] == 0:
        return
    for other in dense.free_workers:
        if dense.node[other] == to:
            count += 1
            if draw(dense) * count < 1:
                partner = other
    full = dense.used[to] >= dense.ports[to]
    if partner >= 0 and (full or draw(dense) < 0.5):
        shift_worker(dense, worker, to)
        shift_worker(dense, partner, node)
    elif not full:
        shift_worker(dense, worker, to)


@inner
def _exchange_any(dense: DensePlacement) -> None:
    """Exchange two random executors of a topology."""
    a = dense.free_executors[draw_below(dense, len(dense.free_executors))]
    b = dense.free_executors[draw_below(dense, len(dense.free_executors))]
    if dense.topology[a] == dense.topology[b]:
        own, to = dense.worker[a], dense.worker[b]
        shift(dense, a, to)
        shift(dense, b, own)
