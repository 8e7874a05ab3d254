"""Loads from Storm's own UI."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stormwright.advise.search.advise import advised
from stormwright.advise.search.goals import AdviceGoals
from stormwright.advise.ui import held_cores, read_ui, with_measured, with_ui
from stormwright.errors import InputError
from stormwright.formats.sketch import sketch
from stormwright.model import LoadProfile, Problem
from stormwright.schedulers import make_scheduler


def problem() -> Problem:
    made = sketch({"words": ["lines 2 -> split 4 -> count 6 fields", "lines -> count fields"]}, cores=8.0)
    made = made.with_load(LoadProfile({}))
    return made.with_current(make_scheduler("even").schedule(made).by_topology(made))


#: As `/api/v1/topology/ID?window=600` of Storm answers, without what is not read; it writes some numbers as texts.
ANSWER: dict[str, Any] = {
    "id": "words-1-0",
    "name": "words",
    "uptimeSeconds": 7200,
    "window": "600",
    "windowHint": "10m 0s",
    "spouts": [{"spoutId": "lines", "executors": 2, "tasks": 2, "emitted": 120_000, "transferred": 120_000}],
    "bolts": [
        {"boltId": "split", "emitted": 480_000, "executed": 60_000, "executeLatency": "2.000", "capacity": "0.052"},
        {"boltId": "count", "emitted": 0, "executed": 600_000, "executeLatency": "0.500", "capacity": "0.085"},
    ],
}


def test_rates_and_busy_threads_are_by_the_second_of_the_window():
    result = read_ui(ANSWER, problem(), "ui.json")
    assert result.components["lines"].emitted_tps == 200.0
    assert result.components["split"].executed_tps == 100.0
    assert result.components["split"].busy_threads == pytest.approx(0.2)  # 100/s × 2 ms
    index = problem().topologies[0].component_index
    assert held_cores(result, problem()) == pytest.approx({(0, index["split"]): 0.2, (0, index["count"]): 0.5})


def test_an_imported_topology_is_found_by_its_name():
    assert read_ui({**ANSWER, "id": "words-7-1796000000"}, problem(), "ui.json").topology == 0
    made = problem()
    twins = replace(made, topologies=(made.topologies[0], replace(made.topologies[0], id="words-2-0")), current={})
    with pytest.raises(InputError, match="2 topologies of the problem are called words, and none has the id words-7-0"):
        read_ui({**ANSWER, "id": "words-7-0"}, twins.with_load(LoadProfile({})), "ui.json")


def test_an_answer_with_system_components_and_streams_has_the_same_rates():
    """As with ``sys=1``: each spout and bolt also emits to the ackers, one for each tuple that it ends."""
    lines, (split, count) = ANSWER["spouts"][0], ANSWER["bolts"]
    acker = {"boltId": "__acker", "emitted": 120_000, "executed": 900_000, "executeLatency": "0.01"}
    whole = {
        **ANSWER,
        "spouts": [{**lines, "emitted": 240_000, "acked": 119_000, "failed": 1_000}],
        "bolts": [
            {"boltId": "__system", "emitted": 0, "executed": 60},
            {**split, "emitted": 540_000, "acked": 60_000},
            {**count, "emitted": 600_000, "acked": 600_000},
            acker,
        ],
    }
    assert read_ui(whole, problem(), "ui.json") == read_ui(ANSWER, problem(), "ui.json")


def test_load_from_storm_ui_uses_executed_counts_of_bolts():
    made = with_ui(problem(), read_ui(ANSWER, problem(), "ui.json"))
    load, topology = made.loads[0], made.topologies[0]
    of = topology.executor_component
    index = topology.component_index
    into_split = load.flow_tps.sum()
    from_lines = np.isin(of[load.pair_source], index["lines"])
    assert into_split == pytest.approx(100.0)
    # count executes 1,000/s, of which lines emit 200 of 1,000, and split 800.
    assert load.pair_tps[from_lines].sum() == pytest.approx(200.0)
    assert load.pair_tps[~from_lines].sum() == pytest.approx(800.0)
    cores = np.bincount(of, load.cpu_hz) / made.core_hz
    assert cores[index["split"]] == pytest.approx(0.2)
    assert cores[index["lines"]] == 0.0


def test_probe_measurements_take_precedence_over_storm_ui():
    measured = with_ui(problem(), read_ui(ANSWER, problem(), "ui.json"))
    other = {**ANSWER, "bolts": [{**ANSWER["bolts"][0], "executed": 1}]}
    assert with_ui(measured, read_ui(other, measured, "ui.json")) is measured


@pytest.mark.long
def test_advice_uses_storm_ui_metrics_without_probes():
    """At 7 times the rate count keeps 3.5 threads busy: five executors would have two tasks in one, 1.2 threads."""
    result = read_ui(ANSWER, problem(), "ui.json")
    made, held = with_ui(problem(), result), held_cores(result, problem())
    advice = advised(made, AdviceGoals(times={"": 7.0}), held_cores=held, alternatives=False)
    assert {each.component: each.executors for each in advice.components} == {"lines": 1, "split": 2, "count": 6}
    with pytest.raises(InputError, match="words/split: its 4 tasks are too few"):
        advised(made, AdviceGoals(times={"": 20.0}), held_cores=held)


@pytest.mark.long
def test_a_bolt_that_waits_gets_executors_without_the_ui():
    """As probes measure it: 2 ms a tuple of which a tenth is CPU."""
    made = with_ui(problem(), read_ui(ANSWER, problem(), "ui.json"))
    topology, load = made.topologies[0], made.loads[0]
    of_split = topology.executor_component == topology.component_index["split"]
    busy = load.cpu_hz / made.core_hz
    load = replace(load, executing=busy, waited=np.zeros(len(busy)), cpu_hz=np.where(of_split, 0.1, 1.0) * load.cpu_hz)
    measured = made.with_load(replace(made.load, topologies={topology.id: load}))
    same, held = with_measured(measured)
    assert held == pytest.approx({(0, topology.component_index["split"]): 0.2})
    advice = advised(same, AdviceGoals(times={"": 7.0}), held_cores=held, alternatives=False)
    assert {each.component: each.executors for each in advice.components}["split"] == 2
    assert {each.component: each.executors for each in advised(same, AdviceGoals(times={"": 7.0})).components}[
        "split"
    ] == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"bolts": None}, "should be what Storm's UI answers"),
        (
            {"id": "word-1-0", "name": "word"},
            r"no such topology in the problem: word-1-0; did you mean words-1-0\? @ \$.id",
        ),
        ({"uptimeSeconds": 5}, r"only 5 s are measured; wait until there are 30 @ \$.window"),
        ({"window": "soon"}, r"should be a number from 0 on, got soon @ \$.window"),
        ({"bolts": [{"boltId": "other"}]}, r"should be a component of words @ \$.bolts\[0\].boltId"),
        ({"bolts": [{"boltId": "split", "executed": -1}]}, r"got -1 @ \$.bolts\[0\].executed"),
        ({"spouts": [7]}, r"should be a component of words @ \$.spouts\[0\].spoutId"),
    ],
)
def test_invalid_storm_ui_answer_is_rejected_with_its_location(change, why):
    with pytest.raises(InputError, match=why):
        read_ui({**ANSWER, **change}, problem(), "ui.json")


def test_an_answer_of_all_time_is_taken_by_the_uptime():
    result = read_ui({**ANSWER, "window": ":all-time"}, problem(), "ui.json")
    assert result.components["lines"].emitted_tps == pytest.approx(120_000 / 7200)
