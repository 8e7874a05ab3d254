"""The engine without tuples, beside Little's law and what Storm was measured to do."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model.arrays import FloatArray
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.predict.answer import predict
from stormwright.predict.costs import Costs
from stormwright.simulator.engine import EngineCounts
from stormwright.simulator.steady_counts import _later
from stormwright.simulator.steady_engine import SteadyEngine, SteadySettings
from stormwright.simulator.steady_flows import SteadyFlows
from stormwright.simulator.steady_trees import Trees
from stormwright.testing.word_counts import ACKERS, COUNTS, SPLITS, SPOUTS, WordCount, two_word_counts

#: A word count over three workers, one on each node.
SPREAD = np.array([0, 2, 0, 0, 2, 4, 0, 2, 2, 4, 0, 4], np.int32)


def words(rate: float | None = None, **more: float) -> tuple[SteadyEngine, WordCount]:
    of = WordCount(**more)  # type: ignore[arg-type]
    name = of.topology().id
    offered = {name: np.inf if rate is None else rate}
    return SteadyEngine(of.problem().with_nothing_running(), SteadySettings(6.0, 45.0, offered)), of


def runs(engine: SteadyEngine, seconds: float) -> EngineCounts:
    engine.until(engine.now_s + seconds)
    return engine.take()


def test_workers_start_after_a_delay_and_reach_the_predicted_rate():
    engine, of = words()
    engine.place(SPREAD)
    assert runs(engine, 5.9).completed.tolist() == [0]
    runs(engine, 2)
    counted = runs(engine, 10)
    (predicted,) = predict(of.problem(), SPREAD).topologies
    assert counted.completed[0] / 10 == pytest.approx(predicted.reachable_tps.value, rel=0.01)


def test_every_tuple_is_counted_at_its_source_and_target():
    """A sentence has 8 words: 17 tuples and their acks."""
    engine, _ = words(rate=1000)
    engine.place(SPREAD)
    runs(engine, 8)
    counted = runs(engine, 10)
    trees = counted.completed[0]
    assert trees == pytest.approx(10_000, abs=2)
    came = [counted.received[list(of)].sum() for of in (SPLITS, COUNTS, ACKERS, SPOUTS)]
    assert came == pytest.approx([trees, 8 * trees, 10 * trees, 0], rel=1e-3)
    into = np.bincount(counted.target, counted.tuples, 12)
    assert into[list(COUNTS)] == pytest.approx(counted.received[list(COUNTS)], abs=8)
    begun = counted.tuples[np.isin(counted.source, SPOUTS) & np.isin(counted.target, ACKERS)].sum()
    assert begun == pytest.approx(trees, abs=1)
    assert counted.latency.sum() == trees


def test_a_drain_answers_every_tree():
    engine, _ = words()
    engine.place(SPREAD)
    found = [runs(engine, 8)]
    assert begun(found) > sum(each.completed[0] for each in found), "some are under way"
    engine.activate(0, active=False)
    found += [runs(engine, 0.25) for _ in range(20)]
    assert found[-1].tuples.sum() == 0
    assert found[-1].queue.max() == 0
    assert begun(found) == sum(each.completed[0] for each in found)
    assert sum(each.timed_out[0] + each.lost[0] for each in found) == 0


def test_move_without_drain_loses_pending_trees_until_timeout():
    """As measured: no ack until the timeout, as spouts that run on have all that may be pending."""
    engine, _ = words()
    engine.place(SPREAD)
    runs(engine, 20)
    moved = SPREAD.copy()
    moved[list(COUNTS)] = 2
    # The spouts stay where they are, in workers of their own.
    moved[list(SPOUTS)] = SPREAD[list(SPOUTS)]
    only_bolts = SPREAD.copy()
    only_bolts[list(SPOUTS)] = [1, 5]
    engine.place(only_bolts)
    runs(engine, 20)
    moved[list(SPOUTS)] = [1, 5]
    engine.place(moved)
    found = [runs(engine, 1) for _ in range(60)]
    silent = [each.start_s for each in found if each.completed[0] == 0]
    lost = sum(each.lost[0] for each in found)
    assert lost == pytest.approx(400, rel=0.1), "as many as may be pending"
    assert sum(each.timed_out[0] for each in found) == lost
    assert 40 <= len(silent) <= 50


def begun(found: list[EngineCounts]) -> int:
    return sum(int(each.tuples[np.isin(each.source, SPOUTS) & np.isin(each.target, ACKERS)].sum()) for each in found)


@pytest.mark.long
def test_a_dead_worker_a_slow_node_and_another_rate():
    engine, _ = words(rate=1000, cores=0.4)
    engine.place(SPREAD)
    runs(engine, 10)
    engine.rate(0, 0.5)
    assert runs(engine, 10).completed[0] == pytest.approx(5_000, rel=0.01)
    before = runs(engine, 10).cpu_ns
    engine.slow(0, 0.5)
    factor = np.where(SPREAD == 0, 2.0, 1.0)
    assert runs(engine, 10).cpu_ns == pytest.approx(factor * before, rel=0.01)
    engine.kill(0)
    assert runs(engine, 5).completed[0] == 0
    engine.place(SPREAD)
    runs(engine, 6)
    assert runs(engine, 10).completed[0] > 0


@pytest.mark.parametrize("seed", range(20))
def test_pending_tree_count_follows_littles_law(seed: int):
    """J. D. C. Little, A Proof for the Queuing Formula L = λ W, https://doi.org/10.1287/opre.9.3.383."""
    rng = np.random.default_rng(seed)
    rate, latency_s = rng.uniform(1, 5000), rng.uniform(0.001, 2.0)
    trees = Trees(np.array([0, 1]), np.array([0, 0]), 1, 45.0)
    trees.share(np.array([1.0, 3.0]))
    now_s, reach = 0.0, rate * rng.uniform(1.01, 3)

    def go_on(seconds: float, begin: float) -> FloatArray:
        nonlocal now_s
        now_s += seconds
        return trees.go_on(seconds, now_s, *(np.array([each]) for each in (begin, reach, latency_s)))

    for _ in range(200):
        go_on(float(rng.uniform(0.01, 0.5)), rate)
    assert trees.pending()[0] == pytest.approx(rate * latency_s, rel=1e-3, abs=1e-3)
    assert go_on(10.0, rate)[0] == pytest.approx(10 * rate, rel=1e-6)
    while trees.pending()[0]:
        go_on(0.1, 0.0)
    assert trees.begun.tolist() == trees.acked.tolist()
    assert trees.begun[1] == pytest.approx(3 * trees.begun[0], abs=4)


def test_starting_topology_does_not_affect_running_ones_until_up():
    both = two_word_counts().with_nothing_running()
    evaluated = []

    def under(problem, slots, offered_tps):
        evaluated.append(slots.copy())
        return steadily.under(problem, slots, offered_tps)

    steadily = SteadyFlows(both, Costs())
    engine = SteadyEngine(both, SteadySettings(6.0, 45.0), under)
    slots = np.full(24, -1, np.int32)
    slots[:12] = SPREAD
    engine.place(slots)
    runs(engine, 10)
    looked = len(evaluated)
    slots[12:] = SPREAD + 1
    engine.place(slots)
    engine.activate(0, active=True)
    first = runs(engine, 5)
    assert len(evaluated) == looked
    assert (first.completed > 0).tolist() == [True, False]
    second = runs(engine, 5)
    assert len(evaluated) == looked + 1
    assert (second.completed > 0).tolist() == [True, True]
    assert not engine.lost.any()


def test_latency_variation_matches_the_setting():
    def medians(varies: float) -> FloatArray:
        of = WordCount()  # with as many trees as may be pending, which takes them some 10 ms
        settings = SteadySettings(6.0, 45.0, {"words-1-0": np.inf}, varies=varies)
        engine = SteadyEngine(of.problem().with_nothing_running(), settings)
        engine.place(SPREAD)
        runs(engine, 8)
        middle = np.array([*LATENCY_EDGES_MS, LATENCY_EDGES_MS[-1]])
        counts = np.array([runs(engine, 5).latency[0] for _ in range(200)])
        return np.log((counts * middle).sum(axis=1) / counts.sum(axis=1))

    still, varied = medians(0.0), medians(0.1)
    assert still.std() < 0.02
    assert varied.std() == pytest.approx(0.1, rel=0.2)
    assert varied.mean() == pytest.approx(still.mean(), abs=0.03)


def test_latencies_beyond_the_last_bucket_stay_there():
    """All trees of an overloaded topology are in the last bucket: shifted further, none was left."""
    last = np.zeros((2, len(LATENCY_EDGES_MS) + 1))
    last[:, -1] = 1.0
    first = np.roll(last, 1, axis=1)
    for buckets, shift in ((last, 9.0), (first, -9.0)):
        assert np.array_equal(_later(buckets, np.full(2, shift)), buckets)
