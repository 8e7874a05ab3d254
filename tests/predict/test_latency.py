"""Complete latency: by hand, and against the virtual cluster, whose definition of it is Storm's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

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
from stormwright.predict.flow.profile import Profile
from stormwright.predict.queueing.neighbour_load import NeighbourLoad
from stormwright.predict.queueing.network import Networks, QueueNetwork, narrowed
from stormwright.predict.queueing.trees import Times
from stormwright.predict.queueing.waits import QueueState
from stormwright.predict.steady import PlacedLoad, steady_state
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from tests.examples import examples

HZ, RATE_TPS, WORK_US = 3e9, 20.0, 5.0

#: Delays only: messages cost no CPU, workers none by being there, and threads that find no tuples do not sleep.
DELAYS = Costs(
    serialise_us=0, serialise_us_per_kb=0, send_us=0, send_us_per_kb=0, receive_us=0, receive_us_per_kb=0,
    worker_cores=0, overhead_bytes=0, asleep_us=0, local_hop_us=100.0, remote_hop_us=1_000.0,
)  # fmt: skip
LOCAL_MS, REMOTE_MS, WORK_MS = 0.1, 1.1, WORK_US * 1e-3

#: Batches of a simulation, and the deviations of their mean that it is off by once in ten thousand times.
BATCHES = 10
DEVIATIONS = float(stdtrit(BATCHES - 1, 1 - 0.5e-4))

#: Part by which a prediction may be off besides: latencies of a simulation wait a little for each other.
TOLERANCE = 0.02

#: An edge: components by number, 0 being the spout, and tuples for each tuple at the source.
Edges = Sequence[tuple[int, int, float]]


def chain(length: int) -> Edges:
    """A spout and bolts one after the other."""
    return [(bolt, bolt + 1, 1.0) for bolt in range(length)]


DIAMOND: Edges = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0)]


def problem(edges: Edges, workers: Sequence[int], ackers: Sequence[int], cores: float = 64.0) -> Problem:
    """A topology with one executor of each component, each in one of two workers on two nodes.

    Parameters
    ----------
    edges
        Sorted by source.
    workers, ackers
        Worker of every component, and of every acker executor.
    cores
        Of either node.
    """
    bolts, count = len(workers) - 1, len(ackers)
    components = (
        Component("__acker", "system", count),
        Component("a-spout", "spout", 1),
        *(Component(f"bolt-{number}", "bolt", 1) for number in range(bolts)),
    )
    topology = Topology("tree-1-0", "tree", 1, components, default_executor_runs(components))
    tps = np.zeros(len(workers))
    tps[0] = RATE_TPS
    for source, target, often in edges:
        tps[target] += tps[source] * often
    pairs = [(count + source, count + target, tps[source] * often) for source, target, often in edges]
    pairs += [(count + number, acker, tps[number] / count) for number in range(len(workers)) for acker in range(count)]
    pairs += [(acker, count, RATE_TPS / count) for acker in range(count)]
    load = TopologyLoad(
        cpu_hz=np.concatenate([np.zeros(count), tps * WORK_US * 1e-6 * HZ]),
        memory_mb=np.ones(count + len(workers)),
        pair_source=np.array([pair[0] for pair in pairs], np.int32),
        pair_target=np.array([pair[1] for pair in pairs], np.int32),
        pair_tps=np.array([pair[2] for pair in pairs]),
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_tps=np.empty(0),
        flow_grouping=(),
    )
    nodes = tuple(Supervisor(name, name, (6700,), cores * HZ) for name in ("a", "b"))
    slots = tuple(WorkerSlot(node.id, 6700) for node in nodes)
    used = sorted({*ackers, *workers})
    places = tuple(used.index(worker) for worker in (*ackers, *workers))
    current = {topology.id: TopologyAssignment(tuple(slots[worker] for worker in used), places)}
    return Problem(nodes, (topology,), load=LoadProfile({topology.id: load}), current=current)


def state(of: Problem, costs: Costs = DELAYS) -> QueueState:
    profile = Profile.of(of)
    placed = PlacedLoad.under(profile, of, of.current_slot)
    return steady_state(placed, profile.rate_tps, profile.rate_tps, costs).given


def latency(of: Problem, costs: Costs = DELAYS) -> Times:
    """In ms and ms²."""
    found = state(of, costs).ways.latency
    return Times(1e3 * found.mean[0], 1e6 * found.variance[0])


def simulated_ms(of: Problem, trees: int = 4_000) -> tuple[float, float]:
    """Mean complete latency, and how far it may be off by chance, in ms; of batches after one that does not count."""
    engine = Events(of, of.current_slot, SimulatorSettings(DELAYS, startup_s=0.0, seed=1))
    found = []
    for batch in range(BATCHES + 1):
        before = engine.counts
        engine.until((batch + 1) * trees / RATE_TPS / BATCHES)
        topologies = engine.counts.since(before).topologies
        found.append(1e3 * topologies["latency_s"][0] / topologies["completed"][0])
    return float(np.mean(found[1:])), DEVIATIONS * float(np.std(found[1:], ddof=1)) / BATCHES**0.5


def test_ack_of_the_last_bolt_counts():
    """Only the hop of the last ack counts: the acker, which is beside the last of two bolts, gets it after 0.1 ms.

    The first bolt's ack takes 1.1 ms, as does what the spout sends the acker at the beginning.
    """
    found = latency(problem(chain(2), workers=[0, 0, 1], ackers=[1]))
    by_hand_ms = LOCAL_MS + WORK_MS + REMOTE_MS + WORK_MS + LOCAL_MS - REMOTE_MS
    assert by_hand_ms == pytest.approx(0.210)
    assert found.mean == pytest.approx(by_hand_ms, rel=1e-3)


def test_cycle_ends_with_the_ack_of_the_last_bolt():
    found = state(problem(chain(2), workers=[0, 0, 1], ackers=[1])).ways.cycle
    by_hand_ms = WORK_MS + LOCAL_MS + WORK_MS + REMOTE_MS + WORK_MS + LOCAL_MS + REMOTE_MS
    assert 1e3 * found.mean[0] == pytest.approx(by_hand_ms, rel=1e-3)


def test_bolt_without_output_ends_the_tree_with_its_own_ack():
    """Of four trees one goes on to the bolt beside the acker; the others end with an ack from the other worker."""
    found = latency(problem([(0, 1, 1.0), (1, 2, 0.25)], workers=[0, 0, 1], ackers=[1]))
    first_ms = LOCAL_MS + WORK_MS
    by_hand_ms = first_ms + 0.25 * (REMOTE_MS + WORK_MS + LOCAL_MS) + 0.75 * REMOTE_MS - REMOTE_MS
    assert found.mean == pytest.approx(by_hand_ms, rel=1e-3)


def test_latency_covers_bolt_with_probabilistic_output_on_two_edges():
    """Both edges are taken half of the time: a quarter of the trees ends with the first bolt."""
    edges = [(0, 1, 1.0), (1, 2, 0.5), (1, 3, 0.5)]
    of = problem(edges, workers=[0, 0, 1, 1], ackers=[1])
    mean_ms, chance_ms = simulated_ms(of)
    first_ms, on_ms = LOCAL_MS + WORK_MS, REMOTE_MS + WORK_MS + LOCAL_MS
    assert mean_ms == pytest.approx(first_ms + 0.75 * on_ms + 0.25 * REMOTE_MS - REMOTE_MS, abs=chance_ms)
    assert latency(of).mean == pytest.approx(mean_ms, abs=0.1 * on_ms + chance_ms)


def test_stops_hold_up_every_thread_on_the_way():
    """Two bolts, and two messages that each pass a thread that sends and one that receives.

    Threads that look for tuples use up the quota in every period: nodes run for a fifth of it, 0.4 of 2 cores.
    """
    of = problem(chain(2), workers=[0, 0, 1], ackers=[0], cores=0.4)
    with_stops = replace(DELAYS, quota_period_ms=20.0, machine_cores=2.0, polling_share=0.9, asleep_us=100.0)
    lost_ms = 1e-3 * with_stops.asleep_us * (1 - 0.2) / 0.2
    assert latency(of, with_stops).mean - latency(of).mean == pytest.approx((2 + 2 * 2) * lost_ms)


@st.composite
def chains(draw: st.DrawFn) -> Problem:
    """A chain of two to six bolts over two workers, with an acker in one of them or in both."""
    length = draw(st.integers(2, 6))
    workers = draw(st.lists(st.integers(0, 1), min_size=length + 1, max_size=length + 1))
    ackers = draw(st.sampled_from([[0], [1], [0, 1]]))
    return problem(chain(length), workers, ackers)


@given(of=chains())
@settings(max_examples=examples(10), deadline=None)
def test_chains_over_two_workers_take_as_long_as_in_the_virtual_cluster(of: Problem):
    mean_ms, chance_ms = simulated_ms(of, trees=1_000)
    assert latency(of).mean == pytest.approx(mean_ms, rel=TOLERANCE, abs=chance_ms)


@pytest.mark.parametrize("acker", [0, 1])
@pytest.mark.parametrize("workers", [[0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]])
def test_diamonds_over_two_workers_take_as_long_as_in_the_virtual_cluster(workers, acker):
    of = problem(DIAMOND, workers, ackers=[acker])
    mean_ms, chance_ms = simulated_ms(of, trees=1_000)
    assert latency(of).mean == pytest.approx(mean_ms, rel=TOLERANCE, abs=chance_ms)


def merged(parts: Sequence[Problem]) -> Problem:
    """All their topologies on the nodes that they have alike."""
    topologies = tuple(replace(part.topologies[0], id=f"tree-{number}-0") for number, part in enumerate(parts))
    loads = LoadProfile({one.id: part.loads[0] for one, part in zip(topologies, parts, strict=True)})
    return Problem(parts[0].supervisors, topologies, load=loads)


@pytest.mark.long
@given(parts=st.lists(chains(), min_size=2, max_size=4), data=st.data())
@settings(max_examples=examples(20), deadline=None)
def test_latency_of_some_topologies_is_as_among_all(parts: list[Problem], data: st.DataObject):
    of, count = merged(parts), len(parts)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    profile = Profile.of(of)
    placed = PlacedLoad.under(profile, of, np.concatenate([part.current_slot for part in parts]))
    demand = placed.standing.demand(placed.routes, DELAYS, {})
    network = QueueNetwork.of(demand, placed.routes, profile.graph, profile.layout, DELAYS)
    others = NeighbourLoad.of(demand, profile.rate_tps)
    narrow, sites = narrowed(network, chosen)
    whole = QueueState(profile.rate_tps, Networks.of(network), others).ways
    some = QueueState(profile.rate_tps, Networks.of(narrow), NeighbourLoad(*(each[:, sites] for each in others))).ways
    for times, those in zip(whole, some, strict=True):
        for each, other in zip(times, those, strict=True):
            assert other[chosen] == pytest.approx(each[chosen])
