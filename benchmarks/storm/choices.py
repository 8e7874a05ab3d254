"""What the optimizer chooses against Even, the online scheduler and placements by hand, on a real Storm cluster.

    python -m benchmarks.storm.choices choose
    python -m benchmarks.storm.choices run [--only TEXT]
    python -m benchmarks.storm.choices compare

For each topology and limit of `prediction/real_cells.py` that was measured under Even, schedulers are asked where
everything should go, by what a service would know from that one start: the load, and costs fitted to its records.
`choose` writes that down; `run` measures what was not measured yet, each under the limit that it was chosen for and
with JVMs as old as those under Even; `compare` needs no cluster. Rates are compared at the same speed of the machine.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from benchmarks.cells.choices import Choice, choices
from benchmarks.cells.chosen import LIMITS, PLACEMENTS, Limit, Placement, Start
from benchmarks.cells.measured import Measured, Stretch
from benchmarks.cells.running import file_of, run
from benchmarks.kit.results import DIRECTORY, show_progress, write_results
from stormwright.controller.objectives.outlook import least_gain_percent

#: Code that the page measures.
MEASURES = (
    "src/stormwright/optimize",
    "src/stormwright/predict",
    "src/stormwright/schedulers/optimizer.py",
)

CELLS, RECORDS = DIRECTORY / "prediction-cells", DIRECTORY / "storm-choices"
CHOSEN = RECORDS / "chosen.json"

#: In this order, as the machine may be needed before all have run.
ORDER = ("throughput", "nodes", "online")

#: Of a rate, what counts as held, and as not below another one.
HELD, NOT_BELOW = 0.98, 0.97


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("choose", "run", "compare"))
    parser.add_argument("--only", default="", help="only starts with this in their name")
    options = parser.parse_args()
    RECORDS.mkdir(exist_ok=True)
    if options.what == "choose":
        found = list(choices([Measured.read(file) for file in sorted(CELLS.glob("*.even.0.json.gz"))]))
        CHOSEN.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n", encoding="utf-8")
    elif options.what == "run":
        show_progress()
        todo = {start: placement for start, placement in _starts(_read()).items() if options.only in start.name}
        run(todo, RECORDS)
    else:
        compare(_read())


def _read() -> list[Choice]:
    documents = json.loads(CHOSEN.read_text(encoding="utf-8"))
    return [Choice(**{**each, "limit": Limit(**each["limit"]), "slots": tuple(each["slots"])}) for each in documents]


def _start(choice: Choice) -> Start:
    return Start(f"{choice.topology}", choice.placement, only=(LIMITS.index(choice.limit),))


def _starts(found: Sequence[Choice]) -> dict[Start, Placement]:
    """What has to run: choices that nobody placed by hand."""
    there: dict[Start, Placement] = {}
    for choice in sorted(found, key=lambda each: ORDER.index(each.asked)):
        if choice.placement not in PLACEMENTS:
            there.setdefault(_start(choice), choice.as_placement())
    return there


def compare(found: Sequence[Choice]) -> None:
    """Each choice beside Even and the best of the others, all at the speed that the machine had under Even."""
    by_hand = {(each.start.topology, each.start.placement): each for each in map(Measured.read, _files(CELLS))}
    asked: dict[tuple[str, Limit], dict[str, Choice]] = defaultdict(dict)
    for choice in found:
        asked[choice.topology, choice.limit][choice.asked] = choice
    cells = []
    for (topology, limit), own in asked.items():
        even = by_hand[topology, "even"].at(limit)
        rates = {
            name: _at_speed(each.at(limit), even)
            for (of, name), each in by_hand.items()
            if of == topology and name in PLACEMENTS
        }
        rates |= {name: tps for name, choice in own.items() if (tps := _rate(choice, rates, even)) is not None}
        cells.append({"topology": topology, "limit": str(limit), "rates": rates, "choices": own})
    rows = [*_of_throughput(cells), *_of_service(cells), *_of_nodes(cells)]
    details: dict[str, Any] = {
        "cells": [{**cell, "choices": {n: _told(c) for n, c in cell["choices"].items()}} for cell in cells]
    }
    write_results("storm-choices", "What the optimizer chooses, on a real cluster, JVMs of one age", rows, details)


def _files(directory: Path) -> list[Path]:
    return [file for file in sorted(directory.glob("*.0.json.gz")) if not file.name.startswith("calibration")]


def _rate(choice: Choice, rates: Mapping[str, float], even: Stretch) -> float | None:
    if choice.placement in PLACEMENTS:
        return rates.get(choice.placement)
    file = file_of(RECORDS, _start(choice))
    return _at_speed(Measured.read(file).at(choice.limit), even) if file.exists() else None


def _at_speed(stretch: Stretch, even: Stretch) -> float:
    """Trees/s as if the machine had been as fast as under Even."""
    return stretch.acked_tps * stretch.loop_ms / even.loop_ms


def _of_throughput(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    there = [cell for cell in cells if "throughput" in cell["rates"]]
    gains = {_name(cell): cell["rates"]["throughput"] / cell["rates"]["even"] for cell in there}
    promised = [cell["choices"]["throughput"] for cell in there]
    off = [abs(gain / (of.predicted_tps / of.even_tps) - 1) for gain, of in zip(gains.values(), promised, strict=True)]
    best = {_name(cell): cell["rates"]["throughput"] / _best_other(cell["rates"]) for cell in there}
    online = [cell["rates"]["throughput"] / cell["rates"]["online"] for cell in there if "online" in cell["rates"]]
    return [
        ("throughput / Even, geometric mean", "≥ 1.5", f"{geometric_mean(gains.values()):.2f}, {len(gains)} cells"),
        ("the same, least", "≥ 0.97", _least(gains)),
        ("cells not below 0.97 of Even", "all", _count(gains)),
        ("throughput / best of Even, by hand and online, median", "≥ 0.97", f"{median(best.values()):.2f}"),
        ("the same, least", "≥ 0.97", _least(best)),
        ("cells not below 0.97 of the best", "all", _count(best)),
        ("throughput / online, geometric mean", "", f"{geometric_mean(online):.2f}, {len(online)} cells"),
        ("gain over Even against what was promised, median, worst", "", f"{median(off):.1%}, {max(off):.1%}"),
    ]


def _of_service(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """The same where Even's placement stays unless at least as much is promised as a service asks for."""
    gains, best = {}, {}
    for cell in (cell for cell in cells if "throughput" in cell["rates"]):
        choice, rates = cell["choices"]["throughput"], cell["rates"]
        moves = choice.predicted_tps >= (1 + least_gain_percent("throughput") / 100) * choice.even_tps
        tps = rates["throughput"] if moves else rates["even"]
        gains[_name(cell)], best[_name(cell)] = tps / rates["even"], tps / _best_other(rates)
    moved = sum(gain != 1.0 for gain in gains.values())
    return [
        ("as a service moves: throughput / Even, geometric mean", "≥ 1.5", f"{geometric_mean(gains.values()):.2f}"),
        ("as a service moves: least", "≥ 0.97", _least(gains)),
        ("as a service moves: cells not below 0.97 of Even", "all", f"{_count(gains)}, {moved} moved"),
        ("as a service moves: cells not below 0.97 of the best", "all", _count(best)),
    ]


def _best_other(rates: Mapping[str, float]) -> float:
    return max(tps for name, tps in rates.items() if name not in ("throughput", "nodes"))


def _least(ratios: Mapping[str, float]) -> str:
    name = min(ratios, key=lambda each: ratios[each])
    return f"{ratios[name]:.2f} ({name})"


def _count(ratios: Mapping[str, float]) -> str:
    return f"{sum(ratio >= NOT_BELOW for ratio in ratios.values())} of {len(ratios)}"


def _of_nodes(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    there = [(cell["choices"]["nodes"], cell["rates"]["nodes"]) for cell in cells if "nodes" in cell["rates"]]
    used = [choice.nodes / 3 for choice, _ in there]
    held = [tps / choice.wanted_tps for choice, tps in there]
    return [
        ("objective nodes at 40 % of Even's highest rate: nodes / Even's, median", "≤ 0.5", f"{np.median(used):.2f}"),
        ("highest rate / the rate to hold, least", f"≥ {HELD}", f"{min(held):.2f}"),
        ("cells that hold the rate", "all", f"{sum(part >= HELD for part in held)} of {len(held)}"),
    ]


def _name(cell: Mapping[str, Any]) -> str:
    return f"{cell['topology']}, {cell['limit']}"


def _told(choice: Choice) -> dict[str, Any]:
    names = ("placement", "nodes", "predicted_tps", "even_tps", "wanted_tps")
    return {name: getattr(choice, name) for name in names}


if __name__ == "__main__":
    main()
