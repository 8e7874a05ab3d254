"""Moves with faults on a real cluster and in virtual time, and an hour of changing load.

python -m benchmarks.storm.chaos [--part real|virtual|soak|page] [--scenario 'kill-*']... [--moment paused]...
    [--seeds 1:62] [--minutes 20]

Runs on the real cluster are stored at once, in ``docs/results/storm-chaos``: an interrupted campaign resumes, and one
may run in parts, by scenarios or by minutes. Of the schedules in virtual time only the counts are stored, by range of
seeds, and those that fail.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from stormwright_lab.chaos.campaign import planned_runs, real_runner, run_campaign, run_virtually
from stormwright_lab.chaos.invariants import NAMED_WITHIN_S, FaultNaming, Invariant
from stormwright_lab.chaos.results import RunResult, RunStore, p95
from stormwright_lab.chaos.scenarios import Action, FaultKind, FaultTarget, Moment
from stormwright_lab.chaos.soak import SoakSettings, soak
from stormwright_lab.chaos.soak_record import SoakRecord
from stormwright_lab.chaos.soak_verdict import verdict_of

from benchmarks.kit.results import DIRECTORY, show_progress, stamp, write_results

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller/draining.py",
    "src/stormwright/controller/move.py",
    "src/stormwright/controller/planning",
    "java/src/main/java/stormwright/standby",
    "java/src/main/java/stormwright/bridge",
    "lab/src/stormwright_lab/chaos",
    "src/stormwright/service/plans",
)

#: Files of the runs, of the schedules in virtual time, and of the soak.
HOME = DIRECTORY / "storm-chaos"
VIRTUAL, SOAK = HOME / "virtual", HOME / "soak.json"
#: Moments at which a scenario has to be run for the figure that was asked for.
FEWEST_MOMENTS = 5

log = logging.getLogger("chaos")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("real", "virtual", "soak", "page"), default="page")
    parser.add_argument("--scenario", action="append", help="pattern of names; repeatable")
    parser.add_argument("--moment", action="append", type=Moment, help="repeatable")
    parser.add_argument("--seeds", default="1:62", help="of each schedule in virtual time, first and last")
    parser.add_argument("--minutes", type=float, help="no run begins later; of the soak, by default 60")
    options = parser.parse_args()
    HOME.mkdir(parents=True, exist_ok=True)
    if options.part == "real":
        show_progress()
        run_on_cluster(options.scenario or ["*"], options.moment or [], options.minutes or math.inf)
    elif options.part == "virtual":
        first, last = map(int, options.seeds.split(":"))
        run_in_virtual_time(options.scenario or ["*"], options.moment or [], first, last)
    elif options.part == "soak":
        show_progress()
        run_soak(options.minutes or 60.0)
    write_page()


def run_on_cluster(patterns: Sequence[str], moments: Sequence[Moment], minutes: float) -> None:
    """Run scenarios on a local cluster."""
    runs = [planned for pattern in patterns for planned in planned_runs(pattern, moments, [1])]
    with tempfile.TemporaryDirectory(prefix="stormwright-chaos-") as scratch, real_runner(Path(scratch)) as runner:
        run_campaign(
            runs, RunStore(HOME), runner, lambda found: log.info("%s: %s", found.key, found.verdict), minutes=minutes
        )


def run_in_virtual_time(patterns: Sequence[str], moments: Sequence[Moment], first: int, last: int) -> None:
    """Run schedules of some seeds in virtual time, and store their counts."""
    seeds = range(first, 1 + last)
    runs = [planned for pattern in patterns for planned in planned_runs(pattern, moments, seeds, virtual=True)]
    logging.disable(logging.CRITICAL)  # a service reports each of thousands of faults
    began_s = time.process_time()
    with tempfile.TemporaryDirectory(prefix="stormwright-chaos-") as scratch:
        results = run_campaign(runs, RunStore(Path(scratch)), run_virtually, lambda _: None)
    ran = [each for each in results if not each.skipped]
    found = {
        **stamp(),
        "schedules": len(ran),
        "scenarios": len({each.key.scenario for each in ran}),
        "cpu_s": round(time.process_time() - began_s, 1),
        "plan_states": Counter(each.plan_state for each in ran),
        "failed": [each.to_dict() for each in ran if each.violations],
    }
    VIRTUAL.mkdir(exist_ok=True)
    (VIRTUAL / f"{first}-{last}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def run_soak(minutes: float) -> None:
    """Soak, and store the verdict with the curves."""
    with tempfile.TemporaryDirectory(prefix="stormwright-soak-") as scratch:
        record = SoakRecord.read(Path(scratch))
        soak(SoakSettings(minutes, 1, Path(scratch)), record, log.info)
        verdict = verdict_of(record)
        events = [each.to_dict() for each in record.events]
        samples = [each.to_dict() for each in record.samples[::6]]
    found = {**stamp(), **verdict.to_dict(), "events": events, "samples_by_minute": samples}
    SOAK.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def write_page() -> None:
    """Write the page of all parts that were run."""
    rows, details = _rows_of_runs(RunStore(HOME).all())
    parts = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(VIRTUAL.glob("*.json"))]
    if parts:
        schedules, cpu_s = (sum(part[name] for part in parts) for name in ("schedules", "cpu_s"))
        failed = sum(len(part["failed"]) for part in parts)
        scenarios = max(part["scenarios"] for part in parts)
        text = f"{schedules:,} of {scenarios} scenarios, {cpu_s / 60:.0f} min of a core"
        rows.append(("schedules in virtual time", "100,000", text))
        rows.append(("of these, violate an invariant", "0", f"{failed:,}"))
    if SOAK.exists():
        found = json.loads(SOAK.read_text(encoding="utf-8"))
        rows.append(("soak", "60 min", f"{found['minutes']:.0f} min, {len(found['events']):,} events"))
        for growth in found["growths"]:
            memory = growth["measure"] == "memory_mb"
            text = f"{growth['percent']:+.1f} %" if memory else f"{growth['growth']:+.1f}"
            name = f"{growth['process']}: growth of {growth['measure'].removesuffix('_mb')} after ten minutes"
            rows.append((name, "5 %" if memory else "none", f"{text} of {growth['level']:.0f}"))
        text = f"{found['state_mb']:.0f} MB, {found['state_mb_an_hour'] or 0:+.0f} MB an hour"
        rows.append(("state directory", "bounded", text))
        rows.append(("soak: what does not hold", "nothing", "; ".join(found["faults"]) or "nothing"))
    write_results("storm-chaos", "Moves with faults", rows, details)


def _rows_of_runs(results: Sequence[RunResult]) -> tuple[list[tuple[str, str, str]], dict[str, Any]]:
    ran = [each for each in results if not each.skipped]
    moments = Counter(each.key.scenario for each in ran)
    enough = sum(count >= FEWEST_MOMENTS for count in moments.values())
    by_invariant = Counter(violation for each in ran for violation in {found.invariant for found in each.violations})
    plans = [each for each in ran if each.scenario.action is Action.PLAN and _kills(each, set(FaultTarget))]
    services = [each for each in plans if _kills(each, {FaultTarget.SERVICE})]
    named = [naming for each in ran for naming in each.namings if naming.words and naming.in_force_s >= NAMED_WITHIN_S]
    rows = [
        ("scenarios at five moments or more on the real cluster", "40", f"{enough}; {len(ran):,} runs in all"),
        ("runs that violate an invariant", "0", f"{sum(bool(each.violations) for each in ran)}"),
        *((f"of these, `{name.value}`", "0", f"{by_invariant[name]}") for name in Invariant if by_invariant[name]),
        ("recovery after the last fault, p95; longest", "20 s; 45 s", _spread(ran)),
        ("plans with a kill", "40", f"{len(plans)}: {_counts(each.plan_state for each in plans)}"),
        ("recovery of plans with a kill of the service, p95; longest", "20 s", _spread(services)),
        ("faults of ten seconds or more that the status has to name", "in 10 s", _named(named)),
    ]
    skipped = {each.key.scenario: each.skipped for each in results if each.skipped}
    failed = {str(each.key): [found.text for found in each.violations] for each in ran if each.violations}
    return rows, {"failed": failed, "skipped": skipped}


def _kills(run: RunResult, targets: Collection[FaultTarget]) -> bool:
    return any(fault.kind is FaultKind.KILL and fault.target in targets for fault in run.scenario.faults)


def _spread(runs: Sequence[RunResult]) -> str:
    times = [each.recovery_s for each in runs if each.recovery_s is not None]
    return f"{p95(times):.1f} s; {max(times):.1f} s" if times else "–"


def _counts(values: Iterable[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in Counter(values).most_common())


def _named(namings: Sequence[FaultNaming]) -> str:
    times = sorted(each.named_s for each in namings if each.named_s is not None)
    return f"{len(times)} of {len(namings)}, latest after {times[-1]:.1f} s" if times else f"0 of {len(namings)}"


if __name__ == "__main__":
    main()
