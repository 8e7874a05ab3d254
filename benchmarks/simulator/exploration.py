"""Moves of a service on a virtual cluster of which parts die at every step, and messages come in every order.

    python -m benchmarks.simulator.exploration [--minutes 20] [--worlds 3] [--first-seed 0]

First every one that may die (service, Nimbus, a worker) at every step of some worlds; then schedules by chance, with up
to four deaths and late messages, for the rest of the time. A schedule that breaks a promise is told by its smallest.
Seconds are those of one core.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from itertools import chain, count

from stormwright_lab.chaos.shrinking import smallest
from stormwright_lab.chaos.virtual.exploration import explore
from stormwright_lab.chaos.virtual.schedule import Schedule, by_chance, every_death

from benchmarks.kit.results import write_results

#: Code that the page measures.
MEASURES = (
    "lab/src/stormwright_lab/chaos/virtual",
    "src/stormwright/simulator",
    "src/stormwright/controller/move.py",
    "src/stormwright/controller/draining.py",
)

#: Deaths of a schedule by chance, at most, and about as many steps and messages as there are in a run.
DEATHS, STEPS, MESSAGES = 4, 250, 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="of one core, after every death of the worlds")
    parser.add_argument("--worlds", type=int, default=3, help="in which each dies at every step")
    parser.add_argument("--first-seed", type=int, default=0, help="of those by chance")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    broken: dict[str, str] = {}
    began_s = time.process_time()
    systematic = sum(_explored(each, broken) for each in _every_death(options.worlds))
    systematic_s = time.process_time() - began_s
    began_s, by_seed = time.process_time(), 0
    for seed in count(options.first_seed):
        by_seed += _explored(by_chance(seed, STEPS, MESSAGES, DEATHS), broken)
        if time.process_time() - began_s > 60 * options.minutes:
            break
    by_seed_s = time.process_time() - began_s
    whole_s = systematic_s + by_seed_s
    found = f"{3600 * (systematic + by_seed) / whole_s:,.0f}"
    if whole_s < 3600:
        found += f", from {whole_s / 60:.0f} min"
    rows = [
        (f"every death at every step of {options.worlds} worlds, schedules", "all", f"{systematic:,}"),
        ("schedules by chance", "–", f"{by_seed:,}"),
        ("schedules an hour of one core", "10,000", found),
        ("schedules that broke a promise", "0", f"{len(broken)}"),
    ]
    details = {"broken": broken, "seconds": {"every death": systematic_s, "by chance": by_seed_s}}
    write_results("exploration", "Moves while parts of the cluster die", rows, details)


def _every_death(worlds: int) -> Iterator[Schedule]:
    return chain.from_iterable(every_death(world, explore(Schedule(world)).steps) for world in range(worlds))


def _explored(schedule: Schedule, broken: dict[str, str]) -> int:
    """One more; what it broke is noted with the least that breaks it."""
    if found := explore(schedule).text:
        least = smallest(schedule, lambda smaller: bool(explore(smaller).violations))
        broken[str(least)] = found
    return 1


if __name__ == "__main__":
    main()
