"""Kills a stream again and again while its landing directory fills; in the end nothing is missing or there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pyarrow as pa

from stormwright.pipeline.measurement.measurement import measure
from stormwright.pipeline.measurement.windows import worker_seconds
from stormwright.pipeline.streaming import sink
from tests.pipeline.generator import World, deliver, land, make_world, records
from tests.pipeline.oracle import Line, Outcome, assert_equal, expected_outcome, expected_profile, found_profile
from tests.pipeline.victim import SETTINGS

ROOT = Path(__file__).resolve().parents[2]

START_MS = 1_690_000_000_000

#: Nobody waits longer for a stream that should go on.
PATIENCE_S = 90.0


@dataclass
class Supply:
    """Lands the files of a delivery, lines and columns in turn, from a thread; a context manager."""

    landing: Path
    files: list[list[Line]]
    pause_s: float
    landed: dict[str, tuple[int, list[Line]]] = field(default_factory=dict)

    def __enter__(self) -> Supply:
        self._thread = threading.Thread(target=self._land, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def all_at_once(self) -> None:
        """Land the rest without a pause."""
        self.pause_s = 0

    def _land(self) -> None:
        for number, file in enumerate(self.files):
            landed_ms = file[-1].arrived_ms
            late_s = SETTINGS.late_s if number % 2 else None
            path = land(self.landing, (line.body for line in file), landed_ms, columns_late_s=late_s)
            self.landed[path.name] = (landed_ms, file)
            if self.pause_s:
                time.sleep(self.pause_s)


@dataclass
class Victim:
    """A stream in a process group of its own."""

    landing: Path
    state: Path
    point: str | None = None
    topic: Sequence[str] = ()

    def __enter__(self) -> Victim:
        arguments = [str(self.landing), str(self.state), self.point or "", *self.topic]
        self.begun = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.victim", *arguments],
            cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """With its JVM, if it is still there."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_driver(self) -> None:
        """Without its JVM, which notices it on its own."""
        self.process.kill()
        self.process.wait()

    def wait(self, reached: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        """Until something is reached or the process has ended."""
        deadline = time.monotonic() + patience_s
        while not reached() and self.process.poll() is None:
            assert time.monotonic() < deadline, f"not reached in {patience_s} s: {booked(self.state)}"
            time.sleep(0.02)

    def next_commit_s(self, batch: int) -> float | None:
        """Seconds from the start to the first batch after `batch`; None where it ended before."""
        self.wait(lambda: booked(self.state)["batch"] > batch)
        return time.monotonic() - self.begun if booked(self.state)["batch"] > batch else None


def booked(state: Path) -> dict[str, object]:
    """What the manifest of the state says."""
    try:
        about: dict[str, object] = orjson.loads((_directory(state) / "state.json").read_bytes())
    except FileNotFoundError:
        return {"batch": -1, "ledger": {"read": 0}}
    return about


def _directory(state: Path) -> Path:
    return state / SETTINGS.state_name / "panes"


def supply(landing: Path, seed: int, seconds: float, per_file: int, pause_s: float) -> tuple[World, Supply]:
    """Records with spoilt ones, late ones and repetitions among them, and who lands them."""
    rng = Random(seed)  # noqa: S311 - nothing to keep secret
    world = make_world(seed)
    delivery = deliver(records(world, START_MS, seconds, rng), rng, spoil=0.1, held=0.03)
    return world, Supply(landing, delivery.in_files(per_file), pause_s)


def assert_exact(state: Path, world: World, supplied: Supply) -> Outcome:
    """Compare what is on disk with what plain Python makes of the same files."""
    outcome = expected_outcome(supplied.landed, SETTINGS.late_s)
    rows = assert_counted(state, world, outcome)
    rejected = sorted((row["reason"], row["file"], row["line_number"], row["landed_ms"]) for row in rows)
    assert rejected == sorted(outcome.quarantine)
    return outcome


def assert_counted(state: Path, world: World, outcome: Outcome) -> list[dict[str, Any]]:
    """Compare ledger and loads on disk with an outcome; return the rows of the quarantine."""
    found = sink.load(_directory(state))
    assert asdict(found.ledger) == outcome.ledger
    assert_loads(found.facts(), world, outcome)
    return [
        orjson.loads(line) for path in state.glob("*/quarantine/*.jsonl") for line in path.read_bytes().splitlines()
    ]


def assert_loads(facts: pa.Table, world: World, outcome: Outcome) -> None:
    """Compare the loads in facts (`PANES`) with an outcome."""
    measurement = measure(facts, worker_seconds(facts), SETTINGS)
    assert measurement is not None
    expected = expected_profile(outcome.used, world.problem, SETTINGS.window_s, SETTINGS.slide_s, SETTINGS.settle_s)
    assert_equal(found_profile(measurement.profile(world.problem), world.problem), expected, relative=1e-9)


def made_messages(seed: int, seconds: float) -> tuple[World, list[Line], Outcome]:
    """Lines with spoilt ones, late ones and repetitions among them, and what must become of them as messages."""
    rng = Random(seed)  # noqa: S311 - nothing to keep secret
    world = make_world(seed)
    lines = deliver(records(world, START_MS, seconds, rng), rng, spoil=0.1, held=0.03).arriving
    # A message lands at its own timestamp, so each line is as one in a file of its own.
    outcome = expected_outcome({str(n): (line.arrived_ms, [line]) for n, line in enumerate(lines)}, SETTINGS.late_s)
    return world, lines, outcome


def messages(lines: Sequence[Line]) -> Iterator[tuple[bytes | None, int]]:
    """A message for each line; some without a value in between."""
    for number, line in enumerate(lines):
        yield line.body, line.arrived_ms
        if number % 10 == 0:
            yield None, line.arrived_ms


def assert_exact_messages(state: Path, world: World, outcome: Outcome) -> None:
    """Compare what is on disk with what plain Python makes of the same messages."""
    rows = assert_counted(state, world, outcome)
    expected = sorted((reason, landed_ms) for reason, _, _, landed_ms in outcome.quarantine)
    assert sorted((row["reason"], row["landed_ms"]) for row in rows) == expected


def finish(victim: Victim, supplied: Supply) -> None:
    """Let the stream read the rest."""
    lines = sum(len(file) for file in supplied.files)
    victim.wait(lambda: booked(victim.state)["ledger"]["read"] >= lines)  # type: ignore[index]
    assert victim.process.poll() is None, "the stream has ended by itself"
