"""What is requested of a cluster, and what its records come to, without a cluster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from stormwright_lab.evaluations.cell_store import CellOutcome, CellStore
from stormwright_lab.evaluations.cells import Cell, CellTimes
from stormwright_lab.evaluations.definitions import Machine, Variant
from stormwright_lab.evaluations.lab.kills import recoveries
from stormwright_lab.evaluations.lab.moves import next_nodes
from stormwright_lab.evaluations.lab.scheduler import LabScheduler
from stormwright_lab.evaluations.placing import declared, named, placement_of, same_as, scheduler_input, slots_of

from stormwright.errors import SchedulerError
from stormwright.formats import problem_to_dict
from stormwright.model import TopologyAssignment
from stormwright.schedulers import make_scheduler
from tests.controller.builders import record
from tests.evaluations.labs import BLOCK, problem


def cell(**variants: Variant) -> Cell:
    block = replace(BLOCK, variants={"default": Variant("even"), **variants})
    return Cell("stand-in", block, list(block.variants)[-1], 0, CellTimes())


def running(slots):
    of = problem()
    used = np.unique(slots).tolist()
    names = tuple(of.slots[slot] for slot in used)
    placed = TopologyAssignment(names, tuple(used.index(slot) for slot in slots.tolist()))
    return replace(of, current={of.topologies[0].id: placed})


def test_placements_convert_to_hosts_and_ports_and_back():
    of = problem()
    slots = make_scheduler("top_storm").schedule(of).slot_of_executor
    (placement,) = named(of, slots)
    np.testing.assert_array_equal(slots_of(of, 0, placement), slots)
    # Addresses count as numbers do: .9 comes before .10.
    hosts = {node: of.supervisors[of.slot_node[slot]].host for (node, _), slot in zip(placement, slots, strict=True)}
    order = ["198.18.0.9", "198.18.0.10", "198.18.0.11", "198.18.0.12", "198.18.0.13"]
    assert hosts == {order.index(host): host for host in hosts.values()}
    with pytest.raises(SchedulerError, match="for 28"):
        slots_of(of, 0, placement[:-1])


def test_lab_scheduler_ignores_running_placement():
    of = running(make_scheduler("even").schedule(problem()).slot_of_executor)
    wanted = named(problem(), make_scheduler("top_storm").schedule(problem()).slot_of_executor)
    assert placement_of(cell(packed=Variant("top_storm")), of) == wanted


def test_a_scheduler_gets_the_costs_of_the_first_start(tmp_path):
    of = problem_to_dict(problem())
    own, store = cell(packed=Variant("top_storm")), CellStore(tmp_path / "cells.jsonl")
    costs = {"schema": "stormwright-calibration/1", "costs": {"send_us": 7.0}}
    store.add(own.first(), CellOutcome({}, problem={**of, "costs": costs}))
    again = replace(own, repeat=1)
    store.add(again.first(), CellOutcome({}, problem=of))
    assert [scheduler_input(each, store).load.costs["costs"]["send_us"] for each in (own, again)] == [7.0, 7.0]


def test_placements_are_the_same_whatever_nodes_are_called():
    of = problem()
    slots = make_scheduler("top_storm").schedule(of).slot_of_executor
    here = named(of, slots)
    there = [[((node + 2) % 5, port) for node, port in own] for own in here]
    apart = [[(number % 5, 6700) for number, _ in enumerate(own)] for own in here]
    assert same_as(of, here, {"x": CellOutcome({}, placement=apart), "y": CellOutcome({}, placement=there)}) == "y"
    assert same_as(of, here, {"x": CellOutcome({}, placement=apart)}) is None


def test_nodes_declare_machines_in_the_order_of_their_hosts():
    of = declared(problem(), [Machine(100.0 * n, 512.0, {"ghz": str(n)}) for n in range(1, 6)])
    nodes = {node.host: (node.scheduler_meta["ghz"], node.resources["cpu.pcore.percent"]) for node in of.supervisors}
    assert nodes["198.18.0.9"] == ("1", 100.0)
    assert nodes["198.18.0.13"] == ("5", 500.0)


def test_lab_placing_returns_cell_placement_or_storms_default():
    of, placing = problem(), LabScheduler()
    placing.ports = 3
    even = make_scheduler("even").schedule(of).slot_of_executor
    np.testing.assert_array_equal(placing.schedule(of).slot_of_executor, even)
    placing.ports = 1
    assert {of.slots[slot].port for slot in placing.schedule(of).slot_of_executor} == {6700}
    packed = make_scheduler("top_storm").schedule(of).slot_of_executor
    placing.wanted = {of.topologies[0].name: named(of, packed)[0]}
    np.testing.assert_array_equal(placing.schedule(of).slot_of_executor, packed)
    # What runs is left alone.
    np.testing.assert_array_equal(placing.schedule(running(even)).slot_of_executor, even)


def test_move_block_moves_every_worker_to_a_free_slot_of_another_node():
    of = running(make_scheduler("even").schedule(problem()).slot_of_executor)
    wanted = next_nodes(of)
    assert set(wanted.tolist()).isdisjoint(of.current_slot.tolist())
    assert (of.slot_node[wanted] != of.slot_node[of.current_slot]).all()
    assert len(set(wanted.tolist())) == len(set(of.current_slot.tolist()))


def trees(start_s: int, end_s: int, rate: int):
    return [
        record("words", "n0", second, trees=rate, acked=rate, start_ms=1000 * second, latency=[0, rate])
        for second in range(start_s, end_s)
    ]


def test_recovery_time_ends_when_rate_reaches_level_of_window_end():
    records = [*trees(0, 40, 100), *trees(52, 60, 30), *trees(60, 80, 90), *trees(85, 120, 45)]
    found = recoveries(records, "words", [0.0, 40_000.0, 80_000.0, 120_000.0])
    assert found["kept_percent"] == pytest.approx([90.0, 50.0])
    assert found["silence_s"] == pytest.approx([12.0, 5.0], abs=2.1)
    nothing = recoveries(trees(0, 40, 100), "words", [0.0, 40_000.0, 80_000.0])
    assert (nothing["kept_percent"], nothing["recovery_s"]) == ([0.0], [40.0])
    # The mean of three seconds: 60 to 62 s are the first with enough.
    assert found["recovery_s"] == pytest.approx([20.0, 5.0], abs=1.6)
