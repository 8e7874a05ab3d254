"""How long a large problem takes to be read, from JSON and from arrays.

    python -m benchmarks.service.reading [--executors 100000] [--nodes 5000] [--pairs 1500000] [--runs 5]

The problem is that of ``schedulers/scale.py``. Files are in the page cache. Each read is in a process of its own, on
one core, and counts from the path to the `Problem`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.kit.results import write_results
from benchmarks.schedulers.scale import make_problem
from stormwright.formats import problem_to_dict, read_problem, write_problem

#: Code that the page measures.
MEASURES = (
    "src/stormwright/formats",
    "src/stormwright/model/problem.py",
)

#: File → seconds asked for.
FILES = {"problem.json": "≤ 1.5 s", "problem.json.gz": "", "problem.npz": "≤ 0.2 s"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pairs", type=int, default=1_500_000)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--runs", type=int, default=5, help="of each file; the median counts")
    options = parser.parse_args()
    options.seed, options.shuffle = 1, False
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    problem = make_problem(options)
    rows, details = [], {}
    with tempfile.TemporaryDirectory() as directory:
        for name, asked in FILES.items():
            path = Path(directory) / name
            write_problem(path, problem)
            runs = [_apart(path) for _ in range(options.runs)]
            details[name] = {"seconds_and_cpu_s": runs, "bytes": path.stat().st_size}
            seconds, cpu_s = (median(figures) for figures in zip(*runs, strict=True))
            row = f"{name}, {path.stat().st_size / 1e6:.0f} MB", asked, f"{seconds:.3f} s ({cpu_s:.3f} CPU s)"
            rows.append(row)
            print(*rows[-1], flush=True)
        assert problem_to_dict(read_problem(path)) == problem_to_dict(problem)
    size = f"{problem.num_executors} executors of {len(problem.topologies)} topologies, {options.nodes} nodes"
    pairs = sum(len(load.pair_tps) for load in problem.loads)
    write_results("reading", f"Reading a problem of {size}, {pairs} pairs", rows, {"files": details})


def read(path: Path) -> tuple[float, float]:
    """Seconds that it takes to read a problem, and CPU seconds."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    read_problem(path)
    return time.perf_counter() - begin, time.process_time() - begin_cpu


def _apart(path: Path) -> tuple[float, float]:
    """Call `read` in a copy of this process."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(read, (path,))


if __name__ == "__main__":
    main()
