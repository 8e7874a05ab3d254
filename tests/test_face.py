"""`import stormwright as sw`: the names that people type."""

from __future__ import annotations

import numpy as np
import pytest

import stormwright as sw
from stormwright.errors import InputError
from stormwright.formats import write_problem
from stormwright.schedulers import scheduler_names


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
    for other, said in (
        (sw.sketch("a 3"), "is of another problem: it places 3 executors, and this problem has 5"),
        (
            sw.sketch("a 2 -> b 3", nodes=9),
            "is of another problem: it has slots that this problem, with 8 of them, has n",
        ),
    ):
        with pytest.raises(InputError, match=said):
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


@pytest.mark.parametrize("ask", [sw.place, sw.compare, sw.bound, sw.tradeoff, sw.predict, sw.what_if])
def test_non_problem_argument_is_rejected(ask):
    with pytest.raises(InputError, match=r"should be a Problem, as read_problem\(FILE\) .*, got str"):
        ask("problem.json")


def test_hypothetical_prediction_applies_the_same_changes_as_the_command():
    problem = sw.sketch({"words": "a 2 -> b 3", "others": "a 1 -> b 1"}, nodes=3)
    problem = problem.with_current(sw.place(problem, "even").by_topology(problem))
    (words, others) = (topology.id for topology in problem.topologies)
    faster = sw.what_if(problem, rate={words: 1.5}, link="1gbit", add_nodes=1)
    asked = {one.topology: one.rate_tps / one.measured_tps for one in faster.then.topologies}
    assert asked == pytest.approx({words: 1.5, others: 1.0})
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
    for wrong, said in (
        ({}, "no change is given"),
        ({"rate": -1.0}, "should be a factor above 0, got -1"),
        ({"link": "fast"}, "should be a speed above 0 as in 1gbit"),
        ({"link": -5.0}, "should be a speed above 0, in bits per second, got -5"),
        ({"add_nodes": -1}, "should be a number of nodes from 0"),
        ({"parallelism": {"b": 0}}, "should be a number of executors from 1 to 100,000"),
        ({"scheduler": 42}, r"a method schedule\(problem\), got int"),
    ):
        with pytest.raises(InputError, match=said):
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
