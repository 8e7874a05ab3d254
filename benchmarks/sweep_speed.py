"""How long a sweep takes beside what its cells take: 2,000 cells of 5 ms on two cores, wherever Spark runs.

    PYTHONPATH=. python benchmarks/sweep_speed.py [--cells 2000] [--ms 5]

Each place has a process of its own: local[2], a standalone cluster of two workers with a core each, and a Spark Connect
server with two. Two sweeps a session, from the session to the last row in the table: the first one also starts Python's
workers. Ideal is cells × time / 2. The table is a directory of this machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from results import write_results

from stormwright.experiments.sweep.cells import Sweep
from stormwright.experiments.sweep.run import run_cells
from stormwright.experiments.sweep.spec import read_cells
from stormwright.experiments.sweep.table import open_table
from stormwright.pipeline.spark.session import batch_session
from stormwright.pipeline.spark.target import SparkTarget
from tests.experiments import stand_in
from tests.spark import clusters
from tests.spark.programs import write_spec

CORES = 2

#: Seconds that a single job took for as many cells, without waves or a table.
ASKED = {"local[2]": 5.9, "standalone": 6.3, "connect": 6.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--ms", type=float, default=5.0)
    parser.add_argument("--there", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.there:
        print(json.dumps(measured(options)))
        return
    ideal = options.cells * options.ms / 1000 / CORES
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
            there = [master, *(f"{key}={value}" for key, value in conf.items())]
            sizes = ["--cells", str(options.cells), "--ms", str(options.ms)]
            command = [sys.executable, __file__, *sizes, "--there", *there]
            told = subprocess.run(
                command, env=clusters.environment(plugins), stdout=subprocess.PIPE, text=True, check=True
            ).stdout
            found[place] = json.loads(told.splitlines()[-1])
    rows = [
        (
            f"{place}: {options.cells:,} cells of {options.ms:g} ms, second sweep of a session (ideal {ideal:.1f} s)",
            f"≤ {ASKED[place]} s",
            f"{second:.1f} s; the first one {first:.1f} s",
        )
        for place, (first, second) in found.items()
    ]
    write_results("sweep-speed", "Sweeps on Spark", rows, {"seconds": found, "ideal_s": ideal})


def measured(options: argparse.Namespace) -> list[float]:
    """Seconds of two sweeps in one session."""
    master, *conf = options.there
    with TemporaryDirectory() as name:
        directory = Path(name)
        seeds = [*range(options.cells)]
        spec = write_spec(directory / "sweep.json", {stand_in.NAME: {"ms": options.ms}}, seeds=seeds)
        spark = batch_session(directory, SparkTarget.parsed(master, conf))
        try:
            sweep = read_cells(spec)
            return [_swept(spark, sweep, directory / str(number)) for number in range(2)]
        finally:
            spark.stop()


def _swept(spark: object, sweep: Sweep, where: Path) -> float:
    table = open_table(where, spark)
    begin = time.perf_counter()
    for _ in run_cells(spark, sweep, sweep.cells, table):
        pass
    seconds = time.perf_counter() - begin
    assert table.read()["error"].null_count == len(sweep.cells)
    return seconds


if __name__ == "__main__":
    main()
