"""TOSS: its rules, followed by hand."""

from __future__ import annotations

from stormwright.model import Component, Grouping, Problem, Topology, default_executor_runs
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toss import depth_first
from tests.schedulers.builders import load, nodes, problem, topology


def wired(workers: int, **parts: tuple[int, str]) -> Topology:
    """Components by name: executors, and the names of those it subscribes to, a letter each."""
    components = tuple(
        Component(name, "bolt" if sources else "spout", count, tuple(Grouping(source) for source in sources))
        for name, (count, sources) in parts.items()
    )
    return Topology("t", "t", workers, components, default_executor_runs(components))


def workers(of: Problem, **settings: object) -> list[list[int]]:
    """Executors of every worker, workers in the order of their first executor."""
    slots = make_scheduler("toss", settings).schedule(of).slot_of_executor.tolist()
    return [[e for e, s in enumerate(slots) if s == slot] for slot in dict.fromkeys(slots)]


def test_tightly_coupled_components_come_first():
    """a sends to b, c and d; only d has no other stream, b and c share e."""
    t = wired(1, a=(1, ""), b=(1, "a"), c=(1, "a"), d=(1, "a"), e=(1, "bc"))
    assert [t.components[c].id for c in depth_first(t)] == ["a", "d", "b", "e", "c"]


def test_components_without_a_spout_and_cycles_are_walked_too():
    t = wired(1, s=(1, ""), x=(1, "y"), y=(1, "xs"), z=(1, "z"))
    assert sorted(depth_first(t)) == [0, 1, 2, 3]


def test_coupled_components_share_workers():
    """Two chains; each is a worker."""
    t = wired(2, a=(2, ""), b=(2, "a"), p=(2, ""), q=(2, "p"))
    of = problem(nodes(9.0, 9.0), (t, load(8)))
    assert workers(of) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_the_load_of_workers_is_evened_out():
    """Workers start with 6 and 2; moving the executor of 2 makes both 4, the best there is."""
    of = problem(nodes(9.0, 9.0), (topology("t", 6, 2), load(6, cpu_ghz=[1.0, 2.0, 3.0, 0.5, 0.5, 1.0])))
    assert workers(of) == [[0, 2], [1, 3, 4, 5]]
    assert workers(of, tolerance=1.0) == [[0, 1, 2], [3, 4, 5]]


def test_workers_go_where_most_of_the_cpu_is_left():
    """A worker of 1 GHz each; the node of 4 GHz is at 3/4 left after its first, so the second goes elsewhere."""
    of = problem(nodes(4.0, 3.0, 2.0), (topology("t", 3, 3), load(3, cpu_ghz=1.0)))
    slots = make_scheduler("toss").schedule(of).slot_of_executor
    assert sorted(of.slot_node[slots].tolist()) == [0, 1, 2]
