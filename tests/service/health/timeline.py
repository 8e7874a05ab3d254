"""A clock and a gateway that tests set, and records of workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stormwright.base.clock import WallClock
from stormwright.errors import NimbusError
from stormwright.model import Problem, Topology
from stormwright.service.health.monitor import HealthMonitor
from stormwright.service.health.workers import WorkerReports
from stormwright.storm.gateway import CallInProgress
from tests.controller.builders import place, problem, record, topology

#: Wall clock at the start, and how far the clocks of workers are ahead of it.
START_S, AHEAD_S = 1_795_219_140.0, 1234.5


class SetClock(WallClock):
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now_s, self.offset_s = 1000.0, START_S

    def time(self) -> float:
        return self.now_s + self.offset_s

    def monotonic(self) -> float:
        return self.now_s


@dataclass
class Gateway:
    """Answers of a Nimbus with supervisors that write heartbeats every five seconds.

    `stopped_s` is since when a supervisor (id) is stopped; `takes_s` is the duration of a call, `call` one in progress.
    """

    clock: SetClock
    nodes: int = 3
    statuses: dict[str, str] = field(default_factory=dict)
    stopped_s: dict[str, float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    restarted_s: dict[str, float] = field(default_factory=dict)
    heartbeat_s: float = 5.0
    takes_s: float = 0.0
    error: str = ""
    call: CallInProgress | None = None
    calls: int = 0

    def cluster_unless_busy(self, limit_s: float) -> Mapping[str, Any] | None:
        assert limit_s <= 20
        if self.call:
            return None
        if self.error:
            raise NimbusError(self.error)
        self.calls += 1
        supervisors = [
            {"id": f"n{number}", "host": f"host{number}", "uptime_s": self._uptime_s(f"n{number}", number)}
            for number in range(self.nodes)
            if f"n{number}" not in self.gone
        ]
        self.clock.now_s += self.takes_s
        topologies = [{"id": each, "status": status} for each, status in self.statuses.items()]
        return {"supervisors": supervisors, "topologies": topologies}

    def in_progress(self) -> CallInProgress | None:
        return self.call

    def _uptime_s(self, node: str, number: int) -> int:
        """Uptime at the last heartbeat, each supervisor in another phase, and a fraction of a second lost."""
        begun_s = self.restarted_s.get(node, -300.0 + 1.7 * number)
        until_s = min(self.clock.now_s, self.stopped_s.get(node, float("inf")))
        return int((until_s - begun_s) // self.heartbeat_s * self.heartbeat_s + 0.4)


class Timeline:
    """A health monitor of a cluster whose workers report every interval, in steps of half a second.

    Parameters
    ----------
    placed
        Nodes of each topology (name), with a worker on each: of the first at port 6700, of the next at 6701, and so on.
    interval_s
        Interval of the probes.
    """

    def __init__(self, placed: Mapping[str, tuple[str, ...]] | None = None, interval_s: float = 0.5) -> None:
        self.clock, self.interval_s = SetClock(), interval_s
        self.gateway = Gateway(self.clock)
        self.reports = WorkerReports(self.clock)
        self.load_age_s: float | None = 1.0
        self.storing_error = ""
        self.problem: Problem | None = None
        self.monitor = HealthMonitor(
            self.reports,
            lambda: self.problem,
            lambda: self.load_age_s,
            lambda: self.storing_error,
            lambda node: node.replace("n", "node"),
            self.clock,
        ).watch(self.gateway)
        #: Silent nodes and workers (topology id, node), seconds by which records are late, and cores, by node.
        self.silent: set[Any] = set()
        self.late_s: dict[str, float] = {}
        self.cores: dict[str, float] = {}
        #: Part of the CPU that compilers take, by node.
        self.compiling: dict[str, float] = {}
        #: Start of workers (topology id, node) in ms, and those that have ended.
        self.started_ms: dict[tuple[str, str], int] = {}
        #: Trees acked and failed in each record of a topology (id).
        self.trees: dict[str, tuple[int, int]] = {}
        self._seqs: dict[tuple[Any, ...], int] = {}
        self._sent_s: dict[tuple[str, str], float] = {}
        self._poll_s = self._tick_s = 0.0
        self.place(placed or {"a": ("n0", "n1"), "b": ("n1", "n2")})

    def topology(self, name: str) -> Topology:
        conf = {
            "topology.auto.task.hooks": ["stormwright.ExecutorProbe"],
            "stormwright.probe.interval.ms": self.interval_s * 1000,
        }
        return replace(topology(name), conf=conf)

    def place(self, placed: Mapping[str, tuple[str, ...]]) -> None:
        """Have Nimbus place topologies on nodes."""
        topologies = [self.topology(name) for name in placed]
        current = {
            f"{name}-1-0": place(
                [(node, 6700 + number) for node in nodes], [index * len(nodes) // 4 for index in range(4)]
            )
            for number, (name, nodes) in enumerate(placed.items())
        }
        self.problem = problem(topologies, slots=3, current=current)
        self.gateway.statuses = dict.fromkeys(current, "ACTIVE")

    def texts(self, seconds: float = 0.0) -> list[str]:
        """Let some seconds pass, and return the findings."""
        for _ in range(round(seconds * 2)):
            self.clock.now_s += 0.5
            self._report()
            if self.clock.now_s >= self._tick_s:
                self._tick_s = self.clock.now_s + 1
                self.monitor.tick()
            if self.clock.now_s >= self._poll_s:
                self._poll_s = self.clock.now_s + self.monitor.poll()
        return [each.text for each in self.monitor.findings()]

    def all_texts(self, seconds: float) -> set[str]:
        """Let some seconds pass, and return all findings meanwhile."""
        return {text for _ in range(round(seconds * 2)) for text in self.texts(0.5)}

    def named_after(self, word: str, seconds: float = 10.0) -> float | None:
        """Return the seconds until a finding has a word; None if it has none in time."""
        for number in range(round(seconds * 2)):
            if any(word in text for text in self.texts(0.5)):
                return (number + 1) / 2
        return None

    def _report(self) -> None:
        """Deliver the records that are due."""
        now_s = self.clock.now_s
        for topology_id, assignment in (self.problem.current if self.problem else {}).items():
            for slot in assignment.slots:
                worker = (topology_id, slot.supervisor)
                if self.silent & {topology_id, slot.supervisor, worker, "all"}:
                    continue
                if now_s - self._sent_s.get(worker, float("-inf")) >= self.interval_s:
                    self._sent_s[worker] = now_s
                    self.deliver(topology_id, slot.supervisor, slot.port)

    def deliver(self, topology_id: str, node: str, port: int = 6700) -> None:
        """Deliver one record of a worker."""
        start_ms = self.started_ms.get((topology_id, node), 1)
        life = (topology_id, node, start_ms)
        self._seqs[life] = self._seqs.get(life, -1) + 1
        made = record(topology_id, node, self._seqs[life], port=port, length_ms=self.interval_s * 1000)
        made["worker"] |= {"start_ms": start_ms}
        acked, failed = self.trees.get(topology_id, (0, 0))
        made["executors"][0] |= {"acked": acked, "failed": failed}
        written_s = self.clock.now_s + START_S + AHEAD_S - self.late_s.get(node, 0.0)
        made |= {"start_ms": round((written_s - self.interval_s) * 1000), "written_ms": round(written_s * 1000)}
        made |= {"process_cpu_ns": 10**8, "threads": {"compiler_ns": int(self.compiling.get(node, 0.0) * 10**8)}}
        made |= {"node": {"millicores": int(self.cores.get(node, 2.0) * 1000)}}
        self.reports.count([made])
