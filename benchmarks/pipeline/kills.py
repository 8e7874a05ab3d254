"""Kills of a running stream: at random moments, at every forced point, and a disk that is full for a while.

    python -m benchmarks.pipeline.kills [--random 50] [--seed 1]

A stream runs in a process of its own while files land, then another one while messages arrive at a real Kafka broker.
kill −9 ends it with its JVM or leaves the JVM to find out. After each kill it is started again. In the end plain Python
says of every line that landed what must have become of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.kit.results import write_results
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.spark.session import spark_session
from tests.pipeline.generator import dice
from tests.pipeline.kafka_broker import CONNECTOR, Broker, Topic
from tests.pipeline.kills import (
    Victim,
    assert_exact,
    assert_exact_messages,
    booked,
    finish,
    made_messages,
    messages,
    supply,
)
from tests.pipeline.victim import KAFKA_POINTS, POINTS

#: Code that the page measures.
MEASURES = (
    "src/stormwright/pipeline/measurement",
    "src/stormwright/pipeline/streaming",
    "src/stormwright/perflog",
)

#: The longest that a life lasts after its first commit, or a start that is cut short.
LIFE_S, START_S = 4.0, 9.0

#: From one kill to the next, on a slow machine.
LONGEST_S = 40.0


#: Ends a stream in some way.
End = Callable[[Victim, Random], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--random", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    of_files, files_ledger = _files(options)
    of_messages, messages_ledger = _messages(options)
    full = _full_disk(options.seed)
    points = f"{options.random} / {len(POINTS)}", f"{options.random} / {len(POINTS) + len(KAFKA_POINTS)}"
    commits = sorted(kill["restart_to_commit_s"] for kill in of_files if kill["restart_to_commit_s"])
    rows = [
        ("files: kills at random moments / at forced points", "50 / every one", points[0]),
        ("files: lines twice or missing, against plain Python", "0", "0"),
        ("files: ledger", "equal", f"equal: {files_ledger}"),
        ("restart → next commit, median / longest", "≤ 8 s", f"{median(commits):.1f} s / {commits[-1]:.1f} s"),
        ("Kafka: kills at random moments / at forced points", "50 / every one", points[1]),
        ("Kafka: messages twice or missing, against plain Python", "0", "0"),
        ("Kafka: ledger", "equal", f"equal: {messages_ledger}"),
        ("disk full, then not: lines twice or missing", "0", full),
    ]
    details = {"files": of_files, "messages": of_messages, "ledger": files_ledger}
    write_results("pipeline-kills", "What kills do to the pipeline", rows, details)


def _files(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Kills while files land, and the ledger."""
    chance = dice(options.seed)
    ends = _ends(POINTS, [_at_random, _while_starting, _driver_alone, _while_files_are_deleted], options.random, chance)
    with tempfile.TemporaryDirectory(prefix="stormwright-kills-") as name:
        landing, state = Path(name) / "landing", Path(name) / "state"
        world, supplied = supply(landing, options.seed, seconds=200, per_file=3, pause_s=0)
        # So that there is always something to do.
        supplied.pause_s = LONGEST_S * len(ends) / len(supplied.files)
        landing.mkdir()
        with supplied:
            kills = [_killed(Victim(landing, state, point), end, chance) for end, point in _shown(ends)]
            supplied.all_at_once()
        with Victim(landing, state) as victim:
            finish(victim, supplied)
        return kills, assert_exact(state, world, supplied).ledger


def _messages(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Kills while messages arrive, and the ledger."""
    chance = dice(options.seed)
    ends = _ends({**POINTS, **KAFKA_POINTS}, [_at_random, _while_starting, _driver_alone], options.random, chance)
    world, lines, outcome = made_messages(options.seed, seconds=300)
    share = len(lines) // len(ends)
    with tempfile.TemporaryDirectory(prefix="stormwright-kills-") as name, Broker(Path(name) / "kafka") as broker:
        landing, state = Path(name) / "landing", Path(name) / "state"
        landing.mkdir()
        jars = ",".join(map(str, CONNECTOR.glob("*.jar")))
        spark = spark_session(Path(name) / "producer", StreamSettings(), {"spark.jars": jars})
        topic, kills = Topic(spark, broker, "kills"), []
        of = (broker.address, topic.name)
        for number, (end, point) in enumerate(_shown(ends)):
            last = len(lines) if number == len(ends) - 1 else (number + 1) * share
            topic.produce(messages(lines[number * share : last]))
            kills.append(_killed(Victim(landing, state, point, of), end, chance))
        with Victim(landing, state, topic=of) as victim:
            victim.wait(lambda: booked(state)["ledger"]["read"] >= len(lines))
        spark.stop()
        assert_exact_messages(state, world, outcome)
    return kills, outcome.ledger


def _ends(points: Iterable[str], moments: Sequence[End], number: int, chance: Random) -> list[tuple[End, str | None]]:
    """Kills in a random order: at each point, and so many at other moments."""
    ends: list[tuple[End, str | None]] = [(_by_itself, point) for point in points]
    ends += [(end, None) for end, _ in zip(cycle(moments), range(number), strict=False)]
    chance.shuffle(ends)
    return ends


def _shown(ends: Sequence[tuple[End, str | None]]) -> Iterator[tuple[End, str | None]]:
    for number, (end, point) in enumerate(ends, 1):
        print(f"{number} of {len(ends)}: {_name(end, point)}", file=sys.stderr, flush=True)
        yield end, point


def _name(end: End, point: str | None) -> str:
    return point or end.__name__[1:].replace("_", " ")


def _killed(victim: Victim, end: End, chance: Random) -> dict[str, Any]:
    batch = booked(victim.state)["batch"]
    with victim:
        commit_s = None if end is _while_starting else victim.next_commit_s(batch)
        end(victim, chance)
    return {"kill": _name(end, victim.point), "restart_to_commit_s": commit_s}


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
