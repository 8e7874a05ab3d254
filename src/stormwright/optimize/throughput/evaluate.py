"""Demand of a tree of one topology for threads, nodes and links, under the current placement.

The same as `stormwright.predict.demand` computes for all topologies at once, for shuffled traffic that stays as local
as possible: it goes to members in the source's worker, else on its node, in its rack, or to all. Every component is
handled once all of its input is known, in time linear in executors, flows, distributions and pairs.
"""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.optimize.throughput.records import PlacementState

#: Rounding error of a difference from 1.
_ROUNDING = 1e-12


# Input of a component from many sources, each in the same proportions to its executors, as tuples go by a hash.
#
# The messages that leave a worker are all tuples minus the parts of its own executors, and those that come to it are
# all minus those sent in it: so the time is linear in executors, not in pairs of them.
@inner
def receive_deals(state: PlacementState, topology: int, component: int) -> None:
    """Add the distributed tuples of the executors of a component."""
    for deal in range(state.components[component].first_deal, state.components[component].last_deal):
        _add_up_parts(state, deal)
        tuples, volume, more = _send_deals(state, topology, deal)
        if tuples > 0.0:
            _receive(state, deal, tuples, volume, more)
        _forget(state, topology)


@inner
def _add_up_parts(state: PlacementState, deal: int) -> None:
    for number in range(state.deals[deal].first_taker, state.deals[deal].last_taker):
        taker = state.receivers[number]
        worker = state.executors[taker.executor].worker
        node = state.workers[worker].node
        state.workers[worker].part += taker.part
        state.workers[worker].part_of_bytes += taker.part_of_bytes
        state.nodes[node].tuples += taker.part
        state.nodes[node].bytes += taker.part_of_bytes


@inner
def _send_deals(state: PlacementState, topology: int, deal: int) -> tuple[float, float, float]:
    """Send the messages of a distribution; return all tuples, their bytes, and the excess of their weight."""
    whole, volume, more = 0.0, 0.0, 0.0
    for number in range(state.deals[deal].first_hand, state.deals[deal].last_hand):
        hand = state.senders[number]
        handled = state.executors[hand.source].handled
        if handled == 0.0:
            continue
        tuples, size = handled * hand.tuples, handled * hand.bytes
        worker = state.executors[hand.source].worker
        on = state.workers[worker]
        whole, volume, more = whole + tuples, volume + size, more + tuples * hand.more
        state.workers[worker].from_tuples += tuples
        state.workers[worker].from_bytes += size
        state.nodes[on.node].from_tuples += tuples
        state.nodes[on.node].from_bytes += size
        leaves = 1.0 - on.part
        if leaves <= _ROUNDING:
            continue
        left_bytes = size * max(1.0 - on.part_of_bytes, 0.0)
        send_messages(state, topology, hand.source, tuples * leaves, left_bytes, 0.0, hand.holds)
        far = 1.0 - state.nodes[on.node].tuples
        if far > _ROUNDING:
            far_bytes = size * max(1.0 - state.nodes[on.node].bytes, 0.0)
            state.tried[state.nodes[on.node].place].out += far_bytes + tuples * far * state.cost[0].overhead
    return whole, volume, more


@inner
def _receive(state: PlacementState, deal: int, tuples: float, volume: float, more: float) -> None:
    """Receive the tuples of a distribution at workers and nodes, with their bytes and excess weight."""
    for number in range(state.deals[deal].first_taker, state.deals[deal].last_taker):
        taker = state.receivers[number]
        worker = state.executors[taker.executor].worker
        on = state.workers[worker]
        come = tuples - on.from_tuples
        if come > _ROUNDING * tuples:
            come_bytes = max(volume - on.from_bytes, 0.0) * taker.part_of_bytes
            receive_messages(state, worker, come * taker.part, come_bytes)
        far = tuples - state.nodes[on.node].from_tuples
        if far > _ROUNDING * tuples:
            far_bytes = max(volume - state.nodes[on.node].from_bytes, 0.0) * taker.part_of_bytes
            come_in(state, on.node, far * taker.part, far_bytes)
        handle(state, taker.executor, tuples * taker.part, more * taker.part)


@inner
def _forget(state: PlacementState, topology: int) -> None:
    for number in range(state.topologies[topology].first, state.topologies[topology].last_filled):
        worker = state.filled[number]
        node = state.workers[worker].node
        state.workers[worker].part, state.workers[worker].part_of_bytes = 0.0, 0.0
        state.workers[worker].from_tuples, state.workers[worker].from_bytes = 0.0, 0.0
        state.nodes[node].tuples, state.nodes[node].bytes = 0.0, 0.0
        state.nodes[node].from_tuples, state.nodes[node].from_bytes = 0.0, 0.0


@inner
def handle(state: PlacementState, executor: int, tuples: float, more: float) -> None:
    """Add tuples to an executor; spouts handle only the trees that they begin.

    Parameters
    ----------
    state
        Placement whose executor gets the tuples and their CPU time.
    executor
        Executor that handles the tuples.
    tuples, more
        Number of tuples, and the excess of their weight over the mean.
    """
    if state.executors[executor].begins == 0.0:
        state.executors[executor].handled += tuples
        if more != 0.0:
            state.executors[executor].busy_s += state.executors[executor].work_s * more


@inner
def send_messages(
    state: PlacementState, topology: int, source: int, tuples: float, volume: float, far: float, holds: float
) -> None:
    """Send tuples out of the worker of their source.

    Parameters
    ----------
    state
        Placement whose executor, worker, node and topology get the cost of sending.
    topology, source
        Topology and executor of the source.
    tuples, volume
        Number of tuples, and their bytes together.
    far
        Fraction of them that leaves the node.
    holds
        Weight of each by which it delays the tree.
    """
    cost, worker, dearer = state.cost[0], state.executors[source].worker, state.topologies[topology].dearer
    state.executors[source].busy_s += dearer * (tuples * cost.serialise_s + volume * cost.serialise_byte_s)
    state.workers[worker].send_s += tuples * cost.send_s + volume * cost.send_byte_s
    state.tried[state.nodes[state.workers[worker].node].place].out += far * (volume + tuples * cost.overhead)
    state.topologies[topology].tried_messages += holds * tuples


@inner
def receive_messages(state: PlacementState, worker: int, tuples: float, volume: float) -> None:
    """Receive tuples at a worker from others.

    Parameters
    ----------
    state
        Placement whose worker gets the CPU time of receiving.
    worker
        Number of the worker that receives the tuples.
    tuples, volume
        Number of tuples, and their bytes together.
    """
    state.workers[worker].receive_s += tuples * state.cost[0].receive_s + volume * state.cost[0].receive_byte_s


@inner
def come_in(state: PlacementState, node: int, tuples: float, volume: float) -> None:
    """Receive tuples at a node from others.

    Parameters
    ----------
    state
        Placement whose node gets the incoming bytes.
    node
        Number of the node that receives the tuples.
    tuples, volume
        Number of tuples, and their bytes together.
    """
    state.tried[state.nodes[node].place].into += volume + tuples * state.cost[0].overhead


@inner
def evaluate(state: PlacementState, topology: int) -> None:
    """Compute the places of a topology, as tried ones."""
    it = state.topologies[topology]
    for executor in range(it.first, it.last):
        state.executors[executor].handled = state.executors[executor].begins
    for _ in range(it.rounds):
        _send(state, topology)
    _add_up(state, topology)


@inner
def _send(state: PlacementState, topology: int) -> None:
    """Propagate tuples through every component in order; once, or repeatedly for cycles."""
    _open_places(state, topology)
    for executor in range(state.topologies[topology].first, state.topologies[topology].last):
        state.executors[executor].busy_s = 0.0
    for component in range(state.topologies[topology].first_component, state.topologies[topology].last_component):
        _receive_pairs(state, topology, component)
        receive_deals(state, topology, component)
        it = state.components[component]
        number = it.first_flow
        while it.first < it.last and number < it.last_flow:
            # Tuples with equal work are distributed together.
            more = state.flows[number].more
            _count_members(state, component)
            number, everywhere, volume = _receive_flows(state, topology, component, number)
            _hand_out(state, component, everywhere, volume, more)
            _forget_members(state, topology)
        for at in range(it.first, it.last):
            executor = state.members[at]
            one = state.executors[executor]
            state.executors[executor].busy_s += one.work_s * one.handled


@inner
def _open_places(state: PlacementState, topology: int) -> None:
    it, end = state.topologies[topology], state.topologies[topology].first
    state.topologies[topology].tried_messages, state.topologies[topology].tried_places = 0.0, 0
    for worker in range(it.first_worker, it.last_worker):
        if state.workers[worker].size > 0:
            state.workers[worker].send_s, state.workers[worker].receive_s = 0.0, 0.0
            state.nodes[state.workers[worker].node].place = NOWHERE
            state.filled[end] = worker
            end += 1
    state.topologies[topology].last_filled = end
    for number in range(it.first, end):
        _open_place(state, topology, state.workers[state.filled[number]].node)


@inner
def _open_place(state: PlacementState, topology: int, node: int) -> None:
    place = state.nodes[node].place
    if place == NOWHERE:
        place = state.topologies[topology].first + state.topologies[topology].tried_places
        state.topologies[topology].tried_places += 1
        state.nodes[node].place = place
        state.tried[place].node, state.tried[place].workers = node, 0
        state.tried[place].cpu, state.tried[place].out, state.tried[place].into = 0.0, 0.0, 0.0
    state.tried[place].workers += 1


@inner
def _receive_pairs(state: PlacementState, topology: int, component: int) -> None:
    """Reset the count of a component's executors, and receive its pairs.

    Pairs of one source follow each other: its traffic to other workers is counted together.
    """
    it = state.components[component]
    for at in range(it.first, it.last):
        executor = state.members[at]
        state.executors[executor].handled = state.executors[executor].begins
    number = it.first_pair
    while number < it.last_pair:
        source, tuples, volume, far, far_volume = state.pairs[number].source, 0.0, 0.0, 0.0, 0.0
        handled, start = state.executors[source].handled, state.executors[source].worker
        node = state.workers[start].node
        while number < it.last_pair and state.pairs[number].source == source:
            target, sent = state.pairs[number].target, handled * state.pairs[number].tuples
            end = state.executors[target].worker
            if start != end and sent > 0.0:
                size, to = sent * state.pairs[number].size, state.workers[end].node
                tuples, volume = tuples + sent, volume + size
                receive_messages(state, end, sent, size)
                if node != to:
                    far, far_volume = far + sent, far_volume + size
                    come_in(state, to, sent, size)
            handle(state, target, sent, sent * state.pairs[number].more)
            number += 1
        if tuples > 0.0:
            send_messages(state, topology, source, tuples, volume, 0.0, state.pairs[number - 1].holds)
            state.tried[state.nodes[node].place].out += far_volume + far * state.cost[0].overhead


@inner
def _count_members(state: PlacementState, component: int) -> None:
    for at in range(state.components[component].first, state.components[component].last):
        worker = state.executors[state.members[at]].worker
        node = state.workers[worker].node
        state.workers[worker].count += 1
        state.nodes[node].count += 1
        state.racks[state.nodes[node].rack].count += 1


@inner
def _forget_members(state: PlacementState, topology: int) -> None:
    for number in range(state.topologies[topology].first, state.topologies[topology].last_filled):
        worker = state.filled[number]
        node = state.workers[worker].node
        rack = state.nodes[node].rack
        state.workers[worker].count, state.workers[worker].near = 0, 0.0
        state.nodes[node].count, state.racks[rack].count = 0, 0
        state.nodes[node].tuples, state.nodes[node].bytes = 0.0, 0.0
        state.nodes[node].from_tuples, state.nodes[node].from_bytes = 0.0, 0.0
        state.racks[rack].tuples, state.racks[rack].bytes = 0.0, 0.0


@inner
def _receive_flows(state: PlacementState, topology: int, component: int, number: int) -> tuple[int, float, float]:
    """Receive shuffled tuples, by the nearest scope of their source with a member: equal flows from a number on.

    Tuples to all are summed by node, and returned: the number of the flow after them, tuples without a near member,
    and their bytes.
    """
    it, everywhere, volume = state.components[component], 0.0, 0.0
    members, more = it.last - it.first, state.flows[number].more
    while number < it.last_flow and state.flows[number].more == more:
        flow = state.flows[number]
        number += 1
        tuples = state.executors[flow.source].handled * flow.tuples
        if tuples == 0.0:
            continue
        worker = state.executors[flow.source].worker
        if state.workers[worker].count > 0:
            state.workers[worker].near += tuples
            continue
        node = state.workers[worker].node
        rack = state.nodes[node].rack
        far = 1.0
        if not flow.local and state.nodes[node].count > 0:
            state.nodes[node].tuples += tuples
            state.nodes[node].bytes += tuples * flow.size
            far = 0.0
        elif not flow.local and state.racks[rack].count > 0:
            state.racks[rack].tuples += tuples
            state.racks[rack].bytes += tuples * flow.size
        else:
            state.nodes[node].from_tuples += tuples
            state.nodes[node].from_bytes += tuples * flow.size
            everywhere, volume = everywhere + tuples, volume + tuples * flow.size
            far = 1.0 - state.nodes[node].count / members
        send_messages(state, topology, flow.source, tuples, tuples * flow.size, far, flow.holds)
    return number, everywhere, volume


@inner
def _hand_out(state: PlacementState, component: int, everywhere: float, volume: float, more: float) -> None:
    """Distribute to every member its part of the tuples for its worker, node, rack, and all, with excess weight."""
    it = state.components[component]
    members = it.last - it.first
    for at in range(it.first, it.last):
        executor = state.members[at]
        worker = state.executors[executor].worker
        node = state.workers[worker].node
        on, rack = state.nodes[node], state.racks[state.nodes[node].rack]
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
            come_in(state, node, far, far_bytes)
        if far + near > 0.0:
            receive_messages(state, worker, far + near, far_bytes + near_bytes)
        own = state.workers[worker].near
        gets = far + near + (own / state.workers[worker].count if own > 0.0 else 0.0)
        handle(state, executor, gets, gets * more)


@inner
def _add_up(state: PlacementState, topology: int) -> None:
    """Sum threads by place; seconds of a core of the reference speed become those of the node's."""
    it, busiest = state.topologies[topology], 0.0
    for executor in range(it.first, it.last):
        node = state.workers[state.executors[executor].worker].node
        took = state.executors[executor].busy_s / state.nodes[node].speed
        state.tried[state.nodes[node].place].cpu += took
        busiest = max(busiest, took)
    for number in range(it.first, state.topologies[topology].last_filled):
        one = state.workers[state.filled[number]]
        slow = it.dearer / state.nodes[one.node].speed
        state.tried[state.nodes[one.node].place].cpu += (one.send_s + one.receive_s) * slow
        busiest = max(busiest, one.send_s * slow, one.receive_s * slow)
    for place in range(it.first, it.first + it.tried_places):
        state.tried[place].out *= state.nodes[state.tried[place].node].link_s
        state.tried[place].into *= state.nodes[state.tried[place].node].link_s
    state.topologies[topology].tried_busiest_s = busiest
