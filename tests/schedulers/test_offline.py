"""The offline scheduler: rules of the paper on topologies small enough to follow by hand."""

from __future__ import annotations

from stormwright.model import Component, Grouping, Problem, Topology, default_executor_runs
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import nodes


def chain(*parallelism: int, workers: int) -> Topology:
    """Components ``c0`` → ``c1`` → … with that many executors."""
    components = tuple(
        Component(f"c{i}", "bolt" if i else "spout", count, (Grouping(f"c{i - 1}"),) if i else ())
        for i, count in enumerate(parallelism)
    )
    return Topology("t", "t", workers, components, default_executor_runs(components))


def workers(topology: Topology, **settings: float) -> list[list[str]]:
    """Component names of the executors of every worker."""
    problem = Problem(nodes(*[10.0] * 8), (topology,))
    slots = make_scheduler("offline", settings).schedule(problem).slot_of_executor.tolist()
    names = [topology.components[c].id for c in topology.executor_component]
    return [[n for n, s in zip(names, slots, strict=True) if s == slot] for slot in sorted(set(slots))]


def test_executors_follow_the_components_they_subscribe_to():
    """As many workers as spouts, all of one size: every worker holds a whole chain."""
    assert workers(chain(2, 2, 2, workers=2), epsilon=1) == [["c0", "c1", "c2"], ["c0", "c1", "c2"]]


def test_alpha_zero_makes_workers_equal():
    assert sorted(len(w) for w in workers(chain(1, 7, workers=4))) == [2, 2, 2, 2]


def test_alpha_one_lets_a_worker_hold_all_but_one_for_each_other():
    """M(1) = E - W + 1; without empty workers first, the bolts join the only spout."""
    sizes = sorted(len(w) for w in workers(chain(1, 7, workers=4), alpha=1, epsilon=1))
    assert sizes == [1, 1, 1, 5]


def test_epsilon_zero_uses_empty_workers_first():
    assert workers(chain(1, 1, 1, workers=3), alpha=1, epsilon=0) == [["c0"], ["c1"], ["c2"]]


def test_beta_says_how_many_nodes():
    def nodes_used(beta: float) -> int:
        problem = Problem(nodes(*[10.0] * 8), (chain(4, 4, workers=4),))
        slots = make_scheduler("offline", {"beta": beta}).schedule(problem).slot_of_executor
        return len(set(problem.slot_node[slots].tolist()))

    assert [nodes_used(beta) for beta in (0, 0.5, 1)] == [1, 3, 4]


def test_a_cycle_is_no_obstacle():
    components = (
        Component("a", "spout", 1),
        Component("b", "bolt", 2, (Grouping("a"), Grouping("c"))),
        Component("c", "bolt", 2, (Grouping("b"),)),
    )
    problem = Problem(nodes(10.0, 10.0), (Topology("t", "t", 2, components, default_executor_runs(components)),))
    assert not make_scheduler("offline").schedule(problem).unplaced
