"""Demand of a tree of one topology for threads, nodes and links, under the current placement.

The same as `stormwright.predict.demand` computes for all topologies at once, for shuffled traffic that stays as local
as possible: it goes to members in the source's worker, else on its node, in its rack, or to all. Every component is
handled once all of its input is known, in time linear in executors, flows, distributions and pairs.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.optimize.throughput.records import Sustained

# Distributions ------------------------------------------------------------------------------------
# Input of a component from many sources, each in the same proportions to its executors, as tuples go by a hash.
#
# The messages that leave a worker are all tuples minus the parts of its own executors, and those that come to it are
# all minus those sent in it: so the time is linear in executors, not in pairs of them.

#: Rounding error of a difference from 1.
_ROUNDING = 1e-12


@inner
def receive_deals(of: Sustained, topology: int, component: int) -> None:
    """Add the distributed tuples of the executors of a component."""
    for deal in range(of.components[component].first_deal, of.components[component].last_deal):
        _add_up_parts(of, deal)
        tuples, volume, more = _send_deals(of, topology, deal)
        if tuples > 0.0:
            _receive(of, deal, tuples, volume, more)
        _forget(of, topology)


@inner
def _add_up_parts(of: Sustained, deal: int) -> None:
    for number in range(of.deals[deal].first_taker, of.deals[deal].last_taker):
        taker = of.receivers[number]
        worker = of.executors[taker.executor].worker
        node = of.workers[worker].node
        of.workers[worker].part += taker.part
        of.workers[worker].part_of_bytes += taker.part_of_bytes
        of.nodes[node].tuples += taker.part
        of.nodes[node].bytes += taker.part_of_bytes


@inner
def _send_deals(of: Sustained, topology: int, deal: int) -> tuple[float, float, float]:
    """Send the messages of a distribution; return all tuples, their bytes, and the excess of their weight."""
    whole, volume, more = 0.0, 0.0, 0.0
    for number in range(of.deals[deal].first_hand, of.deals[deal].last_hand):
        hand = of.senders[number]
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
    """Receive the tuples of a distribution at workers and nodes, with their bytes and excess weight."""
    for number in range(of.deals[deal].first_taker, of.deals[deal].last_taker):
        taker = of.receivers[number]
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


# Messages -----------------------------------------------------------------------------------------


@inner
def handle(of: Sustained, executor: int, tuples: float, more: float) -> None:
    """Add tuples to an executor; spouts handle only the trees that they begin.

    Parameters
    ----------
    of
        The placement.
    executor
        The executor.
    tuples, more
        Number of tuples, and the excess of their weight over the mean.
    """
    if of.executors[executor].begins == 0.0:
        of.executors[executor].handled += tuples
        if more != 0.0:
            of.executors[executor].busy_s += of.executors[executor].work_s * more


@inner
def send_messages(
    of: Sustained, topology: int, source: int, tuples: float, volume: float, far: float, holds: float
) -> None:
    """Send tuples out of the worker of their source.

    Parameters
    ----------
    of
        The placement.
    topology, source
        Topology and executor of the source.
    tuples, volume
        Number of tuples, and their bytes together.
    far
        Fraction of them that leaves the node.
    holds
        Weight of each by which it delays the tree.
    """
    cost, worker, dearer = of.cost[0], of.executors[source].worker, of.topologies[topology].dearer
    of.executors[source].busy_s += dearer * (tuples * cost.serialise_s + volume * cost.serialise_byte_s)
    of.workers[worker].send_s += tuples * cost.send_s + volume * cost.send_byte_s
    of.tried[of.nodes[of.workers[worker].node].place].out += far * (volume + tuples * cost.overhead)
    of.topologies[topology].tried_messages += holds * tuples


@inner
def receive_messages(of: Sustained, worker: int, tuples: float, volume: float) -> None:
    """Receive tuples at a worker from others.

    Parameters
    ----------
    of
        The placement.
    worker
        Target worker.
    tuples, volume
        Number of tuples, and their bytes together.
    """
    of.workers[worker].receive_s += tuples * of.cost[0].receive_s + volume * of.cost[0].receive_byte_s


@inner
def come_in(of: Sustained, node: int, tuples: float, volume: float) -> None:
    """Receive tuples at a node from others.

    Parameters
    ----------
    of
        The placement.
    node
        Target node.
    tuples, volume
        Number of tuples, and their bytes together.
    """
    of.tried[of.nodes[node].place].into += volume + tuples * of.cost[0].overhead


# Evaluation of a topology -------------------------------------------------------------------------


@inner
def evaluate(of: Sustained, topology: int) -> None:
    """Compute the places of a topology, as tried ones."""
    it = of.topologies[topology]
    for executor in range(it.first, it.last):
        of.executors[executor].handled = of.executors[executor].begins
    for _ in range(it.rounds):
        _send(of, topology)
    _add_up(of, topology)


@inner
def _send(of: Sustained, topology: int) -> None:
    """Propagate tuples through every component in order; once, or repeatedly for cycles."""
    _open_places(of, topology)
    for executor in range(of.topologies[topology].first, of.topologies[topology].last):
        of.executors[executor].busy_s = 0.0
    for component in range(of.topologies[topology].first_component, of.topologies[topology].last_component):
        _receive_pairs(of, topology, component)
        receive_deals(of, topology, component)
        it = of.components[component]
        number = it.first_flow
        while it.first < it.last and number < it.last_flow:
            # Tuples with equal work are distributed together.
            more = of.flows[number].more
            _count_members(of, component)
            number, everywhere, volume = _receive_flows(of, topology, component, number)
            _hand_out(of, component, everywhere, volume, more)
            _forget_members(of, topology)
        for at in range(it.first, it.last):
            executor = of.members[at]
            one = of.executors[executor]
            of.executors[executor].busy_s += one.work_s * one.handled


@inner
def _open_places(of: Sustained, topology: int) -> None:
    it, end = of.topologies[topology], of.topologies[topology].first
    of.topologies[topology].tried_messages, of.topologies[topology].tried_places = 0.0, 0
    for worker in range(it.first_worker, it.last_worker):
        if of.workers[worker].size > 0:
            of.workers[worker].send_s, of.workers[worker].receive_s = 0.0, 0.0
            of.nodes[of.workers[worker].node].place = NOWHERE
            of.filled[end] = worker
            end += 1
    of.topologies[topology].last_filled = end
    for number in range(it.first, end):
        _open_place(of, topology, of.workers[of.filled[number]].node)


@inner
def _open_place(of: Sustained, topology: int, node: int) -> None:
    place = of.nodes[node].place
    if place == NOWHERE:
        place = of.topologies[topology].first + of.topologies[topology].tried_places
        of.topologies[topology].tried_places += 1
        of.nodes[node].place = place
        of.tried[place].node, of.tried[place].workers = node, 0
        of.tried[place].cpu, of.tried[place].out, of.tried[place].into = 0.0, 0.0, 0.0
    of.tried[place].workers += 1


@inner
def _receive_pairs(of: Sustained, topology: int, component: int) -> None:
    """Reset the count of a component's executors, and receive its pairs.

    Pairs of one source follow each other: its traffic to other workers is counted together.
    """
    it = of.components[component]
    for at in range(it.first, it.last):
        executor = of.members[at]
        of.executors[executor].handled = of.executors[executor].begins
    number = it.first_pair
    while number < it.last_pair:
        source, tuples, volume, far, far_volume = of.pairs[number].source, 0.0, 0.0, 0.0, 0.0
        handled, start = of.executors[source].handled, of.executors[source].worker
        node = of.workers[start].node
        while number < it.last_pair and of.pairs[number].source == source:
            target, sent = of.pairs[number].target, handled * of.pairs[number].tuples
            end = of.executors[target].worker
            if start != end and sent > 0.0:
                size, to = sent * of.pairs[number].size, of.workers[end].node
                tuples, volume = tuples + sent, volume + size
                receive_messages(of, end, sent, size)
                if node != to:
                    far, far_volume = far + sent, far_volume + size
                    come_in(of, to, sent, size)
            handle(of, target, sent, sent * of.pairs[number].more)
            number += 1
        if tuples > 0.0:
            send_messages(of, topology, source, tuples, volume, 0.0, of.pairs[number - 1].holds)
            of.tried[of.nodes[node].place].out += far_volume + far * of.cost[0].overhead


@inner
def _count_members(of: Sustained, component: int) -> None:
    for at in range(of.components[component].first, of.components[component].last):
        worker = of.executors[of.members[at]].worker
        node = of.workers[worker].node
        of.workers[worker].count += 1
        of.nodes[node].count += 1
        of.racks[of.nodes[node].rack].count += 1


@inner
def _forget_members(of: Sustained, topology: int) -> None:
    for number in range(of.topologies[topology].first, of.topologies[topology].last_filled):
        worker = of.filled[number]
        node = of.workers[worker].node
        rack = of.nodes[node].rack
        of.workers[worker].count, of.workers[worker].near = 0, 0.0
        of.nodes[node].count, of.racks[rack].count = 0, 0
        of.nodes[node].tuples, of.nodes[node].bytes = 0.0, 0.0
        of.nodes[node].from_tuples, of.nodes[node].from_bytes = 0.0, 0.0
        of.racks[rack].tuples, of.racks[rack].bytes = 0.0, 0.0


@inner
def _receive_flows(of: Sustained, topology: int, component: int, number: int) -> tuple[int, float, float]:
    """Receive shuffled tuples, by the nearest scope of their source with a member: equal flows from a number on.

    Tuples to all are summed by node, and returned: the number of the flow after them, tuples without a near member,
    and their bytes.
    """
    it, everywhere, volume = of.components[component], 0.0, 0.0
    members, more = it.last - it.first, of.flows[number].more
    while number < it.last_flow and of.flows[number].more == more:
        flow = of.flows[number]
        number += 1
        tuples = of.executors[flow.source].handled * flow.tuples
        if tuples == 0.0:
            continue
        worker = of.executors[flow.source].worker
        if of.workers[worker].count > 0:
            of.workers[worker].near += tuples
            continue
        node = of.workers[worker].node
        rack = of.nodes[node].rack
        far = 1.0
        if not flow.local and of.nodes[node].count > 0:
            of.nodes[node].tuples += tuples
            of.nodes[node].bytes += tuples * flow.size
            far = 0.0
        elif not flow.local and of.racks[rack].count > 0:
            of.racks[rack].tuples += tuples
            of.racks[rack].bytes += tuples * flow.size
        else:
            of.nodes[node].from_tuples += tuples
            of.nodes[node].from_bytes += tuples * flow.size
            everywhere, volume = everywhere + tuples, volume + tuples * flow.size
            far = 1.0 - of.nodes[node].count / members
        send_messages(of, topology, flow.source, tuples, tuples * flow.size, far, flow.holds)
    return number, everywhere, volume


@inner
def _hand_out(of: Sustained, component: int, everywhere: float, volume: float, more: float) -> None:
    """Distribute to every member its part of the tuples for its worker, node, rack, and all, with excess weight."""
    it = of.components[component]
    members = it.last - it.first
    for at in range(it.first, it.last):
        executor = of.members[at]
        worker = of.executors[executor].worker
        node = of.workers[worker].node
        on, rack = of.nodes[node], of.racks[of.nodes[node].rack]
        far, far_bytes, near, near_bytes = 0.0, 0.0, 0.0, 0.0
        if rack.tuples > 0.0:
            far, far_bytes = rack.tuples / rack.count, rack.bytes / rack.count
        if everywhere > 0.0:
            far += (everywhere - on.from_tuples) / members
            far_bytes += (volume - on.from_bytes) / members
            near, near_bytes = on.from_tuples / members, on.from_bytes / members
        if on.tuples > 0.0:
            near, near_bytes = near + on.tuples / on.count, near_bytes + on.bytes / on.count
        if far > 0.0:
            come_in(of, node, far, far_bytes)
        if far + near > 0.0:
            receive_messages(of, worker, far + near, far_bytes + near_bytes)
        own = of.workers[worker].near
        gets = far + near + (own / of.workers[worker].count if own > 0.0 else 0.0)
        handle(of, executor, gets, gets * more)


@inner
def _add_up(of: Sustained, topology: int) -> None:
    """Sum threads by place; seconds of a core of the reference speed become those of the node's."""
    it, busiest = of.topologies[topology], 0.0
    for executor in range(it.first, it.last):
        node = of.workers[of.executors[executor].worker].node
        took = of.executors[executor].busy_s / of.nodes[node].speed
        of.tried[of.nodes[node].place].cpu += took
        busiest = max(busiest, took)
    for number in range(it.first, of.topologies[topology].last_filled):
        one = of.workers[of.filled[number]]
        slow = it.dearer / of.nodes[one.node].speed
        of.tried[of.nodes[one.node].place].cpu += (one.send_s + one.receive_s) * slow
        busiest = max(busiest, one.send_s * slow, one.receive_s * slow)
    for place in range(it.first, it.first + it.tried_places):
        of.tried[place].out *= of.nodes[of.tried[place].node].link_s
        of.tried[place].into *= of.nodes[of.tried[place].node].link_s
    of.topologies[topology].tried_busiest_s = busiest
