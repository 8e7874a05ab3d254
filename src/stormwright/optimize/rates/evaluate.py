"""What one topology takes of threads, nodes and links for each tree, where its executors are now.

The same as `stormwright.predict.demand` says of all topologies at once, for shuffled traffic that stays as near as it
can: it goes to members in the source's worker, else on its node, in its rack, or to all. Every component is handled
once all that is sent to it is known, in time linear in executors, flows and pairs.
"""

from __future__ import annotations

from stormwright.optimize.kernel.compiled import inner
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.optimize.rates.records import Sustained


@inner
def evaluate(of: Sustained, topology: int) -> None:
    """Work out the places of a topology, as those that are tried."""
    it = of.topologies[topology]
    for executor in range(it.first, it.last):
        of.executors[executor].busy_s = 0.0
        of.executors[executor].handled = of.executors[executor].begins
    for _ in range(it.rounds):
        _send(of, topology)
    _add_up(of, topology)


@inner
def _send(of: Sustained, topology: int) -> None:
    """Let every component get what is sent to it, and send on; once, or once more where tuples circle."""
    _open_places(of, topology)
    for executor in range(of.topologies[topology].first, of.topologies[topology].last):
        of.executors[executor].busy_s = 0.0
    for component in range(of.topologies[topology].first_component, of.topologies[topology].last_component):
        _receive_pairs(of, topology, component)
        it = of.components[component]
        if it.first < it.last and it.first_flow < it.last_flow:
            _count_members(of, component)
            _receive_flows(of, topology, component)
            _hand_out(of, component)
            _forget_members(of, component)
        for at in range(it.first, it.last):
            executor = of.members[at]
            one = of.executors[executor]
            of.executors[executor].busy_s += one.work_s * one.handled


@inner
def _open_places(of: Sustained, topology: int) -> None:
    it = of.topologies[topology]
    of.topologies[topology].tried_messages, of.topologies[topology].tried_places = 0.0, 0
    for worker in range(it.first_worker, it.last_worker):
        of.workers[worker].send_s, of.workers[worker].receive_s = 0.0, 0.0
        if of.workers[worker].size > 0:
            of.nodes[of.workers[worker].node].place = NOWHERE
    for worker in range(it.first_worker, it.last_worker):
        if of.workers[worker].size > 0:
            _open_place(of, topology, of.workers[worker].node)


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
def _handle(of: Sustained, executor: int, tuples: float) -> None:
    """Tuples that an executor gets; what begins trees handles these, and no more."""
    if of.executors[executor].begins == 0.0:
        of.executors[executor].handled += tuples


@inner
def _send_messages(of: Sustained, topology: int, source: int, tuples: float, size: float, far: float) -> None:
    """Tuples leave the worker of their source; the part `far` of them leaves the node."""
    cost, worker, dear = of.cost[0], of.executors[source].worker, tuples * of.topologies[topology].dearer
    of.executors[source].busy_s += dear * (cost.serialise_s + size * cost.serialise_byte_s)
    of.workers[worker].send_s += dear * (cost.send_s + size * cost.send_byte_s)
    of.tried[of.nodes[of.workers[worker].node].place].out += far * tuples * (size + cost.overhead)
    of.topologies[topology].tried_messages += tuples


@inner
def _receive_messages(of: Sustained, worker: int, tuples: float, volume: float) -> None:
    """So many tuples, of `volume` bytes together, come to a worker from others."""
    took = tuples * of.cost[0].receive_s + volume * of.cost[0].receive_byte_s
    of.workers[worker].receive_s += took * of.topologies[of.workers[worker].topology].dearer


@inner
def _come_in(of: Sustained, node: int, tuples: float, volume: float) -> None:
    """So many of them come to a node from others."""
    of.tried[of.nodes[node].place].into += volume + tuples * of.cost[0].overhead


@inner
def _receive_pairs(of: Sustained, topology: int, component: int) -> None:
    """What is sent to executors of a component, one by one; their count begins anew."""
    it = of.components[component]
    for at in range(it.first, it.last):
        executor = of.members[at]
        of.executors[executor].handled = of.executors[executor].begins
    for number in range(it.first_pair, it.last_pair):
        pair = of.pairs[number]
        tuples = of.executors[pair.source].handled * pair.tuples
        if tuples == 0.0:
            continue
        start, end = of.executors[pair.source].worker, of.executors[pair.target].worker
        if start != end:
            node, to = of.workers[start].node, of.workers[end].node
            _send_messages(of, topology, pair.source, tuples, pair.size, 1.0 if node != to else 0.0)
            _receive_messages(of, end, tuples, tuples * pair.size)
            if node != to:
                _come_in(of, to, tuples, tuples * pair.size)
        _handle(of, pair.target, tuples)


@inner
def _count_members(of: Sustained, component: int) -> None:
    for at in range(of.components[component].first, of.components[component].last):
        worker = of.executors[of.members[at]].worker
        node = of.workers[worker].node
        of.workers[worker].count += 1
        of.nodes[node].count += 1
        of.racks[of.nodes[node].rack].count += 1


@inner
def _forget_members(of: Sustained, component: int) -> None:
    it = of.components[component]
    for at in range(it.first, it.last):
        _forget(of, of.members[at])
    for number in range(it.first_flow, it.last_flow):
        _forget(of, of.flows[number].source)


@inner
def _forget(of: Sustained, executor: int) -> None:
    worker = of.executors[executor].worker
    node = of.workers[worker].node
    rack = of.nodes[node].rack
    of.workers[worker].count, of.workers[worker].near = 0, 0.0
    of.nodes[node].count, of.racks[rack].count = 0, 0
    of.nodes[node].tuples, of.nodes[node].bytes = 0.0, 0.0
    of.nodes[node].from_tuples, of.nodes[node].from_bytes = 0.0, 0.0
    of.racks[rack].tuples, of.racks[rack].bytes = 0.0, 0.0


@inner
def _receive_flows(of: Sustained, topology: int, component: int) -> None:
    """Shuffled tuples, by the nearest scope of their source that has a member; what goes to all is kept by node."""
    it = of.components[component]
    members = it.last - it.first
    for number in range(it.first_flow, it.last_flow):
        flow = of.flows[number]
        tuples = of.executors[flow.source].handled * flow.tuples
        if tuples == 0.0:
            continue
        worker = of.executors[flow.source].worker
        node = of.workers[worker].node
        rack = of.nodes[node].rack
        if of.workers[worker].count > 0:
            of.workers[worker].near += tuples
        elif not flow.local and of.nodes[node].count > 0:
            of.nodes[node].tuples += tuples
            of.nodes[node].bytes += tuples * flow.size
            _send_messages(of, topology, flow.source, tuples, flow.size, 0.0)
        elif not flow.local and of.racks[rack].count > 0:
            of.racks[rack].tuples += tuples
            of.racks[rack].bytes += tuples * flow.size
            _send_messages(of, topology, flow.source, tuples, flow.size, 1.0)
        else:
            of.nodes[node].from_tuples += tuples
            of.nodes[node].from_bytes += tuples * flow.size
            _send_messages(of, topology, flow.source, tuples, flow.size, 1.0 - of.nodes[node].count / members)


@inner
def _hand_out(of: Sustained, component: int) -> None:
    """Give every member its part of what was sent to its worker, node, rack, and to all."""
    it = of.components[component]
    everywhere, volume = _sent_to_all(of, component)
    members = it.last - it.first
    for at in range(it.first, it.last):
        executor = of.members[at]
        worker = of.executors[executor].worker
        node = of.workers[worker].node
        on, rack = of.nodes[node], of.racks[of.nodes[node].rack]
        far = rack.tuples / rack.count + (everywhere - on.from_tuples) / members
        far_bytes = rack.bytes / rack.count + (volume - on.from_bytes) / members
        near = on.tuples / on.count + on.from_tuples / members
        near_bytes = on.bytes / on.count + on.from_bytes / members
        if far > 0.0:
            _come_in(of, node, far, far_bytes)
        if far + near > 0.0:
            _receive_messages(of, worker, far + near, far_bytes + near_bytes)
        _handle(of, executor, far + near + of.workers[worker].near / of.workers[worker].count)


@inner
def _sent_to_all(of: Sustained, component: int) -> tuple[float, float]:
    """Tuples that found nobody near, and their bytes: of every node once."""
    tuples, volume, it = 0.0, 0.0, of.components[component]
    for number in range(it.first_flow, it.last_flow):
        flow = of.flows[number]
        worker = of.executors[flow.source].worker
        rack = of.nodes[of.workers[worker].node].rack
        near = of.workers[worker].count
        if not flow.local:
            near += of.nodes[of.workers[worker].node].count + of.racks[rack].count
        if near == 0:
            sent = of.executors[flow.source].handled * flow.tuples
            tuples, volume = tuples + sent, volume + sent * flow.size
    return tuples, volume


@inner
def _add_up(of: Sustained, topology: int) -> None:
    """Sum threads by place; seconds of a core of the reference speed become those of the node's."""
    it, busiest = of.topologies[topology], 0.0
    for executor in range(it.first, it.last):
        node = of.workers[of.executors[executor].worker].node
        took = of.executors[executor].busy_s / of.nodes[node].speed
        of.tried[of.nodes[node].place].cpu += took
        busiest = max(busiest, took)
    for worker in range(it.first_worker, it.last_worker):
        one = of.workers[worker]
        if one.size > 0:
            speed = of.nodes[one.node].speed
            of.tried[of.nodes[one.node].place].cpu += (one.send_s + one.receive_s) / speed
            busiest = max(busiest, one.send_s / speed, one.receive_s / speed)
    for place in range(it.first, it.first + it.tried_places):
        of.tried[place].out *= of.nodes[of.tried[place].node].link_s
        of.tried[place].into *= of.nodes[of.tried[place].node].link_s
    of.topologies[topology].tried_busiest_s = busiest
