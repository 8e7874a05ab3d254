"""Our schedulers against the classes of several versions of Storm, on drawn problems and on recorded answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.storm.versions import (
    LINES,
    PROBLEMS,
    StormVersion,
    compare_even,
    compare_isolation,
    drawn_problems,
    isolating_problems,
    versions,
)
from stormwright.storm.scheduler_host import JavaScheduler, SchedulerHost, host_command
from tests.case_files import case_files, case_name, case_problem, placed_by, placed_in, read_case

CASES = {case_name(path): path for path in case_files("peer")}

#: What was recorded of a class of Storm 3, by the name that it has there.
TRUNK = {"IsolationSchedulerTrunk": "IsolationScheduler"}


def test_even_is_that_of_the_usual_storm() -> None:
    with SchedulerHost(host_command()) as host:
        agreement = compare_even(host, drawn_problems(60, seed=2))
    assert (agreement.equal, agreement.different) == (60, [])


@pytest.fixture(scope="module", params=LINES)
def version(request: pytest.FixtureRequest) -> StormVersion:
    found = [each for each in versions() if each.name.startswith(f"{request.param}.")]
    if not found:
        target = "storm3" if request.param.startswith("3") else "storm-versions"
        pytest.skip(f"no Storm {request.param} under build/storm-versions: make {target}")
    return found[-1]


@pytest.fixture(scope="module")
def host(version: StormVersion) -> Iterator[SchedulerHost]:
    with version.host() as host:
        yield host


@pytest.mark.slow
def test_all_java_tests_passed(version: StormVersion) -> None:
    ran, failed = version.java_tests()
    assert ran > 200
    assert failed == 0


@pytest.mark.slow
def test_even_is_that_of_every_version(version: StormVersion, host: SchedulerHost) -> None:
    agreement = compare_even(host, drawn_problems(PROBLEMS), java=version.java_release)
    assert (agreement.equal, agreement.different) == (PROBLEMS, [])


@pytest.mark.slow
@pytest.mark.parametrize("idle_moves", [0, 1, 2])
def test_moves_to_idle_nodes_are_those_of_storm_3(version: StormVersion, host: SchedulerHost, idle_moves: int) -> None:
    """Before, the key means nothing."""
    settings = {"idle_nodes": version.is_storm3, "idle_moves": idle_moves, "java": version.java_release}
    agreement = compare_even(host, drawn_problems(PROBLEMS), key=True, **settings)
    assert (agreement.equal, agreement.different) == (PROBLEMS, [])
    assert agreement.moved > 100 if version.is_storm3 else agreement.moved == 0


@pytest.mark.slow
def test_hosts_of_isolated_topologies_are_those_of_storm_3(version: StormVersion, host: SchedulerHost) -> None:
    """Before, they are random."""
    agreement = compare_isolation(host, isolating_problems(PROBLEMS + 100))
    if version.is_storm3:
        assert agreement.different == []
        assert agreement.equal >= PROBLEMS
    else:
        assert agreement.different != []


@pytest.mark.slow
def test_every_class_gives_its_recorded_answers(version: StormVersion, host: SchedulerHost) -> None:
    """Recorded with Storm 2.8.3 on Java 17; by Storm 3, IsolationScheduler has another order of hosts."""
    for case, path in CASES.items():
        problem = case_problem(path)
        for label, answer in read_case(path)["answers"].items():
            later = TRUNK.get(label)
            if not answer["deterministic"] or (version.is_storm3 and label in TRUNK.values()):
                continue
            if later is not None and not version.is_storm3:
                continue
            topologies = tuple(
                replace(t, conf={**t.conf, **answer["topology_conf_override"]}) for t in problem.topologies
            )
            scheduler = JavaScheduler(
                later or answer["scheduler"], answer["strategy"], conf=answer["conf_override"], seed=42, host=host
            )
            given = scheduler.schedule(replace(problem, topologies=topologies))
            assert placed_by(given, problem) == placed_in(answer, problem), (case, label)
