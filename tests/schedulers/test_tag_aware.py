"""Tag-aware scheduling: every rule of the article, and what its public code gets wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stormwright.errors import InputError
from stormwright.model import UNPLACED, Component, Problem, Supervisor, Topology, default_executor_runs
from stormwright.model.topology_config import WORKERS_OF_TAG
from stormwright.schedulers import make_scheduler
from tests.schedulers.builders import load, problem

GHZ = 1e9


def node(name: str, tags: str | None, ports: int = 4) -> Supervisor:
    meta = None if tags is None else {"tags": tags}
    return Supervisor(name, f"host-{name}", tuple(range(6700, 6700 + ports)), 100 * GHZ, scheduler_meta=meta)


def tagged(name: str, workers: int, conf: dict | None = None, **components: tuple[int, str]) -> Topology:
    """Components by name: number of executors and tags."""
    parts = tuple(
        Component(part, "spout", count, tags=tuple(t for t in tags.split(",") if t))
        for part, (count, tags) in components.items()
    )
    return Topology(name, name, workers, parts, default_executor_runs(parts), conf=conf or {})


def places(problem: Problem) -> tuple[dict[str, set[str]], object]:
    """Component → supervisors its executors are on, and the answer."""
    answer = make_scheduler("tag_aware").schedule(problem)
    found: dict[str, set[str]] = {}
    for index, t in enumerate(problem.topologies):
        own = answer.slot_of_executor[problem.executors_of(index)]
        for component, slot in zip(t.executor_component, own, strict=True):
            if slot != UNPLACED:
                found.setdefault(t.components[component].id, set()).add(problem.slots[slot].supervisor)
    return found, answer


def test_components_run_where_their_tags_are_and_the_rest_where_none_is():
    t = tagged("t", 4, gpu=(2, "gpu"), plain=(4, ""), __acker=(1, ""))
    found, _ = places(Problem((node("g", "gpu"), node("u1", None), node("u2", "")), (t,)))
    assert found["gpu"] == {"g"}
    assert found["plain"] | found["__acker"] <= {"u1", "u2"}


def test_lists_of_tags_on_both_sides():
    t = tagged("t", 2, both=(2, "ssd,gpu"), one=(1, "ssd"))
    found, _ = places(Problem((node("s", "ssd"), node("g", "gpu"), node("sg", " gpu , ssd ")), (t,)))
    assert found["both"] == {"sg"}
    assert found["one"] <= {"s", "sg"}


def test_two_tags_of_one_supervisor_use_distinct_slots():
    t = tagged("t", 2, a=(3, "a"), b=(3, "b"))
    problem = Problem((node("ab", "a,b", ports=2),), (t,))
    _, answer = places(problem)
    slots = answer.slot_of_executor.tolist()
    assert len(set(slots[:3])) == len(set(slots[3:])) == 1
    assert slots[0] != slots[3]


def test_all_or_nothing_and_the_next_topology_still_gets_its_slots():
    first = tagged("first", 2, a=(1, "gpu"), b=(1, ""))
    second = tagged("second", 1, c=(2, ""))
    found, answer = places(Problem((node("u", None),), (first, second)))
    assert found == {"c": {"u"}}
    assert answer.status["first"] == 'tag_aware: 0 of 1 nodes: tag "gpu"'
    assert {u.topology for u in answer.unplaced} == {"first"}


def test_status_includes_the_missing_slot_count():
    t = tagged("t", 3, gpu=(3, "gpu"))
    _, answer = places(Problem((node("g", "gpu", ports=2),), (t,)))
    assert answer.status["t"] == 'tag_aware: 3 worker slots wanted for tag "gpu", 2 free on its 1 nodes'


def test_workers_are_shared_out_by_executors_and_can_be_set_per_tag():
    t = tagged("t", 4, gpu=(2, "gpu"), plain=(6, ""))
    cluster = (node("g", "gpu"), node("u", None))

    def workers(of: Topology) -> tuple[int, int]:
        slots = make_scheduler("tag_aware").schedule(Problem(cluster, (of,))).slot_of_executor.tolist()
        return len(set(slots[:2])), len(set(slots[2:]))

    assert workers(t) == (1, 3)
    assert workers(replace(t, conf={WORKERS_OF_TAG: {"gpu": 2}})) == (2, 2)
    assert workers(replace(t, conf={WORKERS_OF_TAG: {"untagged": 1}})) == (2, 1)


def test_all_invalid_worker_counts_per_tag_are_listed():
    plain = {"plain": (2, "")}
    values = [5, {"untagged": "x"}, {"untagged": 2.7, "gpu": 0}, {"untagged": 1}]
    topologies = tuple(tagged(f"t{n}", 1, {WORKERS_OF_TAG: value}, **plain) for n, value in enumerate(values))
    with pytest.raises(InputError) as error:
        make_scheduler("tag_aware").schedule(Problem((node("u", None),), topologies))
    key = f'conf["{WORKERS_OF_TAG}"]'
    assert [fault.path for fault in error.value.faults] == [
        f"$.topologies[0].{key}",
        f"$.topologies[1].{key}.untagged",
        f"$.topologies[2].{key}.untagged",
        f"$.topologies[2].{key}.gpu",
    ]


def small(name: str, tags: str | None, ports: int = 1) -> Supervisor:
    return replace(node(name, tags, ports), resources={"memory.mb": 400.0})


def nodes_of(cluster: tuple[Supervisor, ...], *placed: tuple[Topology, list[float]]) -> list[int]:
    """Node of every executor of topologies with their memory in MB."""
    of = problem(cluster, *((t, load(len(memory_mb), memory_mb=memory_mb)) for t, memory_mb in placed))
    slots = make_scheduler("tag_aware").schedule(of).slot_of_executor
    return [UNPLACED if slot == UNPLACED else int(of.slot_node[slot]) for slot in slots]


@pytest.mark.parametrize("tag", ["", "gpu"])
def test_executors_are_exchanged_if_round_robin_creates_an_oversized_worker(tag):
    """Both large executors come into one worker at first; a node with other tags would have room for one."""
    cluster = (small("n0", tag, ports=2), small("n1", tag, ports=2), small("n2", "other"))
    first, second = tagged("first", 2, c=(3, tag)), tagged("second", 1, c=(1, tag))
    at = nodes_of(cluster, (first, [400.0, 0.0, 400.0]), (second, [100.0]))
    assert {at[0], at[2]} == {0, 1}
    assert at[1] in (0, 1)
    assert at[3] == UNPLACED  # nothing is left, as it must know


def test_executors_stay_among_the_workers_of_their_tags():
    """Those of a do not fit on one node together, and the worker on the other, which has tag a too, is that of b."""
    cluster = (small("n0", "a"), small("n1", "a,b"))
    t = tagged("t", 2, a=(2, "a"), b=(1, "b"))
    assert nodes_of(cluster, (t, [200.0, 200.0, 0.0])) == [0, 0, 1]
    assert nodes_of(cluster, (t, [300.0, 300.0, 0.0])) == [UNPLACED] * 3


def test_a_worker_moves_only_to_nodes_of_its_tags():
    cluster = (small("n0", "gpu"), small("n1", None))
    t = tagged("t", 1, gpu=(2, "gpu"))
    of = problem(cluster, (t, load(2, memory_mb=300.0)))
    answer = make_scheduler("tag_aware").schedule(of)
    assert answer.status["t"] == 'tag_aware: no room found on 1 nodes with tag "gpu" for 1 workers with 2 executors'
