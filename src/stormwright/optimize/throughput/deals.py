"""What is sent to a component in deals: by each of many in the same parts to its executors, as tuples go by a hash.

What leaves a worker is all but the parts of those in it, and what comes to it all but what was sent in it: so the time
is linear in executors, not in pairs of them.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.throughput.messages import come_in, handle, receive_messages, send_messages
from stormwright.optimize.throughput.records import Sustained

#: What is left of 1 once all of it is taken off.
_ROUNDING = 1e-12


@inner
def receive_deals(of: Sustained, topology: int, component: int) -> None:
    """Let executors of a component get their parts."""
    for deal in range(of.components[component].first_deal, of.components[component].last_deal):
        _add_up_parts(of, deal)
        tuples, volume, more = _send(of, topology, deal)
        if tuples > 0.0:
            _receive(of, deal, tuples, volume, more)
        _forget(of, topology)


@inner
def _add_up_parts(of: Sustained, deal: int) -> None:
    for number in range(of.deals[deal].first_taker, of.deals[deal].last_taker):
        taker = of.takers[number]
        worker = of.executors[taker.executor].worker
        node = of.workers[worker].node
        of.workers[worker].part += taker.part
        of.workers[worker].part_of_bytes += taker.part_of_bytes
        of.nodes[node].tuples += taker.part
        of.nodes[node].bytes += taker.part_of_bytes


@inner
def _send(of: Sustained, topology: int, deal: int) -> tuple[float, float, float]:
    """What leaves workers and nodes; all tuples, their bytes, and how many more they count as."""
    whole, volume, more = 0.0, 0.0, 0.0
    for number in range(of.deals[deal].first_hand, of.deals[deal].last_hand):
        hand = of.hands[number]
        handled = of.executors[hand.source].handled
        if handled == 0.0:
            continue
        tuples, size = handled * hand.tuples, handled * hand.bytes
        worker = of.executors[hand.source].worker
        on = of.workers[worker]
        whole, volume, more = whole + tuples, volume + size, more + tuples * hand.more
        of.workers[worker].from_tuples += tuples
        of.workers[worker].from_bytes += size
        of.nodes[on.node].from_tuples += tuples
        of.nodes[on.node].from_bytes += size
        leaves = 1.0 - on.part
        if leaves <= _ROUNDING:
            continue
        left_bytes = size * max(1.0 - on.part_of_bytes, 0.0)
        send_messages(of, topology, hand.source, tuples * leaves, left_bytes, 0.0, hand.holds)
        far = 1.0 - of.nodes[on.node].tuples
        if far > _ROUNDING:
            far_bytes = size * max(1.0 - of.nodes[on.node].bytes, 0.0)
            of.tried[of.nodes[on.node].place].out += far_bytes + tuples * far * of.cost[0].overhead
    return whole, volume, more


@inner
def _receive(of: Sustained, deal: int, tuples: float, volume: float, more: float) -> None:
    """What comes to workers and nodes, of so many tuples, their bytes, and how many more they count as."""
    for number in range(of.deals[deal].first_taker, of.deals[deal].last_taker):
        taker = of.takers[number]
        worker = of.executors[taker.executor].worker
        on = of.workers[worker]
        come = tuples - on.from_tuples
        if come > _ROUNDING * tuples:
            come_bytes = max(volume - on.from_bytes, 0.0) * taker.part_of_bytes
            receive_messages(of, worker, come * taker.part, come_bytes)
        far = tuples - of.nodes[on.node].from_tuples
        if far > _ROUNDING * tuples:
            far_bytes = max(volume - of.nodes[on.node].from_bytes, 0.0) * taker.part_of_bytes
            come_in(of, on.node, far * taker.part, far_bytes)
        handle(of, taker.executor, tuples * taker.part, more * taker.part)


@inner
def _forget(of: Sustained, topology: int) -> None:
    for number in range(of.topologies[topology].first, of.topologies[topology].last_filled):
        worker = of.filled[number]
        node = of.workers[worker].node
        of.workers[worker].part, of.workers[worker].part_of_bytes = 0.0, 0.0
        of.workers[worker].from_tuples, of.workers[worker].from_bytes = 0.0, 0.0
        of.nodes[node].tuples, of.nodes[node].bytes = 0.0, 0.0
        of.nodes[node].from_tuples, of.nodes[node].from_bytes = 0.0, 0.0
