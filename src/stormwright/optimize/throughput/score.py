"""Score of a placement: a sum over nodes and topologies, of which a step changes a few terms.

Utilisations are those at the topologies' `rate`, relative to `limit`, times the score's `scale`:

- `THROUGHPUT`: Σ u⁸ of all CPUs, links and busiest threads. Its eighth root is about the highest of them, whose inverse
  is the factor by which all rates can grow together; resources below the bottleneck are balanced too.
- `LATENCY`: Σ of the waiting and service times of trees, u / (1 − u) as in an open queue, and the way of their
  messages, simultaneous ones counting once.
- `NODES`: nodes in use, if nothing is fuller than `limit`; an excess counts more than any node. Uneven use is better,
  as it allows to empty nodes.
"""

from __future__ import annotations

from typing import Any

from stormwright.jit.compiled import compiled, inner
from stormwright.optimize.throughput.evaluate import evaluate
from stormwright.optimize.throughput.records import Sustained

THROUGHPUT, LATENCY, NODES = 0, 1, 2

#: Utilisation limit of the open queue, whose waiting time would diverge; the slope of the cost beyond it.
_NEARLY_FULL, _STEEP = 0.95, 400.0

#: Term of an idle node that should be filled, relative to 1 for a full one.
_IDLE = 4.0

#: Relative to a node's price: the reward of full utilisation, and the cost of an excess by its whole capacity.
_UNEVEN, _TOO_FULL = 0.3, 100.0


@inner
def _eighth(part: float) -> float:
    square = part * part
    return square * square * (square * square)


@inner
def _waiting(part: float) -> float:
    if part < _NEARLY_FULL:
        return part / (1.0 - part)
    return _NEARLY_FULL / (1.0 - _NEARLY_FULL) + _STEEP * (part - _NEARLY_FULL)


@inner
def _too_full(part: float) -> float:
    return _TOO_FULL * max(part - 1.0, 0.0)


@inner
def _present(of: Sustained, workers: int) -> float:
    """Return the base CPU of a number of workers of a node, in cores."""
    return float(workers * of.cost[0].worker_cores + (of.cost[0].polling_cores if workers > 0 else 0.0))


@inner
def of_node(of: Sustained, node: int) -> float:
    """Return the term of a node including the additions of a step."""
    on, state = of.nodes[node], of.state[0]
    workers = on.workers + on.workers_by
    cpu = (on.base + _present(of, workers) + on.cpu + on.cpu_by) / (on.cores * state.limit)
    out, into = (on.out + on.out_by) / state.limit, (on.into + on.into_by) / state.limit
    if state.kind == THROUGHPUT:
        idle = _IDLE if on.filled and workers == 0 else 0.0
        return idle + _eighth(state.scale * cpu) + _eighth(state.scale * out) + _eighth(state.scale * into)
    if state.kind == LATENCY:
        return float(on.cores * _waiting(cpu) + _waiting(out) + _waiting(into))
    price = 1.0 - _UNEVEN * min(cpu, 1.0) ** 2 if workers > 0 else 0.0
    return float(price + _too_full(cpu) + _too_full(out) + _too_full(into))


@inner
def of_topology(of: Sustained, rate: float, busiest_s: float, messages: float) -> float:
    """Return the term of a topology.

    Parameters
    ----------
    of
        The placement.
    rate
        Trees/s.
    busiest_s
        Seconds of a tree in its busiest thread.
    messages
        Sequential messages of a tree, whose way takes time.
    """
    state, busy = of.state[0], rate * busiest_s / of.state[0].limit
    if state.kind == THROUGHPUT:
        return _eighth(state.scale * busy)
    if state.kind == LATENCY:
        return float(_waiting(busy) + rate * messages * of.cost[0].hop_s)
    return _too_full(busy)


# Steps: `begin`, `try_topology` of each that it changes, `rise`; then `take` or `leave` --------------


@inner
def begin(of: Sustained) -> None:
    """Begin a step."""
    of.state[0].touched, of.state[0].rise = 0, 0.0


@inner
def try_topology(of: Sustained, topology: int) -> None:
    """Compute the demand of a topology under its current placement."""
    evaluate(of, topology)
    it = of.topologies[topology]
    for place in range(it.first, it.first + it.places):
        _touch(of, of.places[place], -1)
    for place in range(it.first, it.first + it.tried_places):
        _touch(of, of.tried[place], 1)
    for place in range(it.first, it.first + it.places):
        _add(of, of.places[place], -it.rate)
    for place in range(it.first, it.first + it.tried_places):
        _add(of, of.tried[place], it.rate)
    of.state[0].rise += of_topology(of, it.rate, it.tried_busiest_s, it.tried_messages)
    of.state[0].rise -= of_topology(of, it.rate, it.busiest_s, it.messages)


@inner
def rise(of: Sustained) -> float:
    """Return the increase of the score by the step."""
    total = of.state[0].rise
    for number in range(of.state[0].touched):
        node = of.touched[number]
        total += of_node(of, node) - of.nodes[node].term
    return float(total)


@inner
def take(of: Sustained, topology: int) -> None:
    """Accept the tried places of a topology."""
    it = of.topologies[topology]
    for place in range(it.first, it.first + it.tried_places):
        of.places[place] = of.tried[place]
    of.topologies[topology].places = it.tried_places
    of.topologies[topology].busiest_s, of.topologies[topology].messages = it.tried_busiest_s, it.tried_messages


@inner
def settle(of: Sustained, taken: bool) -> None:
    """End a step: accept or discard the tried nodes."""
    for number in range(of.state[0].touched):
        node = of.touched[number]
        if taken:
            of.state[0].score -= of.nodes[node].term
            of.nodes[node].term = of_node(of, node)
            of.state[0].score += of.nodes[node].term
            of.nodes[node].cpu += of.nodes[node].cpu_by
            of.nodes[node].out += of.nodes[node].out_by
            of.nodes[node].into += of.nodes[node].into_by
            of.nodes[node].workers += of.nodes[node].workers_by
        of.nodes[node].cpu_by, of.nodes[node].out_by, of.nodes[node].into_by = 0.0, 0.0, 0.0
        of.nodes[node].workers_by, of.nodes[node].touched = 0, False
    if taken:
        of.state[0].score += of.state[0].rise


@inner
def _touch(of: Sustained, place: Any, workers: int) -> None:
    node = place.node
    if not of.nodes[node].touched:
        of.nodes[node].touched = True
        of.touched[of.state[0].touched] = node
        of.state[0].touched += 1
    of.nodes[node].workers_by += workers * place.workers


@inner
def _add(of: Sustained, place: Any, rate: float) -> None:
    of.nodes[place.node].cpu_by += rate * place.cpu
    of.nodes[place.node].out_by += rate * place.out
    of.nodes[place.node].into_by += rate * place.into


@compiled
def add_up(of: Sustained) -> None:
    """Recompute every topology, node and the score, from the positions of executors and workers."""
    of.state[0].score = 0.0
    for node in range(len(of.nodes)):
        of.nodes[node].cpu, of.nodes[node].out, of.nodes[node].into, of.nodes[node].workers = 0.0, 0.0, 0.0, 0
        of.nodes[node].cpu_by, of.nodes[node].out_by, of.nodes[node].into_by = 0.0, 0.0, 0.0
        of.nodes[node].workers_by, of.nodes[node].touched = 0, False
    for topology in range(len(of.topologies)):
        evaluate(of, topology)
        take(of, topology)
        it = of.topologies[topology]
        for place in range(it.first, it.first + it.places):
            on = of.places[place].node
            of.nodes[on].cpu += it.rate * of.places[place].cpu
            of.nodes[on].out += it.rate * of.places[place].out
            of.nodes[on].into += it.rate * of.places[place].into
            of.nodes[on].workers += of.places[place].workers
        of.state[0].score += of_topology(of, it.rate, it.busiest_s, it.messages)
    for node in range(len(of.nodes)):
        of.nodes[node].term = of_node(of, node)
        of.state[0].score += of.nodes[node].term


@compiled
def headroom(of: Sustained) -> float:
    """Return the factor by which all rates can grow until a used resource is full; 0 if one is full anyway."""
    most = 1e300
    for node in range(len(of.nodes)):
        on = of.nodes[node]
        if on.cpu > 0.0:
            most = min(most, (on.cores - on.base - _present(of, on.workers)) / on.cpu)
        used = max(on.out, on.into)
        if used > 0.0:
            most = min(most, 1.0 / used)
    for topology in range(len(of.topologies)):
        used = of.topologies[topology].rate * of.topologies[topology].busiest_s
        if used > 0.0:
            most = min(most, 1.0 / used)
    return max(most, 0.0)
