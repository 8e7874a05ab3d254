"""Comparisons: figures as the oracles have them, failures as rows, an order that does not mislead."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from benchmarks.schedulers.default_answer import CASES, imported
from stormwright.cli.progress import shown
from stormwright.errors import InputError, MissingDependencyError
from stormwright.model import UNPLACED, Assignment, cost_of
from stormwright.predict.answer import predict
from stormwright.schedulers import make_scheduler, scheduler_names
from stormwright.schedulers.toolkit.resolve import choose_schedulers
from stormwright.testing import oracles
from stormwright.testing.strategies import problems
from stormwright.workbench.comparison import ComparedRow, compare, measure
from tests.schedulers.builders import load, nodes, problem, running, topology

TWO_NODES = problem(nodes(4, 4), (topology("t", 4, 2), load(4, [(0, 1, 10), (2, 3, 10), (1, 2, 1)], cpu_ghz=1)))


class Fixed:
    """Answers what it was given, or raises it."""

    def __init__(self, answer):
        self.result = answer

    def schedule(self, problem):
        if isinstance(self.result, Exception):
            raise self.result
        return Assignment(np.array(self.result, np.int32), scheduler="fixed")


@pytest.mark.slow
@given(problems())
def test_figures_match_oracle(of):
    slots = make_scheduler("online").schedule(of).slot_of_executor
    figures = measure(of, slots)
    by_distance = oracles.cost_by_distance(of, slots, oracles.traffic(of, slots))
    assert figures.cost.inter_node == pytest.approx(by_distance["rack"])
    assert figures.cost.inter_rack == pytest.approx(by_distance["cluster"])
    assert figures.cost.total == pytest.approx(oracles.cost(of, slots))
    assert figures.as_dict()["valid"] == oracles.is_valid(of, slots)
    cpu = defaultdict(float)
    for (name, number), slot in zip(oracles.executors(of), slots.tolist(), strict=True):
        if slot != UNPLACED:
            index = [t.id for t in of.topologies].index(name)
            cpu[of.slots[slot].supervisor] += float(of.loads[index].cpu_hz[number])
    assert figures.nodes == len(cpu)
    assert figures.workers == len({slot for slot in slots.tolist() if slot != UNPLACED})
    if any(cpu.values()):
        assert figures.balance == pytest.approx(max(cpu.values()) * len(cpu) / sum(cpu.values()))
    else:
        assert figures.balance is None
    before = of.current_slot.tolist()
    moved = [e for e, slot in enumerate(slots.tolist()) if before[e] not in (UNPLACED, slot)]
    assert figures.moved_executors == len(moved)


def test_balance_and_moves_match_manual_calculation():
    figures = measure(running(TWO_NODES, [0, 0, 4, 4]), np.array([0, 0, 0, 4], np.int32))
    assert (figures.balance, figures.nodes, figures.workers, figures.moved_executors) == (1.5, 2, 2, 1)


def test_unplaced_topology_violates_no_limits():
    of = problem(nodes(4), (topology("t", 2, 2), load(2)), (topology("tt", 2, 2), load(2)))
    figures = measure(of, np.array([-1, -1, 0, 0], np.int32))
    assert (figures.unplaced, figures.broken, figures.remarks) == (2, (), ("tt: 1 worker, wanted 2",))


def test_wrong_worker_counts_are_reported_separately_from_limits():
    of = problem(nodes(4, 1), (topology("t", 3, 2), load(3, cpu_ghz=1)))
    assert measure(of, np.array([0, 1, 2], np.int32)).limits_text == "kept, 3 workers for 2"
    figures = measure(of, np.array([4, 5, 6], np.int32))
    assert figures.limits_text == "1 broken, 3 workers for 2"
    assert figures.remarks == ("h1: CPU 3.0 of 1.0 GHz", "t: 3 workers, wanted 2")
    assert figures.as_dict()["other_worker_counts"] == [{"topology": "t", "workers": 3, "wanted": 2}]
    two = problem(nodes(4), (topology("t", 2, 2), load(2)), (topology("u", 2, 2), load(2)))
    assert measure(two, np.array([0, 0, 1, 1], np.int32)).limits_text == "kept, other worker counts of 2 topologies"


def test_incomparable_cost_is_marked_and_empty_placement_has_none():
    of = problem(nodes(4, 1), (topology("t", 2, 1), load(2, [(0, 1, 10)], cpu_ghz=1)))
    figures = [measure(of, np.array(slots, np.int32)) for slots in ([0, 0], [4, 4], [-1, 0], [-1, -1], [0, 1])]
    assert [(f.mark, f.total) for f in figures] == [("", 0), ("*", 0), ("*", 0), ("", None), ("", 2)]


def test_rows_are_sorted_by_reachable_rate_and_invalid_placements_never_lead():
    """Two nodes have twice the CPU of one."""
    found = compare(
        replace(TWO_NODES, supervisors=(*TWO_NODES.supervisors, *nodes(4, 4, 3.5)[2:])),
        {
            "broken": Fixed(ValueError("no luck")),
            "absent": MissingDependencyError("install luck"),
            "dear": Fixed([0, 4, 0, 4]),
            "nothing": Fixed([-1, -1, -1, -1]),
            "overloading": Fixed([8, 8, 8, 8]),
            "some": Fixed([0, 0, -1, -1]),
            "workers": Fixed([0, 0, 0, 0]),
            "cheap": Fixed([0, 0, 4, 4]),
        },
    )
    assert [row.name for row in found.rows] == [
        *("cheap", "dear", "workers", "overloading", "some", "nothing", "absent", "broken")
    ]
    assert [row.complete for row in found.rows] == [True] * 4 + [False] * 4
    assert [row.figures.cost.total for row in found.rows[:6]] == [1, 21, 0, 0, 0, 0]
    factors = [row.figures.throughput.factor for row in found.rows[:6]]
    predicted = [predict(found.problem, row.assignment.slot_of_executor).topologies[0] for row in found.rows[:4]]
    assert factors[:4] == pytest.approx([one.headroom for one in predicted])
    assert factors[4:] == [0, 0], "not every executor is placed"
    assert [row.figures.is_slow for row in found.rows[:4]] == [one.latency_ms is None for one in predicted]
    assert found.best is found.rows[0]
    assert [row.error for row in found.rows[6:]] == ["install luck", "ValueError: no luck"]
    assert not found.complete


def test_equal_rates_are_sorted_by_cost_then_name():
    """Whatever the traffic costs, the thread of the spout is the limit."""
    of = problem(nodes(8, 8), (topology("t", 2, 2), load(2, [(0, 1, 0.01)], cpu_ghz=1)))
    answers = {"c": Fixed([0, 4]), "b": Fixed([0, 1]), "a": Fixed([0, 4])}
    assert [row.name for row in compare(of, answers)] == ["b", "a", "c"]


def test_without_traffic_rows_are_sorted_by_cost_and_have_no_rate():
    of = problem(nodes(8, 8), (topology("t", 2, 2), load(2)))
    found = compare(of, {"a": Fixed([0, 4]), "b": Fixed([0, 1])})
    assert [row.figures.throughput for row in found] == [None, None]
    assert [row.as_dict()["reachable"] for row in found] == [None, None]


@pytest.mark.slow
def test_a_crawler_is_not_placed_where_its_rate_is_not_sustained():
    """Case 01: by traffic, one executor of `parse` gets the stream of 13 of `fetch`."""
    of = imported(CASES / "01-default-answer-not-sustained" / "input" / "crawler.yaml", None, 4)
    schedulers = {"optimizer": [], "few": ["objective=traffic"]}
    found = compare(of, {name: make_scheduler("optimizer", settings) for name, settings in schedulers.items()})
    assert [(row.name, row.figures.is_slow) for row in found] == [("optimizer", False), ("few", True)]
    best, few = (row.as_dict()["reachable"]["topologies"][0] for row in found)
    assert (best["rate_tps"], best["sustained"], few["sustained"]) == (10.0, True, False)
    assert best["reachable_tps"] >= 23.1
    assert few["reachable_tps"] == pytest.approx(3.85, abs=0.01)
    assert few["bottleneck"]["kind"] == "thread"


def test_an_answer_of_the_wrong_shape_is_a_failure_too():
    row = compare(TWO_NODES, {"odd": Fixed([0, 99])}).rows[0]
    assert row.error
    assert row.figures is None


def test_current_placement_is_measured_if_present():
    assert compare(TWO_NODES, {}).current is None
    now = running(TWO_NODES, [0, 4, 0, 4])
    assert compare(now, {}).current.cost == cost_of(now, now.current_slot)


def test_progress_covers_each_scheduler():
    lines = []
    with shown(write=lines.append):
        compare(TWO_NODES, {"a": Fixed([0, 0, 4, 4]), "b": Fixed(ValueError("no"))})
    assert lines[0] == "1 of 2: a …"
    assert lines[1].startswith("1 of 2: a took 0.")
    assert lines[3].startswith("2 of 2: b failed after 0.")


def test_java_classes_are_shown_without_their_packages():
    assert ComparedRow("java:a.b.Scheduler:a.b.c.Strategy").label == "java:Scheduler:Strategy"
    assert ComparedRow("top_storm").label == "top_storm"


def test_all_are_all():
    assert tuple(choose_schedulers("all")) == scheduler_names()
    assert tuple(choose_schedulers(" online,even, online ")) == ("online", "even")


def test_settings_apply_to_named_scheduler():
    chosen = choose_schedulers("online,top_storm", ["online.alpha=0.25", "top_storm.alpha=0.5", "online.gamma=2"])
    assert (chosen["online"].params.alpha, chosen["online"].params.gamma) == (0.25, 2)
    assert chosen["top_storm"].params.alpha == 0.5


def test_all_scheduler_option_faults_are_reported_at_once():
    with pytest.raises(InputError) as error:
        choose_schedulers("online,evn", ["online.alpha=7", "online.x=1", "even.y=1", "alpha"])
    assert [fault.path for fault in error.value.faults] == ["even.y=1", "alpha", "online.alpha", "online.x", "evn"]


def test_missing_or_unused_jars_are_rejected(tmp_path):
    with pytest.raises(InputError, match="no such jar"):
        choose_schedulers("even,java:a.b.C", jars=[tmp_path / "no.jar"])
    with pytest.raises(InputError, match="only for a Java class"):
        choose_schedulers("even", jars=[tmp_path / "no.jar"])


def test_no_name_at_all():
    with pytest.raises(InputError, match="names no scheduler"):
        choose_schedulers(" , ")
