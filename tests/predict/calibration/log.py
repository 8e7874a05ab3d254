"""A performance log made with known costs: a word count on some workers, with noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stormwright.perflog.schema import sample_record

START_MS = 1_700_000_000_000

STREAMS = [
    ["count", "__ack_ack", "__acker", "fields"],
    ["split", "default", "count", "fields"],
    ["split", "__ack_ack", "__acker", "fields"],
    ["spout", "default", "split", "shuffle"],
    ["spout", "__ack_init", "__acker", "fields"],
    ["__acker", "__ack_ack", "spout", "direct"],
]

#: Bytes of a tuple of each of these streams.
SIZES = np.array([20, 12, 24, 70, 24, 16])

#: Tasks by component, in the order of their numbers.
TASKS = {"__acker": range(1, 3), "count": range(3, 7), "split": range(7, 11), "spout": range(11, 13)}

WORDS = 8


@dataclass(frozen=True)
class Log:
    """What really costs how much.

    Parameters
    ----------
    slot_of_task
        Worker of each task: node and port.
    work_us
        Of a tuple of each component, in order of `TASKS`.
    noise
        Relative deviation of each CPU time.
    poll_us
        CPU of a poll; None if probes do not count how often threads were given a core.
    """

    slot_of_task: dict[int, tuple[str, int]]
    send_us: float = 1.0
    receive_us: float = 1.9
    serialise_us: float = 2.5
    serialise_us_per_kb: float = 1.0
    send_us_per_kb: float = 0.5
    receive_us_per_kb: float = 1.5
    worker_cores: float = 0.031
    spin_share: float = 0.0
    poll_us: float | None = None
    overhead_bytes: float = 17.0
    work_us: tuple[float, ...] = (0.6, 1.2, 8.0, 6.0)
    noise: float = 0.05
    rate_tps: float = 8_000.0
    messaging_cores: float = 0.015
    core_hz: dict[str, float] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    topology: str = "words-1-0"

    def records(self, seed: int, seconds: int = 60, begin_s: float = 120.0) -> list[dict[str, Any]]:
        """A record of every worker and second; workers started `begin_s` before the first."""
        random = np.random.default_rng(seed)
        return [record for second in range(seconds) for record in self._second(random, second, begin_s)]

    def _second(self, random: np.random.Generator, second: int, begin_s: float) -> list[dict[str, Any]]:
        pairs = self._pairs(random)
        workers = sorted(set(self.slot_of_task.values()))
        bytes_of = {node: [0.0, 0.0] for node, _ in workers}
        for source, target, stream, tuples in pairs:
            here, there = self.slot_of_task[source][0], self.slot_of_task[target][0]
            if here != there:
                on_wire = tuples * (SIZES[stream] + self.overhead_bytes)
                bytes_of[here][0] += on_wire
                bytes_of[there][1] += on_wire
        return [self._record(random, slot, pairs, bytes_of, second, begin_s) for slot in workers]

    def _pairs(self, random: np.random.Generator) -> list[tuple[int, int, int, int]]:
        rate = self.rate_tps * (1 + 0.05 * random.standard_normal())
        by_stream = [
            ("count", "__acker", rate * WORDS),
            ("split", "count", rate * WORDS),
            ("split", "__acker", rate),
            ("spout", "split", rate),
            ("spout", "__acker", rate),
            ("__acker", "spout", rate),
        ]
        found = []
        for stream, (source, target, total) in enumerate(by_stream):
            for s in TASKS[source]:
                near = [t for t in TASKS[target] if self.slot_of_task[t] == self.slot_of_task[s]]
                targets = near if near and STREAMS[stream][3] == "shuffle" else list(TASKS[target])
                for t in targets:
                    tuples = int(random.poisson(total / len(TASKS[source]) / len(targets)))
                    found.append((s, t, stream, tuples))
        return found

    def _record(self, random, slot, pairs, bytes_of, second, begin_s) -> dict[str, Any]:
        node, port = slot
        own = {task for task, at in self.slot_of_task.items() if at == slot}
        speed = self.core_hz.get(node, 2.5e9) / 2.5e9

        def ns(us: float) -> int:
            return max(int(us * 1e3 / speed * (1 + self.noise * random.standard_normal())), 0)

        sent = [p for p in pairs if p[0] in own and p[1] not in own]
        received = [p for p in pairs if p[1] in own and p[0] not in own]
        executors, executors_ns = [], 0
        for (name, tasks), work_us in zip(TASKS.items(), self.work_us, strict=True):
            for task in own & set(tasks):
                into = sum(p[3] for p in pairs if p[1] == task)
                trees = sum(p[3] for p in pairs if p[0] == task and p[2] == 4)
                handled = trees if name == "spout" else into
                left = sum(p[3] * self._serialised_us(p[2]) for p in sent if p[0] == task)
                busy = work_us * handled + left
                runs = int(random.poisson(3_000 * max(1 - busy / 1e6, 0.0)))
                polled_us = runs * (self.poll_us or 0.0)
                cpu_ns = ns(busy + polled_us + self.spin_share * (1e6 * speed - busy))
                executors_ns += cpu_ns
                executors.append(
                    {
                        "component": name,
                        "type": "spout" if name == "spout" else "system" if name == "__acker" else "bolt",
                        "first_task": task,
                        "last_task": task,
                        "cpu_ns": cpu_ns,
                        "received": 0 if name == "spout" else into,
                        "emitted": sum(p[3] for p in pairs if p[0] == task),
                        "trees": trees,
                        "acked": into if name == "spout" else 0,
                        "failed": 0,
                        "execute_ns": 0,
                        "queue": 0.0,
                        "pending": 0,
                        "waited_ns": 0,
                        **({} if self.poll_us is None else {"runs": runs}),
                    }
                )
        messaging_ns = ns(
            sum(p[3] * (self.send_us + self.send_us_per_kb * SIZES[p[2]] / 1e3) for p in sent)
            + sum(p[3] * (self.receive_us + self.receive_us_per_kb * SIZES[p[2]] / 1e3) for p in received)
            + self.messaging_cores * 1e6 * speed * bool(sent or received)
        )
        other_ns = ns(self.worker_cores * 1e6 * speed)
        start_ms = START_MS + second * 1000
        return sample_record(start_ms, optional=False) | {
            "worker": {
                "topology": self.topology,
                "supervisor": node,
                "host": node,
                "port": port,
                "pid": port,
                "start_ms": START_MS - int(begin_s * 1000),
                "last": 0,
            },
            "seq": second,
            "process_cpu_ns": executors_ns + messaging_ns + other_ns,
            "executors": executors,
            "streams": STREAMS,
            "pairs": [[s, t, stream, n, n * int(SIZES[stream])] for s, t, stream, n in pairs if s in own and n],
            "complete_latency": {"counts": []},
            "threads": {"messaging_ns": messaging_ns, "gc_ns": 0, "compiler_ns": 0, "other_ns": other_ns},
            "gc": {"collections": 0, "ms": 0},
            "node": {
                "sent_bytes": int(bytes_of[node][0]),
                "received_bytes": int(bytes_of[node][1]),
                "millicores": 2000,
                "throttled_ns": 0,
                "core_hz": int(self.core_hz.get(node, 2.5e9)),
                **self.held,
            },
        }

    def _serialised_us(self, stream: int) -> float:
        return self.serialise_us + self.serialise_us_per_kb * SIZES[stream] / 1e3


def distributed(*slots: tuple[str, int]) -> dict[int, tuple[str, int]]:
    """Tasks distributed over slots, one after the other within each component."""
    return {task: slots[n % len(slots)] for tasks in TASKS.values() for n, task in enumerate(tasks)}


SPREAD = distributed(("n0", 6700), ("n1", 6700), ("n2", 6700))
TOGETHER = distributed(("n0", 6700))


def varied(log: Log, **changes: Any) -> Log:
    """The same log with other costs."""
    return replace(log, **changes)
