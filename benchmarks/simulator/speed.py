"""How fast virtual time is on one core.

    python -m benchmarks.simulator.speed [--hops 5000000] [--flat 20000000]

A hop is a tuple that an executor has handled (its ackers are executors too; messaging threads and links are not
counted). Rates are by CPU time of this process, so that what else the machine does counts little, and machine code is
ready before. Two cores: two processes at once, the
hops of both by the longer time, over those of one alone. A day of 5,000 nodes is one of the engine that spreads what
happens in an interval evenly: an hour of minutes with four moves, 24 times; with tuples it would be 10¹⁴ hops.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.kit.results import write_results
from stormwright.predict.costs import Costs
from stormwright.simulator.precompile import ready_simulator
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.steady_engine import SteadyEngine, SteadySettings
from stormwright.simulator.storm.engine import Events
from stormwright.testing.word_counts import WordCount
from stormwright.workbench.ready_problems import read_problem

#: Code that the page measures.
MEASURES = ("src/stormwright/simulator",)

#: Runs, of which the fastest counts: the others were disturbed.
_RUNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hops", type=int, default=5_000_000)
    parser.add_argument("--flat", type=int, default=20_000_000, help="hops over which memory is to be flat")
    parser.add_argument("--alone", action="store_true", help="one run, of which there are two at once")
    options = parser.parse_args()
    ready_simulator()
    if options.alone:
        (_, make), *_ = _clusters()
        print(_seconds(lambda: _storm(make, options.hops)))
        return
    storm = {name: max(_storm(of, options.hops) for _ in range(_RUNS)) for name, of in _clusters()}
    rows = [
        *((f"Storm: {name}", "≥ 5 M hops/s", _million(rate)) for name, rate in storm.items()),
        ("a minute of 9,000 trees/s of a word count on 12 executors", "≤ 0.5 s on 40", f"{_minute_s():.2f} s of CPU"),
        ("the same, 10 like tuples at once", "≤ 0.5 s on 40", f"{_minute_s(10):.2f} s of CPU"),
        ("a day of 5,000 nodes with 96 moves, without tuples", "≤ 10 min on two cores", f"{_day_min():.1f} min of one"),
        ("memory that grew while it ran", "flat", f"{_grown_mb(options.flat):.1f} MB over {options.flat:,} hops"),
        ("two processes on two cores, by wall time", "≥ 1.9 ×", f"{_two(options.hops):.2f} ×"),
    ]
    details = {"load average": os.getloadavg()}
    write_results("simulator-speed", "Hops per second of virtual time, on one core", rows, details)


def _clusters() -> Iterator[tuple[str, Callable[[], Events]]]:
    """Word counts of 12 executors: all in one worker, and on three nodes."""
    problem = WordCount(cores=16.0, link_bps=1e9).problem()
    first = np.array([np.flatnonzero(problem.slot_node == node)[0] for node in range(3)], np.int32)
    apart = first[np.arange(problem.num_executors) % 3]
    for name, slots in {"in one worker": problem.current_slot, "on three nodes": apart}.items():
        yield name, lambda slots=slots: Events(problem, slots, SimulatorSettings(Costs(), saturated=True))
    calm = WordCount(cores=16.0, rate_tps=9_000.0).problem()
    yield "in one worker, 9,000 trees/s", lambda: Events(calm, calm.current_slot, SimulatorSettings(Costs()))


def _storm(make: Callable[[], Events], hops: int) -> float:
    """Hops by CPU second, queues being as full as they become."""
    of = make()
    of.until(0.2)
    before, seconds, begun_s = of.hops, 0.2, time.process_time()
    while of.hops - before < hops:
        seconds += 0.2
        of.until(seconds)
    return (of.hops - before) / (time.process_time() - begun_s)


def _minute_s(at_once: int = 1) -> float:
    """A word count, which has 18 tuples a tree and 12 executors; of a minute ten seconds, times six."""
    problem = WordCount(cores=16.0, rate_tps=9_000.0).problem()
    of = Events(problem, problem.current_slot, SimulatorSettings(Costs(), tuples_at_once=at_once))
    of.until(1.0)
    return 6 * _cpu_s(lambda: of.until(11.0))


def _day_min() -> float:
    """Executors of one topology change places in each move, which restarts its workers."""
    problem = read_problem(Path("ready:cluster-5000"))
    of, slots = SteadyEngine(problem, SteadySettings()), problem.current_slot.copy()
    of.place(slots)
    of.until(60.0)

    def hour() -> None:
        for minute in range(60):
            if minute % 15 == 0:
                own = np.flatnonzero(problem.executor_topology == minute)
                slots[own] = np.roll(slots[own], 1)
                of.place(slots.copy())
            of.until(of.now_s + 60.0)
            of.take()

    return 24 * _cpu_s(hour) / 60


def _grown_mb(hops: int) -> float:
    """Of the process, from a tenth of the hops on."""
    of = Events(
        WordCount(cores=16.0).problem(), WordCount().problem().current_slot, SimulatorSettings(Costs(), saturated=True)
    )
    seconds, first = 0.0, None
    while of.hops < hops:
        seconds += 0.5
        of.until(seconds)
        if first is None and of.hops > hops / 10:
            first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - (first or 0)) / 1e3


def _two(hops: int) -> float:
    """How many times as much two processes do as one."""
    command = [sys.executable, "-m", __spec__.name, "--alone", "--hops", str(hops)]

    def longest(processes: int) -> float:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
        return max(float(each.communicate()[0]) for each in started)

    return 2 * longest(1) / longest(2)


def _seconds(work: Callable[[], None]) -> float:
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


def _cpu_s(work: Callable[[], None]) -> float:
    begun_s = time.process_time()
    work()
    return time.process_time() - begun_s


def _million(rate: float) -> str:
    return f"{rate / 1e6:.1f} M hops/s"


if __name__ == "__main__":
    main()
