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
from stormwright.optimize.throughput.records import BROKEN_MB, PORT_MB, Sustained
from stormwright.optimize.throughput.score import NODES, THROUGHPUT, begin, rise, settle, take, try_topology

# Reversible changes -------------------------------------------------------------------------------


@inner
def put(of: Sustained, executor: int, to: int) -> None:
    """Put an executor into another worker of its topology, which has a node."""
    _note(of, executor, of.executors[executor].worker)
    _put(of, executor, to)


@inner
def carry(of: Sustained, worker: int, node: int) -> None:
    """Move a worker with all its executors to a node."""
    _note(of, -1 - worker, of.workers[worker].node)
    _carry(of, worker, node)


@inner
def take_back(of: Sustained) -> None:
    """Undo all changes since `take_note`, the last first."""
    for number in range(of.state[0].logged - 1, -1, -1):
        what, before = of.changes[number].what, of.changes[number].before
        if what >= 0:
            _put(of, what, before)
        else:
            _carry(of, -1 - what, before)
    of.state[0].logged = 0


@inner
def take_note(of: Sustained) -> None:
    """Start to record changes, so that they can be undone."""
    of.state[0].logged = 0


@inner
def _note(of: Sustained, what: int, before: int) -> None:
    number = of.state[0].logged
    of.changes[number].what, of.changes[number].before = what, before
    of.state[0].logged = number + 1


@inner
def _put(of: Sustained, executor: int, to: int) -> None:
    own, memory_mb = of.executors[executor].worker, of.executors[executor].memory_mb
    of.executors[executor].worker = to
    of.workers[own].size -= 1
    of.workers[to].size += 1
    _load(of, of.workers[own].node, -memory_mb, -1 if of.workers[own].size == 0 else 0)
    _load(of, of.workers[to].node, memory_mb, 1 if of.workers[to].size == 1 else 0)
    topology = of.executors[executor].topology
    if of.rules.topologies[topology].limited:
        broken = take_from(of.rules, topology, executor, own, of.workers[own].node)
        broken += put_in(of.rules, topology, executor, to, of.workers[to].node)
        of.state[0].short += BROKEN_MB * broken


@inner
def _carry(of: Sustained, worker: int, node: int) -> None:
    own, topology = of.workers[worker].node, of.topologies[of.workers[worker].topology]
    of.workers[worker].node = node
    if of.workers[worker].size == 0:
        return
    memory_mb = 0.0
    for executor in range(topology.first, topology.last):
        if of.executors[executor].worker == worker:
            memory_mb += of.executors[executor].memory_mb
    _load(of, own, -memory_mb, -1)
    _load(of, node, memory_mb, 1)
    if of.rules.topologies[of.workers[worker].topology].limited:
        broken = bring(of.rules, of.workers[worker].topology, worker, own, -1)
        broken += bring(of.rules, of.workers[worker].topology, worker, node, 1)
        of.state[0].short += BROKEN_MB * broken


@inner
def _load(of: Sustained, node: int, memory_mb: float, workers: int) -> None:
    of.state[0].short -= _shortage(of, node)
    of.nodes[node].memory_left -= memory_mb
    of.nodes[node].used += workers
    of.state[0].short += _shortage(of, node)


@inner
def _shortage(of: Sustained, node: int) -> float:
    """Return the lack of a node of memory (MB) and ports."""
    on = of.nodes[node]
    return float(max(-on.memory_left, 0.0) + PORT_MB * max(on.used - on.ports, 0))


@inner
def is_allowed(of: Sustained) -> bool:
    """Return whether changed workers are within their limit of executors."""
    for number in range(of.state[0].logged):
        what, before = of.changes[number].what, of.changes[number].before
        if what >= 0 and not (_may_hold(of, before) and _may_hold(of, of.executors[what].worker)):
            return False
    return True


@inner
def _may_hold(of: Sustained, worker: int) -> bool:
    size, it = of.workers[worker].size, of.topologies[of.workers[worker].topology]
    return bool(size <= it.most and (size > 0 or it.may_be_empty))


@inner
def draw_worker(of: Sustained, topology: int) -> int:
    """Draw a worker of a topology that has executors, or an empty one, which is opened on any node."""
    it = of.topologies[topology]
    worker = it.first_worker + draw_below(of, it.last_worker - it.first_worker)
    if of.workers[worker].size == 0:
        carry(of, worker, draw_node(of))
    return int(worker)


@inner
def draw_node(of: Sustained) -> int:
    """Draw a node: any one, or with equal probability one with movable workers."""
    if len(of.free) > 0 and draw(of) < 0.5:
        return int(of.workers[of.executors[of.free[draw_below(of, len(of.free))]].worker].node)
    return draw_below(of, len(of.nodes))


@inner
def gather(of: Sustained, topology: int, worker: int) -> None:
    """Put all executors of a topology into one worker."""
    it = of.topologies[topology]
    for executor in range(it.first, it.last):
        if of.executors[executor].worker != worker:
            put(of, executor, worker)


@inner
def join(of: Sustained, worker: int, to: int) -> None:
    """Put all executors of a worker into another one."""
    it = of.topologies[of.workers[worker].topology]
    for executor in range(it.first, it.last):
        if of.executors[executor].worker == worker:
            put(of, executor, to)


@inner
def exchange(of: Sustained, worker: int) -> int:
    """Exchange a worker with one of another node; return the topology of that, or none.

    The other one is that of a random executor, so its probability is proportional to its size.
    """
    other = of.executors[of.free[draw_below(of, len(of.free))]].worker
    node, to = of.workers[worker].node, of.workers[other].node
    if node == to:
        return NOWHERE
    carry(of, worker, to)
    carry(of, other, node)
    return int(of.workers[other].topology)


# Search -------------------------------------------------------------------------------------------

#: Cumulative probabilities of steps: an executor to another worker, two executors exchanged, a worker to another node,
#: two workers exchanged, a worker joined to another, and for the rest a whole topology in one worker.
_MOVE, _SWAP, _CARRY, _EXCHANGE, _JOIN = 0.4, 0.7, 0.82, 0.92, 0.98

#: Relative change that is only rounding.
_ROUNDING = 1e-12


@compiled
def search(of: Sustained, steps: int, heat: float, cooler: float) -> None:
    """Make `steps` steps.

    Parameters
    ----------
    of
        The placement, its sums right (`stormwright.optimize.throughput.score.add_up`).
    steps
        Number of steps to try.
    heat
        A step that raises the score by this fraction is accepted with probability 1/e.
    cooler
        Factor of `heat` after each step.
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
    """Make a step of a kind; return the other topology that it changes, if any."""
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
    """Return whether a step with this increase of the score is accepted."""
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
    """Save the current placement: worker of every executor, shape (E,), and node of every worker, shape (W,)."""
    for executor in range(len(worker)):
        worker[executor] = of.executors[executor].worker
    for number in range(len(node)):
        node[number] = of.workers[number].node
