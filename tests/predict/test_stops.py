"""Nodes that stop once they have used up a quota of CPU: against clocks that are stopped one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.errors import InputError
from stormwright.predict.costs import Costs
from stormwright.predict.steady import SteadyState
from tests.predict.test_queues import chain, solved

#: Threads sleep for long, so that work itself takes next to no time.
SLEEP_US, PERIOD_MS = 500.0, 20.0
QUOTA = Costs(
    local_hop_us=0,
    remote_hop_us=0,
    worker_cores=0,
    quota_period_ms=PERIOD_MS,
    quota_piece_ms=0,
    machine_cores=2,
    polling_share=0,
    asleep_us=SLEEP_US,
)
#: Of a tree on each of four threads, and how many of those are bolts.
EACH_US, BOLTS = (1.0, 1.0, 1.0, 1.0), 3


def given(cores: float, costs: Costs, rate_tps: float, pending: int | None = None) -> SteadyState:
    return solved(chain(EACH_US, pending, cores), rate_tps=rate_tps, costs=costs)


def latency_ms(cores: float, costs: Costs, rate_tps: float = 100.0, pending: int | None = None) -> float:
    return float(given(cores, costs, rate_tps, pending).given.ways.latency.mean[0]) * 1e3


def lost_by_stops_ms(cores: float, stopping: float, trees: int = 20_000) -> np.ndarray:
    """What trees lose that begin at any time at which their node runs, and sleep at each bolt for an exponential time.

    The node has a clock of what it ran; in random periods it stops after its quota, in others not at all.
    """
    draws = np.random.default_rng(3)
    on_ms = np.where(draws.random(200_000) < stopping, PERIOD_MS * cores / 2, PERIOD_MS)
    ends = np.cumsum(on_ms)
    stop_ms = PERIOD_MS - on_ms
    lost = np.empty(trees)
    for tree in range(trees):
        begin = draws.uniform(0, ends[-1] * 0.9)
        end = begin + draws.exponential(SLEEP_US * 1e-3, BOLTS).sum()
        first, last = np.searchsorted(ends, [begin, end])
        lost[tree] = stop_ms[first:last].sum()
    return lost


@pytest.mark.slow
@pytest.mark.parametrize("cores", [0.25, 0.4, 1.0])
@pytest.mark.parametrize("stopping", [0.3, 0.7, 1.0])
def test_latency_added_by_quota_stops_equals_simulation(cores, stopping):
    """Idle threads take so much that the quota is used up in that part of the periods."""
    costs = replace(QUOTA, polling_share=stopping * cores / (BOLTS + 2))
    found = latency_ms(cores, costs) - latency_ms(cores, replace(costs, quota_period_ms=0))
    simulated = lost_by_stops_ms(cores, stopping)
    assert found == pytest.approx(simulated.mean(), abs=5 * simulated.std() / np.sqrt(len(simulated)))


@pytest.mark.parametrize("cores", [0.25, 0.4, 1.0])
def test_latency_variance_matches_random_interruptions(cores):
    """As with breakdowns in queueing theory; measured latencies vary like that, though quotas have a clock."""
    found = given(cores, replace(QUOTA, polling_share=cores / (BOLTS + 2)), 100.0).given.ways.latency
    draws, on_ms, stop_ms = np.random.default_rng(3), PERIOD_MS * cores / 2, PERIOD_MS * (1 - cores / 2)
    needs_ms = draws.exponential(SLEEP_US * 1e-3, (400_000, BOLTS)).sum(axis=1)
    simulated = draws.poisson(needs_ms / on_ms) * stop_ms
    assert found.mean[0] * 1e3 == pytest.approx(simulated.mean(), rel=0.01)
    assert found.variance[0] * 1e6 == pytest.approx(simulated.var(), rel=0.02)
    # What is simulated comes in steps of a stop.
    assert found.quantile(0.99)[0] * 1e3 == pytest.approx(np.quantile(simulated, 0.99), abs=stop_ms)


def test_work_alone_uses_the_quota_up_too():
    """A node of 0.4 cores that work fills by a half stops as often as one that idle threads fill by a half."""
    rate = 0.2 / (sum(EACH_US) * 1e-6)
    worked = latency_ms(0.4, QUOTA, rate) - latency_ms(0.4, replace(QUOTA, quota_period_ms=0), rate)
    idle = replace(QUOTA, polling_share=0.2 / (BOLTS + 2))
    polled = latency_ms(0.4, idle, 0.001) - latency_ms(0.4, replace(idle, quota_period_ms=0), 0.001)
    assert worked == pytest.approx(polled, rel=1e-3)


def test_nodes_without_a_quota_do_not_stop():
    """A period of 0 says that there is none; nor does a node stop that has as many cores as its threads can use."""
    whole = replace(QUOTA, quota_period_ms=0)
    assert latency_ms(2.0, replace(QUOTA, polling_share=0.5)) == pytest.approx(latency_ms(2.0, whole))
    assert latency_ms(5.0, replace(QUOTA, machine_cores=64, polling_share=0.9)) == pytest.approx(latency_ms(5.0, whole))


def test_quota_stops_leave_rates_unchanged():
    """Quotas count in full as CPU already; what stops is time, and with all trees pending there is always work."""
    stopping, whole = (
        given(0.4, replace(QUOTA, quota_period_ms=period, polling_share=0.1), 100.0, 50) for period in (PERIOD_MS, 0)
    )
    assert stopping.highest_tps == whole.highest_tps
    assert stopping.pending.rate_tps == whole.pending.rate_tps
    assert stopping.given.ways.latency.mean > 2 * whole.given.ways.latency.mean


def test_cores_take_turns_where_a_quota_has_fewer_pieces_than_cores():
    """5 ms in pieces of 5 ms for two cores: one of them runs in each period. 20 ms have pieces for both."""
    costs = replace(QUOTA, polling_share=0.05)
    whole = latency_ms(0.25, replace(costs, quota_period_ms=0))
    once, twice = (latency_ms(0.25, replace(costs, quota_piece_ms=piece)) - whole for piece in (0, 5))
    assert twice == pytest.approx(2 * once)
    long = replace(costs, quota_period_ms=100)
    assert latency_ms(0.4, replace(long, quota_piece_ms=5)) == latency_ms(0.4, replace(long, quota_piece_ms=0))


def test_the_last_piece_of_a_quota_may_be_smaller():
    """8 ms in pieces of 5 ms are 5 ms for one of two cores and 3 ms for the other."""
    costs = replace(QUOTA, polling_share=0.05, quota_period_ms=20)
    assert latency_ms(0.4, replace(costs, quota_piece_ms=5)) == latency_ms(0.4, replace(costs, quota_piece_ms=0))


def test_latency_is_bounded_by_littles_law():
    """By Little's law: K / X."""
    costs = replace(QUOTA, polling_share=0.4, asleep_us=50_000)
    assert latency_ms(0.4, costs, 1_000.0) > 100
    assert latency_ms(0.4, costs, 1_000.0, pending=20) == pytest.approx(20.0)


def test_costs_of_quotas_are_checked():
    with pytest.raises(InputError, match="polling_share"):
        Costs(polling_share=1.0)
    with pytest.raises(InputError, match="quota_period_ms"):
        Costs(quota_period_ms=-1)
