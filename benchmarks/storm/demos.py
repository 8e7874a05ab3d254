"""Whether the README's demonstration gains wherever it is run: otherwise idle, with a busy core, on smaller nodes.

    python -m benchmarks.storm.demos run [--runs 5] [--minutes 60] [--only TEXT]
    python -m benchmarks.storm.demos compare

Each run is the command of the README in a new process, its result kept as it is. The conditions take turns. A run
counts as better if something moved, throughput came to one and a half of what it was, and nothing was lost.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from benchmarks.kit.busy import busy_core
from benchmarks.kit.results import DIRECTORY, ROOT, write_results

#: Code that the page measures.
MEASURES = ("src/stormwright/predict", "src/stormwright/workbench/demo", "src/stormwright/controller/policy.py")

RECORDS = DIRECTORY / "storm-demos"

IDLE, BUSY, SMALL = CONDITIONS = ("idle", "one core busy", "0.25 cores a node")

#: What counts as better, of all topologies together.
BETTER = 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no run later than that")
    parser.add_argument("--only", default="", help="only conditions with this in their name")
    options = parser.parse_args()
    if options.what == "compare":
        compare()
        return
    RECORDS.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + 60 * options.minutes
    for number in range(options.runs):
        for condition in CONDITIONS:
            file = RECORDS / f"{condition.replace(' ', '-')}.{number}.json.gz"
            if options.only in condition and not file.exists() and time.monotonic() < until_s:
                found = run(condition)
                file.write_bytes(gzip.compress(json.dumps(found).encode(), 6))
                print(condition, number, found["throughput_ratio"], found["verdict"], flush=True)


def run(condition: str) -> dict[str, Any]:
    """Run the demonstration under a condition; its result, and the seconds that it took."""
    size = ("--cores-per-node", "0.25") if condition == SMALL else ()
    begin = time.monotonic()
    with busy_core() if condition == BUSY else nullcontext():
        command = [sys.executable, "-m", "stormwright", "demo", "--json", *size]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "seconds": time.monotonic() - begin, "exit_code": done.returncode}


def compare() -> None:
    """Read all runs, and write the page."""
    rows: list[tuple[str, str, str]] = []
    runs = {
        condition: [_read(file) for file in sorted(RECORDS.glob(f"{condition.replace(' ', '-')}.*.json.gz"))]
        for condition in CONDITIONS
    }
    every = [one for of in runs.values() for one in of]
    good = [one for one in every if one["moves"] and one["throughput_ratio"] >= BETTER and not one["lost"]]
    rows.append((f"moved, at least {BETTER} × together, nothing lost", "15 of 15", f"{len(good)} of {len(every)}"))
    for condition, of in runs.items():
        if of:
            rows += _rows(condition, of)
    write_results("storm-demos", "The README's demonstration under three conditions", rows, {"runs": runs})


def _rows(condition: str, of: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    ratios, promised = [one["throughput_ratio"] for one in of], []
    agrees, inside, moved = [], 0, 0
    for one in of:
        for topology in one["topologies"]:
            before, after = topology["before"], topology["after"]
            agrees.append(before["predicted"]["acked_tps"]["value"] / before["acked_tps"])
            if one["moves"]:
                ends = after["predicted"]["acked_tps"]
                moved += 1
                inside += ends["low"] <= after["acked_tps"] / before["acked_tps"] * _value(before) <= ends["high"]
                promised.append(ends["value"] / _value(before) / (after["acked_tps"] / before["acked_tps"]))
    moves = sum(bool(one["moves"]) for one in of)
    return [
        (
            f"throughput together / before, {condition}",
            f"≥ {BETTER}",
            f"{min(ratios):.2f} to {max(ratios):.2f}, mean {geometric_mean(ratios):.2f}, {len(of)} runs, {moves} moved",
        ),
        (
            f"predicted / measured rate of what ran first, {condition}",
            "0.9 to 1.1",
            f"{min(agrees):.2f} to {max(agrees):.2f}",
        ),
        (
            f"promised / measured gain of a topology, {condition}",
            "",
            f"median {median(promised):.2f}, inside the interval {inside} of {moved}" if promised else "–",
        ),
        (f"tuple trees lost, {condition}", "0", str(sum(one["lost"] for one in of))),
        (
            f"longest time without an ack, {condition}",
            "",
            f"{max(t['longest_time_without_ack_s'] for one in of for t in one['topologies']):.1f} s",
        ),
        (f"time of a run, {condition}", "", f"{median(one['seconds'] for one in of) / 60:.1f} min"),
    ]


def _value(side: dict[str, Any]) -> float:
    value: float = side["predicted"]["acked_tps"]["value"]
    return value


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return found


if __name__ == "__main__":
    main()
