"""What a `LoadProfile` must say of a list of records, worked out in plain Python from the definitions.

It shares no code with the pipeline: dictionaries and loops, one record after the other.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest

from stormwright.model import LoadProfile, Problem, Topology
from stormwright.pipeline.measurement.stream_traffic import executor_work, stream_traffic
from stormwright.pipeline.parsing.clean import LATE

Record = Mapping[str, Any]

FOLLOWING = ("shuffle", "local_or_shuffle", "none")


@dataclass
class Expected:
    """A load profile as dictionaries, everything by executor index."""

    cpu_hz: dict[str, dict[int, float]] = field(default_factory=dict)
    pairs: dict[str, dict[tuple[int, int], float]] = field(default_factory=dict)
    flows: dict[str, dict[tuple[int, str, str], float]] = field(default_factory=dict)
    pair_bytes: dict[str, dict[tuple[int, int], float]] = field(default_factory=dict)
    flow_bytes: dict[str, dict[tuple[int, str, str], float]] = field(default_factory=dict)
    bytes_per_tuple: dict[str, float] = field(default_factory=dict)
    waited: dict[str, dict[int, float]] = field(default_factory=dict)
    executing: dict[str, dict[int, float]] = field(default_factory=dict)
    runs_per_s: dict[str, dict[int, float]] = field(default_factory=dict)
    pending_trees: dict[str, dict[int, float]] = field(default_factory=dict)
    node_cpu_hz: dict[str, float] = field(default_factory=dict)
    node_quota_hz: dict[str, float] = field(default_factory=dict)
    node_overhead_hz: dict[str, float] = field(default_factory=dict)
    overload_s: dict[str, float] = field(default_factory=dict)
    start_ms: int = 0


def expected_profile(records: list[Record], problem: Problem, window_s: int, slide_s: int, settle_s: int) -> Expected:
    """The profile of the newest window of `records`, of which each counts."""
    newest_ms = max(record["start_ms"] for record in records)
    end_ms = (newest_ms // (slide_s * 1000) + 1) * slide_s * 1000
    expected = Expected(start_ms=end_ms - window_s * 1000)
    inside = [record for record in records if expected.start_ms <= record["start_ms"] < end_ms]
    for topology in problem.topologies:
        _add_topology(
            expected, topology, [r for r in inside if r["worker"]["topology"] == topology.id], problem.core_hz
        )
    _add_nodes(expected, records, problem, end_ms, settle_s)
    return expected


def _add_topology(expected: Expected, topology: Topology, records: list[Record], core_hz: float) -> None:
    executor_of = {
        task: executor
        for executor, (first, last) in enumerate(
            zip(topology.executor_start_task.tolist(), topology.executor_end_task.tolist(), strict=True)
        )
        for task in range(first, last + 1)
    }
    covered_s: dict[int, float] = defaultdict(float)
    cpu_s: dict[int, float] = defaultdict(float)
    execute_s: dict[int, float] = defaultdict(float)
    waits: dict[int, list[tuple[float, float]]] = defaultdict(list)
    runs: dict[int, list[tuple[float, float]]] = defaultdict(list)
    pending: dict[int, list[tuple[float, float]]] = defaultdict(list)
    spouts: set[int] = set()
    pairs: dict[tuple[int, int], float] = defaultdict(float)
    flows: dict[tuple[int, str, str], float] = defaultdict(float)
    sizes: dict[Any, list[int]] = defaultdict(list)
    sampled: dict[Any, list[int]] = defaultdict(list)
    for record in records:
        for executor in record["executors"]:
            index = executor_of[executor["first_task"]]
            covered_s[index] += record["length_ns"] / 1e9
            cpu_s[index] += executor["cpu_ns"] / 1e9
            execute_s[index] += executor["execute_ns"] / 1e9
            if executor["waited_ns"] is not None:
                waits[index].append((executor["waited_ns"] / record["length_ns"], record["length_ns"]))
            if executor["runs"] is not None:
                runs[index].append((executor["runs"] / (record["length_ns"] / 1e9), record["length_ns"]))
            if executor["type"] == "spout":
                spouts.add(index)
                if executor["pending"] is not None:
                    pending[index].append((executor["pending"], record["length_ns"]))
        for source, target, stream, tuples, size_bytes in record["pairs"]:
            _, _, component, grouping = record["streams"][stream]
            key: Any
            if grouping in FOLLOWING:
                key = executor_of[source], component, grouping
                flows[key] += tuples
            else:
                key = executor_of[source], executor_of[target]
                pairs[key] += tuples
            if size_bytes:
                sizes[key].append(size_bytes)
                sampled[key].append(tuples)
    expected.cpu_hz[topology.id] = {e: cpu_s[e] / covered_s[e] * core_hz for e in covered_s}
    waited = {e: min(mean_by_length(found), 1.0) for e, found in waits.items()}
    expected.waited[topology.id] = with_means(waited, topology, covered_s)
    expected.executing[topology.id] = {e: min(execute_s[e] / covered_s[e], 1.0) for e in covered_s}
    runs_per_s = {e: mean_by_length(found) for e, found in runs.items()}
    expected.runs_per_s[topology.id] = with_means(runs_per_s, topology, covered_s)
    of_spouts = with_means({e: mean_by_length(found) for e, found in pending.items()}, topology, spouts)
    expected.pending_trees[topology.id] = (dict.fromkeys(covered_s, 0.0) | of_spouts) if of_spouts else {}
    expected.pairs[topology.id] = {key: n / covered_s[key[0]] for key, n in pairs.items() if n}
    expected.flows[topology.id] = {key: n / covered_s[key[0]] for key, n in flows.items() if n}
    mean = sum(map(sum, sizes.values())) / sum(map(sum, sampled.values()))
    expected.bytes_per_tuple[topology.id] = mean
    size_of = {key: sum(sizes[key]) / sum(sampled[key]) for key in sizes}
    for found, of in ((expected.pairs, expected.pair_bytes), (expected.flows, expected.flow_bytes)):
        of[topology.id] = {key: tps * size_of.get(key, mean) for key, tps in found[topology.id].items()}


def with_means(known: dict[int, float], topology: Topology, executors: Iterable[int]) -> dict[int, float]:
    """Give executors without a known rate the mean of their component, or else of the topology."""
    component = topology.executor_component.tolist()

    def mean(executor: int) -> float:
        of_component = [rate for each, rate in known.items() if component[each] == component[executor]]
        return fmean(of_component or known.values())

    return {each: known[each] if each in known else mean(each) for each in executors} if known else {}


def mean_by_length(found: list[tuple[float, float]]) -> float:
    """The mean of values, each weighted by the length of its interval."""
    return sum(value * length for value, length in found) / sum(length for _, length in found)


def _add_nodes(expected: Expected, records: list[Record], problem: Problem, end_ms: int, settle_s: int) -> None:
    cpu_s: dict[tuple[str, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    reported_s: dict[tuple[str, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    used_s: dict[tuple[str, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    grouped_s: dict[tuple[str, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    quotas: dict[str, list[float]] = defaultdict(list)
    for record in records:
        worker = record["worker"]["supervisor"], record["worker"]["port"]
        # Whole nanoseconds: seconds since 1970 as a float are no finer than 0.2 µs.
        begin = record["start_ms"] * 10**6
        end = begin + record["length_ns"]
        for second in range(begin // 10**9, end // 10**9 + 1):
            overlap = min(end, (second + 1) * 10**9) - max(begin, second * 10**9)
            if overlap > 0:
                cpu_s[worker][second] += record["process_cpu_ns"] * overlap / record["length_ns"] / 1e9
                reported_s[worker][second] += overlap / 1e9
                group = record["node"] or {}
                if group.get("used_ns") is not None and group.get("millicores") is not None:
                    used_s[worker][second] += group["used_ns"] * overlap / record["length_ns"] / 1e9
                    grouped_s[worker][second] += overlap / 1e9
                    quotas[worker[0]].append(group["millicores"] / 1000)
    newest = max(second for seconds in cpu_s.values() for second in seconds)
    last = newest - settle_s
    for node in problem.supervisors:
        of_workers: dict[int, float] = defaultdict(float)
        of_group: dict[int, list[float]] = defaultdict(list)
        for worker in cpu_s:
            if worker[0] == node.id:
                known = {second: cpu_s[worker][second] / reported_s[worker][second] for second in cpu_s[worker]}
                for second, used in without_short_gaps(known, settle_s).items():
                    of_workers[second] += used
                in_group = {second: used_s[worker][second] / grouped_s[worker][second] for second in used_s[worker]}
                for second, used in without_short_gaps(in_group, settle_s).items():
                    of_group[second].append(used)
        cores = of_workers | {second: sum(each) / len(each) for second, each in of_group.items()}
        validated = [s for s in cores if expected.start_ms <= s * 1000 < min(end_ms, (newest + 1) * 1000) and s <= last]
        expected.node_cpu_hz[node.id] = sum(cores[s] for s in validated) / len(validated) * problem.core_hz
        capacity_hz = node.cpu_hz
        if of_group:
            # A quota of the tests never changes.
            (quota,) = set(quotas[node.id])
            expected.node_quota_hz[node.id] = quota * problem.core_hz
            over = sum(cores[s] - of_workers[s] for s in validated) / len(validated)
            expected.node_overhead_hz[node.id] = max(over, 0.0) * problem.core_hz
            capacity_hz = min(node.cpu_hz, quota * problem.core_hz)
        run, second = 0, last
        while cores.get(second, 0.0) * problem.core_hz >= capacity_hz:
            run, second = run + 1, second - 1
        expected.overload_s[node.id] = float(run)


def without_short_gaps(known: dict[int, float], longest: int) -> dict[int, float]:
    filled = dict(known)
    for before, after in itertools.pairwise(sorted(known)):
        if after - before - 1 <= longest:
            for second in range(before + 1, after):
                share = (second - before) / (after - before)
                filled[second] = known[before] * (1 - share) + known[after] * share
    return filled


@dataclass(frozen=True)
class Line:
    """A line as it arrives: the record that it holds, or why it is none."""

    body: bytes
    arrived_ms: int
    record: Record | None = None
    reason: str | None = None


@dataclass
class Outcome:
    """What must become of lines: the records that are used, how many come twice, and what goes to quarantine."""

    used: list[Record] = field(default_factory=list)
    duplicate: int = 0
    quarantine: list[tuple[str, str, int, int]] = field(default_factory=list)

    @property
    def ledger(self) -> dict[str, int]:
        """The counts."""
        return {
            "read": len(self.used) + self.duplicate + len(self.quarantine),
            "used": len(self.used),
            "duplicate": self.duplicate,
            "quarantined": len(self.quarantine),
        }


def expected_outcome(files: Mapping[str, tuple[int, list[Line]]], late_s: int) -> Outcome:
    """What must become of the lines of files, given by name with when they landed.

    The quarantine has reason, file, number of the line and when the file landed.
    """
    outcome = Outcome()
    identities = set()
    for name, (landed_ms, lines) in files.items():
        for number, line in enumerate(lines, 1):
            if line.record is None or landed_ms - line.record["start_ms"] > late_s * 1000:
                outcome.quarantine.append((line.reason or LATE, name, number, landed_ms))
                continue
            worker = line.record["worker"]
            identity = (
                *(worker[part] for part in ("topology", "supervisor", "port", "pid", "start_ms")),
                line.record["seq"],
            )
            if identity in identities:
                outcome.duplicate += 1
            else:
                identities.add(identity)
                outcome.used.append(line.record)
    return outcome


StreamKey = tuple[str, ...]


@dataclass
class ExpectedWork:
    """How a topology's executors work, by first task, and what flows over (source, stream, target, grouping)."""

    service_s: dict[int, float] = field(default_factory=dict)
    sent_tps: dict[StreamKey, float] = field(default_factory=dict)
    bytes_per_s: dict[StreamKey, float] = field(default_factory=dict)
    selectivity: dict[StreamKey, float] = field(default_factory=dict)
    shares: dict[StreamKey, dict[int, float]] = field(default_factory=dict)


def expected_work(records: list[Record], topology: str) -> ExpectedWork:
    """The work in the records of one topology, rates per second that an executor was watched."""
    watched_s: dict[int, float] = defaultdict(float)
    received: dict[int, int] = defaultdict(int)
    execute_ns: dict[int, int] = defaultdict(int)
    component_of: dict[int, str] = {}
    executor_of: dict[int, int] = {}
    sent: dict[StreamKey, dict[tuple[int, int], int]] = defaultdict(lambda: defaultdict(int))
    sizes: dict[StreamKey, int] = defaultdict(int)
    sampled: dict[StreamKey, int] = defaultdict(int)
    for record in records:
        if record["worker"]["topology"] != topology:
            continue
        for executor in record["executors"]:
            first = executor["first_task"]
            watched_s[first] += record["length_ns"] / 1e9
            received[first] += executor["received"]
            execute_ns[first] += executor["execute_ns"]
            for task in range(first, executor["last_task"] + 1):
                component_of[task], executor_of[task] = executor["component"], first
        for source, target, stream, tuples, size_bytes in record["pairs"]:
            key = tuple(record["streams"][stream])
            sent[key][source, target] += tuples
            sizes[key] += size_bytes
            sampled[key] += tuples if size_bytes else 0
    work = ExpectedWork(service_s={e: execute_ns[e] / n / 1e9 for e, n in received.items() if n})
    for key, pairs in sent.items():
        by_task: dict[int, float] = dict.fromkeys((t for t, name in component_of.items() if name == key[2]), 0.0)
        for (source, target), tuples in pairs.items():
            by_task[target] += tuples / watched_s[executor_of[source]]
        work.sent_tps[key] = sum(by_task.values())
        work.bytes_per_s[key] = work.sent_tps[key] * sizes[key] / sampled[key]
        emitted_tps = max(by_task.values()) if key[3] == "all" else work.sent_tps[key]
        received_tps = sum(received[e] / watched_s[e] for e in watched_s if component_of[e] == key[0])
        if received_tps:
            work.selectivity[key] = emitted_tps / received_tps
        if key[3] not in FOLLOWING:
            work.shares[key] = {task: tps / work.sent_tps[key] for task, tps in by_task.items()}
    return work


def found_work(facts: pa.Table) -> ExpectedWork:
    """What the pipeline says, in the shape that `expected_work` has."""
    streams = {(s.source, s.stream, s.target, s.grouping): s for s in stream_traffic(facts)}
    return ExpectedWork(
        service_s={w.first_task: w.service_s for w in executor_work(facts) if w.service_s is not None},
        sent_tps={key: stream.sent_tps for key, stream in streams.items()},
        bytes_per_s={key: s.bytes_per_s for key, s in streams.items() if s.bytes_per_s is not None},
        selectivity={key: stream.selectivity for key, stream in streams.items() if stream.selectivity is not None},
        shares={key: dict(stream.shares) for key, stream in streams.items() if stream.shares},
    )


def assert_same_work(found: ExpectedWork, expected: ExpectedWork, relative: float) -> None:
    """Compare every number; what is missing on either side is a difference."""
    assert found.service_s == pytest.approx(expected.service_s, rel=relative)
    assert found.sent_tps == pytest.approx(expected.sent_tps, rel=relative)
    assert found.bytes_per_s == pytest.approx(expected.bytes_per_s, rel=relative)
    assert found.selectivity == pytest.approx(expected.selectivity, rel=relative)
    assert found.shares.keys() == expected.shares.keys()
    for key, shares in expected.shares.items():
        assert found.shares[key] == pytest.approx(shares, rel=relative), key


def expected_missing(records: list[Record]) -> dict[tuple[str, str, int, int], int]:
    """By worker how many sequence numbers between its first and its last have no record."""
    sequences: dict[tuple[str, str, int, int], set[int]] = defaultdict(set)
    for record in records:
        worker = record["worker"]
        sequences[worker["topology"], worker["supervisor"], worker["port"], worker["start_ms"]].add(record["seq"])
    return {worker: len(set(range(min(seqs), max(seqs) + 1)) - seqs) for worker, seqs in sequences.items()}


def found_profile(profile: LoadProfile, problem: Problem) -> Expected:
    """A `LoadProfile` in the shape that `expected_profile` has."""
    found = Expected(
        start_ms=profile.start_ms,
        node_cpu_hz=dict(profile.node_cpu_hz),
        node_quota_hz=dict(profile.node_quota_hz),
        node_overhead_hz=dict(profile.node_overhead_hz),
        overload_s=dict(profile.overload_s),
    )
    for topology in problem.topologies:
        load = profile.topologies[topology.id]
        names = [component.id for component in topology.components]
        found.cpu_hz[topology.id] = dict(enumerate(load.cpu_hz.tolist()))
        pairs = list(zip(load.pair_source.tolist(), load.pair_target.tolist(), strict=True))
        found.pairs[topology.id] = dict(zip(pairs, load.pair_tps.tolist(), strict=True))
        keys = list(
            zip(load.flow_source.tolist(), (names[c] for c in load.flow_component), load.flow_grouping, strict=True)
        )
        found.flows[topology.id] = dict(zip(keys, load.flow_tps.tolist(), strict=True))
        for name in ("waited", "executing", "runs_per_s", "pending_trees"):
            values = getattr(load, name)
            getattr(found, name)[topology.id] = {} if values is None else dict(enumerate(values.tolist()))
        assert load.bytes_per_tuple is not None
        assert load.pair_bytes_per_s is not None
        assert load.flow_bytes_per_s is not None
        found.pair_bytes[topology.id] = dict(zip(pairs, load.pair_bytes_per_s.tolist(), strict=True))
        found.flow_bytes[topology.id] = dict(zip(keys, load.flow_bytes_per_s.tolist(), strict=True))
        found.bytes_per_tuple[topology.id] = load.bytes_per_tuple
    return found


def assert_equal(found: Expected, expected: Expected, relative: float) -> None:
    """Compare every number; what is missing on either side is a difference."""
    executors = ("cpu_hz", "waited", "executing", "runs_per_s", "pending_trees")
    for name in (*executors, "pairs", "flows", "pair_bytes", "flow_bytes"):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours.keys() == theirs.keys()
        for topology in theirs:
            assert ours[topology] == pytest.approx(theirs[topology], rel=relative), (name, topology)
    assert found.bytes_per_tuple == pytest.approx(expected.bytes_per_tuple, rel=relative)
    for name in ("node_cpu_hz", "node_quota_hz", "node_overhead_hz"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=relative), name
    assert found.overload_s == expected.overload_s
    assert found.start_ms == expected.start_ms
