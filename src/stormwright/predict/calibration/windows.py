"""Records, summed per worker and window.

No single record reports what a worker received from other workers: it is what its executors received, minus what the
worker's own tasks sent them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stormwright.perflog.records import LogRecord, WorkerId, worker_id

#: Seconds of a window; a minute has enough of them to separate noise from constants.
WINDOW_S = 5.0

#: A worker's first seconds, and the fraction of CPU in its compiler above which it is not warm.
WARM_S, MAX_COMPILING = 30.0, 0.15

#: Seconds after its end at which a window is closed: later records are left out.
GRACE_S = 5.0

#: Largest uncovered fraction of a window for which a worker is used.
MIN_COVERED = 0.7

#: Upper limit of a worker's tuples/s: a record above it is damaged.
MAX_TPS = 1e8

#: Upper limits of a quota's period (Linux allows a second) and of a machine's processors.
LONGEST_PERIOD_MS, MAX_PROCESSORS = 1e3, 1e5

#: The stream on which spouts announce a new tree to ackers; where there is one, its end is announced too.
_ACK_INIT = "__ack_init"


class CpuQuota(NamedTuple):
    """CPU quota of a node: its period in ms, 0 without one, and cores that threads run on."""

    quota_period_ms: float
    machine_cores: float


@dataclass(slots=True)
class WorkerPart:
    """Executors of one component in one worker: seconds, and tuples.

    Parameters
    ----------
    covered_s, cpu_s, waited_s
        Seconds of all its executors: covered by records, of CPU, and of waiting for a core.
    runs, uncounted_s
        How often they were given a core, and seconds in which they could run of which that is unknown.
    handled
        Tuples that they executed, and trees that they began.
    received, local
        Tuples that were sent to them, and those of them that come from the worker itself.
    left, left_bytes
        Tuples that they sent to other workers, and the bytes of those.
    by_input
        Tuples that they executed, by source component and stream, where records report them.
    """

    covered_s: float = 0.0
    cpu_s: float = 0.0
    waited_s: float = 0.0
    runs: float = 0.0
    uncounted_s: float = 0.0
    handled: float = 0.0
    received: float = 0.0
    local: float = 0.0
    left: float = 0.0
    left_bytes: float = 0.0
    by_input: dict[tuple[str, str], float] = field(default_factory=dict)


@dataclass(slots=True)
class WorkerSums:
    """Sums of one worker in one window, in seconds, tuples and bytes.

    `sent` and `sent_bytes` are of tuples that left it, by target component. `slots` are its executors by their first
    and last task.
    """

    length_s: float = 0.0
    process_s: float = 0.0
    messaging_s: float = 0.0
    gc_s: float = 0.0
    compiler_s: float = 0.0
    other_s: float = 0.0
    trees: float = 0.0
    parts: dict[str, WorkerPart] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    sent_bytes: dict[str, float] = field(default_factory=dict)
    slots: set[tuple[int, int]] = field(default_factory=set)
    node_sent_bytes: float | None = None
    node_received_bytes: float | None = None
    cores: float | None = None
    core_hz: float | None = None
    held: CpuQuota | None = None

    @property
    def executors_s(self) -> float:
        """CPU seconds of its executors."""
        return sum(part.cpu_s for part in self.parts.values())

    @property
    def tuples(self) -> list[float]:
        """All tuple counts."""
        parts = self.parts.values()
        return [n for p in parts for n in (p.handled, p.received, p.local, p.left)] + [*self.sent.values()]

    def add(self, record: LogRecord) -> None:
        """Add a record whose threads are known."""
        threads = record["threads"]
        self.length_s += record["length_ns"] / 1e9
        self.process_s += record["process_cpu_ns"] / 1e9
        self.messaging_s += threads["messaging_ns"] / 1e9
        self.gc_s += threads["gc_ns"] / 1e9
        self.compiler_s += threads["compiler_ns"] / 1e9
        self.other_s += threads["other_ns"] / 1e9
        self._add_node(record.get("node") or {})
        component_of = self._add_executors(record)
        streams = record["streams"]
        for source, target, stream, tuples, size in record["pairs"]:
            if target < 0:  # the worker's own system task
                continue
            to = streams[stream][2]
            if component_of(target) is not None:
                self._part(to).local += tuples
                continue
            self.sent[to] = self.sent.get(to, 0.0) + tuples
            self.sent_bytes[to] = self.sent_bytes.get(to, 0.0) + size
            part = self._part(component_of(source) or streams[stream][0])
            part.left += tuples
            part.left_bytes += size

    def _part(self, component: str) -> WorkerPart:
        return self.parts.setdefault(component, WorkerPart())

    def _add_node(self, node: Mapping[str, Any]) -> None:
        for name in ("sent_bytes", "received_bytes"):
            if node.get(name) is not None:
                before = getattr(self, f"node_{name}") or 0.0
                setattr(self, f"node_{name}", before + node[name])
        if node.get("millicores"):
            self.cores = node["millicores"] / 1000
        if node.get("core_hz"):
            self.core_hz = float(node["core_hz"])
        if node.get("processors"):
            period_ms = (node.get("quota_period_us") or 0) / 1000
            self.held = CpuQuota(min(period_ms, LONGEST_PERIOD_MS), min(node["processors"], MAX_PROCESSORS))

    def _add_executors(self, record: LogRecord) -> Any:
        """Add the executors; return a function from a task to its component, None for a task of another worker."""
        length_s = record["length_ns"] / 1e9
        tracked = any(stream[1] == _ACK_INIT for stream in record["streams"])
        runs = []
        for executor in record["executors"]:
            first, last, name = executor["first_task"], executor["last_task"], executor["component"]
            runs.append((first, last, name))
            self.slots.add((first, last))
            part, spout = self._part(name), executor.get("type") == "spout"
            part.covered_s += length_s
            part.cpu_s += executor["cpu_ns"] / 1e9
            waited_s = (executor.get("waited_ns") or 0) / 1e9
            part.waited_s += waited_s
            if executor.get("runs") is None:
                part.uncounted_s += max(length_s - waited_s, 0.0)
            else:
                part.runs += executor["runs"]
            # Without ackers each tuple of a spout is a tree.
            begun = executor["trees" if tracked else "emitted"]
            part.handled += begun if spout else executor["received"]
            part.received += (executor["acked"] + executor["failed"]) * tracked if spout else executor["received"]
            self.trees += begun if spout else 0
            for stream, tuples, _ in executor.get("inputs") or ():
                if stream < len(record["streams"]):
                    source, name = record["streams"][stream][:2]
                    part.by_input[source, name] = part.by_input.get((source, name), 0.0) + tuples
        runs.sort()
        firsts = [run[0] for run in runs]

        def component_of(task: int) -> str | None:
            place = bisect_right(firsts, task) - 1
            return runs[place][2] if place >= 0 and task <= runs[place][1] else None

        return component_of


@dataclass(frozen=True)
class Window:
    """All workers with records in one window."""

    start_ms: int
    workers: Mapping[WorkerId, WorkerSums]

    def usable(self) -> dict[WorkerId, WorkerSums]:
        """Return the workers that were warm, and covered for most of the window."""
        found = {}
        for worker, sums in self.workers.items():
            warm = self.start_ms - worker.start_ms >= WARM_S * 1000
            compiles = sums.compiler_s > MAX_COMPILING * sums.process_s
            possible = max(sums.tuples, default=0.0) <= MAX_TPS * sums.length_s
            if warm and not compiles and possible and sums.length_s >= MIN_COVERED * WINDOW_S:
                found[worker] = sums
        return found


class Windows:
    """Accumulator of records; each record must be added once.

    The last record of a worker is ignored, as it is cut short, and so are records of probes that report no threads.
    """

    def __init__(self) -> None:
        self._open: dict[int, dict[WorkerId, WorkerSums]] = {}
        self._closed_ms = -1
        self._newest_ms = -1
        self.taken = self.without_threads = 0

    def add(self, records: Iterable[LogRecord]) -> None:
        """Add valid records."""
        for record in records:
            worker, start_ms = record["worker"], record["start_ms"]
            if worker.get("last"):
                continue
            if not record.get("threads"):
                self.without_threads += 1
                continue
            window_ms = start_ms - start_ms % round(WINDOW_S * 1000)
            if window_ms <= self._closed_ms:
                continue  # it came too late
            self._newest_ms = max(self._newest_ms, start_ms)
            life = worker_id(record)
            self._open.setdefault(window_ms, {}).setdefault(life, WorkerSums()).add(record)
            self.taken += 1

    def closed(self, all_of_them: bool = False) -> list[Window]:
        """Return closed windows, oldest first, each once; with `all_of_them` all windows, at the end of a log."""
        until_ms = self._newest_ms - (WINDOW_S + GRACE_S) * 1000
        over = sorted(start_ms for start_ms in self._open if all_of_them or start_ms <= until_ms)
        if over:
            self._closed_ms = over[-1]
        return [Window(start_ms, self._open.pop(start_ms)) for start_ms in over]
