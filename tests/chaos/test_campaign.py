"""Campaigns: selection, resuming, shrinking, the report, and runs in virtual time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stormwright_lab.chaos.campaign import CHANCE, planned_runs, run_campaign, run_virtually
from stormwright_lab.chaos.catalogue import CATALOGUE
from stormwright_lab.chaos.invariants import FaultNaming, Invariant, InvariantViolation
from stormwright_lab.chaos.report import write_page
from stormwright_lab.chaos.results import RUNS, RunKey, RunResult, RunStore, verdict_text
from stormwright_lab.chaos.scenarios import FaultKind, Moment, Scenario

from stormwright.errors import ClusterError

LOST = InvariantViolation(Invariant.NUMBERS, "lost: spout task 0: 1 (7)")


class FakeRunner:
    """A run violates an invariant if Nimbus is killed in it."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, int, int]] = []

    def __call__(self, scenario: Scenario, moment: Moment, seed: int) -> RunResult:
        self.runs.append((scenario.name, len(scenario.faults), seed))
        if "unhealthy" in scenario.name:
            raise ClusterError("no cluster")
        failed = any(fault.target == "nimbus" and fault.kind is FaultKind.KILL for fault in scenario.faults)
        key = RunKey(scenario.name, moment, seed)
        return RunResult(
            key, scenario, 1.0, 2.5, 3.5, (LOST,) if failed else (), (FaultNaming("f", 12.0, ("w",), 1.0, "t"),)
        )


def test_runs_are_all_scenarios_at_all_moments_seed_by_seed() -> None:
    runs = planned_runs("kill-s*", [], [3, 4])
    assert len(runs) == 2 * sum(len(each.moments) for name, each in CATALOGUE.items() if name.startswith("kill-s"))
    assert [each.key.seed for each in runs] == sorted(each.key.seed for each in runs)
    assert {each.key.moment for each in planned_runs("kill-service", [Moment.PAUSED], [1])} == {Moment.PAUSED}
    assert [each.key.scenario for each in planned_runs(CHANCE, [], [5, 6])] == ["chance-5", "chance-6"]


def test_interrupted_campaign_resumes(tmp_path: Path) -> None:
    runs = planned_runs("kill-service", [], [1])
    first, second = FakeRunner(), FakeRunner()
    run_campaign(runs[:2], RunStore(tmp_path), first, lambda _: None)
    with (tmp_path / RUNS).open("ab") as file:
        file.write(b'{"scenario": "half')
    found = run_campaign(runs, RunStore(tmp_path), second, lambda _: None)
    assert (len(first.runs), len(second.runs), len(found)) == (2, len(runs) - 2, len(runs))
    assert RunStore(tmp_path).all() == found


def test_campaign_in_pieces_begins_no_run_after_its_time(tmp_path: Path) -> None:
    runs, runner = planned_runs("kill-service", [], [1]), FakeRunner()
    assert run_campaign(runs, RunStore(tmp_path), runner, lambda _: None, minutes=0.0) == []
    assert runner.runs == []
    assert len(run_campaign(runs, RunStore(tmp_path), runner, lambda _: None, minutes=1.0)) == len(runs)


def test_failing_scenario_is_reduced_to_the_fault_that_is_needed(tmp_path: Path) -> None:
    runs = planned_runs("nimbus-and-target-supervisor", [Moment.ORDERED], [1])
    reported: list[RunResult] = []
    (found,) = run_campaign(runs, RunStore(tmp_path), FakeRunner(), reported.append)
    assert found.smallest is not None
    assert [(fault.kind, fault.target) for fault in found.smallest.faults] == [("kill", "nimbus")]
    assert reported == [found]
    assert found.verdict == "numbers"


def test_run_that_cannot_be_made_is_a_violation(tmp_path: Path) -> None:
    scenario = replace(CATALOGUE["kill-service"], name="unhealthy")
    planned = replace(planned_runs("kill-service", [Moment.PAUSED], [1])[0], scenario=scenario)
    (found,) = run_campaign([planned], RunStore(tmp_path), FakeRunner(), lambda _: None)
    assert [each.invariant for each in found.violations] == [Invariant.ERROR]


def test_verdict_counts_runs_by_invariant(tmp_path: Path) -> None:
    results = run_campaign(
        planned_runs("kill-*", [Moment.PAUSED], [1]), RunStore(tmp_path), FakeRunner(), lambda _: None
    )
    assert "1 of" in verdict_text(results)
    assert "numbers in 1" in verdict_text(results)
    good = [each for each in results if not each.violations]
    assert verdict_text(good) == f"all invariants hold in {len(good)} runs; recovery p95 2.5 s, longest 2.5 s"
    assert verdict_text([replace(good[0], skipped="no netem")]) == "no run; 1 skipped"


def test_page_has_every_run(tmp_path: Path) -> None:
    results = run_campaign(planned_runs("*", [Moment.PAUSED], [1]), RunStore(tmp_path), FakeRunner(), lambda _: None)
    write_page(tmp_path / "chaos.html", [*results, replace(results[0], skipped="no netem")])
    page = (tmp_path / "chaos.html").read_text()
    assert all(f"<td>{name}</td>" in page for name in CATALOGUE)
    assert "lost: spout task 0" in page
    assert "skipped: no netem" in page


@pytest.mark.long
@pytest.mark.parametrize("name", ["kill-nimbus", "swap-kill-service", "revert-kill-nimbus", "drain-kill-moving-worker"])
def test_scenario_runs_in_virtual_time(name: str) -> None:
    found = run_virtually(CATALOGUE[name], Moment.PAUSED, 2)
    assert (found.verdict, found.plan_state in ("done", "rolled_back", "failed")) == ("ok", True)
    assert found.seconds > 10


def test_scenario_without_counterpart_is_skipped() -> None:
    assert "Spark" in run_virtually(CATALOGUE["kill-spark"], Moment.PAUSED, 1).skipped
    assert run_virtually(CATALOGUE["batch-kill-service"], Moment.PAUSED, 1).verdict == "skipped"
