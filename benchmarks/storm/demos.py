"""Whether the README's demonstration gains wherever it is run: otherwise idle, with a busy core, on smaller nodes.

    python -m benchmarks.storm.demos run [--runs 5] [--minutes 60] [--only TEXT]
    python -m benchmarks.storm.demos compare

Each run is the command of the README in a new process, its results kept as they are: of a lone topology, and of two
that share the nodes. The conditions take turns. A run counts as good if the lone one came to 1.3 of its rate, neither
of the two became slower, and nothing was lost.
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

IDLE, BUSY, SMALL = CONDITIONS = ("idle", "one core busy", "two thirds of the CPU")

#: Cores of nodes in the last of them: with less, JVMs take minutes to start.
SMALL_CORES = "0.4,0.25,0.2"

ALONE, TOGETHER = SCENES = ("alone", "together")

#: What is asked of a lone topology, and what counts as no slower.
BETTER, NO_SLOWER = 1.3, 0.97


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
                print(condition, number, {name: found[name]["throughput_ratio"] for name in SCENES}, flush=True)


def run(condition: str) -> dict[str, Any]:
    """Run the demonstration under a condition; its result, and the seconds that it took."""
    size = ("--cores-per-node", SMALL_CORES) if condition == SMALL else ()
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
    runs = {
        condition: [_read(file) for file in sorted(RECORDS.glob(f"{condition.replace(' ', '-')}.*.json.gz"))]
        for condition in CONDITIONS
    }
    every = [one for of in runs.values() for one in of]
    asked = f"alone ≥ {BETTER}, both of the pair ≥ {NO_SLOWER}, nothing lost"
    rows = [(asked, "15 of 15", f"{sum(map(_is_good, every))} of {len(every)}")]
    for condition, of in runs.items():
        for scene in SCENES if of else ():
            rows += _rows(f"{scene}, {condition}", [one[scene] for one in of], BETTER if scene == ALONE else None)
        if of:
            rows.append((f"time of a run, {condition}", "", f"{median(one['seconds'] for one in of) / 60:.1f} min"))
    write_results("storm-demos", "The README's demonstration under three conditions", rows, {"runs": runs})


def _is_good(run: dict[str, Any]) -> bool:
    ratios = [_ratio(topology) for topology in run[TOGETHER]["topologies"]]
    lost = sum(run[scene]["lost"] for scene in SCENES)
    return run[ALONE]["throughput_ratio"] >= BETTER and min(ratios) >= NO_SLOWER and not lost


def _ratio(topology: dict[str, Any]) -> float:
    ratio: float = topology["after"]["acked_tps"] / topology["before"]["acked_tps"]
    return ratio


def _rows(condition: str, of: list[dict[str, Any]], asked: float | None) -> list[tuple[str, str, str]]:
    ratios, promised = [one["throughput_ratio"] for one in of], []
    agrees, inside, moved = [], 0, 0
    for one in of:
        for topology in one["topologies"]:
            before, after = topology["before"], topology["after"]
            agrees.append(before["predicted"]["acked_tps"]["value"] / before["acked_tps"])
            if one["moves"]:
                ends = after["predicted"]["acked_tps"]
                moved += 1
                inside += ends["low"] <= _ratio(topology) * _value(before) <= ends["high"]
                promised.append(ends["value"] / _value(before) / _ratio(topology))
    moves = sum(bool(one["moves"]) for one in of)
    each = [_ratio(topology) for one in of for topology in one["topologies"]]
    silence_s = max(t["longest_time_without_ack_s"] for one in of for t in one["topologies"])
    found = f"{min(ratios):.2f} to {max(ratios):.2f}, mean {geometric_mean(ratios):.2f}, {len(of)} runs, {moves} moved"
    if len(each) > len(ratios):
        found += f"; of a topology {min(each):.2f} to {max(each):.2f}"
    return [
        (f"throughput / before, {condition}", f"≥ {asked}" if asked else f"each ≥ {NO_SLOWER}", found),
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
        (f"longest time without an ack, {condition}", "", f"{silence_s:.1f} s"),
    ]


def _value(side: dict[str, Any]) -> float:
    value: float = side["predicted"]["acked_tps"]["value"]
    return value


def _read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return found


if __name__ == "__main__":
    main()
