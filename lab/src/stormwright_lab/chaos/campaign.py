"""Campaigns: many runs in order, each stored at once; runs that have a result are not repeated."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Protocol

from stormwright.errors import StormwrightError
from stormwright_lab.chaos.catalogue import by_chance, scenarios_named
from stormwright_lab.chaos.invariants import Invariant, InvariantViolation
from stormwright_lab.chaos.ledger_files import LedgerKind
from stormwright_lab.chaos.results import RunKey, RunResult, RunStore
from stormwright_lab.chaos.scenarios import Moment, Scenario
from stormwright_lab.chaos.shrinking import smallest

log = logging.getLogger(__name__)

#: Name of scenarios by chance, as a pattern.
CHANCE = "chance"


@dataclass(frozen=True)
class Planned:
    """A run to be made."""

    scenario: Scenario
    key: RunKey


class Runner(Protocol):
    """Makes one run."""

    def __call__(self, scenario: Scenario, moment: Moment, seed: int) -> RunResult: ...


def planned_runs(
    pattern: str, moments: Collection[Moment], seeds: Sequence[int], *, virtual: bool = False
) -> list[Planned]:
    """Return the runs of all scenarios that match a pattern: each at each of its moments, with each seed.

    Parameters
    ----------
    pattern
        Pattern of names in the catalogue, or ``chance`` for a scenario by chance for each seed.
    moments
        Only these moments; all if empty.
    seeds
        Seeds, the outermost order: after the first round every scenario was run once.
    virtual
        Whether they run in virtual time.

    Raises
    ------
    InputError
        No scenario matches.
    """
    named = None if pattern == CHANCE else scenarios_named(pattern)
    return [
        Planned(scenario, RunKey(scenario.name, moment, seed, virtual))
        for seed in seeds
        for scenario in (named or [by_chance(seed)])
        for moment in scenario.moments
        if not moments or moment in moments
    ]


def run_campaign(
    runs: Sequence[Planned],
    store: RunStore,
    run: Runner,
    report: Callable[[RunResult], None],
    *,
    shrink: bool = True,
    minutes: float = inf,
) -> list[RunResult]:
    """Make all runs that have no result yet, and return the results of all that have one.

    Parameters
    ----------
    runs
        The runs in order.
    store
        Results, to which each is added at once.
    run
        Runs a scenario at a moment with a seed, and returns the result.
    report
        Called with each result.
    shrink
        Whether a failing scenario with several faults is reduced to the smallest one that fails.
    minutes
        Time after which no run begins: a campaign of hours is made in pieces.
    """
    until_s = time.monotonic() + 60 * minutes
    for planned in runs:
        if planned.key in store:
            continue
        if time.monotonic() >= until_s:
            break
        result = _tried(run, planned)
        if shrink and result.violations and len(planned.scenario.faults) > 1:
            result = replace(result, smallest=_smallest(run, planned, result))
        store.add(result)
        report(result)
    keys = {planned.key for planned in runs}
    return [each for each in store.all() if each.key in keys]


def _tried(run: Runner, planned: Planned) -> RunResult:
    try:
        found = run(planned.scenario, planned.key.moment, planned.key.seed)
    except StormwrightError as error:
        log.warning("%s: %s", planned.key, error)
        return RunResult(planned.key, planned.scenario, violations=(InvariantViolation(Invariant.ERROR, str(error)),))
    except Exception as error:  # a bug here or in the cluster: the next run has a cluster of its own
        log.exception("%s", planned.key)
        text = f"{type(error).__name__}: {error}"
        return RunResult(planned.key, planned.scenario, violations=(InvariantViolation(Invariant.ERROR, text),))
    return replace(found, key=planned.key)


def _smallest(run: Runner, planned: Planned, result: RunResult) -> Scenario:
    """Return the smallest scenario that violates one of the same invariants."""
    violated = {each.invariant for each in result.violations}

    def fails(scenario: Scenario) -> bool:
        found = _tried(run, replace(planned, scenario=scenario))
        return bool(violated & {each.invariant for each in found.violations})

    return smallest(planned.scenario, fails)


def run_virtually(scenario: Scenario, moment: Moment, seed: int) -> RunResult:
    """Run a scenario in virtual time; one without a counterpart there is skipped.

    Parameters
    ----------
    scenario, moment, seed
        Faults to inject, moment at which they begin, and seed of the schedule.
    """
    from stormwright_lab.chaos.virtual.exploration import explore
    from stormwright_lab.chaos.virtual.schedule import of_scenario

    key = RunKey(scenario.name, moment, seed, virtual=True)
    if why := why_not_virtual(scenario):
        return RunResult(key, scenario, skipped=why)
    found = explore(of_scenario(scenario, moment, seed))
    states = list(found.plans.values())
    return RunResult(
        key,
        scenario,
        found.virtual_s,
        violations=found.violations,
        plan_state=states[-1] if states else "",
        details={"steps": found.steps, "messages": found.messages},
    )


def why_not_virtual(scenario: Scenario) -> str:
    """Return why a scenario has no counterpart in virtual time; empty if it has one."""
    from stormwright_lab.chaos.virtual.schedule import why_no_counterpart

    if scenario.workload is not LedgerKind.DRAIN:
        return "topologies of the virtual cluster have no state, windows or batches"
    return next(filter(None, map(why_no_counterpart, scenario.faults)), "")


@contextmanager
def real_runner(directory: Path) -> Iterator[Runner]:
    """Return the context of the runner on a local cluster, which is up meanwhile.

    Parameters
    ----------
    directory
        Directory of ledgers and of the service's state.
    """
    from stormwright_lab.chaos.lab import ChaosLab
    from stormwright_lab.chaos.run import run_scenario

    with ChaosLab(directory / "lab") as lab:
        numbers = count(1)  # a scenario is run again, with fewer faults, if it has failed

        def run(scenario: Scenario, moment: Moment, seed: int) -> RunResult:
            name = f"{next(numbers)}-{scenario.name}-{moment}-{seed}"
            return run_scenario(lab, scenario, moment, seed, directory / "ledgers" / name)

        yield run
