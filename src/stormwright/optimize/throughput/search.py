"""Random steps, accepted if they lower the score, and at first also if they raise it by little.

Simulated annealing: S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi, "Optimization by Simulated Annealing", Science 220,
1983, https://doi.org/10.1126/science.220.4598.671.
"""

from __future__ import annotations

import math

from stormwright.jit.compiled import compiled, inner
from stormwright.jit.random_numbers import draw, draw_below
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.optimize.kernel.rules import bring, put_in, take_from
from stormwright.optimize.throughput.records import BROKEN_MB, PORT_MB, PlacementState
from stormwright.optimize.throughput.score import NODES, THROUGHPUT, begin, rise, settle, take, try_topology


@inner
def put(state: PlacementState, executor: int, to: int) -> None:
    """Put an executor into another worker of its topology, which has a node."""
    _note(state, executor, state.executors[executor].worker)
    _put(state, executor, to)


@inner
def carry(state: PlacementState, worker: int, node: int) -> None:
    """Move a worker with all its executors to a node."""
    _note(state, -1 - worker, state.workers[worker].node)
    _carry(state, worker, node)


@inner
def take_back(state: PlacementState) -> None:
    """Undo all changes since `take_note`, the last first."""
    for number in range(state.scoring[0].logged - 1, -1, -1):
        changed, before = state.changes[number].changed, state.changes[number].before
        if changed >= 0:
            _put(state, changed, before)
        else:
            _carry(state, -1 - changed, before)
    state.scoring[0].logged = 0


@inner
def take_note(state: PlacementState) -> None:
    """Start to record changes, so that they can be undone."""
    state.scoring[0].logged = 0


@inner
def _note(state: PlacementState, changed: int, before: int) -> None:
    number = state.scoring[0].logged
    state.changes[number].changed, state.changes[number].before = changed, before
    state.scoring[0].logged = number + 1


@inner
def _put(state: PlacementState, executor: int, to: int) -> None:
    own, memory_mb = state.executors[executor].worker, state.executors[executor].memory_mb
    state.executors[executor].worker = to
    state.workers[own].size -= 1
    state.workers[to].size += 1
    _load(state, state.workers[own].node, -memory_mb, -1 if state.workers[own].size == 0 else 0)
    _load(state, state.workers[to].node, memory_mb, 1 if state.workers[to].size == 1 else 0)
    topology = state.executors[executor].topology
    if state.rules.topologies[topology].limited:
        broken = take_from(state.rules, topology, executor, own, state.workers[own].node)
        broken += put_in(state.rules, topology, executor, to, state.workers[to].node)
        state.scoring[0].short += BROKEN_MB * broken


@inner
def _carry(state: PlacementState, worker: int, node: int) -> None:
    own, topology = state.workers[worker].node, state.topologies[state.workers[worker].topology]
    state.workers[worker].node = node
    if state.workers[worker].size == 0:
        return
    memory_mb = 0.0
    for executor in range(topology.first, topology.last):
        if state.executors[executor].worker == worker:
            memory_mb += state.executors[executor].memory_mb
    _load(state, own, -memory_mb, -1)
    _load(state, node, memory_mb, 1)
    if state.rules.topologies[state.workers[worker].topology].limited:
        broken = bring(state.rules, state.workers[worker].topology, worker, own, -1)
        broken += bring(state.rules, state.workers[worker].topology, worker, node, 1)
        state.scoring[0].short += BROKEN_MB * broken


@inner
def _load(state: PlacementState, node: int, memory_mb: float, workers: int) -> None:
    state.scoring[0].short -= _shortage(state, node)
    state.nodes[node].memory_left -= memory_mb
    state.nodes[node].used += workers
    state.scoring[0].short += _shortage(state, node)


@inner
def _shortage(state: PlacementState, node: int) -> float:
    """Return the lack of a node of memory (MB) and ports."""
    on = state.nodes[node]
    return float(max(-on.memory_left, 0.0) + PORT_MB * max(on.used - on.ports, 0))


@inner
def is_allowed(state: PlacementState) -> bool:
    """Return whether changed workers are within their limit of executors."""
    for number in range(state.scoring[0].logged):
        changed, before = state.changes[number].changed, state.changes[number].before
        if changed >= 0 and not (_may_hold(state, before) and _may_hold(state, state.executors[changed].worker)):
            return False
    return True


@inner
def _may_hold(state: PlacementState, worker: int) -> bool:
    size, it = state.workers[worker].size, state.topologies[state.workers[worker].topology]
    return bool(size <= it.most and (size > 0 or it.may_be_empty))


@inner
def draw_worker(state: PlacementState, topology: int) -> int:
    """Draw a worker of a topology that has executors, or an empty one, which is opened on any node."""
    it = state.topologies[topology]
    worker = it.first_worker + draw_below(state, it.last_worker - it.first_worker)
    if state.workers[worker].size == 0:
        carry(state, worker, draw_node(state))
    return int(worker)


@inner
def draw_node(state: PlacementState) -> int:
    """Draw a node: any one, or with equal probability one with movable workers."""
    if len(state.free) > 0 and draw(state) < 0.5:
        return int(state.workers[state.executors[state.free[draw_below(state, len(state.free))]].worker].node)
    return draw_below(state, len(state.nodes))


@inner
def gather(state: PlacementState, topology: int, worker: int) -> None:
    """Put all executors of a topology into one worker."""
    it = state.topologies[topology]
    for executor in range(it.first, it.last):
        if state.executors[executor].worker != worker:
            put(state, executor, worker)


@inner
def join(state: PlacementState, worker: int, to: int) -> None:
    """Put all executors of a worker into another one."""
    it = state.topologies[state.workers[worker].topology]
    for executor in range(it.first, it.last):
        if state.executors[executor].worker == worker:
            put(state, executor, to)


@inner
def exchange(state: PlacementState, worker: int) -> int:
    """Exchange a worker with one of another node; return the topology of that, or none.

    The other one is that of a random executor, so its probability is proportional to its size.
    """
    other = state.executors[state.free[draw_below(state, len(state.free))]].worker
    node, to = state.workers[worker].node, state.workers[other].node
    if node == to:
        return NOWHERE
    carry(state, worker, to)
    carry(state, other, node)
    return int(state.workers[other].topology)


#: Cumulative probabilities of steps: an executor to another worker, two executors exchanged, a worker to another node,
#: two workers exchanged, a worker joined to another, and for the rest a whole topology in one worker.
_MOVE, _SWAP, _CARRY, _EXCHANGE, _JOIN = 0.4, 0.7, 0.82, 0.92, 0.98

#: Relative change that is only rounding.
_ROUNDING = 1e-12


@compiled
def search(state: PlacementState, steps: int, heat: float, cooler: float) -> None:
    """Make `steps` steps.

    Parameters
    ----------
    state
        The placement, its sums right (`stormwright.optimize.throughput.score.add_up`).
    steps
        Number of steps to try.
    heat
        A step that raises the score by this fraction is accepted with probability 1/e.
    cooler
        Factor of `heat` after each step.
    """
    if len(state.free) == 0:
        return
    for _ in range(steps):
        _step(state, heat)
        heat *= cooler


@inner
def _step(state: PlacementState, heat: float) -> None:
    executor = state.free[draw_below(state, len(state.free))]
    topology, short = state.executors[executor].topology, state.scoring[0].short
    take_note(state)
    other = _change(state, executor, topology, draw(state))
    if state.scoring[0].logged == 0:
        return
    allowed = state.scoring[0].short <= short * (1 + _ROUNDING) + _ROUNDING
    if not allowed or not is_allowed(state):
        take_back(state)
        return
    begin(state)
    changed = 1 if other == NOWHERE else 2
    for number in range(changed):  # one call, as each would be compiled
        try_topology(state, topology if number == 0 else other)
    if not _accepts(state, rise(state), heat):
        settle(state, False)
        take_back(state)
        return
    for number in range(changed):
        take(state, topology if number == 0 else other)
    settle(state, True)


@inner
def _change(state: PlacementState, executor: int, topology: int, kind: float) -> int:
    """Make a step of a kind; return the other topology that it changes, if any."""
    worker, it = state.executors[executor].worker, state.topologies[topology]
    if kind < _MOVE:
        to = draw_worker(state, topology)
        if to != worker:
            put(state, executor, to)
    elif kind < _SWAP:
        partner = it.first + draw_below(state, it.last - it.first)
        to = state.executors[partner].worker
        if to != worker:
            put(state, executor, to)
            put(state, partner, worker)
    elif kind < _CARRY:
        node = draw_node(state)
        if node != state.workers[worker].node:
            carry(state, worker, node)
    elif kind < _EXCHANGE:
        other = exchange(state, worker)
        return NOWHERE if other == topology else other
    elif it.may_be_empty:
        to = draw_worker(state, topology)
        if kind < _JOIN and to != worker:
            join(state, worker, to)
        elif kind >= _JOIN:
            gather(state, topology, to)
    return NOWHERE


@inner
def _accepts(state: PlacementState, rises: float, heat: float) -> bool:
    """Return whether a step with this increase of the score is accepted."""
    if rises <= 0.0:
        return True
    kind, worse = state.scoring[0].kind, rises
    if kind != NODES:
        worse = math.log1p(rises / max(state.scoring[0].score, 1e-300))
    if kind == THROUGHPUT:
        worse /= 8.0
    return heat > 0.0 and draw(state) < math.exp(-worse / heat)


@compiled
def keep(state: PlacementState, worker: IndexArray, node: IndexArray) -> None:
    """Save the current placement: worker of every executor, shape (E,), and node of every worker, shape (W,)."""
    for executor in range(len(worker)):
        worker[executor] = state.executors[executor].worker
    for number in range(len(node)):
        node[number] = state.workers[number].node
