"""How long a sweep takes beside what its cells take: 2,000 cells of 5 ms and 200 of 1 s on two cores.

    python -m benchmarks.pipeline.sweep_speed [--cells 2000] [--ms 5] [--long-cells 200] [--long-ms 1000]
                                              [--simulate 5] [--only simulated]

Each place has a process of its own: local[2], a standalone cluster of two workers with a core each, and a Spark Connect
server with two. Two sweeps of short cells a session, from the session to the last row in the table: the first one also
starts Python's workers. On local[2] a third one has the long cells. Ideal is cells × time / 2. The part of the time of
the cores in cells is cells × time / (cores × wall time); the rest is Spark, Python and the table, and the evaluation of
placements, each of which is another one. The table is a directory of this machine.

Then as many cells on local[2] that each place a word count with 9,000 trees/s on three nodes and run it for so many
virtual seconds: which part of the time of two cores, from the session's begin to the last row, was in the simulator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.kit.results import write_results
from stormwright.formats import write_problem
from stormwright.pipeline.spark.session import batch_session
from stormwright.pipeline.spark.target import SparkTarget
from stormwright.testing.word_counts import WordCount
from stormwright.workbench.sweep.cells import Sweep, read_cells
from stormwright.workbench.sweep.run import run_cells, small_jobs
from stormwright.workbench.sweep.table import open_table
from tests.spark import clusters
from tests.spark.programs import write_spec
from tests.workbench import stand_in

#: Code that the page measures.
MEASURES = ("src/stormwright/workbench/sweep",)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

#: What was measured, figure asked for, figure found.
Figure = tuple[str, str, str]

CORES = 2

LOCAL = f"local[{CORES}]"

#: Who places what is simulated, and which part of the time is asked for.
SCHEDULERS, ASKED_PART = ("even", "online"), 0.85

#: Part of the time of the cores in cells that is asked for, of short and of long cells.
ASKED_IN_CELLS, ASKED_IN_LONG_CELLS = 0.75, 0.90

#: Seconds that a single job took for as many cells, without waves or a table.
ASKED = {LOCAL: 5.9, "standalone": 6.3, "connect": 6.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--ms", type=float, default=5.0)
    parser.add_argument("--long-cells", type=int, default=200)
    parser.add_argument("--long-ms", type=float, default=1000.0)
    parser.add_argument("--simulate", type=float, default=5.0, help="virtual seconds of a cell")
    parser.add_argument("--only", choices=("deciding", "simulated"), help="one part of it, which is not written")
    parser.add_argument("--there", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--what", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.there:
        print(json.dumps({"simulated": simulated, "long": with_long_cells}.get(options.what, measured)(options)))
        return
    rows, details = [], {}
    for name, measure in (("deciding", _deciding), ("simulated", _simulated)):
        if options.only in (None, name):
            more, details[name] = measure(options)
            rows += more
    if options.only is None:
        write_results("sweep-speed", "Sweeps on Spark", rows, details)
        return
    for row in rows:
        print(*row, sep=" | ")


def _deciding(options: argparse.Namespace) -> tuple[list[Figure], dict[str, Any]]:
    """Cells that only decide, wherever Spark runs."""
    ideal = options.cells * options.ms / 1000 / CORES
    long_ideal = options.long_cells * options.long_ms / 1000 / CORES
    found = {}
    with TemporaryDirectory() as name, ExitStack() as running:
        directory = Path(name)
        plugins = stand_in.offer(directory / "plugins")
        for place in ASKED:
            conf = dict(clusters.DRIVER)
            if place == "standalone":
                master = running.enter_context(clusters.standalone(directory / place, plugins)).master
            elif place == "connect":
                running.close()
                master = running.enter_context(clusters.connect_server(directory / place, plugins))
                conf = {}
            else:
                master = place
            what = ("--what", "long") if place == LOCAL else ()
            found[place] = _there(options, master, conf, plugins, *what)
    long_s = found[LOCAL].pop()
    rows = [
        (
            f"{place}: {options.cells:,} cells of {options.ms:g} ms, second sweep of a session (ideal {ideal:.1f} s)",
            f"≤ {ASKED[place]} s",
            f"{second:.1f} s; the first one {first:.1f} s",
        )
        for place, (first, second) in found.items()
    ]
    parts = {
        f"{options.cells:,} cells of {options.ms:g} ms": (ideal / found[LOCAL][1], ASKED_IN_CELLS),
        f"{options.long_cells:,} cells of {options.long_ms:g} ms": (long_ideal / long_s, ASKED_IN_LONG_CELLS),
    }
    rows += [
        (
            f"{LOCAL}: {cells} in a warm session, part of the time of {CORES} cores in cells",
            f"≥ {asked:.0%}",
            f"{part:.1%}",
        )
        for cells, (part, asked) in parts.items()
    ]
    return rows, {"seconds": found, "ideal_s": ideal, "long_s": long_s, "long_ideal_s": long_ideal}


def _simulated(options: argparse.Namespace) -> tuple[list[Figure], dict[str, Any]]:
    """Cells whose placements run in virtual time."""
    wall_s, inside_s, deciding_s = _there(options, LOCAL, clusters.DRIVER, None, "--what", "simulated")
    what = f"{LOCAL}: {options.cells:,} cells of {options.simulate:g} virtual seconds each, part of the time"
    each = f"{wall_s:.0f} s in all, {1e3 * inside_s / options.cells:.0f} ms in the simulator a cell"
    row = (f"{what} of {CORES} cores in simulation", f"≥ {ASKED_PART:.0%}", f"{inside_s / wall_s / CORES:.1%}; {each}")
    return [row], {"wall_s": wall_s, "simulating_s": inside_s, "deciding_s": deciding_s}


def _there(
    options: argparse.Namespace, master: str, conf: Mapping[str, str], plugins: Path | None, *more: str
) -> list[float]:
    """What a process finds that has this Spark."""
    names = ("cells", "ms", "long_cells", "long_ms", "simulate")
    sizes = [f"--{name.replace('_', '-')}={getattr(options, name)}" for name in names]
    there = ["--there", master, *(f"{key}={value}" for key, value in conf.items())]
    told = subprocess.run(
        [sys.executable, "-m", __spec__.name, *sizes, *more, *there],
        env=clusters.environment(plugins),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    found: list[float] = json.loads(told.splitlines()[-1])
    return found


def simulated(options: argparse.Namespace) -> list[float]:
    """Seconds of a sweep from before its session, and of them on all cores: in the simulator, and in schedulers."""
    master, *conf = options.there
    with TemporaryDirectory() as name:
        directory = Path(name)
        seeds = [*range(options.cells // len(SCHEDULERS))]
        write_problem(directory / "words.json", WordCount(cores=16.0, link_bps=1e9, rate_tps=9_000.0).problem())
        told = {"problems": ["words.json"], "seeds": seeds, "simulate": {"seconds": options.simulate}}
        spec = write_spec(directory / "sweep.json", dict.fromkeys(SCHEDULERS), **told)
        begin = time.perf_counter()
        spark = batch_session(directory, small_jobs(SparkTarget.parsed(master, conf)))
        try:
            table = _swept(spark, read_cells(spec, from_scratch=True), directory / "table")
            seconds = time.perf_counter() - begin
        finally:
            spark.stop()
    return [seconds, *(float(np.sum(table[name].to_numpy())) for name in ("simulating_s", "seconds"))]


def measured(options: argparse.Namespace) -> list[float]:
    """Seconds of two sweeps in one session."""
    return _in_one_session(options, [(options.cells, options.ms)] * 2)


def with_long_cells(options: argparse.Namespace) -> list[float]:
    """Seconds of the same, and of a sweep of long cells after them."""
    return _in_one_session(options, [(options.cells, options.ms)] * 2 + [(options.long_cells, options.long_ms)])


def _in_one_session(options: argparse.Namespace, sizes: Sequence[tuple[int, float]]) -> list[float]:
    """Seconds of sweeps by their number of cells and the milliseconds of each."""
    master, *conf = options.there
    with TemporaryDirectory() as name:
        directory = Path(name)
        spark = batch_session(directory, small_jobs(SparkTarget.parsed(master, conf)))
        try:
            seconds = []
            for number, (cells, ms) in enumerate(sizes):
                spec = write_spec(
                    directory / "sweep.json", {stand_in.NAME: {"ms": ms, "placement": "random"}}, seeds=[*range(cells)]
                )
                seconds.append(_timed(spark, read_cells(spec), directory / str(number)))
            return seconds
        finally:
            spark.stop()


def _timed(spark: SparkSession, sweep: Sweep, where: Path) -> float:
    begin = time.perf_counter()
    _swept(spark, sweep, where)
    return time.perf_counter() - begin


def _swept(spark: SparkSession, sweep: Sweep, where: Path) -> pa.Table:
    """The rows of a sweep, none of which failed."""
    table = open_table(where, spark)
    for _ in run_cells(spark, sweep, sweep.cells, table):
        pass
    rows = table.read()
    assert rows["error"].null_count == len(sweep.cells)
    return rows


if __name__ == "__main__":
    main()
