"""Java schedulers as themselves: Storm's own against what they answered elsewhere, and what goes wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from stormwright import cli
from stormwright.errors import InputError, SchedulerError
from stormwright.formats import assignment_from_dict, problem_to_dict, read_problem
from stormwright.formats.document.documents import ASSIGNMENT_SCHEMA
from stormwright.model import (
    Component,
    Grouping,
    Problem,
    Supervisor,
    Topology,
    WorkerSlot,
    default_executor_runs,
    violations,
)
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.heaps import WorkerHeaps
from stormwright.model.constraints.separation import CrowdedNode, IncompatibleExecutors
from stormwright.schedulers.toolkit.resolve import resolve_scheduler
from stormwright.storm.jvm import STORM_HOME
from stormwright.storm.scheduler_host import TIME_LIMIT_CONF, JavaScheduler, SchedulerHost, host_command
from tests.case_files import case_files, case_name, case_problem, one_in, placed_by, placed_in, read_case
from tests.storm.test_helper_jvm import eventually, runs

CASES = {case_name(path): path for path in case_files("peer")}

#: A class of a later Storm, which Storm's jars here do not have.
NOT_HERE = {"IsolationSchedulerTrunk"}

ANSWERS = [
    (name, label)
    for name, path in CASES.items()
    for label, answer in read_case(path)["answers"].items()
    if answer["deterministic"] and label not in NOT_HERE
]

SMALL = CASES["m01-uneven-ports"]


@pytest.fixture(scope="module")
def host() -> Iterator[SchedulerHost]:
    """One JVM for all cases: what it has met before must not show in its answers."""
    with SchedulerHost(host_command()) as host:
        yield host


@pytest.mark.parametrize(("case", "label"), one_in(8, ANSWERS), ids=lambda value: value)
def test_same_slot_for_every_executor_as_the_class_gave_elsewhere(host: SchedulerHost, case: str, label: str) -> None:
    expected = read_case(CASES[case])["answers"][label]
    assert expected["error"] is None
    problem = case_problem(CASES[case])
    overrides = expected["topology_conf_override"]
    topologies = tuple(replace(t, conf={**t.conf, **overrides}) for t in problem.topologies)
    scheduler = JavaScheduler(
        expected["scheduler"], expected["strategy"], conf=expected["conf_override"], seed=42, host=host
    )
    answer = scheduler.schedule(replace(problem, topologies=topologies))
    assert placed_by(answer, problem) == placed_in(expected, problem)


@pytest.mark.parametrize("case", CASES)
def test_our_even_is_storms(host: SchedulerHost, case: str) -> None:
    problem = case_problem(CASES[case])
    theirs = JavaScheduler("EvenScheduler", host=host).schedule(problem)
    assert resolve_scheduler("even").schedule(problem).slot_of_executor.tolist() == theirs.slot_of_executor.tolist()


@pytest.mark.parametrize("scheduler", ["EvenScheduler", "ResourceAwareScheduler"])
@pytest.mark.parametrize("case", CASES)
def test_heaps_of_workers_are_storms(host: SchedulerHost, case: str, scheduler: str) -> None:
    """Whatever the scheduler, Storm sums up requests and shared memory of a worker, which its supervisor rounds up."""
    problem = replace(case_problem(CASES[case]), load=None)
    response = host.run(scheduler, problem=problem_to_dict(problem))
    theirs = {
        (topology, WorkerSlot(supervisor, port)): ceil(mb)
        for topology, workers in response["heaps"].items()
        for supervisor, port, mb in workers
    }
    answer = {"schema": ASSIGNMENT_SCHEMA, **{key: response[key] for key in ("assignments", "status", "seconds")}}
    placed = PlacedExecutors(problem, assignment_from_dict(answer, problem, scheduler).slot_of_executor)
    heaps = WorkerHeaps.of(placed)
    ours = zip(heaps.workers.topology, heaps.workers.slot, heaps.size_mb, strict=True)
    assert {(problem.topologies[t].id, problem.slots[slot]): mb for t, slot, mb in ours} == theirs
    assert theirs or not placed.placed.any()


def test_request_order_does_not_change_answers(host: SchedulerHost) -> None:
    """Storm's classes keep resource names for ever: a problem with a GPU would change the next one's averages."""
    scheduler = JavaScheduler("ResourceAwareScheduler", "GenericResourceAwareStrategy", host=host)
    plain, gpu = case_problem(CASES["mixed-100"]), case_problem(CASES["m19-generic-gpu"])
    first = scheduler.schedule(plain).slot_of_executor.tolist()
    scheduler.schedule(gpu)
    assert scheduler.schedule(plain).slot_of_executor.tolist() == first


def test_answer_names_scheduler_and_reasons_for_unplaced_executors(host: SchedulerHost) -> None:
    problem = case_problem(CASES["m21-not-enough-cpu"])
    answer = JavaScheduler("ResourceAwareScheduler", "DefaultResourceAwareStrategy", host=host).schedule(problem)
    assert answer.scheduler == "java:ResourceAwareScheduler:DefaultResourceAwareStrategy"
    assert answer.seconds > 0
    (topology,) = problem.topologies
    reason = (
        f"{answer.scheduler} left {len(answer.unplaced)} of {topology.num_executors} executors unplaced: "
        f"{answer.status[topology.id]}"
    )
    assert {executor.reasons for executor in answer.unplaced} == {(reason,)}
    assert "Not enough resources" in reason


def test_topology_without_owner_is_placed_normally(host: SchedulerHost) -> None:
    problem = case_problem(CASES["linear-28"])
    nobodys = replace(problem, topologies=tuple(replace(t, owner="") for t in problem.topologies))
    scheduler = JavaScheduler("ResourceAwareScheduler", "DefaultResourceAwareStrategy", host=host)
    expected = scheduler.schedule(problem).slot_of_executor.tolist()
    assert scheduler.schedule(nobodys).slot_of_executor.tolist() == expected


def constrained(parallelism: list[int], num_nodes: int, ports: int, constraints: Any, workers: int = 1) -> Problem:
    """One topology of components ``a``, ``b``, …, each subscribing to the one before, on roomy nodes."""
    names = "abcd"[: len(parallelism)]
    components = tuple(
        Component(name, "bolt" if n else "spout", count, (Grouping(names[n - 1]),) if n else ())
        for n, (name, count) in enumerate(zip(names, parallelism, strict=True))
    )
    conf = {"topology.ras.constraints": constraints, "topology.worker.max.heap.size.mb": 4096.0}
    conf |= {"topology.priority": 29}
    runs = default_executor_runs(components)
    topology = Topology("t-1-1600000000", "t", workers, components, runs, owner="me", conf=conf)
    resources = {"cpu.pcore.percent": 4000.0, "memory.mb": 65536.0}
    nodes = tuple(
        Supervisor(f"s{n}", f"h{n}", tuple(range(6700, 6700 + ports)), 120e9, resources=resources)
        for n in range(num_nodes)
    )
    return Problem(nodes, (topology,))


@pytest.mark.parametrize(
    ("parallelism", "num_nodes", "ports", "constraints"),
    [
        ([3, 3], 3, 2, {"a": {"maxNodeCoLocationCnt": 1}}),
        ([4, 3], 3, 2, {"a": {"maxNodeCoLocationCnt": 1}}),
        ([6, 3], 3, 2, {"a": {"maxNodeCoLocationCnt": "2"}}),
        ([3, 3, 3], 3, 2, {"a": {"maxNodeCoLocationCnt": 1, "incompatibleComponents": ["b"]}}),
        ([2, 2], 1, 1, {"a": {"incompatibleComponents": "b"}}),
        ([2, 2, 2], 2, 2, [["a", "b"], ["b", "c"]]),
        ([2, 2, 2], 1, 2, [["a", "b"], ["b", "c"], ["c", "a"]]),
        ([2, 1], 2, 2, {"a": {"incompatibleComponents": ["a"]}}),
        ([2, 1], 1, 2, {"a": {"maxNodeCoLocationCnt": 0, "incompatibleComponents": ["gone"]}}),
    ],
)
def test_our_limits_on_components_are_storms(
    host: SchedulerHost, parallelism: list[int], num_nodes: int, ports: int, constraints: Any
) -> None:
    """Storm takes as many workers as it likes; with as many ours place what it places, and the other way round."""
    problem = constrained(parallelism, num_nodes, ports, constraints)
    theirs = JavaScheduler("ResourceAwareScheduler", "ConstraintSolverStrategy", host=host).schedule(problem)
    slots = theirs.slot_of_executor
    used = len(set(slots[slots >= 0].tolist()))
    assert [each for each in violations(problem, slots) if isinstance(each, CrowdedNode | IncompatibleExecutors)] == []
    most = min(num_nodes * ports, problem.num_executors)
    ours = [
        resolve_scheduler("online").schedule(constrained(parallelism, num_nodes, ports, constraints, workers))
        for workers in ([used] if used else range(1, most + 1))
    ]
    assert all((not answer.unplaced) == (not theirs.unplaced) for answer in ours)


MINE = """
package mine;
import java.util.Map;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.*;
public class %s implements IScheduler {
    private Object text;
    public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) { text = conf.get("my.text"); }
    public Map config() { return Map.of(); }
    public void schedule(Topologies topologies, Cluster cluster) { %s }
}
"""

SCHEDULERS = {
    "OneSlot": """
        System.out.println("this is no response");
        WorkerSlot slot = cluster.getAvailableSlots().get(0);
        TopologyDetails topology = topologies.getTopologies().iterator().next();
        cluster.assign(slot, topology.getId(), topology.getExecutors());
        cluster.setStatus(topology, "all in one: " + text);""",
    "Fails": 'throw new IllegalStateException("out of luck", new java.io.IOException("no tags\\nhere"));',
    "Sleeps": "try { Thread.sleep(60000); } catch (InterruptedException e) { }",
    "Stays": """
        new Thread(() -> { while (true) { } }).start();
        class Unspeakable extends Error {
            public String toString() { throw new Unspeakable(); }
        }
        throw new Unspeakable();""",
    "Works": """
        try {
            java.nio.file.Path mark = java.nio.file.Path.of(text.toString());
            java.nio.file.Path begun = mark.resolveSibling("begun");
            java.nio.file.Files.writeString(begun, String.valueOf(ProcessHandle.current().pid()));
            java.nio.file.Files.move(begun, mark);
            Thread.sleep(600000);
        } catch (Exception e) { }""",
    "Ends": 'System.err.println("that was it"); Runtime.getRuntime().halt(3);',
    "Leaves": """
        try {
            new ProcessBuilder("sleep", "600").inheritIO().start();
        } catch (java.io.IOException e) { }
        System.exit(5);""",
    "NoSuchSlot": """
        TopologyDetails topology = topologies.getTopologies().iterator().next();
        cluster.assign(new WorkerSlot("nowhere", 1), topology.getId(), topology.getExecutors());""",
}


#: Runs a scheduler on a problem file.
CALLER = """
import pathlib, sys
from stormwright.storm.scheduler_host import JavaScheduler
from tests.case_files import case_problem
jar, case, mark = map(pathlib.Path, sys.argv[1:])
JavaScheduler.named("java:mine.Works", conf={"my.text": str(mark)}, jars=[jar]).schedule(case_problem(case))
"""


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schedulers above, compiled."""
    source, classes = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("classes")
    for name, body in SCHEDULERS.items():
        (source / f"{name}.java").write_text(MINE % (name, body))
    javac = shutil.which("javac")
    assert javac, "no javac: install a JDK"
    class_path = f"{STORM_HOME / 'lib'}/*"
    subprocess.run([javac, "-nowarn", "-cp", class_path, "-d", classes, *source.glob("*.java")], check=True)
    jar = classes / "mine.jar"
    subprocess.run([Path(javac).with_name("jar"), "cf", jar, "-C", classes, "mine"], check=True)
    return jar


@pytest.fixture(scope="module")
def mine(jar: Path) -> Iterator[SchedulerHost]:
    """A JVM that knows them."""
    with SchedulerHost(host_command([jar])) as host:
        yield host


@pytest.mark.slow
def test_a_class_in_a_jar_of_the_users(mine: SchedulerHost) -> None:
    problem = case_problem(SMALL)
    answer = JavaScheduler("mine.OneSlot", conf={"my.text": "yes"}, host=mine).schedule(problem)
    placed = {t for t, p in answer.by_topology(problem).items() if len(p.slots) == 1 and -1 not in p.slot_of_executor}
    assert len(placed) == 1
    assert answer.status == {next(iter(placed)): "all in one: yes"}
    left_out = problem.num_executors - sum(t.num_executors for t in problem.topologies if t.id in placed)
    assert len(answer.unplaced) == left_out
    assert answer.unplaced[0].reasons == (
        f"java:mine.OneSlot left {left_out} of {left_out} executors unplaced and gave no reason",
    )


@pytest.mark.slow
def test_scheduler_exception_is_reported_with_its_causes(mine: SchedulerHost) -> None:
    with pytest.raises(
        SchedulerError,
        match=r"^java:mine.Fails: mine.Fails threw java.lang.IllegalStateException: out of luck at mine.Fails.schedule"
        r"\(Fails.java:\d+\)\n  caused by java.io.IOException: no tags\nhere at mine.Fails.schedule\(",
    ):
        JavaScheduler("mine.Fails", host=mine).schedule(case_problem(SMALL))


@pytest.mark.slow
def test_unknown_slots_in_answer_are_rejected(mine: SchedulerHost) -> None:
    with pytest.raises(InputError, match=r"java:mine.NoSuchSlot: 1 fault\n  the problem has no slot .*nowhere"):
        JavaScheduler("mine.NoSuchSlot", host=mine).schedule(case_problem(SMALL))


@pytest.mark.slow
def test_terminated_jvm_is_reported_and_replaced_for_next_request(mine: SchedulerHost) -> None:
    with pytest.raises(
        SchedulerError, match=r"^java:mine.Ends: the JVM that runs it has ended: exit code 3: that was it"
    ):
        JavaScheduler("mine.Ends", host=mine).schedule(case_problem(SMALL))
    assert JavaScheduler("mine.OneSlot", host=mine).schedule(case_problem(SMALL)).status


def test_leftover_child_does_not_delay_error_of_ended_jvm(mine: SchedulerHost) -> None:
    with pytest.raises(SchedulerError, match=r"^java:mine.Leaves: the JVM that runs it has ended: exit code 5"):
        JavaScheduler("mine.Leaves", conf={TIME_LIMIT_CONF: 60}, host=mine).schedule(case_problem(SMALL))


@pytest.mark.slow
def test_leftover_threads_do_not_retain_a_failed_jvm(mine: SchedulerHost) -> None:
    with pytest.raises(SchedulerError, match=r"^java:mine.Stays: the JVM that runs it has ended: exit code 1"):
        JavaScheduler("mine.Stays", conf={TIME_LIMIT_CONF: 60}, host=mine).schedule(case_problem(SMALL))


@pytest.mark.slow
def test_busy_jvm_ends_with_its_parent_process(jar: Path, tmp_path: Path) -> None:
    """A program that is killed cannot end anything, and a JVM in which a scheduler works reads no end of its input."""
    mark = tmp_path / "working"
    caller = subprocess.Popen([sys.executable, "-c", CALLER, jar, SMALL, mark])
    assert eventually(mark.exists)
    jvm = int(mark.read_text())
    assert runs(jvm)
    caller.kill()
    caller.wait()
    assert eventually(lambda: not runs(jvm))


@pytest.mark.long
def test_slow_java_scheduler_times_out(jar: Path) -> None:
    with SchedulerHost(host_command([jar])) as host:
        with pytest.raises(SchedulerError, match=r"^java:mine.Sleeps: no answer within 0.5 s; --set .*limit.s=SECONDS"):
            JavaScheduler("mine.Sleeps", conf={TIME_LIMIT_CONF: 0.5}, host=host).schedule(case_problem(SMALL))
        assert JavaScheduler("mine.OneSlot", host=host).schedule(case_problem(SMALL)).status


def test_threads_share_a_jvm(host: SchedulerHost) -> None:
    problems = [case_problem(CASES[name]) for name in ("m01-uneven-ports", "mixed-28", "random-100", "star-1000")]
    alone = [resolve_scheduler("even").schedule(problem).slot_of_executor.tolist() for problem in problems]
    answers: dict[int, list[int]] = {}

    def ask(n: int) -> None:
        answers[n] = JavaScheduler("EvenScheduler", host=host).schedule(problems[n]).slot_of_executor.tolist()

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(problems))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[n] for n in range(len(problems))] == alone


ECHO = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print("a warning of the JVM")
    print(json.dumps({"id": request["id"], **request}).replace('": ', '":', 1), flush=True)
"""


def test_non_response_lines_are_ignored() -> None:
    with SchedulerHost([sys.executable, "-c", ECHO]) as host:
        assert host.run("X", seed=3)["seed"] == 3
        assert host.run("X", seed=4)["id"] == 2


def test_failed_host_command_is_reported_with_its_output() -> None:
    with (
        SchedulerHost([sys.executable, "-c", "import sys; sys.exit('no heap')"]) as host,
        pytest.raises(SchedulerError, match="java:X: the JVM that runs it has ended: exit code 1: no heap"),
    ):
        host.run("X")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.run([str(argument) for argument in arguments])
    return (code, *capsys.readouterr())


def test_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = "java:ResourceAwareScheduler:DefaultResourceAwareStrategy"
    out = tmp_path / "out.json"
    code, printed, err = run(capsys, "schedule", SMALL, "--scheduler", name, "--output", out)
    assert (code, err) == (0, "")
    assert f"{name} took" in printed
    assert out.exists()


@pytest.mark.parametrize(
    ("seed", "conf", "at"), [(2**64, {}, "seed"), (1, {"good": 1, "large": 2**70, "odd": {1, 2}}, "large")]
)
def test_values_beyond_json_range_are_rejected(seed: int, conf: dict[str, object], at: str) -> None:
    with SchedulerHost([sys.executable, "-c", ECHO]) as host, pytest.raises(InputError) as error:
        JavaScheduler("EvenScheduler", conf=conf, seed=seed, host=host).schedule(case_problem(SMALL))
    faults = {fault.path: fault.message for fault in error.value.faults}
    assert faults.pop(at) == "cannot be sent as JSON: Integer exceeds 64-bit range"
    assert set(faults) <= {"odd"}


def test_settings_are_storms_configuration() -> None:
    problem = replace(read_problem(CASES["linear-28"]), conf={})
    isolation = resolve_scheduler("java:IsolationScheduler", ['isolation.scheduler.machines={"linear":3}'])
    expected = read_case(CASES["linear-28"])["answers"]["IsolationScheduler"]
    assert placed_by(isolation.schedule(problem), problem) == placed_in(expected, problem)


def test_isolation_scheduler_without_machines_names_the_setting() -> None:
    problem = replace(read_problem(CASES["linear-28"]), conf={})
    with pytest.raises(SchedulerError, match=r"""--set 'isolation.scheduler.machines=\{"linear":1\}' gives"""):
        resolve_scheduler("java:IsolationScheduler").schedule(problem)


@pytest.mark.slow
def test_exception_of_scheduler_class_is_one_message(capsys: pytest.CaptureFixture[str], jar: Path) -> None:
    code, out, err = run(capsys, "schedule", SMALL, "--scheduler", "java:mine.Fails", "--jar", jar)
    assert (code, out) == (2, "")
    assert err.startswith("stormwright: java:mine.Fails: mine.Fails threw java.lang.IllegalStateException: out of luck")
    assert "caused by java.io.IOException" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "java:"], "java:: should be java:CLASS or java:CLASS:STRATEGY"),
        (["--scheduler", "java:a:b:c"], "java:a:b:c: should be java:CLASS or java:CLASS:STRATEGY"),
        (["--scheduler", "java:Evn"], "java:Evn: there is no class Evn in Storm's jars or in those given"),
        (["--scheduler", "java:EvenScheduler:Best"], "there is no class Best in Storm's jars"),
        (["--scheduler", "java:EvenScheduler", "--set", "x"], "x: should be key=value"),
        (
            ["--scheduler", "java:EvenScheduler", "--set", f"{TIME_LIMIT_CONF}=no"],
            "should be a number of seconds, got 'no'",
        ),
        (
            ["--scheduler", "java:EvenScheduler", "--set", f"{TIME_LIMIT_CONF}=true"],
            "should be a number of seconds, got True",
        ),
        (["--scheduler", "java:EvenScheduler", "--jar", "none.jar"], "none.jar: no such jar or directory of classes"),
        (["--scheduler", "even", "--jar", "none.jar"], "even is none: the name of a Java scheduler begins with java:"),
    ],
)
def test_bad_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, out, err = run(capsys, "schedule", SMALL, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
