"""Whether predictions agree with what runs: rate and CPU of the placement that runs, on three conditions of a machine.

    python -m benchmarks.storm.ruler run [--only TEXT] [--minutes 60] [--starts 1]
    python -m benchmarks.storm.ruler compare

A cell is a topology, or a pair, under Storm's EvenScheduler on three nodes with their own CPU and links, spouts with
all trees pending. In each start the conditions follow one another: the machine otherwise idle, one of its cores kept
busy by another program, nodes at half of their quota; and in some once more idle with workers five minutes old. Under
each the load is measured for some seconds, and what is predicted from it is compared with the rate of the seconds after
those. The CPU of each node is accounted for by classes of threads, from the kernel's counters. `compare` predicts again
from the stored loads, with the code as it is, and needs no cluster.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from stormwright_lab.evaluations.lab.steady import with_load

from benchmarks.cells.interleaved import Bench, Cell, parsed_options, stored
from benchmarks.cells.threads import by_class, times
from benchmarks.kit.busy import busy_core
from benchmarks.kit.results import DIRECTORY, show_progress, write_results
from stormwright.formats import problem_from_dict, problem_to_dict
from stormwright.model import Problem
from stormwright.model.requests import CPU
from stormwright.predict.answer import predict

#: Code that the page measures.
MEASURES = ("src/stormwright/predict", "src/stormwright/pipeline/measurement")

RECORDS = DIRECTORY / "storm-ruler"

#: Seconds: until a condition has settled, to measure the load, and to measure the rate that it is compared with.
SETTLE_S, LOAD_S, RATE_S = 12.0, 15.0, 20.0

#: Age of workers in seconds under the limits: at the first measurement, and where they are old.
YOUNG_S, OLD_S = 45.0, 300.0

_C1, _DEFAULT = "first compiler", "default"

#: Half of them were not looked at while the model was made.
CELLS = (
    Cell(("word-count",), 0.4, "25mbit", _DEFAULT, developed_on=True),
    Cell(("linear:bytes=100,work_us=20",), 0.4, "25mbit", _C1),
    Cell(("diamond:bytes=300",), 0.4, "25mbit", _DEFAULT, developed_on=True),
    Cell(("star:bytes=1000,work_us=10",), 0.4, "25mbit", _C1, developed_on=True),
    Cell(("page-load:bytes=200,work_us=30",), 0.4, "25mbit", _DEFAULT),
    Cell(("processing:bytes=200,work_us=5",), 0.4, "25mbit", _DEFAULT),
    Cell(("advertising:bytes=100",), 0.4, "25mbit", _DEFAULT),
    Cell(("sol:bytes=500",), 0.4, "40mbit", _C1, developed_on=True),
    Cell(("exclamation",), 0.4, "40mbit", _DEFAULT, developed_on=True),
    Cell(("rolling-top-words",), 0.4, "25mbit", _DEFAULT),
    Cell(("word-count:spouts=5,split=8,count=12",), 0.4, "60mbit", _C1, developed_on=True),
    Cell(("linear:bytes=50,work_us=100",), 0.4, "25mbit", _DEFAULT),
    Cell(("word-count", "word-count"), 0.4, "25mbit", _DEFAULT, developed_on=True),
    Cell(("processing:bytes=200,work_us=5", "page-load:bytes=200,work_us=30"), 0.4, "25mbit", _DEFAULT),
    Cell(("advertising:bytes=100", "star:bytes=1000,work_us=10"), 0.4, "25mbit", _C1),
    Cell(("exclamation", "word-count"), 0.4, "40mbit", _C1, developed_on=True),
)

IDLE, BUSY, HALF, OLD = CONDITIONS = ("idle", "one core busy", "half of the quota", "idle, workers five minutes old")

#: Cells that are measured again when their workers are old: every so many.
_OLD_EVERY = 4

#: Error that counts as agreement, and part of measurements that has to agree.
AGREES, ASKED_PART = 0.10, 0.95

#: Part of a node's CPU that the account may leave out.
CLOSED = 0.05


def main() -> None:
    options = parsed_options(__doc__)
    if options.what == "compare":
        compare()
        return
    show_progress()
    RECORDS.mkdir(parents=True, exist_ok=True)
    until_s = time.monotonic() + 60 * options.minutes
    with Bench.up() as bench:
        for number in range(options.starts):
            for position, cell in enumerate(CELLS):
                if options.only in cell.name and time.monotonic() < until_s:
                    old = (position + number) % _OLD_EVERY == 0
                    stored(_file(cell, number), lambda cell=cell, old=old: _start(bench, cell, old))  # type: ignore[misc]


def _file(cell: Cell, number: int) -> Path:
    own = sum(each.name == cell.name for each in CELLS[: CELLS.index(cell)])
    return RECORDS / f"{cell.name}.{own}.{number}.json.gz"


def _start(bench: Bench, cell: Cell, old: bool) -> dict[str, Any]:
    """Make one start: the load, the rate after it and the account of each node, under every condition."""
    found = {}
    with bench.running(cell, None) as problem:
        begun_s = time.monotonic()
        bench.limit(cell.cores, cell.link, 1)
        time.sleep(max(begun_s + YOUNG_S - time.monotonic(), 0.0))
        found[IDLE] = _measured(bench, cell, problem, cell.cores)
        with busy_core():
            time.sleep(SETTLE_S)
            found[BUSY] = _measured(bench, cell, problem, cell.cores)
        bench.limit(cell.cores / 2, cell.link, 1)
        time.sleep(SETTLE_S)
        found[HALF] = _measured(bench, cell, problem, cell.cores / 2)
        if old:
            bench.limit(cell.cores, cell.link, 1)
            time.sleep(max(begun_s + OLD_S - time.monotonic(), SETTLE_S))
            found[OLD] = _measured(bench, cell, problem, cell.cores)
    return found


def _measured(bench: Bench, cell: Cell, problem: Problem, cores: float) -> dict[str, Any]:
    threads, first_ms = times(bench.cluster), time.time() * 1e3
    load = bench.measured(problem, cores, LOAD_S)
    after, seconds = times(bench.cluster), (time.time() * 1e3 - first_ms) / 1e3
    rate = bench.measured(problem, cores, RATE_S)
    # Declared is what the cell says: that a node is held to less has to be seen.
    known = with_load(problem, load["records"], cell.cores, cell.link, following=True)
    nodes = tuple(replace(each, resources={**each.resources, CPU: 100 * cell.cores}) for each in known.supervisors)
    account = {
        node: {
            kind: [each.user_s / seconds, each.system_s / seconds]
            for kind, each in by_class(threads[node], now).items()
        }
        for node, now in after.items()
    }
    hosts = {node.name: node.address for node in bench.cluster.plan.nodes}
    return {
        "problem": problem_to_dict(replace(known, supervisors=nodes)),
        "tps_before": load["tps"],
        "tps": rate["tps"],
        "cores": cores,
        "machine": load["machine"],
        "account": {hosts[node]: classes for node, classes in account.items()},
    }


def compare() -> None:
    """Predict from all stored loads, and write the errors."""
    found = [
        (cell, stored(file, dict))
        for cell in CELLS
        for file in sorted(RECORDS.glob(_file(cell, 0).name.replace(".0.json", ".*.json")))
    ]
    rows, details = [], []
    for condition in CONDITIONS:
        errors, unseen, scales, drifts = [], [], [], []
        for cell, start in found:
            if condition not in start:
                continue
            one = start[condition]
            predictions = predict(problem_from_dict(one["problem"])).topologies
            for each, tps, before in zip(predictions, one["tps"], one["tps_before"], strict=True):
                error = each.reachable_tps.value / tps - 1
                errors.append(error)
                drifts.append(before / tps - 1)
                scales.append(1 / each.scale)
                if not cell.developed_on:
                    unseen.append(error)
                details.append(
                    {
                        "cell": cell.name,
                        "condition": condition,
                        "measured_tps": tps,
                        "predicted_tps": each.reachable_tps.value,
                        "explained": 1 / each.scale,
                    }
                )
        if errors:
            rows += [
                (
                    f"predicted / measured rate of what runs, {condition}: within {AGREES:.0%}",
                    f"≥ {ASKED_PART:.0%}",
                    _agreement(errors),
                ),
                (f"the same, of topologies that were not looked at, {condition}", "", _agreement(unseen)),
                (
                    f"rate while the load was measured / rate after it: what no prediction knows, {condition}",
                    "",
                    _agreement(drifts),
                ),
                (
                    f"part of the CPU that the model explains, {condition}",
                    "",
                    f"median {median(scales):.2f}, {min(scales):.2f} to {max(scales):.2f}",
                ),
                *_account_rows(condition, [start[condition] for _, start in found if condition in start]),
            ]
    write_results(
        "storm-ruler",
        "Predictions of what runs, and where its CPU goes, on a real cluster",
        rows,
        {"topologies": details},
    )


def _agreement(errors: Sequence[float]) -> str:
    inside = sum(abs(error) <= AGREES for error in errors)
    ratios = sorted(1 + error for error in errors)
    return f"{inside} of {len(errors)}, {ratios[0]:.2f} to {ratios[-1]:.2f}" if errors else "–"


def _account_rows(condition: str, starts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield how much of the CPU of nodes threads account for, and the part of each class."""
    closed, shares = [], {}
    for one in starts:
        for host, classes in one.get("account", {}).items():
            used = one["machine"]["nodes"][host]["cores"]
            if used < 0.5 * one["cores"]:
                continue
            closed.append(sum(user + system for user, system in classes.values()) / used)
            for kind, (user, system) in classes.items():
                shares.setdefault(kind, []).append((user / used, system / used))
    if closed:
        inside = sum(abs(part - 1) <= CLOSED for part in closed)
        yield (
            f"account of a node's CPU by threads, {condition}: within {CLOSED:.0%}",
            "all",
            f"{inside} of {len(closed)}, median {median(closed):.2f}",
        )
        parts = {kind: np.mean(each, axis=0) for kind, each in shares.items()}
        text = ", ".join(
            f"{kind} {user:.0%} + {system:.0%}"
            for kind, (user, system) in sorted(parts.items(), key=lambda each: -each[1].sum())
        )
        yield f"of it, by the program + by the kernel for it, {condition}", "", text


if __name__ == "__main__":
    main()
