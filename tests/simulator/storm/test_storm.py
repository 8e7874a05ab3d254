"""Storm in virtual time: against theory where there is one, and against what Storm does elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit

from stormwright.predict.costs import Costs
from stormwright.simulator.storm.engine import PLACED, go_on_until
from stormwright.testing.word_counts import COUNTS, WordCount
from tests.simulator.storm.cases import NO_COSTS, chain, engine, eventful
from tests.simulator.twins import plainly

BATCHES, OFF = 20, stdtrit(19, 1 - 0.5e-4)


def exact_rate(each_us, pending):
    """Mean value analysis of a closed network of queues with one server each (Reiser and Lavenberg 1980)."""
    service_s, inside = np.array(each_us) * 1e-6, np.zeros(len(each_us))
    for trees in range(1, pending + 1):
        stay = service_s * (1 + inside)
        inside = trees * stay / stay.sum()
    return inside[0] / stay[0]


def batches(of, seconds, value):
    """Values of batches, after one that does not count."""
    found = []
    for batch in range(BATCHES + 1):
        before = of.counts
        of.until(seconds * (batch + 1) / BATCHES)
        found.append(value(of.counts.since(before)))
    return np.array(found[1:])


def near(found, expected, most):
    tolerance = OFF * found.std(ddof=1) / BATCHES**0.5
    assert tolerance <= most * expected, "long enough to tell"
    assert abs(found.mean() - expected) <= tolerance


def latency_s(counts):
    return counts.topologies["latency_s"][0] / counts.topologies["completed"][0]


@pytest.mark.parametrize("varies", [0.0, 1.0])
def test_executor_latency_matches_an_mg1_queue(varies):
    """Latency is from the acker's hearing of the tree to the bolt's ack: a stay in M/G/1, Poisson's trees coming."""
    load, service_s = 0.6, 1e-4
    of = engine(chain([0.0, 1e6 * service_s], load / service_s), varies=varies)
    near(batches(of, 80.0, latency_s), service_s * (1 + load * (1 + varies) / 2 / (1 - load)), 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("pending", [1, 3, 20])
@pytest.mark.parametrize("each_us", [(100.0, 100.0, 100.0), (100.0, 50.0, 20.0)])
def test_pending_trees_are_a_closed_network(each_us, pending):
    of = engine(chain(each_us, 100.0, pending), saturated=True)
    rate = batches(of, 60.0, lambda counts: counts.topologies["completed"][0] / counts.now_s)
    near(rate, exact_rate(each_us, pending), 0.02)


def test_threads_share_cores():
    """Three threads that always have work, each on a third of two cores' time, whatever they work on."""
    of = engine(chain([30.0, 60.0, 90.0], 100.0, 1_000, cores=2.0), saturated=True, varies=0.0)
    of.until(5.0)
    before = of.counts
    of.until(10.0)
    counts = of.counts.since(before)
    assert counts.busy_s / counts.now_s == pytest.approx([2.0], rel=1e-3)
    assert counts.topologies["completed"][0] / counts.now_s == pytest.approx(2.0 / 180e-6, rel=0.01)


def test_quota_limits_the_work_of_a_node():
    costs = Costs(**{**{n: getattr(NO_COSTS, n) for n in NO_COSTS.__slots__}, "quota_period_ms": 100.0})
    of = engine(chain([50.0, 50.0], 100.0, 100, cores=0.4), costs=costs, saturated=True, varies=0.0)
    of.until(10.0)
    assert of.counts.busy_s == pytest.approx([4.0], rel=0.02)
    assert of.counts.topologies["completed"][0] == pytest.approx(4.0 / 100e-6, rel=0.02)


def test_full_queues_block_their_senders():
    limited = chain([10.0, 100.0], 100.0, conf={"topology.executor.receive.buffer.size": 64})
    of = engine(limited, saturated=True)
    of.until(3.0)
    assert of.take().queue[2] == 1.0, "of the bolt"
    threads = of.cluster.threads
    assert threads["count"][2] <= 64
    assert of.counts.topologies["begun"][0] == pytest.approx(3.0 / 100e-6, rel=0.05)


def word_count(node=1, **more):
    """Counts in a worker of a node, everything else in another one of the first."""
    problem = WordCount(cores=4.0).problem()
    return engine(problem, counts_on(problem, node), costs=Costs(), **more)


def counts_on(problem, node):
    first = [int(np.flatnonzero(problem.slot_node == n)[0]) for n in (0, node)]
    slots = np.full(problem.num_executors, first[0], np.int32)
    slots[list(COUNTS)] = first[1]
    return slots


def test_an_idle_link_lets_bursts_pass():
    """At 1 Mbit/s a message of some 50 bytes takes 0.4 ms out of its node, and as much into the other one."""
    slow = WordCount(cores=4.0, link_bps=1e6, rate_tps=5.0).problem()
    mean_s = {}
    for burst in (0.0, 32_000.0):
        of = engine(slow, counts_on(slow, 1), costs=NO_COSTS, link_burst_bytes=burst)
        of.until(20.0)
        assert of.counts.link_bytes.sum() > 0
        mean_s[burst] = latency_s(of.counts)
    assert mean_s[32_000.0] < 0.1 * mean_s[0.0]


def balance(of):
    """No tuple and no tree is lost track of."""
    cluster = of.cluster
    threads, run = cluster.threads, cluster.run[0]
    queued = threads["count"].sum() + cluster.links["count"].sum() + (threads["tuple"] >= 0).sum()
    assert len(cluster.tuples) - run["tuples_left"] == queued
    assert len(cluster.trees) - run["trees_left"] == cluster.spouts["pending"].sum()
    return int(cluster.spouts["pending"].sum())


def test_every_tree_completes_without_failures():
    of = word_count()
    of.until(5.0)
    pending, topologies = balance(of), of.counts.topologies
    assert topologies["begun"].sum() == topologies["completed"].sum() + pending
    assert topologies["timed_out"].sum() == topologies["lost"].sum() == 0
    for topology in range(len(topologies["begun"])):
        of.activate(topology, False)
    of.until(8.0)
    assert balance(of) == 0
    assert of.counts.topologies["begun"].sum() == of.counts.topologies["completed"].sum()
    assert not of.cluster.threads["count"].any()


@pytest.mark.long
def test_trees_of_a_dead_worker_time_out_and_are_replayed():
    of = word_count(startup_s=5.0)
    of.until(2.0)
    of.kill(int(counts_on(of.problem, 1)[COUNTS[0]]))
    of.until(29.0)
    assert (
        of.counts.topologies["lost"].sum()
        == of.counts.topologies["begun"].sum() - of.counts.topologies["completed"].sum()
        > 0
    )
    assert of.counts.topologies["timed_out"].sum() == 0, "not before Storm's 30 s"
    of.until(65.0)
    balance(of)
    assert 0 < of.counts.topologies["timed_out"].sum() <= of.counts.topologies["lost"].sum()
    assert of.counts.topologies["replayed"].sum() == of.counts.topologies["timed_out"].sum()


@pytest.mark.long
def test_naive_move_stalls_until_tree_timeout_and_safe_move_does_not():
    """As measured of Storm: 30 to 60 s of zero throughput, as what is pending never ends."""
    done = {}
    for safe in (False, True):
        of = word_count(startup_s=5.0, saturated=True)
        elsewhere = counts_on(of.problem, 2)
        steps = {3: lambda of=of, there=elsewhere: of.place(there)}
        if safe:
            steps = {
                3: lambda of=of: of.activate(0, False),
                5: steps[3],
                10: lambda of=of: of.activate(0, True),
            }
        pauses, before = 0, 0
        for second in range(1, 72):
            of.until(float(second))
            pauses += of.counts.topologies["completed"].sum() == before
            before = of.counts.topologies["completed"].sum()
            steps.get(second, lambda: None)()
        done[safe] = pauses, int(of.counts.topologies["lost"].sum())
        balance(of)
    assert 6 <= done[True][0] <= 8, "drained, then until the new worker is up"
    assert done[True][1] == 0
    assert 25 <= done[False][0] <= 60
    assert done[False][1] > 0


def test_trees_arrive_at_the_offered_rate():
    of = word_count()
    of.until(4.0)
    rate = float(of.counts.topologies["completed"][0]) / 4.0
    of.rate(0, 0.25)
    before = of.counts
    of.until(12.0)
    assert of.counts.since(before).topologies["completed"][0] / 8.0 == pytest.approx(rate / 4, rel=0.1)


def test_plain_python_reads_the_fields_of_records():
    """Not something else that NumPy's records have, as `size`."""
    cluster = word_count().cluster
    kinds = [each.dtype for each in (*cluster, *cluster.shares) if isinstance(each, np.ndarray) and each.dtype.names]
    assert len(kinds) > 10
    assert [name for kind in kinds for name in kind.names if hasattr(np.void, name)] == []


@pytest.mark.slow
@pytest.mark.parametrize("quota", [False, True])
def test_both_twins_do_the_same(quota):
    assert eventful(0.01, quota) == plainly("tests.simulator.storm.cases", "eventful", 0.01, quota)


def test_one_core_per_thread_equals_shared_cores_in_excess():
    """Where times are constant: as much in as many events, and again after speeds and numbers of threads change."""
    ends = []
    for alone in (True, False):
        of = engine(chain([50.0, 80.0, 30.0], 8_000.0), costs=Costs(local_hop_us=20.0), varies=0.0, arrivals_vary=0.0)
        found = []
        for step in range(4):
            of.until(0.25 * (step + 1))
            share(of, shared=step % 2 == 1 or not alone)
            assert of.cluster.threads["alone"].any() == (alone and step % 2 == 0)
            of.slow(0, 1.0 - 0.1 * step)
            found.append((of.hops, of.pending.tolist(), of.counts.busy_s.tolist(), latency_s(of.counts)))
        ends.append(found)
    for one, other in zip(*ends, strict=True):
        assert one[0] == pytest.approx(other[0], abs=2), "by rounding a tuple is done before or after the instant"
        assert one[1] == pytest.approx(other[1], abs=1)
        assert one[2] == pytest.approx(other[2], rel=1e-4)
        assert one[3] == pytest.approx(other[3], rel=1e-4)


def share(of, *, shared):
    """As if there were many more threads, or as it is."""
    cores = of.cluster.shares.cores
    cores["cores"] = cores["room"] - 0.5 if shared else 64.0  # two threads of the worker have nothing to do
    go_on_until(of.cluster, PLACED, 0, 0.0, of.now_s)


def test_messages_of_two_nodes_are_serialized_on_the_receiving_link():
    """Whose link takes as much as one of theirs: it is busy all the time, and no link is more than that."""
    problem = WordCount(cores=16.0, link_bps=2e6).problem()
    slots = counts_on(problem, 2)
    slots[1:12:2] = np.where(slots[1:12:2] == slots[0], slots[0] + 2, slots[1:12:2])
    of = engine(problem, slots, saturated=True)
    of.until(1.0)
    before = of.cluster.links["busy_s"].copy()
    of.until(3.0)
    busy = (of.cluster.links["busy_s"] - before).reshape(2, -1) / 2.0
    assert busy[1, 2] == pytest.approx(1.0, abs=1e-3)
    assert np.all(busy <= 1.001)
    balance(of)


@pytest.mark.parametrize(("most", "how"), [(0.01, {"varies": 0.0, "arrivals_vary": 0.0}), (0.05, {"saturated": True})])
def test_tuple_batches_preserve_rates_and_cpu_with_fewer_events(most, how):
    found, events = {}, {}
    for at_once in (1, 10):
        of = word_count(tuples_at_once=at_once, **how)
        of.until(2.0)
        before = of.counts
        of.until(6.0)
        counts = of.counts.since(before)
        balance(of)
        events[at_once] = int(of.cluster.run[0]["hops"])
        found[at_once] = [
            *counts.topologies["completed"],
            counts.threads["cpu_s"].sum(),
            *counts.busy_s,
            *counts.link_bytes[0],
        ]
    assert found[10] == pytest.approx(found[1], rel=most)
    assert 9 <= events[1] / events[10] <= 11


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_batching_adds_at_most_the_service_time_of_one_batch(load):
    """As long as in M/M/1, and up to ten services more."""
    service_s = 1e-4
    of = engine(chain([0.0, 1e6 * service_s], load / service_s), tuples_at_once=10)
    of.until(20.0)
    alone_s = service_s / (1 - load)
    assert alone_s < latency_s(of.counts) < alone_s + 10 * service_s


def test_same_seed_reproduces_the_simulation_and_another_differs():
    ends = []
    for seed in (1, 1, 2):
        of = word_count(seed=seed)
        of.until(1.0)
        ends.append(of.take().cpu_ns.tolist())
    assert ends[0] == ends[1] != ends[2]


@pytest.mark.parametrize("varies", [0.0, 1.0, 4.0])
def test_as_many_trees_are_offered_as_the_rate_says_however_rarely_the_spout_looks(varies):
    """A million trees come while a spout works on one; their number has the variance of a renewal process."""
    of = engine(chain([1_000.0, 1.0], rate_tps=1e9), arrivals_vary=varies)
    of.until(0.2)
    (spout,) = of.cluster.spouts
    looked_s = float(spout["comes"])
    trees = int(spout["offered"]) + int(of.counts.topologies["begun"][0])
    assert abs(trees - 1e9 * looked_s) <= 5 * np.sqrt(varies * 1e9 * looked_s) + 1e3
