"""Verdict of a soak: growth of memory, threads and state over its record.

Memory, open files and threads grow if a line through their samples rises. The line is that of Theil and Sen, the median
of the slopes of all pairs of windows, where a window is the median of the samples of a minute: a garbage collection or
a move does not bend it. Pairs are of one life of a process only, and the first minutes of each life are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from stormwright_lab.chaos.soak_record import PROCESSES, ProcessSample, SoakRecord, SoakSample

#: Measures of a process.
MEASURES = ("memory_mb", "files", "threads")

#: Minutes of each life of a process that are left out: caches fill, and the JVM compiles.
WARM_UP_MIN = 10.0

#: Seconds of a window, and the fewest windows of a line.
WINDOW_S, _MIN_WINDOWS = 60.0, 3

#: Largest growth of memory, in percent from the first window to the last, and of files and threads, in numbers.
MAX_GROWTH_PERCENT, MAX_GROWTH = 5.0, 5.0

#: Largest growth of the state directory in MB an hour, and its largest size in MB. History is removed after days.
MAX_STATE_MB_AN_HOUR, MAX_STATE_MB = 100.0, 200.0


class Growth(NamedTuple):
    """Growth of a measure by its line.

    Attributes
    ----------
    process, measure
        What grows.
    level
        Median of all windows.
    growth
        Rise of the line over all measured minutes.
    minutes
        Measured minutes, without the first ones of each life.
    """

    process: str
    measure: str
    level: float
    growth: float
    minutes: float

    @property
    def percent(self) -> float:
        """Growth in percent of the level."""
        return 100 * self.growth / self.level if self.level else 0.0

    @property
    def holds(self) -> bool:
        """Whether it is small enough."""
        if self.measure == "memory_mb":
            return self.percent <= MAX_GROWTH_PERCENT
        return self.growth <= MAX_GROWTH

    def to_dict(self) -> dict[str, Any]:
        """Return the growth as JSON."""
        return {**self._asdict(), "percent": self.percent, "holds": self.holds}


@dataclass(frozen=True)
class SoakVerdict:
    """Verdict about a soak.

    Parameters
    ----------
    minutes
        Minutes of soaking, over all sessions of the record.
    growths
        Growth of each measure of each process; those that were measured for too short a time are missing.
    state_mb, state_mb_an_hour
        Largest size of the state directory, and its growth.
    lost
        Violations of the ledgers.
    lives
        Number of lives of each process.
    """

    minutes: float
    growths: tuple[Growth, ...]
    state_mb: float
    state_mb_an_hour: float | None
    lost: tuple[str, ...]
    lives: Mapping[str, int]

    @property
    def faults(self) -> list[str]:
        """All that does not hold."""
        found = [
            f"{each.measure} of {each.process} grows by {each.growth:.1f} ({each.percent:+.1f} %) "
            f"in {each.minutes:.0f} min"
            for each in self.growths
            if not each.holds
        ]
        if self.state_mb > MAX_STATE_MB:
            found.append(f"the state directory has {self.state_mb:.0f} MB, more than {MAX_STATE_MB:g}")
        if self.state_mb_an_hour is not None and self.state_mb_an_hour > MAX_STATE_MB_AN_HOUR:
            found.append(f"the state directory grows by {self.state_mb_an_hour:.0f} MB an hour")
        missing = [name for name in PROCESSES if not any(each.process == name for each in self.growths)]
        if missing:
            found.append(f"{' and '.join(missing)} not measured for long enough")
        return found + list(self.lost)

    @property
    def text(self) -> str:
        """One sentence."""
        grows = ", ".join(
            f"memory of {each.process} {each.percent:+.1f} %" for each in self.growths if each.measure == "memory_mb"
        )
        text = f"{self.minutes:.0f} minutes; {grows or 'memory not measured'}; 0 lost"
        return text if not self.faults else f"{self.minutes:.0f} minutes; {'; '.join(self.faults)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        return {
            "verdict": self.text,
            "minutes": self.minutes,
            "faults": self.faults,
            "growths": [each.to_dict() for each in self.growths],
            "state_mb": self.state_mb,
            "state_mb_an_hour": self.state_mb_an_hour,
            "lives": dict(self.lives),
        }


def verdict_of(record: SoakRecord, warm_up_min: float = WARM_UP_MIN) -> SoakVerdict:
    """Return the verdict about a soak.

    Parameters
    ----------
    record
        Samples, events and ledgers of all sessions of the soak.
    warm_up_min
        Minutes of each life of a process that are left out.
    """
    growths, lives = [], {}
    for process in PROCESSES:
        by_life = _lives(record.samples, process)
        lives[process] = len(by_life)
        for measure in MEASURES:
            series = [
                [
                    (at_s, float(getattr(each, measure)))
                    for at_s, each in several
                    if at_s >= several[0][0] + 60 * warm_up_min
                ]
                for several in by_life.values()
            ]
            if (line := _line([windows(each) for each in series])) is not None:
                slope, level, span_s = line
                growths.append(Growth(process, measure, level, slope * span_s, span_s / 60))
    sizes = _sessions(record.samples)
    line = _line([windows(each) for each in sizes.values()])
    lost = [f"session {each.session}: {text}" for each in record.ledgers.values() for text in each.violations]
    return SoakVerdict(
        record.elapsed_s / 60,
        tuple(growths),
        max((size for several in sizes.values() for _, size in several), default=0.0),
        None if line is None else line[0] * 3600,
        tuple(lost),
        lives,
    )


def _lives(samples: Iterable[SoakSample], process: str) -> dict[str, list[tuple[float, ProcessSample]]]:
    """Return the samples of each life of a process with their seconds."""
    found: dict[str, list[tuple[float, ProcessSample]]] = {}
    for sample in samples:
        if (each := sample.processes.get(process)) is not None:
            found.setdefault(f"{sample.session}-{each.life}", []).append((sample.elapsed_s, each))
    return found


def _sessions(samples: Iterable[SoakSample]) -> dict[int, list[tuple[float, float]]]:
    """Return the size of the state directory in each session with its seconds."""
    found: dict[int, list[tuple[float, float]]] = {}
    for sample in samples:
        found.setdefault(sample.session, []).append((sample.elapsed_s, sum(sample.state_mb.values())))
    return found


def windows(samples: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the median time and value of the samples of each window."""
    if not samples:
        return []
    by_window: dict[int, list[tuple[float, float]]] = {}
    for at_s, value in samples:
        by_window.setdefault(int((at_s - samples[0][0]) // WINDOW_S), []).append((at_s, value))
    return [(median(at for at, _ in each), median(value for _, value in each)) for each in by_window.values()]


def _line(lives: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float, float] | None:
    """Return slope (a second), level and seconds of the line through the windows of several lives; None if too few."""
    lives = [each for each in lives if len(each) >= _MIN_WINDOWS]
    if not lives:
        return None
    slopes = list(_slopes(lives))
    values = [value for each in lives for _, value in each]
    return float(np.median(slopes)), median(values), sum(each[-1][0] - each[0][0] for each in lives)


def _slopes(lives: Iterable[Sequence[tuple[float, float]]]) -> Iterator[float]:
    for several in lives:
        for number, (at_s, value) in enumerate(several):
            for later_s, later in several[number + 1 :]:
                yield (later - value) / (later_s - at_s)
