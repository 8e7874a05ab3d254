"""Versions of Storm: our Java tests with each, and our schedulers compared with the classes of each on drawn problems.

python -m benchmarks.storm.versions [--problems 500]

The versions are those under build/storm-versions: of `make storm-versions`, and of `make storm3` where that could run.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import ROOT, write_results
from stormwright.base.java import find_java
from stormwright.errors import SchedulerError
from stormwright.model import (
    UNPLACED,
    Assignment,
    Component,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.wrappers import IsolatingScheduler
from stormwright.storm.scheduler_host import JavaScheduler, SchedulerHost, host_command

#: Code that the page measures.
MEASURES = (
    "java/src",
    "src/stormwright/schedulers/even.py",
)

DIRECTORY = ROOT / "build" / "storm-versions"

#: What each line of Storm is expected to pass.
LINES = ("2.6", "2.7", "2.8", "3.0")
PROBLEMS = 500

#: Of which every node has some.
PORTS = range(6700, 6712)

#: Storm's keys of the pass that moves workers to idle nodes.
ENABLED, MAX_FREE = "nimbus.even.rebalance.idle.supervisor.enabled", "nimbus.even.rebalance.max.free.per.topology"
MACHINES, STORM_SCHEDULER = "isolation.scheduler.machines", "storm.scheduler"
ISOLATION = "org.apache.storm.scheduler.IsolationScheduler"


@dataclass(frozen=True)
class StormVersion:
    """A version of Storm that our Java sources are compiled with.

    Parameters
    ----------
    home
        Directory with our classes in ``classes``, and Storm's jars in ``lib``.
    """

    home: Path

    @property
    def name(self) -> str:
        """Release, such as ``2.8.3``."""
        return self.home.name

    @property
    def is_storm3(self) -> bool:
        """Whether its schedulers are those of Storm 3."""
        return int(self.name.partition(".")[0]) >= 3

    @property
    def java(self) -> str | None:
        """The ``java`` that it needs; None for the usual one."""
        home = self.home / "java-home"
        return f"{home.read_text(encoding='utf-8').strip()}/bin/java" if home.exists() else None

    @property
    def java_release(self) -> int:
        """Release of that Java, such as 17."""
        shown = subprocess.run(
            [self.java or find_java("Storm"), "-version"], capture_output=True, text=True, check=True
        )
        return int(re.findall(r'version "(\d+)', shown.stderr)[0])

    def host(self) -> SchedulerHost:
        """Return a JVM that runs its schedulers."""
        return SchedulerHost(host_command(storm_home=self.home, ours=self.home / "classes", java=self.java))

    def java_tests(self) -> tuple[int, int]:
        """Return how many of our Java tests ran with it, and how many of them failed."""
        ran = failed = 0
        for report in (self.home / "surefire-reports").glob("*.txt"):
            counts = re.search(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)", report.read_text())
            if counts:
                tests, failures, errors, skipped = map(int, counts.groups())
                ran, failed = ran + tests - skipped, failed + failures + errors
        return ran, failed


def versions() -> list[StormVersion]:
    """Return the versions that are laid out, the oldest first."""
    found = [each.parent for each in DIRECTORY.glob("*/lib") if (each.parent / "classes" / "stormwright").is_dir()]
    return [StormVersion(home) for home in sorted(found, key=lambda home: [*map(int, re.findall(r"\d+", home.name))])]


def drawn_problems(count: int, seed: int = 1) -> Iterator[Problem]:
    """Yield problems of few nodes and topologies, in which something runs, is lost, or is blacklisted."""
    for number in range(count):
        yield _drawn(_random(f"{seed}-{number}"))


def _random(seed: str) -> random.Random:
    return random.Random(seed)  # noqa: S311 (no secret)


def _drawn(draw: random.Random) -> Problem:
    nodes = draw.randint(1, 9)
    hosts = [f"host-{draw.randint(0, 99)}" for _ in range(draw.randint(1, nodes))]
    ids = draw.sample([f"{draw.choice('aAzZ-é')}{n}" for n in range(40)], nodes)
    supervisors = tuple(
        Supervisor(name, draw.choice(hosts), tuple(draw.sample(range(6700, 6712), draw.randint(0, 6))), 1e12)
        for name in ids
    )
    topologies = tuple(_topology(draw, number) for number in range(draw.randint(1, 6)))
    blacklisted = frozenset(host for host in hosts if draw.random() < 0.1)
    problem = Problem(supervisors, topologies, blacklisted_hosts=blacklisted)
    # Some nodes have come back: nothing runs on them.
    idle = {name for name in ids if draw.random() < 0.35}
    free = [WorkerSlot(each.id, port) for each in supervisors if each.id not in idle for port in each.ports]
    draw.shuffle(free)
    current = {}
    for topology in topologies:
        if draw.random() < 0.75:
            workers = [free.pop() for _ in range(min(len(free), draw.randint(1, topology.num_workers)))]
            lost = draw.random() < 0.4
            slots = [number % len(workers) for number in range(topology.num_executors)] if workers else []
            if lost and len(workers) > 1:
                gone = draw.randrange(len(workers))
                slots = [UNPLACED if slot == gone else slot for slot in slots]
            if workers:
                current[topology.id] = TopologyAssignment(tuple(workers), tuple(slots))
    return replace(problem, current=current)


def _topology(draw: random.Random, number: int) -> Topology:
    parallelism = [draw.randint(1, 6) for _ in range(draw.randint(1, 4))]
    components = tuple(
        Component(f"c{index}", "bolt" if index else "spout", executors) for index, executors in enumerate(parallelism)
    )
    workers = draw.randint(1, 12)
    name = f"{draw.choice(('wc', 'Top', 'ü', 'x-y'))}{number}"
    topology = f"{name}-{draw.randint(1, 99)}-{draw.randint(1_600_000_000, 1_700_000_000)}"
    return Topology(topology, name, workers, components, default_executor_runs(components))


def isolating_problems(count: int, seed: int = 1) -> Iterator[Problem]:
    """Yield problems in which nothing runs, and the first topology has hosts for itself: often several are as large."""
    for number in range(count):
        draw = _random(f"isolation-{seed}-{number}")
        hosts = draw.sample([f"{draw.choice('hHx')}{n}" for n in range(40)], draw.randint(3, 9))
        supervisors = tuple(
            Supervisor(f"s{number}", host, tuple(range(6700, 6700 + draw.randint(1, 3))), 1e12)
            for number, host in enumerate(draw.sample(2 * hosts, draw.randint(len(hosts), 2 * len(hosts))))
        )
        topology, *others = (_topology(draw, number) for number in range(draw.randint(1, 3)))
        topology = replace(topology, num_workers=draw.randint(1, min(5, topology.num_executors)))
        blacklisted = frozenset(host for host in hosts if draw.random() < 0.1)
        conf = {STORM_SCHEDULER: ISOLATION, MACHINES: {topology.name: draw.randint(1, 4)}}
        yield Problem(supervisors, (topology, *others), blacklisted_hosts=blacklisted, conf=conf)


@dataclass
class Agreement:
    """How often an answer of ours is that of a class.

    Parameters
    ----------
    equal
        Problems with the same slot for every executor.
    refused
        Problems for which the class has no answer: it threw an exception, or could not isolate the topology.
    moved
        Those of `equal` in which something that runs has moved.
    different
        Numbers of the problems with another answer.
    """

    equal: int = 0
    refused: int = 0
    moved: int = 0
    different: list[int] = field(default_factory=list)


def compare_even(
    host: SchedulerHost,
    problems: Iterable[Problem],
    *,
    key: bool = False,
    idle_nodes: bool = False,
    idle_moves: int = 0,
    java: int = 17,
) -> Agreement:
    """Compare `even` with EvenScheduler of a version of Storm.

    Parameters
    ----------
    host
        JVM of that version.
    problems
        Problems to compare.
    key
        Whether Storm's configuration has the pass for idle nodes, of which versions before 3 know nothing.
    idle_nodes, idle_moves, java
        Parameters of `even`; Storm gets its key for the second.
    """
    agreement = Agreement()
    theirs = JavaScheduler("EvenScheduler", conf={ENABLED: key, MAX_FREE: idle_moves}, host=host)
    ours = make_scheduler("even", {"java": java, "idle_nodes": idle_nodes, "idle_moves": idle_moves})
    for number, problem in enumerate(problems):
        try:
            expected = theirs.schedule(problem).slot_of_executor
        except SchedulerError:
            agreement.refused += 1
            continue
        slots = ours.schedule(problem).slot_of_executor
        if np.array_equal(slots, expected):
            agreement.equal += 1
            runs = problem.current_slot != UNPLACED
            agreement.moved += bool(np.any(slots[runs] != problem.current_slot[runs]))
        else:
            agreement.different.append(number)
    return agreement


def compare_isolation(host: SchedulerHost, problems: Iterable[Problem]) -> Agreement:
    """Compare the hosts that our rule gives the isolated topology with those of a version's IsolationScheduler."""
    agreement = Agreement()
    theirs, open_hosts = JavaScheduler("IsolationScheduler", host=host), _OpenHosts()
    for number, problem in enumerate(problems):
        slots = theirs.schedule(problem).slot_of_executor[problem.executors_of(0)]
        if np.any(slots == UNPLACED):
            agreement.refused += 1
            continue
        IsolatingScheduler(open_hosts).schedule(problem)
        if open_hosts.of[problem.topologies[0].id] == {problem.supervisors[n].host for n in problem.slot_node[slots]}:
            agreement.equal += 1
        else:
            agreement.different.append(number)
    return agreement


class _OpenHosts:
    """Scheduler that places nothing, and records the hosts that are open to each topology."""

    def __init__(self) -> None:
        self.of: dict[str, set[str]] = {}

    def schedule(self, problem: Problem) -> Assignment:
        """Record the hosts."""
        hosts = {node.host for node in problem.supervisors} - problem.blacklisted_hosts
        self.of |= {topology.id: hosts for topology in problem.topologies}
        return Assignment(problem.current_slot, (), {}, scheduler="none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="drawn for each comparison")
    options = parser.parse_args()
    rows, details = [], []
    for version in versions():
        found = measure(version, options.problems)
        details.append(found)
        rows += rows_of(version, found, options.problems)
    for line in LINES:
        if not any(version.name.startswith(f"{line}.") for version in versions()):
            rows.append((f"Storm {line}", "Java tests, and equal placements", "not laid out here: not run"))
    title = "Versions of Storm: our Java tests, and our schedulers beside the classes of each"
    write_results("storm-versions", title, rows, {"versions": details})


def measure(version: StormVersion, problems: int) -> dict[str, Any]:
    """Return the Java tests of a version, and all comparisons with it."""
    ran, failed = version.java_tests()
    java = version.java_release
    with version.host() as host:
        compared = {
            "even": compare_even(host, drawn_problems(problems), java=java),
            "isolated hosts": compare_isolation(host, isolating_problems(problems + problems // 5)),
        }
        for idle_moves in (0, 1, 2):
            compared[f"even with the key for idle nodes, idle_moves {idle_moves}"] = compare_even(
                host, drawn_problems(problems), key=True, idle_nodes=version.is_storm3, idle_moves=idle_moves, java=java
            )
    agreements = {name: asdict(agreement) for name, agreement in compared.items()}
    return {"storm": version.name, "java": java, "java_tests": ran, "java_failures": failed, "agreements": agreements}


def rows_of(version: StormVersion, found: dict[str, Any], problems: int) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a version."""
    name = f"Storm {version.name} on Java {found['java']}"
    yield f"{name}: Java tests", "0 failures", f"{found['java_tests']} ran, {found['java_failures']} failed"
    for what, agreement in found["agreements"].items():
        random_hosts = what == "isolated hosts" and not version.is_storm3
        wanted = "random before Storm 3" if random_hosts else f"≥ {problems} equal, 0 different"
        text = f"{agreement['equal']} equal, {len(agreement['different'])} different"
        text += f", {agreement['refused']} without an answer of the class" if agreement["refused"] else ""
        text += f"; something that runs moved in {agreement['moved']}" if agreement["moved"] else ""
        yield f"{name}: {what}", wanted, text


if __name__ == "__main__":
    main()
