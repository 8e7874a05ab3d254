"""Executors of a topology: order, tasks, components."""

from __future__ import annotations

from stormwright.model import Component, ExecutorRun, Topology, default_executor_runs


def topology(*runs: ExecutorRun, components: int = 2) -> Topology:
    return Topology("t", "t", 1, tuple(Component(f"c{c}", "bolt", 0) for c in range(components)), runs)


def test_runs_expand_in_order():
    """Storm splits tasks in contiguous ranges, larger first: five tasks over two executors."""
    expanded = topology(ExecutorRun(1, 1, 1, 3), ExecutorRun(1, 4, 1, 2), ExecutorRun(0, 6, 3, 1))
    assert expanded.executor_component.tolist() == [1, 1, 0, 0, 0]
    assert expanded.executor_start_task.tolist() == [1, 4, 6, 7, 8]
    assert expanded.executor_end_task.tolist() == [3, 5, 6, 7, 8]
    assert expanded.num_executors == 5


def test_no_executors():
    assert topology().executor_component.tolist() == []
    assert topology().executor_start_task.tolist() == []
    assert topology().executor_end_task.tolist() == []


def test_default_tasks_are_numbered_in_name_order_with_system_components():
    """As Storm does; ``__acker`` comes before small letters."""
    components = (Component("spout", "spout", 2), Component("__acker", "system", 1), Component("count", "bolt", 3))
    assert default_executor_runs(components) == (
        ExecutorRun(1, 1, 1, 1),
        ExecutorRun(2, 2, 3, 1),
        ExecutorRun(0, 5, 2, 1),
    )
