"""Times: against exact queueing theory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

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
from stormwright.predict.queueing.trees import MaximumCoefficients, Times, larger
from stormwright.predict.steady import PlacedLoad, SteadyState, steady_state

NO_COSTS = Costs(local_hop_us=0, remote_hop_us=0, worker_cores=0)
HZ = 3e9


def chain(each_us, pending, cores=64.0, rate_tps=100.0) -> Problem:
    """A spout and bolts one after the other, a tuple to each for every tree, in one worker; ackers take no CPU."""
    components = [Component("__acker", "system", 1), Component("a-spout", "spout", 1)]
    components += [Component(f"bolt-{number}", "bolt", 1) for number in range(len(each_us) - 1)]
    count = len(components)
    conf = {} if pending is None else {"topology.max.spout.pending": pending}
    topology = Topology("chain-1-0", "chain", 1, tuple(components), default_executor_runs(components), conf=conf)
    source, target = [*range(1, count - 1), 1, count - 1, 0], [*range(2, count), 0, 0, 1]
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


def solved(problem: Problem, rate_tps=None, costs=NO_COSTS) -> SteadyState:
    profile = Profile.of(problem)
    placed = PlacedLoad.under(profile, problem, problem.current_slot)
    rates = profile.rate_tps if rate_tps is None else np.array([rate_tps])
    return steady_state(placed, rates, profile.rate_tps, costs)


def exact_rate(each_us, pending, think_us=0.0) -> float:
    """Exact mean value analysis of a closed network of queues with one server each (Reiser and Lavenberg 1980)."""
    service_s, queue = np.array(each_us) * 1e-6, np.zeros(len(each_us))
    rate = 0.0
    for trees in range(1, pending + 1):
        stay = service_s * (1 + queue)
        rate = trees / (stay.sum() + think_us * 1e-6)
        queue = rate * stay
    return rate


@pytest.mark.parametrize("pending", [1, 2, 7, 50, 1000])
@pytest.mark.parametrize("stages", [2, 3, 6])
def test_balanced_closed_networks_are_exact(stages, pending):
    each_us = [100.0] * stages
    found = solved(chain(each_us, pending)).pending.rate_tps
    assert found == pytest.approx([exact_rate(each_us, pending)], rel=1e-4)
    assert found == pytest.approx([1e4 * pending / (pending + stages - 1)], rel=1e-4)  # the same in closed form


@pytest.mark.parametrize("each_us", [(100, 50, 20), (100, 90, 80, 10), (1000, 5, 5), (30, 30, 300)])
@pytest.mark.parametrize("pending", [1, 2, 5, 20, 100])
def test_closed_network_rates_approximate_the_exact_solution(each_us, pending):
    """Schweitzer's approximation is known to be some per cent below between few and many customers."""
    found, exact = float(solved(chain(each_us, pending)).pending.rate_tps[0]), exact_rate(each_us, pending)
    assert exact * 0.96 <= found <= exact * (1 + 1e-4)


@pytest.mark.parametrize("pending", [1, 4, 16, 64, 256])
@pytest.mark.parametrize("delay_us", [10.0, 500.0])
def test_the_machine_repair_model(pending, delay_us):
    """One queue and a delay: trees are machines that run for three hops and are repaired by one bolt."""
    costs = replace(NO_COSTS, local_hop_us=delay_us)
    found = float(solved(chain((0.001, 100.0), pending), costs=costs).pending.rate_tps[0])
    exact = exact_rate((0.001, 100.0), pending, think_us=3 * delay_us)
    assert exact * 0.92 <= found <= exact * (1 + 1e-4)
    assert found <= min(1e4, pending / (100e-6 + 3 * delay_us * 1e-6)) * (1 + 1e-6)


@pytest.mark.parametrize("pending", [1, 3, 10, 100])
def test_asymptotic_bounds(pending):
    """X ≤ min(1 / D_max, K / ΣD), and both are reached at their ends."""
    each_us = (100.0, 60.0, 40.0)
    found = float(solved(chain(each_us, pending)).pending.rate_tps[0])
    bound = min(1e6 / max(each_us), pending * 1e6 / sum(each_us))
    assert found <= bound * (1 + 1e-9)
    if pending in (1, 100):
        assert found == pytest.approx(bound, rel=0.01)


@pytest.mark.parametrize("use", [0.1, 0.5, 0.9])
def test_an_open_tandem_is_queues_in_a_row(use):
    """M/M/1 queues: what comes after the spout takes S / (1 − ρ) each."""
    each_us = (1.0, 100.0, 50.0)
    steady = solved(chain(each_us, None), rate_tps=use * 1e4)
    exact = 100e-6 / (1 - use) + 50e-6 / (1 - use / 2)
    assert steady.given.ways.latency.mean == pytest.approx([exact], rel=1e-3)
    assert steady.given.ways.latency.variance == pytest.approx(
        [(100e-6 / (1 - use)) ** 2 + (50e-6 / (1 - use / 2)) ** 2], rel=1e-3
    )


def test_single_queue_has_exponential_latency_quantiles():
    steady = solved(chain((0.001, 100.0), None), rate_tps=5e3)
    assert steady.given.ways.latency.quantile(0.99) == pytest.approx([200e-6 * np.log(100)], rel=1e-3)


@pytest.mark.parametrize("threads", [2, 3, 9])
def test_threads_share_a_core_by_processor_sharing(threads):
    """Processor sharing: n threads, each busy for a part b of the time, take 1 + (n − 1) b times as long."""
    each_us = [100.0] * threads
    use = 0.6
    steady = solved(chain(each_us, None, cores=1.0), rate_tps=use * 1e4 / threads)
    busy = steady.given.busy[1 : threads + 1]
    alone = use / threads
    assert busy / alone == pytest.approx(1 + (threads - 1) * busy)


@pytest.mark.parametrize("cores", [0.3, 1.0, 2.0, 3.5])
@pytest.mark.parametrize("each_us", [(100,) * 8, (400, 100, 50, 20), (10, 300, 300, 300, 300)])
def test_many_pending_trees_saturate_the_node(cores, each_us):
    found = float(solved(chain(each_us, 20_000, cores=cores)).pending.rate_tps[0])
    node, thread = cores * 1e6 / sum(each_us), 1e6 / max(each_us)
    assert found <= min(node, thread) * (1 + 1e-9)
    # A thread that is the limit itself still waits for a core now and then, where the node has others for it.
    assert found >= min(node, thread) * (0.98 if node < thread else 0.95)


def test_the_largest_of_exponential_times_is_exact():
    count = np.array([1.0, 2.0, 5.0])
    largest = MaximumCoefficients.of(count).largest(Times(np.full(3, 2.0), np.full(3, 4.0)))
    assert largest.mean == pytest.approx(2.0 * np.array([1, 1.5, 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5]))
    assert largest.variance == pytest.approx(4.0 * np.array([1, 1.25, 1 + 1 / 4 + 1 / 9 + 1 / 16 + 1 / 25]))


def test_intermittent_time_has_mixture_mean_and_variance():
    """Half of the time no tuple: half the mean, and the variance of a mixture."""
    rarely = MaximumCoefficients.of(np.array([0.5])).largest(Times(np.array([2.0]), np.array([4.0])))
    assert rarely.mean == pytest.approx([1.0])
    assert rarely.variance == pytest.approx([0.5 * 8.0 - 1.0])


def test_the_larger_of_two_normal_times():
    draws = np.random.default_rng(1).normal([10.0, 11.0], [2.0, 3.0], (400_000, 2)).max(axis=1)
    found = larger(Times(np.array([10.0]), np.array([4.0])), Times(np.array([11.0]), np.array([9.0])))
    assert found.mean == pytest.approx([draws.mean()], abs=5 * draws.std() / np.sqrt(len(draws)))
    assert found.variance == pytest.approx([draws.var()], rel=0.02)
    certain = larger(Times(np.array([1.0]), np.zeros(1)), Times(np.array([3.0]), np.zeros(1)))
    assert (certain.mean.item(), certain.variance.item()) == (3.0, 0.0)
