"""`import stormwright as sw`: the names that people type."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest

import stormwright as sw
from stormwright.advise.search.advice import Alternative
from stormwright.base.tables import Tabular
from stormwright.errors import InputError, MissingDependencyError
from stormwright.formats import write_assignment, write_problem
from stormwright.predict.calibration.calibration import Calibration
from stormwright.predict.calibration.document import costs_to_dict
from stormwright.predict.costs import Costs
from stormwright.schedulers import scheduler_names
from stormwright.testing.word_counts import WordCount


def test_every_public_name_is_importable_and_listed():
    assert set(sw.__all__) <= set(dir(sw))
    for name in sw.__all__:
        assert getattr(sw, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = sw.nothing


def test_a_file_is_read_by_its_path_in_either_form(tmp_path):
    problem = sw.sketch("a 2 -> b 3")
    write_problem(str(tmp_path / "p.json"), problem)
    for path in (tmp_path / "p.json", str(tmp_path / "p.json")):
        assert sw.read_problem(path).num_executors == 5
    assert sw.read_problem("ready:top-storm-word-count-1").num_executors > 0


def test_place_accepts_names_parameters_and_custom_schedulers():
    problem = sw.sketch("a 2 -> b 3")
    assert sw.place(problem, "online", alpha=0.5).parameters["alpha"] == 0.5
    for seed in (3, np.int64(3)):
        assert sw.place(problem, "random", seed=seed).parameters["seed"] == 3
    with pytest.raises(InputError, match="unknown scheduler"):
        sw.place(problem, "onlin")

    class Own:
        def schedule(self, problem: sw.Problem) -> sw.Assignment:
            return sw.place(problem, "even")

    assert sw.place(problem, Own()).cost == sw.place(problem, "even").cost


def test_settings_without_effect_on_a_custom_scheduler_are_rejected():
    class Own:
        def schedule(self, problem: sw.Problem) -> sw.Assignment:
            raise AssertionError("it is not asked")

    with pytest.raises(InputError) as error:
        sw.place(sw.sketch("a 2 -> b 3"), Own(), seed=1, alpha=0.5)
    message = "would have no effect: only a scheduler by its name is set here; make the Own with it"
    assert [(fault.path, fault.message) for fault in error.value.faults] == [("alpha", message), ("seed", message)]


def test_compare_takes_names_in_any_form():
    problem = sw.sketch("a 2 -> b 3")
    for names in ("even,online", ["even", "online"]):
        assert {row.name for row in sw.compare(problem, names).rows} == {"even", "online"}


def test_compare_accepts_custom_and_named_schedulers():
    problem = sw.sketch("a 2 -> b 3")

    class Own:
        def schedule(self, problem: sw.Problem) -> sw.Assignment:
            return sw.place(problem, "even")

    for schedulers, names in (
        (Own(), {"Own"}),
        (["even", Own()], {"even", "Own"}),
        ({"mine": Own(), "today": "even"}, {"mine", "today"}),
    ):
        rows = sw.compare(problem, schedulers).rows
        assert {row.name for row in rows} == names
        assert {row.figures.cost for row in rows} == {sw.place(problem, "even").cost}


def test_comparison_includes_the_error_of_a_failed_scheduler():
    class ModelFault:
        def schedule(self, problem: sw.Problem) -> sw.Assignment:
            raise KeyError("<b>")

    compared = sw.compare(sw.sketch("a 2 -> b 3"), ["even", ModelFault()])
    assert repr(compared).splitlines()[-1] == "ModelFault failed: KeyError: '<b>'"
    assert compared._repr_html_().endswith("<p>ModelFault failed: KeyError: &#x27;&lt;b&gt;&#x27;</p>")


@pytest.mark.parametrize("ask", [sw.predict, sw.bound, sw.what_if])
def test_assignment_of_another_problem_is_rejected(ask):
    problem = sw.sketch("a 2 -> b 3", nodes=2)
    for other, message in (
        (sw.sketch("a 3"), "is of another problem: it places 3 executors, and this problem has 5"),
        (
            sw.sketch("a 2 -> b 3", nodes=9),
            "is of another problem: it has slots that this problem, with 8 of them, has n",
        ),
    ):
        with pytest.raises(InputError, match=message):
            ask(problem, sw.Assignment(np.full(other.num_executors, len(other.slots) - 1)))
    with pytest.raises(InputError, match=r"should be an Assignment, as place\(problem\) gives it, got str"):
        ask(problem, "assignment.json")
    with pytest.raises(InputError, match="its slots should be integers, not float64"):
        ask(problem, sw.Assignment(np.zeros(5)))


def test_from_scratch_option_replaces_running_executors():
    problem = sw.sketch("lines 2 -> split 4 -> count 4 fields", nodes=3)
    even, packed = (sw.place(problem, name) for name in ("even", "binpack"))
    assert even.cost != packed.cost
    running = problem.with_current(even.by_topology(problem))
    assert [sw.place(running, "binpack", from_scratch=from_scratch).cost for from_scratch in (False, True)] == [
        even.cost,
        packed.cost,
    ]
    for from_scratch, cost in ((None, packed.cost), (True, packed.cost), (False, even.cost)):
        (row,) = sw.compare(running, "binpack", from_scratch=from_scratch).rows
        assert (row.figures.cost, row.figures.moved_executors > 0) == (cost, from_scratch is not False)
    with pytest.raises(InputError, match="optimizer: stays near the current placement"):
        sw.place(running, from_scratch=True, max_moves=1)


def test_schedulers_lists_every_scheduler():
    assert set(sw.schedulers()) == set(scheduler_names())
    lines = repr(sw.schedulers()).splitlines()
    assert [line.split()[0] for line in lines] == list(scheduler_names()), "a line each at a prompt"


@pytest.mark.parametrize(
    "ask",
    [sw.place, sw.compare, sw.bound, sw.tradeoff, sw.predict, sw.what_if, sw.simulate, sw.advise, sw.graph],
)
def test_non_problem_argument_is_rejected(ask):
    with pytest.raises(InputError, match=r"should be a Problem, as read_problem\(FILE\) .*, got str"):
        ask("problem.json")


def test_hypothetical_prediction_applies_the_same_changes_as_the_command():
    problem = sw.sketch({"words": "a 2 -> b 3", "others": "a 1 -> b 1"}, nodes=3)
    problem = problem.with_current(sw.place(problem, "even").by_topology(problem))
    (words, others) = (topology.id for topology in problem.topologies)
    faster = sw.what_if(problem, rate={words: 1.5}, link="1gbit", add_nodes=1)
    factors = {one.topology: one.rate_tps / one.measured_tps for one in faster.then.topologies}
    assert factors == pytest.approx({words: 1.5, others: 1.0})
    assert {node.link_bps for node in faster.problem.supervisors} == {1e9}
    assert len(faster.problem.supervisors) == 4
    assert str(faster).startswith(f"today: {words}: ")
    assert f"\nthen: {words}: " in str(faster)
    together = sw.place(problem, "online")
    assert sw.what_if(problem, together).assignment == together
    more = sw.what_if(problem, parallelism={f"{words}/b": 5}, kill_nodes=problem.supervisors[0].id, scheduler="even")
    assert more.problem.num_executors == problem.num_executors + 2
    assert (more.assignment.scheduler, len(more.problem.supervisors)) == ("even", 2)

    class Own:
        def schedule(self, problem: sw.Problem) -> sw.Assignment:
            return sw.place(problem, "even")

    assert sw.what_if(problem, scheduler=Own()).assignment.scheduler == "Own"
    crowded = problem.with_current(sw.Assignment(problem.executor_topology).by_topology(problem))  # a worker each
    assert sw.what_if(crowded, scheduler="round_robin").moved > 0
    assert sw.what_if(crowded, sw.place(crowded, "round_robin")).moved == 0
    for wrong, message in (
        ({}, "no change is given"),
        ({"rate": -1.0}, "should be a factor above 0, got -1"),
        ({"link": "fast"}, "should be a speed above 0 as in 1gbit"),
        ({"link": -5.0}, "should be a speed above 0, in bits per second, got -5"),
        ({"add_nodes": -1}, "should be a number of nodes from 0"),
        ({"parallelism": {"b": 0}}, "should be a number of executors from 1 to 100,000"),
        ({"scheduler": 42}, r"a method schedule\(problem\), got int"),
    ):
        with pytest.raises(InputError, match=message):
            sw.what_if(problem, **wrong)


def test_non_scheduler_argument_is_rejected():
    problem = sw.sketch("a 2 -> b 3")

    class Own:
        def schedule(self, problem: sw.Problem) -> sw.Assignment:
            return sw.place(problem, "even")

    for wrong, got in ((42, "int"), (Own, "the class Own")):
        with pytest.raises(InputError, match=rf"a method schedule\(problem\), got {got}"):
            sw.place(problem, wrong)
        with pytest.raises(InputError, match=rf"a method schedule\(problem\), got {got}"):
            sw.compare(problem, {"wrong": wrong})

        for several in (wrong, ["even", wrong]):
            with pytest.raises(InputError, match=rf"a method schedule\(problem\), got {got}"):
                sw.compare(problem, several)
    with pytest.raises(InputError, match=r"two of them are called Own: name them, as \{\"one\": Own\(\), "):
        sw.compare(problem, [Own(), Own()])
    with pytest.raises(InputError, match="even,online: should be one scheduler under each name"):
        sw.compare(problem, {"mine": Own(), "others": "even,online"})


def test_a_problem_prints_as_a_line():
    problem = sw.sketch("a 2 -> b 3", nodes=2)
    assert str(problem) == "sketch: 1 topology, 5 executors, 2 nodes, 8 slots"
    assert repr(problem) == f"<Problem {problem}>", "as a prompt shows it"


@pytest.fixture(scope="module")
def running():
    problem = sw.sketch({"words": "lines 2 -> split 4 -> count 4 fields"}, nodes=3, ackers=2)
    return problem.with_current(sw.place(problem, "even").by_topology(problem))


@pytest.fixture(scope="module")
def measured():
    """A problem whose load was measured, as `advise` wants it."""
    return WordCount().problem()


def printed(*arguments):
    """The JSON that a command prints."""
    program = [sys.executable, "-m", "stormwright", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)


def written(problem, directory):
    write_problem(directory / "problem.json", problem)
    return directory / "problem.json"


def costs_document(**changed):
    return costs_to_dict(Calibration(Costs(**changed)))


@pytest.mark.slow
def test_simulation_equals_that_of_the_command(running, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("1,2\n2,0.5,words\n", encoding="utf-8")
    file = written(running, tmp_path)
    command = printed("simulate", file, "--seconds", 3, "--seed", 4, "--trace", trace)
    for given in (trace, str(trace), [(1, 2), (2.0, 0.5, "words")]):
        found = sw.simulate(running, seconds=3, seed=4, trace=given).as_dict()
        assert {**command, "took_s": 0} == {**command, **found, "took_s": 0}
    own = sw.place(running, "online", from_scratch=True)
    command = printed("simulate", file, "--seconds", 2, "--scheduler", "online")
    found = sw.simulate(running, own, seconds=2)
    assert found.as_dict()["topologies"] == command["topologies"]
    (one,) = found
    assert one.p95_ms is not None
    assert one.p95_ms >= one.p50_ms
    assert found.to_frame(table="timeline")["topology"].unique().tolist() == [one.topology]


def test_impossible_simulations_are_rejected_with_all_faults(running):
    fresh = sw.sketch("a 2 -> b 3")
    with pytest.raises(InputError) as error:
        sw.simulate(fresh, seconds=-1, seed=-1, tuples_at_once=0, trace=[(1, -2), (1, 2, "x")])
    paths = [fault.path for fault in error.value.faults]
    assert paths == ["seconds", "seed", "tuples_at_once", "assignment", "trace line 1", "trace line 2"]
    with pytest.raises(InputError) as error:
        sw.simulate(running, seconds="3", seed=0.5, tuples_at_once=1.5)
    assert [fault.path for fault in error.value.faults] == ["seconds", "seed", "tuples_at_once"]
    with pytest.raises(InputError) as error:
        sw.simulate(running, seconds=True, seed=True, tuples_at_once=True)
    assert [fault.path for fault in error.value.faults] == ["seconds", "seed", "tuples_at_once"]
    with pytest.raises(InputError, match="leave out saturated"):
        sw.simulate(running, saturated=True, trace=[(1, 2)])
    with pytest.raises(InputError, match="is of another problem"):
        sw.simulate(running, sw.place(fresh, "even"))


@pytest.mark.slow
def test_advice_equals_that_of_the_command(measured, tmp_path):
    file = written(measured, tmp_path)
    command = printed("advise", file, "--rate", 20_000, "--headroom", 30, "--node-kind", "large=3000:8:32768:0.4")
    kinds = tmp_path / "kinds.json"
    kinds.write_text('{"large": {"core_mhz": 3000, "cores": 8, "memory_mb": 32768, "price": 0.4}}', encoding="utf-8")
    for of in ("large=3000:8:32768:0.4", ["large=3000:8:32768:0.4"], kinds, str(kinds)):
        found = sw.advise(measured, rate=20_000, headroom_percent=30, node_kinds=of)
        assert json.loads(json.dumps(found.as_dict())).items() <= command.items()
    assert [each.component for each in found] == found.to_frame()["component"].tolist()
    assert len(found) == len(found.to_frame("arrow"))
    more = sw.advise(measured, times={"words": 1.5}, alternatives=False)
    assert more.topologies[0].rate_tps == pytest.approx(1.5 * more.topologies[0].measured_tps)


def test_impossible_advice_is_rejected_with_all_faults(measured):
    with pytest.raises(InputError) as error:
        sw.advise(measured, rate=-1, node_kinds=["large", "small=1:1:1:1", "small=1:1:1:1"], max_nodes=0)
    assert len(error.value.faults) == 4
    with pytest.raises(InputError, match="no such topology"):
        sw.advise(measured, rate={"wrds": 1})


@pytest.mark.long
def test_costs_are_those_of_the_command(measured, tmp_path):
    document = costs_document(send_us=50.0)
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    apart = sw.place(measured, "even", from_scratch=True)
    write_assignment(tmp_path / "even.json", measured, apart)
    command = printed("predict", written(measured, tmp_path), tmp_path / "even.json", "--costs", file)["then"]
    for costs in (file, str(file), document):
        assert json.loads(json.dumps(sw.predict(measured, apart, costs=costs).as_dict())) == command
    assert sw.predict(measured, apart).as_dict() != command
    slower = [sw.simulate(measured, apart, seconds=1, costs=costs).topologies[0].mean_ms for costs in (None, file)]
    assert slower[0] < slower[1]
    with pytest.raises(InputError, match="no such cost"):
        sw.predict(measured, costs={"schema": document["schema"], "costs": {"nothing": 1}})


def sweep_rows(found):
    """Cells without what differs from run to run."""
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "ended_ms", "load_1min", "simulating_s")}
        for row in found.cells.to_pylist()
    ]


SPEC = {
    "schema": "stormwright-sweep/1",
    "problems": ["problem.json"],
    "schedulers": {"even": None, "online": {"alpha": [0, 1]}, "random": None},
    "seeds": [1, 2],
    "repeats": 2,
}


def test_sweep_of_a_file_equals_that_of_its_parts(running, tmp_path):
    file = tmp_path / "spec.json"
    written(running, tmp_path)
    file.write_text(json.dumps(SPEC), encoding="utf-8")
    found = sw.sweep(file, table=tmp_path / "cells")
    assert (found.decided, found.cells.num_rows, len(found)) == (10, 10, 4)
    again = sw.sweep(file, table=tmp_path / "cells")
    assert (again.decided, sweep_rows(again)) == (0, sweep_rows(found)), "it continues from the table"
    parts = sw.sweep(
        problems={"problem.json": running},
        schedulers={"even": {}, "online": {"alpha": np.array([0, 1])}, "random": {}},
        seeds=range(1, 3),
        repeats=2,
    )
    assert sweep_rows(parts) == sweep_rows(found)
    costs = {row["scheduler"]: row["cost"] for row in parts.cells.to_pylist() if row["parameters"] == "{}"}
    assert costs["even"] == sw.place(running, "even").cost.total
    frame = found.to_frame()
    assert len(frame) == 10
    assert found.to_frame(table="summary")["label"].tolist() == [each.label for each in found]
    assert repr(found).splitlines()[0] == "10 cells, 10 decided now"
    assert found._repr_html_().count("<tr>") == 5


class Spread:
    """Puts executors into every `step`-th slot."""

    def __init__(self, step: int = 1, seed: int = 0) -> None:
        self.step, self.seed = step, seed

    def schedule(self, problem: sw.Problem) -> sw.Assignment:
        slots = self.seed + self.step * np.arange(problem.num_executors)
        return sw.Assignment((slots % len(problem.slots)).astype(np.int32), scheduler="spread")


def test_sweep_takes_schedulers_of_ones_own():
    problem = sw.sketch("a 2 -> b 3 fields", nodes=3)
    found = sw.sweep(
        problems=[problem, "ready:top-storm-word-count-1"],
        schedulers={"striped": (Spread, {"step": [1, 2]}), "even": {}, "broken": lambda **_: 1 / 0},
        seeds=[0, 5],
    )
    rows = found.cells.to_pylist()
    own = {(row["parameters"], row["seed"]): row["cost"] for row in rows if row["scheduler"] == "striped"}
    assert set(own) == {(f'{{"step":{step}}}', seed) for step in (1, 2) for seed in (0, 5)}
    of_sketch = [row for row in rows if row["problem"] == "sketch-1" and row["scheduler"] == "striped"]
    for row in of_sketch:
        step = json.loads(row["parameters"])["step"]
        assert row["cost"] == sw.place(problem, Spread(step, row["seed"])).cost.total
    assert len(found.errors) == 4
    assert all("ZeroDivisionError" in each for each in found.errors)


def test_impossible_sweeps_are_rejected_with_all_faults(tmp_path):
    problem = sw.sketch("a 2 -> b 3")

    def paths(*arguments, **more):
        with pytest.raises(InputError) as error:
            sw.sweep(*arguments, **more)
        return [fault.path for fault in error.value.faults]

    assert paths() == ["problems", "schedulers"]
    assert paths(problems=problem, schedulers="evn,online", repeats=0, time_limit_s=-1, simulate_s=0) == [
        "simulate_s",
        "time_limit_s",
        "repeats",
        "$.schedulers.evn",
    ]
    assert paths(problems=[problem, tmp_path / "none.json", 7], schedulers={"online": {"alpha": [7]}, "even": 3}) == [
        "problems[1]",
        "problems[2]",
        "schedulers.even",
        "$.schedulers.online.alpha",
    ]
    assert paths("spec.yaml", problems=problem, seeds=[1]) == ["problems", "seeds"]
    assert paths(problems=problem, schedulers={"mine": Spread}, time_limit_s=1) == ["schedulers.mine"]
    assert paths(problems=problem, schedulers="even", repeats="2", seeds=[True, 0.5], simulate_s="3") == [
        "simulate_s",
        "seeds[0]",
        "seeds[1]",
        "repeats",
    ]
    assert paths(problems=problem, schedulers={"even": Spread}) == ["schedulers.even"]
    for table in ("s3a://bucket/cells", "file:/cells"):
        found = paths(problems=problem, schedulers="even", table=table, spark_conf={"spark.ui.enabled": "false"})
        assert found == ["table", "spark_conf"]


class Reversed(Spread):
    """From the last slot on."""

    def schedule(self, problem: sw.Problem) -> sw.Assignment:
        slots = len(problem.slots) - 1 - super().schedule(problem).slot_of_executor
        return sw.Assignment(slots.astype(np.int32), scheduler="spread")


def test_table_identifies_schedulers_of_ones_own_by_their_source(tmp_path):
    problem, table = sw.sketch("a 2 -> b 3", nodes=3), tmp_path / "cells"

    def decided(make):
        return sw.sweep(problems=problem, schedulers={"mine": make}, table=table).decided

    assert [decided(make) for make in (Spread, Reversed, Spread, lambda: Spread(), Reversed)] == [1, 1, 0, 1, 0]
    step = 2
    without_source = type("Mine", (), {"schedule": Spread().schedule})
    for make in (without_source, lambda: Spread(step), Spread().schedule.__get__):
        with pytest.raises(InputError) as error:
            decided(make)
        assert [fault.path for fault in error.value.faults] == ["schedulers.mine"]
        assert sw.sweep(problems=problem, schedulers={"mine": make}).decided == 1


def test_result_without_tables_is_refused():
    class Nothing(Tabular):
        pass

    with pytest.raises(TypeError):
        Nothing()


def test_frames_without_rows_have_columns(running, measured):
    predicted, simulated, placed = sw.predict(running), sw.simulate(running, seconds=0.5), sw.place(running, "even")
    advice = replace(sw.advise(measured, alternatives=False), alternatives=(Alternative("2 small", 1.0, 5, 0.2, 3.0),))
    filled = {"threads": predicted, "alternatives": advice, "timeline": simulated, "executors": placed}
    for name, result in filled.items():
        assert tuple(result.to_frame(table=name).columns) == tuple(result.empty_columns[name])
    changed = sw.what_if(running, rate=2.0)
    changed = replace(changed, today=replace(predicted, busiest=()), then=replace(changed.then, busiest=()))
    for name, result in {
        "threads": replace(predicted, busiest=()),
        "alternatives": replace(advice, alternatives=()),
        "when": changed,
    }.items():
        table = "threads" if name == "when" else name
        frame = result.to_frame(table=table)
        assert len(frame) == 0
        assert list(frame.columns) == result.to_frame("arrow", table).column_names == [*result.empty_columns[table]]


@pytest.mark.slow
def test_results_are_sequences_and_frames(running):
    online = sw.place(running, "online")
    results = {
        "placement": online,
        "comparison": sw.compare(running, "even,online"),
        "prediction": sw.predict(running),
        "tradeoff": sw.tradeoff(running, seconds=0.1),
        "simulation": sw.simulate(running, seconds=0.5),
        "sweep": sw.sweep(problems=running, schedulers="even,online"),
    }
    for name, result in results.items():
        frame, table = result.to_frame(), result.to_frame("arrow")
        assert len(frame) == table.num_rows == (len(list(result)) or 0), name
        assert len(result) == len(list(result))
        assert frame.columns.tolist() == table.column_names
        assert "<table" in result._repr_html_() or "<svg" in result._repr_html_(), name
        assert len(repr(result)) < 5_000, name
    assert results["comparison"]["even"].figures.cost == sw.place(running, "even").cost
    with pytest.raises(KeyError):
        results["comparison"]["evn"]
    by_node = results["placement"].to_frame().groupby("node")["executor"].count().to_dict()
    nodes = [running.supervisors[node].id for node in running.slot_node[online.slot_of_executor]]
    assert by_node == {node: nodes.count(node) for node in set(nodes)}
    (row,) = results["prediction"].to_frame().to_dict("records")
    one = results["prediction"][row["topology"]]
    assert (row["highest_tps"], row["highest_tps_low"]) == (one.highest_tps.value, one.highest_tps.low)
    assert results["tradeoff"].to_frame()["cost"].tolist() == [point.cost for point in results["tradeoff"]]
    changed = sw.what_if(running, rate=2.0)
    assert changed.to_frame()["when"].tolist() == ["today", "then"]
    with pytest.raises(InputError) as error:
        changed.to_frame("polars", table="node")
    assert [fault.path for fault in error.value.faults] == ["table", "kind"]


@pytest.mark.parametrize(
    ("module", "use", "extra"),
    [
        ("pandas", lambda of: sw.compare(of, "even").to_frame(), "frames"),
        ("pyarrow", lambda of: sw.compare(of, "even").to_frame("arrow"), "frames"),
        ("pyarrow", lambda of: sw.sweep(problems=of, schedulers="even"), "frames"),
        ("networkx", sw.graph, "graph"),
    ],
)
def test_missing_optional_packages_are_errors_with_the_install_command(module, use, extra, running, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf'pip install "stormwright\[{extra}\]"'):
        use(running)


def test_notebooks_show_topologies_nodes_and_bottlenecks(running):
    html = running._repr_html_()
    drawing = ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])  # noqa: S314 (it is ours)
    texts = [element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in ("lines", "split", "count", "fields", "shuffle")] == [
        "shuffle",
        "fields",
        "lines",
        "split",
        "count",
    ]
    assert "node-1" in html
    prediction = sw.predict(running)
    html = prediction._repr_html_()
    assert prediction.fullest_text in html
    assert html.count("width:16em") == sum(node.workers > 0 for node in prediction.nodes)
    ring = sw.sketch({"<ring>": ["a 1 -> b 2 -> c 2", "c -> b"]})
    assert "&lt;ring&gt;" in ring._repr_html_(), "cycles are drawn, names are escaped"


@pytest.mark.slow
def test_bound_of_shuffled_traffic_says_why_it_is_zero():
    """A shuffled tuple may find a target in its worker, so the bound counts it as free."""
    problem = sw.sketch({"words": "lines 2 -> split 4 -> count 4 fields"}, nodes=3)
    found = sw.bound(problem, objective="traffic", seconds=1)
    assert (found["bound"], found["optimal"], found["flows"]) == (0.0, False, 0.5)
    assert "50% of the traffic is shuffled" in found["text"]


def test_graphs_have_components_and_traffic(running):
    components = sw.graph(running)
    (topology,) = running.topologies
    names = {each.id: f"{topology.id}/{each.id}" for each in topology.components}
    assert set(components.nodes) == set(names.values())
    assert components.nodes[names["split"]]["executors"] == 4
    assert nx.shortest_path_length(components, names["lines"], names["count"]) == 2
    for slots, graph in (
        (running.current_slot, sw.graph(running, "executors")),
        (np.zeros(running.num_executors, np.int32), None),
    ):
        placement = sw.Placement.of(running, sw.Assignment(slots))
        graph = graph or sw.graph(running, "executors", placement)
        cut = sum(
            tps for a, b, tps in graph.edges(data="tps") if graph.nodes[a].get("node") != graph.nodes[b].get("node")
        )
        assert graph.number_of_nodes() == running.num_executors
        assert cut == pytest.approx(placement.cost.inter_node + placement.cost.inter_rack)
    with pytest.raises(InputError, match="should be components or executors"):
        sw.graph(running, "nodes")


def test_ackers_of_a_sketch_complete_its_trees(running):
    without = sw.sketch({"words": "lines 2 -> split 4 -> count 4 fields"}, nodes=3)
    assert running.num_executors == without.num_executors + 2
    assert sw.simulate(without, sw.place(without, "even"), seconds=1).topologies[0].mean_ms is None
    found = sw.simulate(running, seconds=5).topologies[0]
    predicted = sw.predict(running).topologies[0].latency_ms
    assert found.mean_ms == pytest.approx(predicted.value, rel=0.15)
    with pytest.raises(InputError, match="ackers"):
        sw.sketch("a 1 -> b 1", ackers=-1)
