"""Virtual clusters for tests, and all that both twins of them are to have alike."""

from __future__ import annotations

import hashlib

import numpy as np

from stormwright.model import (
    Component,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.predict.costs import Costs
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.testing.word_counts import WordCount

HZ = 3e9

#: Nothing but the work of executors.
NO_COSTS = Costs(
    serialise_us=0, serialise_us_per_kb=0, send_us=0, send_us_per_kb=0, receive_us=0, receive_us_per_kb=0,
    worker_cores=0, local_hop_us=0, remote_hop_us=0, overhead_bytes=0, asleep_us=0,
)  # fmt: skip


def chain(each_us, rate_tps, pending=None, cores=64.0, conf=None):
    """A spout and bolts one after the other, a tuple to each for every tree, in one worker; ackers take no CPU."""
    components = [Component("__acker", "system", 1), Component("a-spout", "spout", 1)]
    components += [Component(f"bolt-{number}", "bolt", 1) for number in range(len(each_us) - 1)]
    count = len(components)
    conf = {**(conf or {}), **({} if pending is None else {"topology.max.spout.pending": pending})}
    topology = Topology("chain-1-0", "chain", 1, tuple(components), default_executor_runs(components), conf=conf)
    source = [*range(1, count - 1), *range(1, count), 0]
    target = [*range(2, count), *[0] * (count - 1), 1]
    load = TopologyLoad(
        cpu_hz=np.array([0.0, *each_us]) * 1e-6 * HZ * rate_tps,
        memory_mb=np.ones(count),
        pair_source=np.array(source, np.int32),
        pair_target=np.array(target, np.int32),
        pair_tps=np.full(len(source), rate_tps),
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_tps=np.empty(0),
        flow_grouping=(),
    )
    node = Supervisor("n", "n", (6700,), cores * HZ)
    current = {topology.id: TopologyAssignment((WorkerSlot("n", 6700),), (0,) * count)}
    return Problem((node,), (topology,), load=LoadProfile({topology.id: load}), current=current)


def engine(problem, slots=None, costs=NO_COSTS, profile=None, **settings):
    slots = problem.current_slot if slots is None else slots
    return Events(problem, slots, SimulatorSettings(costs, **settings), profile)


def eventful(seconds, quota):
    """A word count on which next to everything happens: a digest of all that there is in the end.

    Its nodes have a core with a quota each; or 11 cores, which are too few for all of its threads, and after a move
    more than there are threads.
    """
    problem = WordCount(cores=1.0 if quota else 11.0).problem()
    of = engine(
        problem,
        costs=Costs(quota_period_ms=2.0, quota_piece_ms=0.1, machine_cores=2.0) if quota else Costs(remote_hop_us=50.0),
        saturated=True,
        startup_s=seconds / 20,
        link_burst_bytes=300.0,
        core_wait_s=1e-5,
        seed=5,
    )
    whole, slots = hashlib.sha256(), problem.current_slot.copy()
    moved = slots.copy()
    moved[::3] = slots[0] if quota else slots[0] + 2
    steps = [
        lambda: of.slow(0, 0.5),
        lambda: of.place(moved),
        lambda: of.activate(0, False),
        lambda: of.activate(0, True),
        lambda: of.kill(int(slots[0])),
        lambda: of.node(int(problem.slot_node[slots[0]]), False),
        lambda: of.node(int(problem.slot_node[slots[0]]), True),
        lambda: of.place(slots),
    ]
    for number, step in enumerate(steps):
        of.until(seconds * (number + 1) / (len(steps) + 1))
        step()
    of.until(seconds)
    for array in (*everything(of), of.take().tuples):
        whole.update(np.ascontiguousarray(array).tobytes())
    return [of.hops, whole.hexdigest()]


def everything(of):
    """All arrays of a virtual cluster."""
    cluster = of.cluster
    return [np.asarray(each) for each in (*cluster[:-3], *cluster.shares, *cluster.clock, cluster.random)]
