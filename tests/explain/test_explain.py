"""Explanations: obstacles and costs as loops over names find them, counted as people read them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.errors import InputError
from stormwright.explain.explain import explain
from stormwright.model import UNPLACED, Assignment, Component, Topology, Unplaced, default_executor_runs
from stormwright.model.constraints.violations import broken_limits
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.schedulers import make_scheduler
from stormwright.testing import oracles
from stormwright.testing.strategies import problems, slots_of
from tests.schedulers.builders import load, nodes, problem, topology


def placed(slots, **more):
    return Assignment(np.array(slots, np.int32), **more)


def tagged(name, *tags):
    components = (Component("c", "spout", 1, tags=tags),)
    return Topology(name, name, 1, components, default_executor_runs(components))


def with_tags(of, *tags):
    supervisors = tuple(
        replace(node, scheduler_meta={"tags": own}) if own else node
        for node, own in zip(of.supervisors, tags, strict=True)
    )
    return replace(of, supervisors=supervisors)


def test_histogram_counts_each_node_once():
    of = problem(nodes(4, 4, 4, memory_mb=512), (tagged("t", "etl"), load(1, memory_mb=1024)))
    found = explain(with_tags(of, "etl", "etl,x", ""), placed([-1]))
    assert [e.histogram for e in found] == ['2 of 3 nodes: memory short by 512 MB; 1 of 3: tag "etl" missing']
    assert [str(o) for o in found[0].nodes[2].obstacles] == ['tag "etl" missing', "memory short by 512 MB"]


def test_different_amounts_become_a_range():
    of = problem(nodes(1, 0.5, 0.25), (topology("t", 1, 1), load(1, cpu_ghz=1.5)))
    assert explain(of, placed([-1]))[0].histogram == "3 of 3 nodes: CPU short by 0.5 to 1.25 GHz"


def test_histogram_lists_black_and_greylisted_nodes_first():
    of = problem(nodes(1, 1, 1), (topology("t", 1, 1), load(1, cpu_ghz=2)))
    of = replace(of, blacklisted_hosts=frozenset({"h0"}), greylisted_supervisors=("s1",))
    text = "1 of 3 nodes: blacklisted; 1 of 3: greylisted; 1 of 3: CPU short by 1.0 GHz"
    assert explain(of, placed([-1]))[0].histogram == text


def test_no_free_slot():
    of = problem(nodes(4, 4, ports=1), (topology("a", 2, 2), load(2)), (topology("b", 1, 1), load(1)))
    assert explain(of, placed([0, 1, -1]))[0].histogram == "2 of 2 nodes: no free worker slot of 1"


def test_executors_per_worker():
    limited = topology("a", 3, 1, **{MAX_EXECUTORS_PER_WORKER: 2})
    of = problem(nodes(4, 4, ports=1), (limited, load(3)))
    found = explain(of, placed([0, 0, -1]))[0]
    assert found.histogram == (
        "1 of 2 nodes: 2 executors in every worker of its topology, the limit; "
        "1 of 2: the only worker of its topology is elsewhere"
    )
    assert found.shortages == ("1 worker of at most 2 executors cannot take 3",)


def test_shortage_is_reported_if_nodes_fit_each_executor_but_not_all():
    of = problem(nodes(1, 1), (topology("t", 3, 2), load(3, cpu_ghz=0.8)))
    found = explain(of, placed([-1, -1, -1], status={"t": "online: no"}, unplaced=()))
    assert len(found) == 1, "executors that are alike are explained together"
    assert found[0].executors == (0, 1, 2)
    assert found[0].histogram == "2 of 2 nodes: could take each one alone"
    assert found[0].shortages == ("CPU short by 0.4 GHz on 2 usable nodes together for its 3 executors without a slot",)
    assert found[0].status == "online: no"


def test_explanation_includes_reasons_given_by_scheduler():
    of = problem(nodes(1), (topology("t", 2, 1), load(2)))
    reasons = [Unplaced("t", 0, "c", ("1 reason",)), Unplaced("t", 1, "c", ("2 reasons",))]
    found = explain(of, placed([-1, -1], unplaced=tuple(reasons)))
    assert [(e.executors, e.reasons) for e in found] == [((0,), ("1 reason",)), ((1,), ("2 reasons",))]


def test_tags_are_obstacles_only_for_tag_aware_schedulers():
    of = with_tags(problem(nodes(4, 4), (tagged("t", "etl"), load(1)), (tagged("u"), load(1))), "etl", "")
    by_tag, by_traffic = (explain(of, placed([-1, -1], scheduler=name)) for name in ("tag_aware", "online"))
    assert by_tag[0].histogram == '1 of 2 nodes: tag "etl" missing; 1 of 2: could take each one alone'
    assert by_tag[1].histogram == '1 of 2 nodes: tag "untagged" missing; 1 of 2: could take each one alone'
    assert [e.histogram for e in by_traffic] == ["2 of 2 nodes: could take each one alone"] * 2


def test_explanation_respects_cpu_capacity_parameter_of_online():
    of = problem(nodes(2), (topology("t", 1, 1), load(1, cpu_ghz=1.5)))
    answer = make_scheduler("online", {"capacity": 50}).schedule(of)
    assert explain(of, answer)[0].histogram == "1 of 1 nodes: CPU short by 0.5 GHz"


def test_a_move_joins_the_worker_of_its_topology():
    of = problem(nodes(4, 4, 4), (topology("t", 3, 2), load(3, [(0, 1, 10), (1, 2, 4)])))
    found = explain(of, placed([0, 0, 4]), executor=1)[0]
    assert found.slot == "h0:6700"
    assert [(n.supervisor, n.cost_change, n.worker) for n in found.nodes] == [
        ("s1", 6.0, "h1:6700"),
        ("s2", 10.0, None),
    ]
    assert [n.supervisor for n in found.open_nodes] == ["s1", "s2"]
    assert [n.workers for n in found.nodes] == [2, 3]


def test_moving_the_last_executor_of_a_worker_removes_the_worker():
    of = problem(nodes(4, 4, 4), (topology("t", 3, 2), load(3, [(0, 1, 10), (1, 2, 4)])))
    found = explain(of, placed([0, 0, 4]), executor=2)[0]
    assert [(n.supervisor, n.cost_change, n.workers) for n in found.nodes] == [("s0", -4.0, 1), ("s2", 0.0, 2)]


@pytest.mark.slow
@given(problems(), st.data())
def test_move_cost_equals_oracle_cost(of, data):
    slots = data.draw(slots_of(of)).tolist()
    before = oracles.cost(of, slots)
    position = 0
    for index, t in enumerate(of.topologies):
        for explanation in explain(of, placed(slots), topology=t.id):
            if explanation.slot is None:
                continue
            position += len(explanation.executors)
            assert len(explanation.nodes) == len(of.supervisors) - 1
            for number, node in product(explanation.executors, explanation.nodes):
                e = int(of.executor_offset[index]) + number
                assert of.cluster.slot_name(of.slots[slots[e]]) == explanation.slot
                own = {slots[x] for x, (name, _) in enumerate(oracles.executors(of)) if name == t.id} - {UNPLACED}
                free = [s for s, slot in enumerate(of.slots) if slot.supervisor == node.supervisor and s not in own]
                target = next(iter(free), None)
                if node.joins is not None:
                    target = of.slots.index((node.supervisor, node.joins))
                if target is None:
                    continue
                assert node.joins is None or target in own
                moved = [*slots[:e], target, *slots[e + 1 :]]
                assert node.cost_change == pytest.approx(oracles.cost(of, moved) - before, abs=1e-6)
    assert position == sum(slot != UNPLACED for slot in slots)


@pytest.mark.slow
@given(problems(), st.data())
def test_obstacles_equal_brute_force_obstacles(of, data):
    slots = data.draw(slots_of(of)).tolist()
    everyone = oracles.executors(of)
    for index, t in enumerate(of.topologies):
        for explanation in explain(of, placed(slots), topology=t.id):
            e = everyone.index((t.id, explanation.executors[0]))
            demand = [(float(x), float(y)) for x, y in zip(of.executor_cpu_hz, of.executor_memory_mb, strict=True)]
            for node in explanation.nodes:
                kinds = {obstacle.kind for obstacle in node.obstacles}
                supervisor = next(s for s in of.supervisors if s.id == node.supervisor)
                there = [x for x, s in enumerate(slots) if s >= 0 and of.slots[s].supervisor == node.supervisor]
                cpu, memory = (sum(demand[x][k] for x in there) + demand[e][k] for k in (0, 1))
                assert ("CPU" in kinds) == (cpu > supervisor.cpu_hz * (1 + 1e-9))
                assert ("memory" in kinds) == (memory > supervisor.memory_mb * (1 + 1e-9))
                gpus = sum(oracles.other_demands(of, *everyone[x]).get("gpu.count", 0) for x in (*there, e))
                lacks_gpus = oracles.other_demands(of, *everyone[e]).keys() and gpus > supervisor.resources["gpu.count"]
                assert ("gpu.count" in kinds) == bool(lacks_gpus)
                assert ("blacklisted" in kinds) == (supervisor.host in of.blacklisted_hosts)
                limit = t.conf.get(MAX_EXECUTORS_PER_WORKER, 10**9)
                own = [slots[x] for x in there if everyone[x][0] == t.id]
                used = {slots[x] for x in there}
                name = explanation.component
                pairs = {frozenset(pair) for pair in oracles.separated_pairs(t)}
                mates = [(x, component_of(of, x)) for x in there if everyone[x][0] == t.id and x != e]
                foes = {slots[x] for x, mate in mates if frozenset((name, mate)) in pairs}
                joins = any(own.count(slot) < limit and slot not in foes for slot in own)
                opens = len(used) < len(supervisor.ports)
                if not joins and not opens:
                    assert kinds & {"slots", "executors per worker", "incompatible"}
                if joins or (opens and explanation.slot):
                    assert not kinds & {"slots", "executors per worker", "incompatible", "workers"}
                most = oracles.most_on_node(t.conf).get(name, 10**9)
                assert ("crowded" in kinds) == ([mate for _, mate in mates].count(name) >= most)
            assert of.topologies[index] is t


RESOURCE_AWARE = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"
CLUSTERS = (
    {"storm.scheduler": RESOURCE_AWARE},
    {"storm.scheduler": "stormwright.PlacementScheduler", "isolation.scheduler.machines": {"t0": 1}},
    {"stormwright.users": {"*": {"executors": 3}}},
)


@pytest.mark.slow
@given(problems(), st.data())
def test_a_node_without_obstacle_takes_the_executor_within_every_limit(of, data):
    of = replace(of, conf={**of.conf, **data.draw(st.sampled_from(CLUSTERS))})
    slots = np.array(data.draw(slots_of(of)), np.int32)
    # What a topology cannot have at all is found from its executors; what runs keeps its worker's slot.
    broken = {str(each) for each in broken_limits(of, slots)}
    for explanation in explain(of, placed(slots)):
        topology = of.topology_index[explanation.topology]
        own = of.executors_of(topology)
        e = own.start + explanation.executors[0]
        for node in explanation.open_nodes:
            there = [s for s, slot in enumerate(of.slots) if slot.supervisor == node.supervisor]
            placements = []
            for slot in there:
                if slot in slots[own] or slot not in slots:
                    placements.append(slots.copy())
                    placements[-1][e] = slot
            assert any({str(each) for each in broken_limits(of, wanted)} <= broken for wanted in placements)


def test_heap_of_the_resource_aware_scheduler():
    of = problem(nodes(4, 4), (topology("t", 2, 1, **{"topology.worker.max.heap.size.mb": 200}), load(2)))
    of = replace(of, conf={"storm.scheduler": RESOURCE_AWARE})
    assert explain(of, placed([-1, -1]))[0].histogram == "2 of 2 nodes: could take each one alone"
    assert explain(of, placed([0, -1]))[0].histogram == (
        "1 of 2 nodes: no heap left in the workers of its topology; "
        "1 of 2: the only worker of its topology is elsewhere"
    )
    conf = {"topology.worker.max.heap.size.mb": 100}
    too_small = replace(of, topologies=[replace(of.topologies[0], conf=conf)])
    text = "2 of 2 nodes: 128 MB of heap requested, and topology.worker.max.heap.size.mb allows a worker 100"
    assert explain(too_small, placed([-1, -1]))[0].histogram == text


def test_hosts_of_isolated_topologies():
    conf = {"storm.scheduler": "stormwright.PlacementScheduler", "isolation.scheduler.machines": {"a": 1}}
    of = replace(
        problem(nodes(4, 4, 4), (topology("a", 2, 2), load(2)), (topology("b", 2, 1), load(2))),
        conf=conf,
    )
    found = {each.topology: each.histogram for each in explain(of, placed([0, -1, 4, -1]))}
    assert found["a"] == (
        "1 of 3 nodes: b is on its host, and a is isolated; "
        "1 of 3: its topology is isolated on 1 host, and these are others; 1 of 3: could take each one alone"
    )
    assert found["b"].startswith("1 of 3 nodes: a is on its host, and a is isolated")


def component_of(of, executor):
    topology_id, number = oracles.executors(of)[executor]
    t = of.topologies[of.topology_index[topology_id]]
    return t.components[t.executor_component[number]].id


def test_limits_on_components():
    components = (Component("a", "spout", 3), Component("b", "bolt", 1))
    rules = {"a": {"maxNodeCoLocationCnt": 1, "incompatibleComponents": ["b"]}}
    conf = {"topology.ras.constraints": rules}
    t = Topology("t", "t", 3, components, default_executor_runs(components), conf=conf)
    of = problem(nodes(4, 4, 4, ports=1), (t, load(4)))
    (explanation,) = explain(of, placed([0, 1, -1, 2]))
    assert explanation.histogram == (
        "2 of 3 nodes: 1 executor of a already, the limit; 1 of 3: incompatible components in 1 worker of its topology"
    )
    on_its_node = explain(of, placed([0, 1, 0, 2]), "t", 2)[0].nodes
    assert [node.joins for node in on_its_node] == [of.slots[1].port, None]


TWO = problem(nodes(4, 4), (topology("a-1", 2, 1), load(2)), (topology("b-1", 1, 1), load(1)))


def test_explain_without_selection_covers_unplaced_executors():
    found = explain(TWO, placed([-1, 0, 4]))
    assert [(e.topology, e.executors) for e in found] == [("a-1", (0,))]
    assert explain(TWO, placed([0, 0, 4])) == []


def test_explain_by_topology_covers_all_its_executors():
    assert [e.executors for e in explain(TWO, placed([-1, 0, 4]), "a-1")] == [(0,), (1,)]


def test_identical_executors_are_explained_together():
    of = problem(nodes(4, 4), (topology("t", 4, 2), load(4, [(0, 3, 1), (1, 3, 1), (2, 3, 5)])))
    found = explain(of, placed([0, 0, 0, 4]), "t")
    assert [(e.executors, e.nodes[0].cost_change) for e in found] == [((0, 1), -1), ((2,), -5), ((3,), -7)]
    assert [e.executors for e in explain(of, placed([0, 1, 0, 4]), "t")] == [(0,), (1,), (2,), (3,)]


def test_a_topology_can_be_named_by_name():
    of = replace(TWO, topologies=(replace(TWO.topologies[0], name="wc"), replace(TWO.topologies[1], name="x")))
    assert explain(of, placed([0, 0, 4]), "wc", 1)[0].executors == (1,)
    of = replace(TWO, topologies=(replace(TWO.topologies[0], name="wc"), replace(TWO.topologies[1], name="wc")))
    with pytest.raises(InputError, match="several topologies have this name; by id a-1, b-1"):
        explain(of, placed([0, 0, 4]), "wc")


@pytest.mark.parametrize(
    ("topology_id", "executor", "message"),
    [
        ("zzz", None, "zzz: no such topology; known: a-1, b-1"),
        (None, 0, "executors are numbered within a topology; there are a-1, b-1"),
        ("b-1", 1, "1: b-1 has no such executor: its executors are 0 to 0"),
        ("b-1", -1, "b-1 has no such executor"),
    ],
)
def test_unknown_topology_or_executor_raises_input_error(topology_id, executor, message):
    with pytest.raises(InputError, match=message):
        explain(TWO, placed([0, 0, 4]), topology_id, executor)


def test_a_problem_without_nodes():
    of = problem((), (topology("t", 1, 1), load(1)))
    assert explain(of, placed([-1]))[0].histogram == ""
