"""Starts as they were measured: their records as a load, and what nodes and links did."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from stormwright_lab.evaluations.lab.steady import facts_of

from benchmarks.cells.chosen import Limit, Start
from stormwright.formats import problem_from_dict
from stormwright.model import LoadProfile, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.link_speed import link_bits_per_s
from stormwright.model.requests import CPU
from stormwright.perflog.crossing import tasks_on_nodes
from stormwright.pipeline.measurement.load_profile import topology_load
from stormwright.pipeline.settings import StreamSettings

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Stretch:
    """What was measured under one limit at one rate; `asked_tps` is 0 where as many trees as can be were begun."""

    limit: Limit
    asked_tps: float
    found: Mapping[str, Any]

    @property
    def records(self) -> Sequence[Record]:
        """The raw ones."""
        records: Sequence[Record] = self.found["records"]
        return records

    @property
    def acked_tps(self) -> float:
        """Trees/s that were completed."""
        return float(self.found["measured"]["acked_tps"])

    @property
    def latency_ms(self) -> tuple[float, float] | None:
        """Mean and 99th percentile."""
        mean, late = (self.found["measured"][name] for name in ("mean_latency_ms", "p99_latency_ms"))
        return None if mean is None else (mean, late)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, float]]:
        """Host → cores, bytes/s and how often it was held back."""
        nodes: Mapping[str, Mapping[str, float]] = self.found["machine"]["nodes"]
        return nodes

    @property
    def loop_ms(self) -> float:
        """CPU ms that a fixed loop took meanwhile: how slow the machine was."""
        return float(self.found["loop_ms"])

    @property
    def quota_period_ms(self) -> float:
        """After which nodes may use their quota again: some begin none while they are idle, the busiest all of them."""
        first, last = (self.found[name] for name in ("first", "last"))
        begun = max(last["nodes"][host]["periods"] - first["nodes"][host]["periods"] for host in self.nodes)
        return (last["at_ms"] - first["at_ms"]) / begun

    @property
    def machine_cores(self) -> float:
        """Cores of the machine that all nodes ran on."""
        machine = self.found["machine"]
        others = sum(machine[name] for name in ("other_cores", "idle_cores", "stolen_cores"))
        return float(round(others + sum(node["cores"] for node in self.nodes.values())))

    @property
    def disturbed(self) -> bool:
        """Whether nodes did not get what their quota allows."""
        return bool(self.found["machine"]["disturbed"])

    def worker_cores(self) -> dict[str, float]:
        """Supervisor id → cores that its workers took, as they tell it themselves."""
        used, covered_s = Counter[tuple[str, int]](), Counter[tuple[str, int]]()
        for record in self.records:
            worker = record["worker"]["supervisor"], record["worker"]["port"]
            used[worker] += record["process_cpu_ns"] / 1e9
            covered_s[worker] += record["length_ns"] / 1e9
        cores = Counter[str]()
        for worker, seconds in used.items():
            cores[worker[0]] += seconds / covered_s[worker]
        return dict(cores)

    def sent_tps(self) -> dict[str, float]:
        """Supervisor id → tuples/s that left it for other nodes."""
        node_of, sent, covered_s = tasks_on_nodes(self.records), Counter[str](), Counter[tuple[str, int]]()
        for record in self.records:
            here = record["worker"]["supervisor"]
            covered_s[here, record["worker"]["port"]] += record["length_ns"] / 1e9
            for _, target, _, tuples, _ in record["pairs"]:
                if node_of.of(target) not in (None, here):
                    sent[here] += tuples
        seconds = {node: s for (node, _), s in covered_s.items()}
        return {node: tuples / seconds[node] for node, tuples in sent.items()}


@dataclass(frozen=True)
class Measured:
    """A start, the problem that it was, and its stretches."""

    start: Start
    topology: str
    problem: Problem
    stretches: Sequence[Stretch]

    @classmethod
    def read(cls, file: Path) -> Measured:
        """A file of `running.run`."""
        found = json.loads(gzip.decompress(file.read_bytes()))
        stretches = [Stretch(Limit(**each["limit"]), each["asked_tps"], each) for each in found["stretches"]]
        start = Start(**{**found["start"], "only": tuple(found["start"].get("only", ()))})
        return cls(start, found["topology"], problem_from_dict(found["problem"]), stretches)

    def at(self, limit: Limit, limited: bool = False) -> Stretch:
        """The stretch under a limit."""
        return next(s for s in self.stretches if s.limit == limit and bool(s.asked_tps) == limited)

    def summaries(self) -> Iterator[dict[str, Any]]:
        """Each stretch without its records, for JSON."""
        for stretch in self.stretches:
            nodes = {host: {name: round(value, 3) for name, value in of.items()} for host, of in stretch.nodes.items()}
            yield {
                "start": self.start.name,
                "limit": str(stretch.limit),
                "asked_tps": round(stretch.asked_tps, 1),
                **{name: round(v, 3) if v else v for name, v in stretch.found["measured"].items()},
                "nodes": nodes,
                "loop_ms": stretch.loop_ms,
                "load_average": stretch.found["load_average"],
                **{n: round(stretch.found["machine"][n], 3) for n in ("other_cores", "idle_cores", "stolen_cores")},
                "disturbed": stretch.disturbed,
            }

    def fixed_share(self, limit: Limit) -> float:
        """Part of the CPU of executors that bolts work by the clock: it is the same on a slower machine."""
        _, _, arguments = self.start.submission.partition(":")
        work_us = float(dict(each.split("=") for each in arguments.split(",")).get("work_us", 0))
        executors = [each for record in self.at(limit).records for each in record["executors"]]
        handled = sum(e["received"] for e in executors if e["type"] == "bolt" and not e["component"].startswith("__"))
        return work_us * 1e3 * handled / sum(each["cpu_ns"] for each in executors)

    @cached_property
    def host_of(self) -> Mapping[str, str]:
        """Supervisor id → host."""
        return {supervisor.id: supervisor.host for supervisor in self.problem.supervisors}

    def under(self, limit: Limit, cores: float, spin: float = 0.0) -> Problem:
        """The problem with the load of the stretch with as many trees as can be, and nodes of so many cores.

        `spin` is CPU of idle threads in parts of the time for which they are idle: it is no load.
        """
        link = link_bits_per_s(limit.link)
        core_hz = self.problem.core_hz
        nodes = tuple(
            replace(node, cpu_hz=cores * core_hz, link_bps=link, resources={**node.resources, CPU: 100 * cores})
            for node in self.problem.supervisors
        )
        (topology,) = self.problem.topologies
        facts = facts_of(self.at(limit).records, spin)
        load = topology_load(topology, facts, StreamSettings(), core_hz)
        by_workers = {node: cores * core_hz for node, cores in self.at(limit).worker_cores().items()}
        return replace(self.problem, supervisors=nodes, load=LoadProfile({topology.id: load}, by_workers))

    def slots_in(self, other: Problem) -> IntArray:
        """Its placement in the slots of another start's problem: nodes in order of hosts, workers of ports."""
        result = np.empty(self.problem.num_executors, np.int32)
        for node, there in zip(_by_host(self.problem), _by_host(other), strict=True):
            slots = np.flatnonzero(other.slot_node == there)
            on_node = self.problem.slot_node[self.problem.current_slot] == node
            _, worker = np.unique(self.problem.current_slot[on_node], return_inverse=True)
            result[on_node] = slots[worker]
        return result


def _by_host(problem: Problem) -> list[int]:
    hosts = [supervisor.host for supervisor in problem.supervisors]
    return sorted(range(len(hosts)), key=hosts.__getitem__)
