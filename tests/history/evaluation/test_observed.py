"""Where tasks run, according to records."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.perflog.crossing import TaskNodes
from tests.controller.builders import record


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4), st.sampled_from("abc")), max_size=12))
def test_task_lookup_returns_the_last_reported_node(reports):
    """Executors of other sizes than before come after a rebalance; then all are reported again."""
    nodes, by_task = TaskNodes(), {}
    width = 0
    for first, each, node in reports:
        if each != width:
            nodes, by_task, width = TaskNodes(), {}, each
        start = 1 + (first - 1) * each
        nodes.put(start, start + each - 1, node)
        by_task.update(dict.fromkeys(range(start, start + each), node))
    for task in range(60):
        assert nodes.of(task) == by_task.get(task)


def test_new_executor_range_replaces_overlapping_older_ranges():
    nodes = TaskNodes()
    for first in (1, 2, 3, 4):
        nodes.put(first, first, "old")
    nodes.put(1, 4, "new")
    assert [nodes.of(task) for task in range(6)] == [None, "new", "new", "new", "new", None]
    nodes.put(3, 4, "newer")
    assert [nodes.of(task) for task in range(1, 5)] == ["new", "new", "newer", "newer"]


def test_executors_with_very_many_tasks_have_bounded_cpu_cost():
    observed = ObservedTraffic(60.0)
    begin = time.process_time()
    observed.add(record("t", "n0", seq, tasks=(1 + seq, 2**31 - 1)) for seq in range(2_000))
    assert time.process_time() - begin < 5
