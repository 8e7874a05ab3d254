"""Kills of a running stream: at random moments, at every forced point, and a disk that is full for a while.

    python -m benchmarks.pipeline.kills [--random 20] [--seed 1]

A stream runs in a process of its own while files land; kill −9 ends it with its JVM or leaves the JVM to find out.
After each kill it is started again. In the end plain Python says of every line that landed what must have become of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.kit.results import write_results
from tests.pipeline.generator import dice
from tests.pipeline.kills import Victim, assert_exact, booked, finish, supply
from tests.pipeline.victim import POINTS

#: The longest that a life lasts after its first commit, or a start that is cut short.
LIFE_S, START_S = 4.0, 9.0

#: From one kill to the next, on a slow machine.
LONGEST_S = 40.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = dice(options.seed)
    moments = [_at_random, _while_starting, _driver_alone, _while_files_are_deleted]
    ends: list[tuple[str, Callable[[Victim, Random], None], str | None]] = [
        *((point, _by_itself, point) for point in POINTS),
        *((end.__name__[1:].replace("_", " "), end, None) for end in (moments * options.random)[: options.random]),
    ]
    chance.shuffle(ends)
    kills: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="stormwright-kills-") as name:
        directory = Path(name)
        world, supplied = supply(directory / "landing", options.seed, seconds=200, per_file=3, pause_s=0)
        # So that there is always something to do.
        supplied.pause_s = LONGEST_S * len(ends) / len(supplied.files)
        (directory / "landing").mkdir()
        with supplied:
            for told, end, point in ends:
                batch = booked(directory / "state")["batch"]
                with Victim(directory / "landing", directory / "state", point) as victim:
                    commit_s = None if end is _while_starting else victim.next_commit_s(batch)
                    end(victim, chance)
                kills.append({"kill": told, "restart_to_commit_s": commit_s})
                print(f"{len(kills)} of {len(ends)}: {told}, next commit after {commit_s}", flush=True)
            supplied.all_at_once()
        with Victim(directory / "landing", directory / "state") as victim:
            finish(victim, supplied)
        outcome = assert_exact(directory / "state", world, supplied)
    full = _full_disk(options.seed)
    commits = sorted(kill["restart_to_commit_s"] for kill in kills if kill["restart_to_commit_s"])
    restarts = f"{commits[len(commits) // 2]:.1f} s / {commits[-1]:.1f} s"
    rows = [
        ("kills at random moments / at forced points", "≥ 20 / every one", f"{options.random} / {len(POINTS)}"),
        ("keys twice or missing, against plain Python", "0", "0"),
        ("ledger", "equal", f"equal: {outcome.ledger}"),
        ("restart → next commit, median / longest", "≤ 10 s", restarts),
        ("disk full, then not: keys twice or missing", "0", full),
    ]  # fmt: skip
    write_results("pipeline-kills", "What kills do to the pipeline", rows, {"kills": kills, "ledger": outcome.ledger})


def _by_itself(victim: Victim, _: Random) -> None:
    victim.wait(lambda: False)


def _at_random(victim: Victim, chance: Random) -> None:
    time.sleep(chance.uniform(0, LIFE_S))
    victim.kill()


def _driver_alone(victim: Victim, chance: Random) -> None:
    time.sleep(chance.uniform(0, LIFE_S))
    victim.kill_driver()


def _while_starting(victim: Victim, chance: Random) -> None:
    time.sleep(chance.uniform(0, START_S))
    victim.kill()


def _while_files_are_deleted(victim: Victim, _: Random) -> None:
    before = {path.name for path in victim.landing.iterdir()}
    victim.wait(lambda: not before <= {path.name for path in victim.landing.iterdir()})
    victim.kill()


def _full_disk(seed: int) -> str:
    """The state lies on a small file system that somebody else fills up."""
    if os.geteuid():
        return "not tried: only root can mount a small file system"
    with tempfile.TemporaryDirectory(prefix="stormwright-full-") as name:
        directory = Path(name)
        disk = directory / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)], check=False)
        if mounted.returncode:
            return "not tried: no file system could be mounted"
        try:
            world, supplied = supply(directory / "landing", seed, seconds=60, per_file=3, pause_s=0.2)
            (directory / "landing").mkdir()
            with supplied, Victim(directory / "landing", disk / "state") as victim:
                assert victim.next_commit_s(-1)
                with suppress(OSError), (disk / "filler").open("wb") as filler:
                    while True:
                        filler.write(bytes(65536))
                        filler.flush()
                time.sleep(5)
                stuck = booked(disk / "state")["batch"]
                time.sleep(2)
                assert booked(disk / "state")["batch"] == stuck, "the disk was not full"
                (disk / "filler").unlink()
                begun = time.monotonic()
                victim.wait(lambda: booked(disk / "state")["batch"] != stuck)
                gone_on_s = time.monotonic() - begun
                supplied.all_at_once()
                finish(victim, supplied)
            assert_exact(disk / "state", world, supplied)
        finally:
            # A JVM that was killed may hold a file for a moment more.
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
    return f"0; goes on {gone_on_s:.1f} s after there is room again"


if __name__ == "__main__":
    main()
