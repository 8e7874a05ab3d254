"""N-version choice: whose answer counts, and the description of it."""

from __future__ import annotations

import itertools
import os
import select
import subprocess
import sys
import time
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import orjson
import pytest

from stormwright.errors import InputError, SchedulerError
from stormwright.formats import read_problem
from stormwright.model import UNPLACED, Assignment, LoadProfile, cost_of
from stormwright.predict.answer import predict
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.cost_aware import PRICE_PER_HOUR
from stormwright.schedulers.n_version import NVersionScheduler
from stormwright.schedulers.portfolio import scheduler_process
from stormwright.schedulers.portfolio.evaluation import PlacementEvaluator
from stormwright.schedulers.portfolio.members import Members, Portfolio
from stormwright.schedulers.portfolio.scheduler_process import Member, SchedulerProcess
from stormwright.schedulers.toolkit import registry
from tests.schedulers.builders import load, nodes, problem, running, topology

WORD_COUNT = read_problem(Path(__file__).parents[2] / "docs" / "schedulers" / "word-count.json")

RULES = "binpack,metis,round_robin,spread,t_storm"


def measured(of):
    """The same as if a service had measured its load."""
    return of.with_load(LoadProfile(of.load.topologies, start_ms=0, end_ms=10_000))


def answered(of, **settings):
    return make_scheduler("n_version", settings).schedule(of)


def test_n_version_traffic_cost_equals_its_best_member():
    costs = {
        name: cost_of(WORD_COUNT, make_scheduler(name).schedule(WORD_COUNT).slot_of_executor).total
        for name in RULES.split(",")
    }
    found = answered(WORD_COUNT, schedulers=RULES, objective="traffic")
    assert cost_of(WORD_COUNT, found.slot_of_executor).total == min(costs.values())
    assert found.parameters["chosen"] == min(costs, key=costs.__getitem__)
    assert found.parameters["reason"].startswith(f"{found.parameters['chosen']} is the best of 5 answers, by traffic")
    assert f"cost {min(costs.values()):,.1f}; next " in found.parameters["reason"]


def test_n_version_throughput_equals_its_best_member():
    of = measured(WORD_COUNT)
    rates = {
        name: predict(of, make_scheduler(name).schedule(of).slot_of_executor).topologies[0].reachable_tps.value
        for name in RULES.split(",")
    }
    found = answered(of, schedulers=RULES)
    own = predict(of, found.slot_of_executor).topologies[0]
    assert found.parameters["objective"] == "throughput"
    assert orjson.loads(orjson.dumps(dict(found.parameters))), "numbers of NumPy are no JSON"
    assert own.reachable_tps.value >= 0.998 * max(rates.values())
    factor = own.reachable_tps.value / own.measured_tps
    assert f"{factor:,.2f} times the measured rates, then limited by {own.bottleneck}" in found.parameters["reason"]


@pytest.mark.parametrize(("objective", "unit"), [("latency", " ms"), ("nodes", " node")])
def test_n_version_supports_other_objectives(objective, unit):
    faster = tuple(replace(node, cpu_hz=8 * node.cpu_hz) for node in WORD_COUNT.supervisors)
    of = measured(replace(WORD_COUNT, supervisors=faster))
    found = answered(of, schedulers="even,binpack,spread", objective=objective)
    assert found.parameters["objective"] == objective
    assert unit in found.parameters["reason"]


def test_n_version_without_measured_load_predicts_the_assumed_one():
    found = answered(replace(WORD_COUNT, load=None), schedulers=RULES)
    assert found.parameters["objective"] == "throughput"
    assert "times the assumed rates" in found.parameters["reason"]


def test_n_version_without_traffic_compares_by_traffic_and_reports_this():
    of = problem(nodes(4, 4), (topology("t", 4, 2), load(4)))
    found = answered(of, schedulers=RULES, objective="throughput")
    assert found.parameters["objective"] == "traffic"
    assert "compared by traffic, as without any traffic throughput cannot be predicted" in found.parameters["reason"]


def test_member_with_limit_violations_is_excluded_and_named():
    """Storm's own puts two executors of 1 GHz on each node of 1 GHz."""
    of = problem(nodes(1.0, 3.0), (topology("t", 4, 2), load(4, cpu_ghz=1.0)))
    found = answered(of, schedulers="even,binpack")
    assert found.parameters["left_out"] == {"even": "1 limit broken"}
    assert found.parameters["reason"].endswith("left out: even: 1 limit broken")
    alone = answered(of, schedulers="even")
    assert np.all(alone.slot_of_executor == UNPLACED)
    assert alone.status == {"t": "n_version: none of 1 answer can be used: even: 1 limit broken"}


def test_failing_member_is_excluded_and_named():
    of = problem(nodes(9.0), (topology("t", 2, 1), load(2)))
    dear = tuple(replace(node, scheduler_meta={PRICE_PER_HOUR: "much"}) for node in of.supervisors)
    found = answered(replace(of, supervisors=dear), schedulers="cost_aware,binpack")
    assert found.unplaced == ()
    assert found.parameters["left_out"]["cost_aware"].startswith("failed: supervisor.scheduler.meta of nodes")


PACKAGE = """
import os, subprocess, sys, time
from pathlib import Path
from stormwright.model import Assignment
from stormwright.schedulers.toolkit.params import NoParams

class Hanging:
    params_type = NoParams
    def __init__(self, params): self.cannot_be_sent = lambda: None
    def schedule(self, problem):
        held = open(os.environ["HELD"], "w")
        time.sleep(1e6)

class Building(Hanging):
    def __init__(self, params):
        held = open(os.environ["HELD"], "w")
        time.sleep(1e6)

class Starting(Hanging):
    def schedule(self, problem):
        subprocess.Popen(["sleep", "1000"], stdout=open(os.environ["HELD"], "w"))
        time.sleep(1e6)

class Ending(Hanging):
    def schedule(self, problem):
        os.closerange(3, 100)  # as the kernel does, before anybody can wait for the process
        time.sleep(0.1)
        os._exit(3)

class Wrong(Hanging):
    def schedule(self, problem):
        with Path(__file__).with_name("asked").open("a") as asked: asked.write("x")
        raise RuntimeError("no idea")

class Odd(Hanging):
    def schedule(self, problem):
        class Own(Assignment): pass
        return Own(problem.current_slot * 0)

class Interrupted(Hanging):
    def schedule(self, problem): raise KeyboardInterrupt

class Right(Hanging):
    def schedule(self, problem):
        assert sys.stdin.read() == "", "nobody types anything"
        return Assignment(problem.current_slot * 0)
"""

NAMES = ("Hanging", "Building", "Starting", "Ending", "Wrong", "Odd", "Interrupted", "Right")

SMALL = problem(nodes(9.0), (topology("t", 2, 1), load(2)))


@pytest.fixture
def packaged(tmp_path, monkeypatch):
    """The folder of a package with schedulers that is installed as any other."""
    (tmp_path / "of_others.py").write_text(PACKAGE)
    info = tmp_path / "of_others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: of-others\nVersion: 1.0\n")
    points = "".join(f"{name.lower()} = of_others:{name}\n" for name in NAMES)
    (info / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "entry_points", lambda group: entry_points(group=group))
    return tmp_path


@pytest.fixture
def held(tmp_path, monkeypatch):
    """Waits until no process has open any more what members open."""
    path = tmp_path / "held"  # the folder of the package, too
    os.mkfifo(path)
    monkeypatch.setenv("HELD", str(path))
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    ended = select.poll()
    ended.register(reading, 0)  # only that who wrote is gone, which nobody is who never came
    yield lambda: ended.poll(20_000)
    os.close(reading)


def member(name):
    return Member(Members(name, "", 0, "auto", "n_version"), name, 0.0)


@pytest.mark.slow
def test_member_failing_in_its_process_leaves_other_members_usable(packaged, capfd):
    found = answered(SMALL, schedulers="interrupted,odd,wrong,right,ending,even")
    assert found.parameters["chosen"] == "right"
    out = found.parameters["left_out"]
    assert "Own" in out.pop("odd")
    assert out == {
        "interrupted": "failed: KeyboardInterrupt",
        "wrong": "failed: scheduler 'wrong' failed: RuntimeError: no idea",
        "ending": "failed: its process has ended with exit code 3",
    }
    assert (packaged / "asked").read_text() == "x", "it was asked again in the second round"
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_hanging_member_is_killed_with_its_child_processes(packaged, held):
    with SchedulerProcess() as apart:
        apart.schedule(member("right"), SMALL, 60)
        for limit_s in (0.2, 60):  # it is not asked again
            with pytest.raises(SchedulerError, match=r"^no answer within 0\.2 s$"):
                apart.schedule(member("starting"), SMALL, limit_s)
        assert held()


@pytest.mark.slow
def test_member_hanging_during_construction_is_killed(packaged, held):
    with SchedulerProcess() as apart:
        apart.schedule(member("right"), SMALL, 60)
        with pytest.raises(SchedulerError, match=r"^no answer within 0\.2 s$"):
            apart.traits(member("building"), 0.2)
        assert held()
    found = answered(SMALL, schedulers="building,even", member_limit_s=0.2)
    assert found.parameters["left_out"] == {"building": "failed: no answer within 0.2 s"}
    assert found.parameters["chosen"] == "even"
    with pytest.raises(InputError, match=r"building\.speed: unknown parameter"):
        make_scheduler("n_version", {"schedulers": "building", "settings": "building.speed=3"})


@pytest.mark.long
def test_the_limit_is_of_all_answers_of_a_member(packaged, monkeypatch):
    clock = itertools.count(step=10)
    with SchedulerProcess() as apart:
        apart.schedule(member("right"), SMALL, 60)
        monkeypatch.setattr(scheduler_process.time, "perf_counter", lambda: float(next(clock)))
        with pytest.raises(SchedulerError, match=r"^no answer within 200 s$"):
            [apart.schedule(member("right"), SMALL, 200) for _ in range(20)]


@pytest.mark.slow
def test_hanging_member_terminates_with_its_parent_process(packaged, held):
    lines = (
        "from tests.schedulers.test_n_version import SMALL, SchedulerProcess, member",
        "with SchedulerProcess() as apart: apart.schedule(member('hanging'), SMALL, 60)",
    )
    paths = os.pathsep.join(sys.path)
    asks = subprocess.Popen([sys.executable, "-c", "\n".join(lines)], env=os.environ | {"PYTHONPATH": paths})
    with (packaged / "held").open():  # it hangs once this is open
        asks.kill()
    asks.wait()
    assert held()


def test_failed_start_of_scheduler_process_is_reported(monkeypatch):
    monkeypatch.setattr(scheduler_process, "_PROGRAM", "raise SystemExit(4)")
    with SchedulerProcess() as apart:
        with pytest.raises(SchedulerError, match=r"^its process has ended with exit code 4$"):
            apart.schedule(member("even"), SMALL, 60)
        monkeypatch.setattr(sys, "executable", "/nowhere")
        with pytest.raises(SchedulerError, match=r"did not start: .*/nowhere"):
            apart.schedule(member("spread"), SMALL, 60)


class Fixed:
    """Returns a preset answer."""

    def __init__(self, slots):
        self.slots = np.array(slots, np.int32)

    def schedule(self, _):
        return Assignment(self.slots)


@pytest.mark.parametrize(
    ("now", "slots", "why"),
    [
        ([0, 4], [0, UNPLACED], "it would stop 1 executor"),
        ([UNPLACED, UNPLACED], [0, UNPLACED], "it places a part of 1 topology"),
        ([UNPLACED, UNPLACED], [0, 99], "failed: the answer of scheduler 'x' cannot be used"),
    ],
)
def test_unusable_member_answer_is_excluded_with_its_reason(now, slots, why):
    of = running(problem(nodes(9.0, 9.0), (topology("t", 2, 2), load(2))), now)
    asking = Portfolio(of, PlacementEvaluator(of, "traffic"))
    asking.ask("x", Fixed(slots), keep_running=False)
    assert asking.answers == []
    assert asking.left_out["x"].startswith(why)


def test_n_version_moves_running_executors_if_beneficial():
    apart = running(problem(nodes(9.0, 9.0), (topology("t", 2, 1), load(2, [(0, 1, 100.0)]))), [0, 4])
    found = answered(apart, schedulers="binpack")
    assert len(set(found.slot_of_executor.tolist())) == 1
    assert set(found.slot_of_executor.tolist()) <= {0, 4}
    staying = answered(apart, schedulers="binpack", keep_running=True)
    assert staying.slot_of_executor.tolist() == [0, 4]
    assert staying.parameters["chosen"] == "what runs"


def test_invalid_member_settings_are_rejected():
    with pytest.raises(InputError, match="n_version cannot ask itself"):
        make_scheduler("n_version", {"schedulers": "even,n_version"})
    with pytest.raises(InputError, match="unknown scheduler; did you mean 'even'"):
        make_scheduler("n_version", {"schedulers": "evn"})
    with pytest.raises(InputError, match="alpha"):
        make_scheduler("n_version", {"schedulers": "online", "settings": "online.alpha=7"})


@pytest.mark.long
def test_a_time_budget_is_shared():
    answered(WORD_COUNT, schedulers="optimizer", settings="optimizer.iterations=100")  # compiled from here on
    begun = time.perf_counter()
    found = answered(WORD_COUNT, schedulers="binpack,optimizer,spread", time_budget_s=1.0)
    assert time.perf_counter() - begun < 10
    assert {each["scheduler"] for each in found.parameters["answers"]} == {"binpack", "optimizer", "spread"}
    none = answered(WORD_COUNT, schedulers="binpack,annealing", time_budget_s=1e-6)
    assert none.parameters["left_out"]["binpack"] == "the time limit was reached before it began"


def test_alternating_placements_of_members_terminate(monkeypatch):
    """Where some find no room what runs is no answer, and nothing says that the next one is better."""
    of, calls = problem(nodes(9, 9), (topology("t", 1, 1), load(1))), []

    def decided(_, given, *__):
        calls.append(given)
        assert len(calls) < 9
        return Assignment(np.array([len(calls) % 2], np.int32), parameters={"objective": "traffic"})

    monkeypatch.setattr(NVersionScheduler, "_decided", decided)
    assert NVersionScheduler().schedule(of).slot_of_executor.tolist() == [0]
    assert len(calls) == 3


def test_later_rounds_give_a_new_topology_no_fewer_workers():
    """Three slots are short by one: the second round may not take a worker from what the first has placed."""
    of = problem(nodes(9, ports=3), (topology("b", 3, 3), None), (topology("a", 1, 1), None))
    answer = answered(of, schedulers="even,optimizer,spread")
    assert [executor.topology for executor in answer.unplaced] == [of.topologies[1].id]
    assert len(set(answer.slot_of_executor[:3].tolist())) == 3


@pytest.mark.parametrize(("wanted", "violated"), [(3, 1), (2, 0)])
def test_number_of_workers_counts_unless_a_topology_runs_with_another(wanted, violated):
    """Else an answer from nothing would change once it runs, to make room for a topology that has none."""
    of = running(problem(nodes(9), (topology("a", 3, wanted), None)), [0, 1, 2])
    assert len(PlacementEvaluator(of).broken(np.array([0, 0, 0]))) == violated
