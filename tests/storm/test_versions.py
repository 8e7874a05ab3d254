"""Our schedulers against the classes of several versions of Storm, on random problems and on recorded answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

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
from tests.case_files import Placed, case_files, case_name, case_problem, placed_by, placed_in, read_case

CASES = {case_name(path): path for path in case_files("peer")}

#: A label of answers of a later class, recorded on Java 17.
TRUNK = "IsolationSchedulerTrunk"

#: Release of Java on which the answers of all classes were recorded.
RECORDED_JAVA = 17

#: Classes with other rules in Storm 3: hosts are in another order, and only the given topologies are placed.
CHANGED = {"IsolationScheduler", "DefaultScheduler"}


@pytest.mark.slow
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
def test_every_class_before_storm_3_gives_its_recorded_answers(version: StormVersion, host: SchedulerHost) -> None:
    if version.java_release != RECORDED_JAVA:
        pytest.skip(f"answers were recorded on Java {RECORDED_JAVA}, whose hash maps have another order")
    compared = 0
    for case, label, answer in recorded():
        given = answer_of(host, case, answer)
        assert given == placed_in(answer, case_problem(CASES[case])), (case, label)
        compared += 1
    assert compared > 200


@pytest.mark.slow
def test_classes_of_storm_3_give_the_answers_of_storm_2_on_the_same_java(
    version: StormVersion, host: SchedulerHost
) -> None:
    before = [each for each in versions() if each.name.startswith("2.8.")]
    if not version.is_storm3 or not before:
        pytest.skip("no Storm 2.8 and Storm 3 to compare")
    home = before[-1].home
    different: Counter[str] = Counter()
    with SchedulerHost(host_command(storm_home=home, ours=home / "classes", java=version.java)) as other:
        for case, label, answer in recorded():
            different[label] += answer_of(host, case, answer) != answer_of(other, case, answer)
    assert {label for label, count in different.items() if count} <= CHANGED
    assert len(different) > len(CHANGED)


def recorded() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Case, label and answer of every class that Storm 2.8 has."""
    for case, path in CASES.items():
        for label, answer in read_case(path)["answers"].items():
            if answer["deterministic"] and label != TRUNK:
                yield case, label, answer


def answer_of(host: SchedulerHost, case: str, answer: dict[str, Any]) -> Placed:
    problem = case_problem(CASES[case])
    topologies = tuple(replace(t, conf={**t.conf, **answer["topology_conf_override"]}) for t in problem.topologies)
    scheduler = JavaScheduler(answer["scheduler"], answer["strategy"], conf=answer["conf_override"], seed=42, host=host)
    return placed_by(scheduler.schedule(replace(problem, topologies=topologies)), problem)
