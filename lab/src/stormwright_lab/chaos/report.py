"""The page of a campaign: every run with its verdict, timings and violations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from stormwright import __version__
from stormwright.workbench.report import write_report
from stormwright_lab.chaos.results import RunResult, verdict_text
from stormwright_lab.chaos.scenarios import Moment

#: The page, in the output directory.
PAGE = "chaos.html"

#: Runs of virtual time in the table without a violation, at most: there may be tens of thousands.
_MAX_ROWS = 2000


class ScenarioRow(NamedTuple):
    """Verdicts of a scenario: by moment, with the number of runs and their median recovery in seconds."""

    name: str
    text: str
    runs: int
    recovery_s: float | None
    cells: tuple[tuple[str, str], ...]


def write_page(path: Path, results: Sequence[RunResult]) -> None:
    """Write the page.

    Parameters
    ----------
    path
        HTML file to write; an existing one is replaced.
    results
        Results of all runs; those with violations are listed first.
    """
    failed = [each for each in results if each.violations]
    others = [each for each in results if not each.violations]
    shown = [*failed, *others[: max(_MAX_ROWS - len(failed), 0)]]
    virtual = sum(each.key.virtual for each in results)
    write_report(
        path,
        "chaos.html.j2",
        package="stormwright_lab",
        title="Moves with faults",
        lead=f"stormwright {__version__}; {len(results) - virtual:,} runs on a cluster, {virtual:,} in virtual time.",
        verdict=verdict_text(list(results)),
        good=not failed,
        moments=list(Moment),
        scenarios=list(_scenarios(results)),
        runs=shown,
        left_out=len(results) - len(shown),
    )


def _scenarios(results: Sequence[RunResult]) -> Iterator[ScenarioRow]:
    by_name: dict[str, list[RunResult]] = {}
    for each in results:
        by_name.setdefault(each.key.scenario, []).append(each)
    for name, runs in by_name.items():
        recoveries = [each.recovery_s for each in runs if each.recovery_s is not None]
        cells = tuple(_cell([each for each in runs if each.key.moment is moment]) for moment in Moment)
        yield ScenarioRow(name, str(runs[0].scenario), len(runs), median(recoveries) if recoveries else None, cells)


def _cell(runs: Sequence[RunResult]) -> tuple[str, str]:
    """Return text and class of the runs at a moment."""
    ran = [each for each in runs if not each.skipped]
    if not runs:
        return "", ""
    if not ran:
        return "skipped", "open"
    failed = [each for each in ran if each.violations]
    if not failed:
        return f"{len(ran):,} ok", "good"
    names = dict.fromkeys(violation.invariant.value for each in failed for violation in each.violations)
    return f"{len(failed):,} of {len(ran):,}: {', '.join(names)}", "bad"
