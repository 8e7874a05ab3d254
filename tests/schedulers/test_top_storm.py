"""TOP-Storm against the tables of its paper."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from stormwright.errors import InputError
from stormwright.model import Component, Grouping, Problem, Supervisor, Topology, default_executor_runs
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.top_storm import computation_power
from tests.schedulers.builders import GHZ, load, nodes, problem, topology


def placed(of: Problem) -> list[int]:
    """Node of every executor."""
    return of.slot_node[make_scheduler("top_storm").schedule(of).slot_of_executor].tolist()


def machine(ghz: float, ram_gb: float, flop: float, cores: int) -> Supervisor:
    meta = {"ghz": str(ghz), "cores": str(cores), "flop.per.cycle": str(flop)}
    return Supervisor("s", "h", (6700,), ghz * GHZ, scheduler_meta=meta, resources={"memory.mb": ram_gb * 1024})


#: Table 3: GHz, RAM in GB, FLOP a cycle, cores, index at alpha 0.8, index at alpha 0.2.
TABLE_3 = {
    "A": (2.4, 4, 4, 4, 5, 5),
    "B": (2.8, 8, 4, 4, 4, 4),
    "C": (3.2, 10, 16, 2, 3, 3),
    "D": (3.4, 12, 16, 4, 1, 2),
    "E": (3.2, 16, 8, 8, 2, 1),
}

#: Table 4: GHz, cores, FLOP a cycle, RAM in GB, GFLOPs (equation 1), computation power (equation 2).
TABLE_4 = {
    "Node-C": (3.40, 8, 6816, 3.7, 185_395, 148_317),
    "Node-A": (3.40, 4, 6816, 3.7, 92_698, 74_159),
    "Node-B": (3.20, 4, 6385, 7.7, 81_728, 65_384),
    "Node-D": (2.53, 4, 5054, 3.7, 51_147, 40_918),
    "Node-E": (3.40, 2, 6816, 3.7, 46_349, 37_080),
}


@pytest.mark.parametrize(("alpha", "column"), [(0.8, 4), (0.2, 5)])
def test_table_3_machine_indexing(alpha, column):
    power = {name: computation_power(machine(*row[:4]), alpha) for name, row in TABLE_3.items()}
    index = {name: 1 + sorted(power.values(), reverse=True).index(p) for name, p in power.items()}
    assert index == {name: row[column] for name, row in TABLE_3.items()}


@pytest.mark.parametrize("name", TABLE_4)
def test_table_4_computation_power(name):
    ghz, cores, flop, ram_gb, gflops, power = TABLE_4[name]
    node = machine(ghz, ram_gb, flop, cores)
    # The paper gives whole numbers; one of them (Node-D) is rounded up, another (Node-C) cut off.
    assert computation_power(node, 1.0) == pytest.approx(gflops, abs=1)
    assert computation_power(node, 0.8) == pytest.approx(power, abs=1)


def test_the_most_communicating_share_a_worker_and_the_rest_go_round_robin():
    """E = 6, W = 2, so a worker takes 3: the heaviest pair and who talks most to either, then what is left."""
    t = topology("t", executors=6, workers=2)
    pairs = [(0, 3, 100.0), (3, 5, 50.0), (1, 2, 40.0), (0, 1, 10.0)]
    answer = make_scheduler("top_storm").schedule(problem(nodes(10, 10), (t, load(6, pairs))))
    slots = answer.slot_of_executor
    assert slots[0] == slots[3] == slots[5]
    assert slots[1] == slots[2] == slots[4]


def test_the_most_powerful_node_is_filled_before_the_next():
    supervisors = tuple(
        Supervisor(f"s{i}", f"h{i}", (6700, 6701), 8 * GHZ, scheduler_meta={"ghz": ghz, "cores": "4"})
        for i, ghz in enumerate(["2.0", "3.4", "2.8"])
    )
    of = Problem(supervisors, (topology("t", executors=6, workers=3),))
    slots = make_scheduler("top_storm").schedule(of).slot_of_executor
    used = of.slot_node[slots].tolist()
    assert sorted(set(used)) == [1, 2]
    assert used.count(1) == 4


def test_all_invalid_processor_values_are_listed():
    metas = [{"cores": "eight"}, {"ghz": "nan", "sockets": "2"}, {"flop.per.cycle": "-1", "ghz": "inf"}]
    supervisors = tuple(replace(node, scheduler_meta=meta) for node, meta in zip(nodes(1, 1, 1), metas, strict=True))
    with pytest.raises(InputError) as error:
        make_scheduler("top_storm").schedule(problem(supervisors, (topology("t", 1, 1), load(1))))
    assert {fault.path for fault in error.value.faults} == {
        '$.supervisors[0].scheduler_meta["cores"]',
        '$.supervisors[1].scheduler_meta["ghz"]',
        '$.supervisors[2].scheduler_meta["flop.per.cycle"]',
        '$.supervisors[2].scheduler_meta["ghz"]',
    }


def test_equally_powerful_nodes_are_ordered_by_free_slots():
    """Algorithm 3, lines 15 to 17: "sort by computation power, available slots in descending order"."""
    few, many = (Supervisor(f"s{ports}", f"h{ports}", tuple(range(6700, 6700 + ports)), GHZ) for ports in (1, 4))
    assert placed(Problem((few, many), (topology("t", executors=2, workers=2),))) == [1, 1]
    assert placed(Problem((many, few), (topology("t", executors=2, workers=2),))) == [0, 0]


def test_free_slots_exclude_those_of_earlier_topologies():
    """Four and three slots: the first topology takes three of the four, so the second goes to the three."""
    supervisors = tuple(Supervisor(f"s{p}", f"h{p}", tuple(range(6700, 6700 + p)), 9 * GHZ) for p in (4, 3))
    of = Problem(supervisors, (topology("a", executors=3, workers=3), topology("b", executors=2, workers=2)))
    assert placed(of) == [0, 0, 0, 1, 1]


def test_group_is_joined_by_executor_with_most_traffic_to_its_initial_pair():
    """3 exchanges 25 with either of 0 and 1, 2 exchanges 40 with one of them."""
    t = topology("t", executors=6, workers=2)
    pairs = [(0, 1, 100.0), (0, 3, 25.0), (1, 3, 25.0), (0, 2, 40.0)]
    answer = make_scheduler("top_storm").schedule(problem(nodes(10, 10), (t, load(6, pairs))))
    slots = answer.slot_of_executor
    assert slots[0] == slots[1] == slots[3] != slots[2]


def test_as_many_executors_as_workers_are_not_paired():
    of = problem(nodes(10, 10), (topology("t", executors=4, workers=4), load(4, [(0, 1, 9.0), (2, 3, 9.0)])))
    assert len(set(make_scheduler("top_storm").schedule(of).slot_of_executor.tolist())) == 4


def test_remaining_executors_exceed_the_share_only_in_algorithm_mode():
    """E = 9, W = 3, e_ps = 3: two full groups; of the three left over, counter 1, 2, 3, one goes to each slot."""
    pairs = [(0, 1, 100.0), (1, 2, 50.0), (3, 4, 40.0), (4, 5, 30.0)]
    of = problem(nodes(10, 10), (topology("t", executors=9, workers=3), load(9, pairs)))
    sizes = {
        most: sorted(
            Counter(make_scheduler("top_storm", {"most": most}).schedule(of).slot_of_executor.tolist()).values()
        )
        for most in ("algorithm", "table")
    }
    assert sizes == {"algorithm": [1, 4, 4], "table": [3, 3, 3]}


def test_communication_pairs_come_only_from_the_dag():
    """One spout executor and two bolts; all was measured between the bolts, which no stream joins."""
    components = (
        Component("a", "spout", 1),
        Component("b", "bolt", 1, (Grouping("a"),)),
        Component("c", "spout", 1),
        Component("d", "bolt", 1, (Grouping("c"),)),
    )
    t = Topology("t", "t", 2, components, default_executor_runs(components))
    of = problem(nodes(10, 10), (t, load(4, [(0, 2, 100.0), (1, 3, 50.0)])))
    slots = {
        traffic: make_scheduler("top_storm", {"traffic": traffic}).schedule(of).slot_of_executor.tolist()
        for traffic in ("measured", "dag")
    }
    assert slots["measured"][0] == slots["measured"][2] != slots["measured"][1]
    assert slots["dag"][0] == slots["dag"][1] != slots["dag"][2]
    assert slots["dag"][2] == slots["dag"][3]
