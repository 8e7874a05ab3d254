"""Executors of one topology's spouts share what there is: against an optimiser, and against queueing theory."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    default_executor_runs,
)
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.changes import with_parallelism
from stormwright.predict.costs import Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.flow.profile import Profile
from stormwright.predict.shares import fair_rates, with_shares
from stormwright.predict.steady import PlacedLoad
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.engine import Events
from stormwright.testing.word_counts import SPLITS, SPOUTS, WordCount

NO_COSTS = Costs(serialise_us=0, serialise_us_per_kb=0, send_us=0, send_us_per_kb=0, receive_us=0, receive_us_per_kb=0)

uses = st.lists(st.lists(st.integers(1, 30), min_size=3, max_size=3), min_size=1, max_size=5)


@pytest.mark.long
@given(uses)
def test_fair_rates_equal_optimizer_solution(use):
    use = np.array(use) / 10
    found = fair_rates(use, use)
    best = minimize(
        lambda x: -np.sum(np.log(x)),
        np.full(3, 0.01),
        jac=lambda x: -1 / x,
        bounds=[(1e-9, None)] * 3,
        constraints={"type": "ineq", "fun": lambda x: 1 - use @ x, "jac": lambda _: -use},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    # Rates are not unique to the optimiser's last digit: what they are worth is.
    assert np.sum(np.log(found / np.max(use @ found))) == pytest.approx(np.sum(np.log(best.x)), abs=2e-3)


def exact_rates(use, pending):
    """Exact mean value analysis of two classes with equally many trees pending (Reiser and Lavenberg 1980)."""
    queues = {(0, 0): np.zeros(len(use))}
    rates = {}
    for many in sorted(product(range(pending + 1), repeat=2), key=sum)[1:]:
        queue = np.zeros(len(use))
        for kind in (k for k in range(2) if many[k]):
            fewer = tuple(n - (k == kind) for k, n in enumerate(many))
            stay = use[:, kind] * (1 + queues[fewer])
            rates[many, kind] = many[kind] / stay.sum()
            queue += rates[many, kind] * stay
        queues[many] = queue
    return np.array([rates[(pending, pending), kind] for kind in range(2)])


@pytest.mark.long
def test_closed_network_with_many_pending_trees_approaches_fair_rates():
    """The first class uses mostly the first queue, the second mostly the second, and both a little of the other."""
    use = np.array([[1.0, 0.1], [0.2, 0.6], [0.3, 0.3]])
    found = fair_rates(use, use)
    exact = exact_rates(use, 120)
    assert found / found.sum() == pytest.approx(exact / exact.sum(), rel=0.01)


def test_link_wait_is_independent_of_message_size():
    """By bytes the second class would come to 100 times the rate of the first."""
    use, waits = np.array([[1.0, 0.01]]), np.array([[1.0, 1.0]])
    one, other = fair_rates(use, waits)
    assert one == pytest.approx(other)


def shares_of(word_count, slots, costs=NO_COSTS):
    problem = word_count.problem()
    profile = Profile.of(problem)
    placed = PlacedLoad.under(profile, problem, slots)
    full = with_shares(placed, costs).full_routes
    return None if full is None else full.handled[list(SPOUTS)]


def test_spout_on_less_loaded_node_gets_a_larger_share():
    """Both spouts have splits beside them; the first one's node has all the counts to do as well."""
    slots = np.zeros(12, np.int32)
    slots[[SPOUTS[1], SPLITS[1], SPLITS[3]]] = 2
    slow, quick = shares_of(WordCount(cores=0.4, link_bps=None), slots)
    assert quick > 1.2 * slow
    assert slow + quick == pytest.approx(1)


def test_spouts_in_one_worker_have_equal_shares():
    even = shares_of(WordCount(cores=0.4), np.zeros(12, np.int32))
    assert even is None or even == pytest.approx([0.5, 0.5])


def test_without_a_limit_of_pending_trees_nothing_changes():
    slots = np.zeros(12, np.int32)
    slots[[SPOUTS[1], SPLITS[1]]] = 2
    assert shares_of(WordCount(cores=0.4, pending=None), slots) is None


def test_fair_shares_predict_a_higher_rate_than_equal_shares(monkeypatch):
    slots = np.zeros(12, np.int32)
    slots[[SPOUTS[1], SPLITS[1], SPLITS[3]]] = 2
    problem = WordCount(cores=0.4, link_bps=None).problem()
    fair = predict(problem, slots, Assumptions(NO_COSTS)).topologies[0].highest_tps.value
    monkeypatch.setattr("stormwright.predict.evaluate.with_shares", lambda placed, *_: placed)
    assert fair > predict(problem, slots, Assumptions(NO_COSTS)).topologies[0].highest_tps.value


def test_of_a_large_cluster_spouts_of_topologies_with_many_share_evenly(monkeypatch):
    slots = np.zeros(12, np.int32)
    slots[[SPOUTS[1], SPLITS[1], SPLITS[3]]] = 2
    assert shares_of(WordCount(cores=0.4, link_bps=None), slots) is not None
    monkeypatch.setattr("stormwright.predict.shares.MAX_WORKED_OUT", 2 * 12 - 1)
    assert shares_of(WordCount(cores=0.4, link_bps=None), slots) is None


def test_many_spouts_of_one_topology_do_not_slow_computation_of_others(monkeypatch):
    """What the trees of a topology's spouts take is worked out for each of its own, however many another one has."""
    counts = [WordCount(name=f"words-{number}") for number in range(4)]
    loads = LoadProfile({one.topology().id: one.load() for one in counts})
    topologies = tuple(one.topology() for one in counts)
    problem = replace(counts[0].problem(), topologies=topologies, current={}, load=loads)
    problem = with_parallelism(problem, Profile.of(problem), NO_COSTS, {0: {3: 16}})
    profile, worked_out = Profile.of(problem), []

    def demand(part, routes, *rest):
        worked_out.append(routes.handled.size)
        return TreeDemand.of(part, routes, *rest)

    monkeypatch.setattr("stormwright.predict.shares.TreeDemand", SimpleNamespace(of=demand))
    with_shares(PlacedLoad.under(profile, problem, np.zeros(problem.num_executors, np.int32)), NO_COSTS)
    assert sorted(worked_out) == [2 * 3 * 12, 16 * 26]


def large_and_small() -> tuple[Problem, np.ndarray]:
    """Two spouts that send large tuples to one bolt, on the node of the second; each node has an acker.

    Executors are two ackers, the bolt and both spouts. Only the first spout's tuples leave a node. Of both spouts half
    the trees have their acker on the first one's node.
    """
    components = (
        Component("__acker", "system", 2, tuple(Grouping(each, kind="fields") for each in ("bolt", "spout"))),
        Component("bolt", "bolt", 1, (Grouping("spout", kind="fields"),)),
        Component("spout", "spout", 2),
    )
    conf = {"topology.max.spout.pending": 100}
    topology = Topology("t-1-0", "t", 2, components, default_executor_runs(components), conf=conf)
    tuples = [(3, 2, 1.0, 2_000), (4, 2, 1.0, 2_000)]
    tuples += [(spout, acker, 0.5, 30) for spout in (3, 4) for acker in (0, 1)]
    tuples += [(2, acker, 1.0, 30) for acker in (0, 1)]
    tuples += [(acker, spout, 0.5, 30) for acker in (0, 1) for spout in (3, 4)]
    source, target, part, size = (np.array(column) for column in zip(*tuples, strict=True))
    load = TopologyLoad(
        cpu_hz=np.array([1.0, 1.0, 2.0, 1.0, 1.0]) * 1e-6 * DEFAULT_CORE_HZ * 100,
        memory_mb=np.ones(5),
        pair_source=source,
        pair_target=target,
        pair_tps=100 * part,
        pair_bytes_per_s=100 * part * size,
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_tps=np.empty(0),
        flow_grouping=(),
    )
    nodes = tuple(Supervisor(f"n{n}", f"n{n}", (6700,), 4 * DEFAULT_CORE_HZ, link_bps=25e6) for n in range(2))
    problem = Problem(nodes, (topology,), load=LoadProfile({topology.id: load}))
    problem = problem.with_current({topology.id: TopologyAssignment(problem.slots[:1], (0,) * 5)})
    return problem, np.array([1, 0, 1, 0, 1], np.int32)


def test_concurrent_message_waits_delay_a_tree_once():
    """What an acker hears of the first spout's trees waits beside their tuples; of the second one's only answers wait.

    So the second one, half of whose trees wait once, comes to about twice the rate. That is what virtual time says.
    """
    problem, slots = large_and_small()
    profile = Profile.of(problem)
    full = with_shares(PlacedLoad.under(profile, problem, slots), NO_COSTS).full_routes
    first, second = full.handled[[3, 4]]
    assert second / first == pytest.approx(2.0, rel=0.05)
    of = Events(problem, slots, SimulatorSettings(NO_COSTS, saturated=True, startup_s=1.0))
    of.until(3.0)
    of.take()
    of.until(13.0)
    begun = of.take().acked
    assert second / first == pytest.approx(begun[4] / begun[3], rel=0.1)
