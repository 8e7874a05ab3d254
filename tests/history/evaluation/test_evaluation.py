"""Moves evaluated by the records of workers: a load that changes meanwhile, restarts, moves that follow each other."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stormwright.base.documents import FileDocument
from stormwright.history.evaluation.moves import (
    HIGHEST_RATE,
    INTER_NODE,
    LATENCY,
    SETTLE_S,
    THROUGHPUT,
    EvaluatedMove,
    MovedTopology,
    MoveEvaluator,
    predicted_ratios,
)
from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.history.evaluation.verdict import AS_PREDICTED, LESS, UNCLEAR
from stormwright.model import LoadProfile, TopologyLoad, cost_of
from stormwright.plans.plan import Promise
from stormwright.workbench.demo.measure import measure
from tests.controller.builders import on, place, problem, record, topology
from tests.pipeline.generator import dice

TOPOLOGY = "t-1-0"
MOVED_MS = 600_000
APART = (("n0", 6700), ("n1", 6700))


def seconds(
    start_s: int, end_s: int, trees_per_s: float, per_tree: float, at: Sequence[tuple[str, int]] = APART
) -> list[dict[str, Any]]:
    """Records of two workers: one with the spout, whose tuples go to a bolt in the other worker or in its own."""
    rng, found = dice(1), []
    (spout_node, spout_port), (bolt_node, bolt_port) = at
    for second in range(start_s, end_s):
        trees = round(trees_per_s * rng.uniform(0.9, 1.1))
        crossing = round(trees * per_tree * rng.uniform(0.97, 1.03))
        pairs = [[1, 2, 0, crossing, 0], [1, 3, 0, 10 * trees - crossing, 0]]
        of_spout = record(
            TOPOLOGY,
            spout_node,
            second,
            port=spout_port,
            tasks=(1, 1),
            acked=trees,
            start_ms=second * 1000,
            pairs=pairs,
            trees=trees,
        )
        of_spout["executors"].append(
            of_spout["executors"][0] | {"type": "bolt", "first_task": 3, "last_task": 3, "acked": 9}
        )
        of_bolt = record(TOPOLOGY, bolt_node, second, port=bolt_port, tasks=(2, 2), kind="bolt", start_ms=second * 1000)
        of_bolt["executors"][0] |= {"received": crossing, "acked": crossing}
        found += [of_bolt, of_spout]
    return found


def moved(decision_ms: int, inter_node: float | None, started_ms: int, ended_ms: int) -> MovedTopology:
    return MovedTopology(decision_ms, TOPOLOGY, Promise(inter_node), started_ms, ended_ms)


def observed(*parts: list[dict[str, Any]]) -> ObservedTraffic:
    traffic = ObservedTraffic()
    for part in parts:
        traffic.add(part)
    return traffic


def test_traffic_windows_equal_an_independent_measurement() -> None:
    records = seconds(0, 60, 500, 4)
    (first, second, *others) = observed(records).windows(TOPOLOGY)
    assert len(others) == 3
    for window in (first, second):
        expected = measure(records, TOPOLOGY, window.start_ms, window.start_ms + 10_000)
        assert window.crossing / window.acked == pytest.approx(expected.inter_node_per_acked)
        assert window.acked / window.length_s == pytest.approx(expected.acked_tps)


def test_late_or_future_records_leave_closed_windows_unchanged() -> None:
    traffic = observed(seconds(0, 60, 500, 4))
    before = traffic.windows(TOPOLOGY)
    traffic.add(seconds(5, 6, 500, 4))
    in_an_hour = round(time.time()) + 3600
    traffic.add(seconds(in_an_hour, in_an_hour + 1, 500, 4))
    assert traffic.windows(TOPOLOGY) == before
    traffic.forget(["another"])
    assert traffic.windows(TOPOLOGY) == []


def test_executor_with_maximum_task_range_uses_little_memory() -> None:
    traffic = ObservedTraffic()
    worker = record(TOPOLOGY, "a", 0, tasks=(1, 2**31 - 1), start_ms=1000)
    tracemalloc.start()
    traffic.add([worker])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 50e6


def evaluations_of(found: list[EvaluatedMove]) -> dict[str, Any]:
    return {each.evaluation.quantity: each.evaluation for each in found}


def test_move_evaluation_uses_inter_node_traffic_per_tree_despite_load_growth(tmp_path: Path) -> None:
    """The load doubles while the topology is moved: traffic between nodes grows, its share of the work falls."""
    traffic = observed(seconds(300, 600, 400, 6))
    clock = [MOVED_MS]
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: clock[0])
    assert evaluation.moved(moved(77, 0.5, MOVED_MS, MOVED_MS + 5000)) == []
    assert evaluation.status()["pending"] == [TOPOLOGY]
    # While caches are cold all is otherwise.
    traffic.add(seconds(605, 625, 50, 9))
    traffic.add(seconds(630, 700, 800, 3))
    assert evaluation.due() == []
    # The service is started anew, and goes on from what was written down.
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: clock[0])
    traffic.add(seconds(700, 900, 800, 3))
    found = evaluation.due()
    assert {(each.decision_ms, each.topology) for each in found} == {(77, TOPOLOGY)}
    evaluations = evaluations_of(found)
    assert evaluations[INTER_NODE].measured == pytest.approx(0.5, rel=0.02)
    assert evaluations[INTER_NODE].verdict == AS_PREDICTED
    assert evaluations[THROUGHPUT].measured == pytest.approx(2, rel=0.05)
    assert (evaluations[INTER_NODE].windows_before, evaluations[INTER_NODE].windows_after) == (24, 12)
    assert evaluation.due() == []
    assert evaluation.calibration == pytest.approx(1, rel=0.04)
    assert MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic).status() == evaluation.status()


def with_pending(records: list[dict[str, Any]], pending: int) -> list[dict[str, Any]]:
    for each in (executor for one in records for executor in one["executors"]):
        each["pending"] = pending if each["type"] == "spout" else None
    return records


def test_the_rate_while_a_backlog_is_worked_off_is_compared_with_the_highest_predicted_one(tmp_path: Path) -> None:
    """The topology needs 400 trees/s; after its pause it does 900 for a minute, with all its trees pending."""
    traffic = observed(with_pending(seconds(300, 600, 400, 6), 20))
    clock = [MOVED_MS]
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: clock[0])
    promise = Promise(0.5, 2.5, pending_limit=200.0, sustained_tps=400.0, wanted_tps=1_000.0)
    evaluation.moved(MovedTopology(77, TOPOLOGY, promise, MOVED_MS, MOVED_MS + 5000))
    traffic.add(with_pending(seconds(610, 670, 900, 3), 200))
    traffic.add(with_pending(seconds(670, 900, 400, 3), 20))
    evaluations = evaluations_of(evaluation.due())
    assert evaluations[HIGHEST_RATE].measured == pytest.approx(0.9, rel=0.03)
    assert evaluations[HIGHEST_RATE].windows_after == 4, "the first two are those of cold workers"
    assert evaluations[HIGHEST_RATE].verdict == LESS
    assert evaluations[THROUGHPUT].measured < 1.6


def with_latency(records: list[dict[str, Any]], around: int) -> list[dict[str, Any]]:
    """The records, of which spouts report that number of trees of a bucket and of that after it."""
    rng = dice(2)
    for one in records:
        if one["executors"][0]["type"] == "spout":
            first = rng.randint(40, 60)
            one["complete_latency"]["counts"] = [*[0] * around, first, *([100 - first] if around else [])]
    return records


@pytest.mark.parametrize(("around", "promised", "verdict"), [(0, 0.1, AS_PREDICTED), (2, 0.1, LESS)])
def test_latency_below_histogram_resolution_counts_as_predicted(
    tmp_path: Path, around: int, promised: float, verdict: str
) -> None:
    """Whatever takes less than the first edge, 1 ms, is reported alike: a tenth of 2 ms is not recognized as that."""
    traffic = observed(with_latency(seconds(300, 600, 400, 6), 4))
    clock = [MOVED_MS]
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: clock[0])
    promise = Promise(0.5, sustained=2.0, latency=promised, sustained_tps=2000, wanted_tps=4000)
    evaluation.moved(MovedTopology(77, TOPOLOGY, promise, MOVED_MS, MOVED_MS + 5000))
    traffic.add(with_latency(seconds(605, 900, 400, 3), around))
    evaluation = evaluations_of(evaluation.due())[LATENCY]
    assert evaluation.verdict == verdict
    assert evaluation.predicted > promised


@pytest.mark.parametrize(
    ("alive_s", "trees", "restarts", "worse"),
    [(4, 0, True, True), (4, 3, True, False), (10, 0, False, False), (4, 0, False, False)],
    ids=["crash", "some complete", "idle", "records lost"],
)
def test_topology_whose_workers_crash_after_a_move_is_worse_within_30_s(
    tmp_path: Path, alive_s: int, trees: int, restarts: bool, worse: bool
) -> None:
    traffic, clock = observed(seconds(300, 600, 400, 6)), [MOVED_MS + 29_000]
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: clock[0])
    evaluation.moved(replace(moved(77, 0.5, MOVED_MS - 5000, MOVED_MS), after=on("n0", "n1")))
    for begin in range(600, 640, 10):
        found = seconds(begin, begin + alive_s, trees, 6)
        for one in found if restarts else ():
            one["worker"] = one["worker"] | {"start_ms": begin * 1000}
        traffic.add(found)
    assert evaluation.worse() == []
    clock[0] = MOVED_MS + 31_000
    why = [each.why for each in evaluation.worse()]
    assert bool(why) == worse
    assert not worse or why[0].startswith("no tuple tree has completed for 31 s (4")
    # A restarted service knows of no worker that has ended.
    restarted = MoveEvaluator(FileDocument(tmp_path / "judging.json"), ObservedTraffic(), lambda: clock[0])
    assert bool(restarted.worse()) == worse, "only what was found before"


def test_the_next_move_ends_the_time_after_the_last(tmp_path: Path) -> None:
    traffic = observed(seconds(300, 600, 400, 6))
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: 0)
    evaluation.moved(moved(1, 0.5, MOVED_MS, MOVED_MS))
    settled_s = int(MOVED_MS / 1000 + SETTLE_S)
    traffic.add(seconds(settled_s, settled_s + 60, 400, 4.5))
    traffic.add(seconds(settled_s + 60, settled_s + 200, 400, 1))
    second_ms = (settled_s + 60) * 1000
    evaluation = evaluations_of(evaluation.moved(moved(2, None, second_ms, second_ms)))[INTER_NODE]
    assert (evaluation.verdict, evaluation.windows_after) == (LESS, 6)
    assert evaluation.measured == pytest.approx(0.75, rel=0.02)
    # Without traffic between nodes before, nothing is predicted about it.
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: 10**9)
    assert evaluations_of(evaluation.due()).keys() == {THROUGHPUT}


def test_reassigned_topology_is_evaluated_with_records_until_the_new_move(tmp_path: Path) -> None:
    traffic = observed(seconds(300, 600, 400, 6))
    evaluation = MoveEvaluator(FileDocument(tmp_path / "judging.json"), traffic, lambda: 0)
    evaluation.moved(moved(1, 0.5, MOVED_MS, MOVED_MS))
    traffic.add(seconds(630, 700, 400, 3))
    assert evaluations_of(evaluation.forget(TOPOLOGY))[INTER_NODE].measured == pytest.approx(0.5, rel=0.02)
    assert evaluation.forget(TOPOLOGY) == []


def test_evaluation_of_vanished_topology_expires_after_one_hour(tmp_path: Path) -> None:
    clock = [MOVED_MS]
    evaluation = MoveEvaluator(
        FileDocument(tmp_path / "judging.json"), observed(seconds(300, 600, 400, 6)), lambda: clock[0]
    )
    evaluation.moved(moved(1, 0.5, MOVED_MS, MOVED_MS))
    assert evaluation.due() == []
    clock[0] += 3_601_000
    assert {evaluation.verdict for evaluation in evaluations_of(evaluation.due()).values()} == {UNCLEAR}


def test_the_prediction_is_the_cost_models() -> None:
    moving, other = topology("moving"), topology("other")
    load = TopologyLoad(
        cpu_hz=np.ones(4),
        memory_mb=np.ones(4),
        pair_source=np.array([0, 0, 0], np.int32),
        pair_target=np.array([1, 2, 3], np.int32),
        pair_tps=np.array([10.0, 20.0, 30.0]),
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_tps=np.empty(0),
        flow_grouping=(),
    )
    current = {other.id: place([("n0", 6700), ("n1", 6701)], [0, 0, 1, 1]), moving.id: on("n1", "n2")}
    given = problem([other, moving], current=current, load=LoadProfile({t.id: load for t in (moving, other)}))
    after = given.current_slot.copy()
    after[given.executors_of(1)] = after[given.executors_of(1)][[0, 2, 1, 3]]
    alone = problem([moving], current={moving.id: current[moving.id]}, load=given.load)
    expected = cost_of(alone, after[4:]).inter_node / cost_of(alone, alone.current_slot).inter_node
    assert predicted_ratios(given, [1], after) == [pytest.approx(expected)]
    assert predicted_ratios(given, [1, 0], after) == [pytest.approx(expected), *predicted_ratios(given, [0], after)]
    assert predicted_ratios(given, [], after) == []
    assert expected == pytest.approx(40 / 50)
    after[given.executors_of(1)] = after[4]
    assert predicted_ratios(given.with_current({**current, moving.id: on("n1")}), [1], after) == [None]
