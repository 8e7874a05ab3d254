"""The effect of each knob of a configuration, and of some together, on lone topologies of a real Storm cluster.

    python -m benchmarks.storm.knobs run|compare [--only word-count] [--minutes 60]

Each topology is started with Storm's default configuration, and with one knob or several changed, in turns, on three
nodes of 0.4 cores. All records of a start are stored, so that the model of the knobs is fitted and tested on them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any

from benchmarks.cells.interleaved import Bench, Cell, parsed_options, stored
from benchmarks.kit.results import show_progress, write_results
from benchmarks.storm.decisions import known_problem
from stormwright.controller.requests import PlanInputs
from stormwright.controller.tuning.effects import Effects
from stormwright.controller.tuning.knobs import ConfigChange
from stormwright.controller.tuning.search import TrialInputs, TrialSearch
from stormwright.errors import StormwrightError
from stormwright.model import Problem
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.plans.tuning import TuningAim
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running

#: Code that the page measures.
MEASURES = ("src/stormwright/controller/tuning", "src/stormwright/predict")

DIRECTORY = Path(__file__).parents[2] / "docs" / "results" / "storm-knobs"

CORES, LINK = 0.4, "100mbit"

#: Seconds under the limits before a start is measured, and measured.
WARM_S, MEASURE_S = 12.0, 16.0

#: How threads of Storm wait, by its defaults.yaml: the benchmark topologies have settings of their own.
WAITS: Mapping[str, int] = {
    **{f"topology.{each}.wait.progressive.level1.count": 1 for each in ("bolt", "backpressure")},
    **{f"topology.{each}.wait.progressive.level2.count": 1000 for each in ("bolt", "backpressure")},
}
ASLEEP: Mapping[str, int] = dict.fromkeys(WAITS, 0)

#: Topology → executors of its spouts and of its bolts.
TOPOLOGIES: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]] = {
    "word-count": ({"spouts": 2}, {"split": 4, "count": 4}),
    "star": ({"spout-1": 2, "spout-2": 2}, {"center": 3, "sink-1": 3, "sink-2": 3}),
    "diamond": ({"spout": 2}, {"bolt-1": 3, "bolt-2": 3, "bolt-3": 3, "sink": 3}),
    "sol": ({"spout": 2}, {"bolt-1": 3, "bolt-2": 3}),
}

#: Arguments of their own.
SIZES: Mapping[str, str] = {"star": "bytes=1000,work_us=10", "diamond": "bytes=300", "sol": "bytes=500"}


@dataclass(frozen=True)
class Knobs:
    """A configuration: `bolts` and `spouts` are factors of executors, the rest as Storm has it."""

    bolts: float = 1.0
    spouts: float = 1.0
    ackers: int = 3
    workers: int = 3
    pending: int = 200
    conf: tuple[tuple[str, Any], ...] = tuple(WAITS.items())

    def submission(self, topology: str) -> str:
        """What is submitted."""
        spouts, bolts = TOPOLOGIES[topology]
        counts = {each: max(round(self.spouts * n), 1) for each, n in spouts.items()}
        counts |= {each: max(round(self.bolts * n), 1) for each, n in bolts.items()}
        args = [f"{each}={n}" for each, n in counts.items()]
        args += [f"ackers={self.ackers}", f"workers={self.workers}", f"pending={self.pending}"]
        args += [SIZES[topology]] if topology in SIZES else []
        return f"{topology}:{','.join(args)},{','.join(f'conf.{key}={value}' for key, value in self.conf)}"


_ASLEEP = tuple(ASLEEP.items())

VARIANTS: Mapping[str, Knobs] = {
    "default": Knobs(),
    "asleep": Knobs(conf=_ASLEEP),
    "bolts-0.7": Knobs(bolts=0.7),
    "bolts-0.4": Knobs(bolts=0.4),
    "acker": Knobs(ackers=1),
    "pending-400": Knobs(pending=400),
    "pending-1000": Knobs(pending=1000),
    "together": Knobs(bolts=0.7, ackers=1, conf=_ASLEEP),
    "default-2": Knobs(),
    "spouts": Knobs(spouts=0.5),
    "workers": Knobs(workers=2),
    "sampled": Knobs(conf=(*WAITS.items(), ("topology.stats.sample.rate", 0.01))),
    "unaware": Knobs(conf=(*WAITS.items(), ("topology.disable.loadaware.messaging", "true"))),
    "few": Knobs(bolts=0.4, ackers=1, conf=_ASLEEP),
    "few-pending": Knobs(bolts=0.4, ackers=1, pending=400, conf=_ASLEEP),
    "default-3": Knobs(),
}

log = logging.getLogger("storm_knobs")


def main() -> None:
    options = parsed_options(__doc__)
    show_progress()
    if options.what == "run":
        run(options.only, options.minutes)
    report()


def starts(only: str) -> Iterator[tuple[str, str]]:
    """Yield topology and variant in the order in which they run."""
    for variant in VARIANTS:
        for topology in TOPOLOGIES:
            if only in topology:
                yield topology, variant


def run(only: str, minutes: float) -> None:
    """Make the starts that are not stored."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * minutes
    with Bench.up() as bench:
        for topology, variant in starts(only):
            if time.monotonic() > until:
                return
            cell = Cell((VARIANTS[variant].submission(topology),), CORES, LINK)
            log.info("%s, %s", topology, variant)
            try:
                stored(_file(topology, variant), lambda cell=cell: bench.start(cell, None, WARM_S, MEASURE_S))  # type: ignore[misc]
            except StormwrightError as error:
                log.warning("%s", error)


def _file(topology: str, variant: str) -> Path:
    return DIRECTORY / f"{topology}.{variant}.json.gz"


def report() -> None:
    """Write the page: rates and latencies of each variant as multiples of the default's, and the predicted rates."""
    rows: list[tuple[str, str, str]] = []
    figures: dict[str, dict[str, Any]] = {}
    for topology in TOPOLOGIES:
        if _figures(topology, "default") is not None:
            figures[topology] = _of(topology)
    for variant in VARIANTS:
        texts = []
        for topology, of in figures.items():
            if variant in of:
                rate, latency, predicted = of[variant]
                text = "" if predicted is None else f", {predicted:.2f} predicted"
                texts.append(f"{topology} {rate:.2f} at {latency:.2f}{text}")
        if texts:
            rows.append((variant, "", "; ".join(texts)))
    pairs = [(rate, predicted) for of in figures.values() for rate, _, predicted in of.values() if predicted]
    off = sorted(abs(predicted / rate - 1) for rate, predicted in pairs)
    if off:
        text = f"median {off[len(off) // 2]:.0%}, worst {off[-1]:.0%}, of {len(off)}"
        rows.insert(0, ("error of the predicted rate", "", text))
    title = "Trees/s and latency by knob, as multiples of those of Storm's defaults"
    write_results("storm-knobs", title, rows, {"ratios": figures})


def _of(topology: str) -> dict[str, tuple[float, float, float | None]]:
    """Return the multiples of rate, latency and predicted rate of each variant that was measured."""
    defaults = [each for name in VARIANTS if name.startswith("default") and (each := _figures(topology, name))]
    cell = Cell((VARIANTS["default"].submission(topology),), CORES, LINK)
    problem = known_problem(cell, [stored(_file(topology, "default"), dict)])
    even = scheduler_keeping_running("even")
    search = TrialSearch(problem, 0, TuningAim(), TrialInputs(PlanInputs(), even, Effects([], "")))
    found: dict[str, tuple[float, float, float | None]] = {}
    for variant, knobs in VARIANTS.items():
        if (measured := _figures(topology, variant)) is None:
            continue
        rate, latency = (measured[n] / (sum(each[n] for each in defaults) / len(defaults)) for n in (0, 1))
        candidates = list(search.candidates([_change(topology, problem, knobs)]))
        predicted = exp(candidates[0].modelled) if candidates and not variant.startswith("default") else None
        found[variant] = rate, latency, predicted
    return found


def _change(topology: str, problem: Problem, knobs: Knobs) -> ConfigChange:
    """Return a variant as a change of the default, placed by Even."""
    args = dict(each.split("=", 1) for each in knobs.submission(topology).partition(":")[2].split(","))
    now = problem.topologies[0].executor_counts
    named = {{"spouts": "spout"}.get(name, name): value for name, value in args.items()}
    executors = {name: int(value) for name, value in named.items() if name in now}
    conf = {MAX_SPOUT_PENDING: knobs.pending, **dict(knobs.conf)}
    change = ConfigChange({**executors, "__acker": knobs.ackers}, conf).of(problem.topologies[0])
    return replace(change, placed=bool(change.executors))


def _figures(topology: str, variant: str) -> tuple[float, float] | None:
    """Return trees/s and mean latency in ms of a start; None without one."""
    file = _file(topology, variant)
    if not file.exists():
        return None
    (found,) = stored(file, dict)["topologies"].values()
    return found["acked_tps"], found["mean_latency_ms"]


if __name__ == "__main__":
    main()
