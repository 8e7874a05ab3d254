"""What is worked out from tables of facts, without Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from stormwright.model import Problem, Supervisor
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.pipeline.measurement.load_profile import topology_load, unknown_tuples
from stormwright.pipeline.measurement.measurement import Measurement
from stormwright.pipeline.measurement.node_loads import node_loads
from stormwright.pipeline.measurement.overload import NodeSeries
from stormwright.pipeline.measurement.panes import KEYS, VALUES
from stormwright.pipeline.measurement.stream_traffic import ExecutorWork, executor_work, stream_traffic
from stormwright.pipeline.measurement.topology_activity import LatencyHistogram, topology_activity
from stormwright.pipeline.measurement.windows import (
    PANES,
    SECONDS,
    WorkerRecords,
    merged,
    newest_window,
    records_in,
    window_facts,
    worker_records,
)
from stormwright.pipeline.parsing.quarantine import QUARANTINE, rejected
from stormwright.pipeline.settings import StreamSettings
from tests.pipeline.generator import make_world

SETTINGS = StreamSettings(window_s=6, slide_s=3)


def facts(*rows: dict[str, object]) -> pa.Table:
    schema = pa.schema([PANES.field(name) for name in (*KEYS, *VALUES)])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


def panes(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in PANES.names} for row in rows], PANES)


#: What the records of a second tell of the node's control group: nothing.
NO_GROUP: dict[str, float | None] = dict.fromkeys(("used_ns", "quota_ns", "used_known_ns"))


def seconds(
    cores: dict[tuple[str, int], list[float | None]],
    start: int = 1000,
    group: dict[tuple[str, int], dict[str, float | None]] | None = None,
) -> pa.Table:
    rows = [
        {
            "topology": "t",
            "supervisor": node,
            "port": port,
            "at": start + n,
            "cpu_ns": c * 5e8,
            "length_ns": 500_000_000,
            **(group or {}).get((node, start + n), NO_GROUP),
        }
        for (node, port), values in cores.items()
        for n, c in enumerate(values)
        if c is not None
    ]
    types = {"topology": pa.string(), "supervisor": pa.string(), "port": pa.int64(), "at": pa.int64()}
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in SECONDS])
    return pa.Table.from_pylist(rows, schema)


def test_overload_is_the_run_up_to_the_newest_settled_second() -> None:
    cores: dict[tuple[str, int], list[float | None]] = {
        ("a", 1): [1, 2, 2, 2, 2, 0, 0],
        ("b", 1): [2, 2, 1, 2, 2, 2, 2],
        ("c", 1): [1, 1, 1, 1, 1, 2, 2],
    }
    series = NodeSeries(seconds(cores), settle_s=2)
    assert series.overload_s(dict.fromkeys(("a", "b", "c", "unheard"), 2.0)) == {"a": 4, "b": 2, "c": 0, "unheard": 0}
    assert series.overload_s({"a": 1.0, "b": 2.5}) == {"a": 5, "b": 0}


def test_overload_is_measured_against_usable_share_of_cpu() -> None:
    """Two nodes of two cores; those of `slow` are half as fast, and used as much they make half the load."""
    cores: dict[tuple[str, int], list[float | None]] = {("fast", 1): [1, 1.6, 1.7, 1.9], ("slow", 1): [2, 1.5, 1.6, 2]}
    nodes = tuple(Supervisor(name, name, (1,), hz) for name, hz in {"fast": 6e9, "slow": 3e9}.items())
    of = Problem(nodes, ())
    found = {}
    for percent in (100, 80):
        settings = StreamSettings(settle_s=0, core_hz_of={"slow": 1.5e9}, overload_percent=percent)
        found[percent] = Measurement(1_000_000, 1_004_000, panes(), seconds(cores), settings).profile(of)
    assert found[100].overload_s == {"fast": 0, "slow": 1}
    assert found[80].overload_s == {"fast": 3, "slow": 2}
    assert found[80].node_cpu_hz == pytest.approx({"fast": 1.55 * 3e9, "slow": 1.775 * 1.5e9})


def test_workers_of_a_node_add_up_and_short_silences_are_bridged() -> None:
    cores: dict[tuple[str, int], list[float | None]] = {
        ("a", 1): [1, None, 3, 1, 1, 1, 1, 1],
        ("a", 2): [1, 1, 1, None, None, None, 1, 1],
    }
    series = NodeSeries(seconds(cores), settle_s=2)
    assert series.mean_cores(1000, 1003) == {"a": pytest.approx((2 + 3 + 4) / 3)}
    # Three seconds of silence are longer than the two that are bridged.
    assert series.mean_cores(1003, 1006) == {"a": pytest.approx(1)}
    assert series.mean_cores(2000, 2010) == {}
    assert NodeSeries(seconds({("a", 1): [1.0]}), settle_s=2).overload_s({"a": 1.0}) == {"a": 0}


def group_second(used_cores: float, quota_cores: float, known_s: float = 0.5) -> dict[str, float | None]:
    known_ns = known_s * 1e9
    return {"used_ns": used_cores * known_ns, "quota_ns": quota_cores * known_ns, "used_known_ns": known_ns}


def test_node_cpu_is_that_of_its_control_group_once_and_overload_is_against_the_quota() -> None:
    """Two workers report one group; in the last second of `a` only one of them does, and `b` has no group."""
    cores: dict[tuple[str, int], list[float | None]] = {
        ("a", 1): [0.5, 0.5, 0.4, 0.6],
        ("a", 2): [0.3, 0.3, 0.2, 0.4],
        ("b", 1): [1, 1, 1, 1],
    }
    used = [1.0, 1.2, 1.4, 1.5]
    of_a = {("a", 1000 + n): group_second(cores_used, 1.25) for n, cores_used in enumerate(used)}
    table = seconds(cores, group=of_a).to_pylist()
    table[7] |= NO_GROUP
    reported = pa.Table.from_pylist(table, seconds(cores).schema)
    series = NodeSeries(reported, settle_s=0)
    assert series.mean_cores(1000, 1004) == pytest.approx({"a": sum(used) / 4, "b": 1})
    workers = sum(sum(filter(None, of)) for (node, _), of in cores.items() if node == "a")
    assert series.mean_overhead_cores(1000, 1004) == pytest.approx({"a": (sum(used) - workers) / 4})
    assert series.quota_cores(1000, 1004) == pytest.approx({"a": 1.25})
    assert series.overload_s({"a": 2.0, "b": 1.0}) == {"a": 2, "b": 4}
    assert series.overload_s({"a": np.inf, "b": np.inf}, part=0.9) == {"a": 3}
    assert series.overload_s({"a": 1.0}) == {"a": 4}, "the declared capacity is less than the quota"

    nodes = tuple(Supervisor(name, name, (1,), 6e9) for name in ("a", "b"))
    settings = StreamSettings(settle_s=0, core_hz_of={"a": 2e9})
    measurement = Measurement(1_000_000, 1_004_000, panes(), reported, settings)
    profile = measurement.profile(Problem(nodes, ()))
    assert profile.node_cpu_hz == pytest.approx({"a": sum(used) / 4 * 2e9, "b": 3e9})
    assert profile.node_quota_hz == pytest.approx({"a": 1.25 * 2e9})
    assert profile.node_overhead_hz == pytest.approx({"a": (sum(used) - workers) / 4 * 2e9})
    assert profile.overload_s == {"a": 2, "b": 0}
    loads = measurement.nodes({"a": 3.0, "b": 2.0})
    assert {node: load.capacity_cores for node, load in loads.items()} == pytest.approx({"a": 1.25, "b": 2.0})


def test_silence_of_a_node_is_bridged_in_its_group_as_well() -> None:
    cores: dict[tuple[str, int], list[float | None]] = {("a", 1): [0.5, None, 0.5, 0.5]}
    group = {("a", 1000 + n): group_second(used, 2.0) for n, used in ((0, 1.0), (2, 2.0), (3, 1.0))}
    series = NodeSeries(seconds(cores, group=group), settle_s=1)
    assert series.cores("a", 0).tolist() == [1.0, 1.5, 2.0]


def test_overhead_is_never_negative() -> None:
    group = {("a", 1000): group_second(0.9, 2.0)}
    series = NodeSeries(seconds({("a", 1): [1.0]}, group=group), settle_s=0)
    assert (series.mean_cores(1000, 1001), series.mean_overhead_cores(1000, 1001)) == ({"a": 0.9}, {"a": 0.0})


def test_the_newest_window_is_the_sum_of_the_last_panes() -> None:
    def row(pane_ms: int, tuples: int) -> dict[str, object]:
        return {"pane_ms": pane_ms, "kind": "pair", "topology": "t", "first": 1, "second": 2, "tuples": tuples}

    before = panes(row(0, 1), row(3000, 10), row(6000, 50))
    table = merged(before, panes(row(6000, 100), row(3000, 10)))
    assert table.num_rows == 3
    start_ms, window = newest_window(table, SETTINGS)
    assert (start_ms, window_facts(window)["tuples"].to_pylist()) == (3000, [170])


def test_records_are_counted_once() -> None:
    table = panes(
        {"pane_ms": 0, "kind": "worker", "supervisor": "a", "first": 1, "records": 2},
        {"pane_ms": 0, "kind": "node", "supervisor": "a", "first": 2},
        {"pane_ms": 3000, "kind": "executor", "supervisor": "a", "first": 2},
    )
    assert records_in(table) == 2
    assert records_in(PANES.empty_table()) == 0


def test_latency_quantiles_are_accurate_within_one_bucket() -> None:
    values = np.exp(np.random.default_rng(4).normal(3, 1.2, 20_000))
    counts = np.bincount(np.searchsorted(LATENCY_EDGES_MS, values), minlength=len(LATENCY_EDGES_MS) + 1).astype(float)
    histogram = LatencyHistogram(counts)
    for share in (0.01, 0.5, 0.9, 0.99):
        assert histogram.quantile_ms(share) == pytest.approx(np.quantile(values, share), rel=0.1)
    assert LatencyHistogram(np.zeros(66)).quantile_ms(0.5) is None


def test_activity_counts_trees_of_spouts_and_tuples_of_all() -> None:
    topology = make_world(1).problem.topologies[0]
    executor = {"kind": "executor", "length_ns": 2_000_000_000, "cpu_ns": 0.0}
    activity = topology_activity(
        topology,
        facts(
            executor | {"component": "sentences", "emitted": 100, "trees": 50, "acked": 40, "failed": 4},
            executor | {"component": "split", "emitted": 60, "trees": 0, "acked": 1000, "failed": 0},
            {"kind": "latency", "first": 8, "tuples": 10},
        ),
    )
    rates = (activity.emitted_tps, activity.trees_tps, activity.acked_tps, activity.failed_tps)
    assert rates == (80, 25, 20, 2)
    median_ms = activity.complete_latency.quantile_ms(0.5)
    assert median_ms is not None
    assert LATENCY_EDGES_MS[7] < median_ms < LATENCY_EDGES_MS[8]


def test_unmatched_records_are_counted_and_silent_executors_get_sibling_load() -> None:
    topology = make_world(1).problem.topologies[0]
    spouts = [e for e, c in enumerate(topology.executor_component) if topology.components[c].id == "sentences"]
    first, second = (int(topology.executor_start_task[e]) for e in spouts)
    known = {"kind": "executor", "supervisor": "a", "component": "sentences", "length_ns": 10**9, "cpu_ns": 5e8}
    pair = {"kind": "pair", "component": "count", "grouping": "fields", "bytes": 0, "sampled": 0}
    reported = facts(
        known | {"first": first, "second": first},
        # Another run of tasks than the topology's: from before it was rebalanced.
        known | {"first": first, "second": second, "cpu_ns": 9e8},
        pair | {"first": first, "second": 1, "tuples": 70},
        pair | {"first": first, "second": 999, "tuples": 5},
        pair | {"first": second, "second": 1, "tuples": 3},
    )
    load = topology_load(topology, reported, SETTINGS, core_hz=2e9)
    assert load.cpu_hz[spouts].tolist() == [1e9, 1e9]
    assert (load.pair_source.tolist(), load.pair_target.tolist(), load.pair_tps.tolist()) == ([spouts[0]], [0], [70])
    assert unknown_tuples(topology, reported) == 8
    assert load.bytes_per_tuple is None


def test_waits_runs_and_pending_trees_are_means_of_the_records_that_have_them() -> None:
    topology = make_world(1).problem.topologies[0]
    first_task = topology.executor_start_task.tolist()
    last_task = topology.executor_end_task.tolist()
    members = {
        component.id: np.flatnonzero(topology.executor_component == number).tolist()
        for number, component in enumerate(topology.components)
    }

    def of(executor: int, **values: object) -> dict[str, object]:
        component = topology.components[topology.executor_component[executor]].id
        keys = {
            "kind": "executor",
            "supervisor": "a",
            "component": component,
            "cpu_ns": 1.0,
            "received": 0,
            "execute_ns": 0,
        }
        place = {"first": first_task[executor], "second": last_task[executor], "length_ns": 4 * 10**9}
        return keys | place | values

    spout, other_spout = members["sentences"]
    split, other_split = members["split"][:2]
    reported = facts(
        # Of four seconds two told of waits and one of pending trees, here and on another node.
        of(spout, waited_ns=10**9, waited_known_ns=2 * 10**9, pending_ns=7e9, pending_known_ns=10**9),
        of(spout, supervisor="b", waited_ns=0, waited_known_ns=2 * 10**9, pending_ns=9e9, pending_known_ns=10**9),
        of(other_spout, runs=30, runs_known_ns=10**9),
        of(other_spout, supervisor="b", runs=60, runs_known_ns=2 * 10**9),
        of(
            split,
            execute_ns=10**9,
            waited_ns=5 * 10**9,
            waited_known_ns=4 * 10**9,
            pending_ns=3e9,
            pending_known_ns=10**9,
        ),
        # A record of an older probe has waits and no runs.
        of(other_split, waited_ns=0, waited_known_ns=4 * 10**9, runs=800, runs_known_ns=2 * 10**9),
    )
    load = topology_load(topology, reported, SETTINGS, core_hz=2e9)
    assert load.waited is not None
    assert load.runs_per_s is not None
    assert load.pending_trees is not None
    assert load.waited[spout] == load.waited[other_spout] == 0.25
    assert (load.waited[split], load.waited[other_split], load.waited[members["split"][2]]) == (1, 0, 0.5)
    assert load.waited[members["count"]].tolist() == pytest.approx([(0.25 + 1 + 0) / 3] * len(members["count"]))
    assert load.executing is not None
    assert (load.executing[spout], load.executing[split], load.executing[other_split]) == (0, 0.25, 0)
    assert load.runs_per_s[spout] == load.runs_per_s[other_spout] == 30
    assert load.runs_per_s[members["split"]].tolist() == [400] * len(members["split"])
    assert load.runs_per_s[members["count"]].tolist() == [(30 + 400) / 2] * len(members["count"])
    assert load.pending_trees[members["sentences"]].tolist() == [8, 8]
    assert load.pending_trees.sum() == 16, "those of bolts are none of theirs"

    silent = topology_load(topology, facts(of(spout), of(split, pending_ns=3e9, pending_known_ns=10**9)), SETTINGS, 2e9)
    assert (silent.waited, silent.runs_per_s, silent.pending_trees) == (None, None, None)


def test_a_measured_load_assumes_no_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is worked out each second, and all traffic of a topology is its executors squared."""
    monkeypatch.setattr("stormwright.model.load._emitted_tps_per_executor", None)
    topology = make_world(1).problem.topologies[0]
    load = topology_load(topology, facts(), SETTINGS, core_hz=2e9)
    assert (len(load.pair_tps), len(load.flow_tps)) == (0, 0)
    assert load.cpu_hz.tolist() == [0.1 * 2e9] * topology.num_executors


def test_quarantined_lines_retain_file_line_numbers_across_splits() -> None:
    def row(file: str, block: int, row: int | None, reason: str | None = "bad") -> dict[str, object]:
        return {"file": file, "block": block, "row": row, "reason": reason, "landed_ms": 7, "line": "x"}

    schema = pa.schema([*QUARANTINE, pa.field("block", pa.int64()), pa.field("row", pa.int64())])
    for name in ("line_number", "line_base64"):
        schema = schema.remove(schema.get_field_index(name))
    # Row numbers grow along a block; those of two blocks say nothing about each other.
    at_rest = [row("b", 0, 8), row("a", 900, 2), row("a", 0, 77, None), row("a", 0, 78), row("a", 900, 1, None)]
    table = rejected(pa.Table.from_pylist(at_rest, schema))
    assert table.schema == QUARANTINE
    assert table.select(["file", "line_number"]).to_pylist() == [
        {"file": "a", "line_number": 2}, {"file": "a", "line_number": 4}, {"file": "b", "line_number": 1},
    ]  # fmt: skip
    in_stream = [row("a", 0, None, None), row("a", 0, None), row("b", 0, None), row("a", 0, None)]
    table = rejected(pa.Table.from_pylist(in_stream, schema))
    assert [(r["file"], r["line_number"]) for r in table.to_pylist()] == [("a", 2), ("a", 3), ("b", 1)]
    assert not rejected(pa.Table.from_pylist(in_stream[:1], schema)).num_rows


def run(component: str, first: int, last: int, received: int, seconds: float = 1, **more: object) -> dict[str, object]:
    length_ns = round(seconds * 1e9)
    keys = {"kind": "executor", "supervisor": "a", "component": component, "first": first, "second": last}
    return keys | {"length_ns": length_ns, "received": received, "execute_ns": 0} | more


def sent(source: int, stream: str, target: str, grouping: str, task: int | None, tuples: int) -> dict[str, object]:
    kind = "pair" if task else "flow"
    keys = {"kind": kind, "stream": stream, "component": target, "grouping": grouping, "first": source, "second": task}
    return keys | {"tuples": tuples}


def test_stream_traffic_computes_selectivity_and_shares_per_stream() -> None:
    streams = stream_traffic(
        facts(
            run("spout", 1, 1, 0),
            # The two executors of one component, watched for unlike times.
            run("split", 2, 3, 40, seconds=2),
            run("split", 4, 4, 30),
            run("count", 5, 6, 0),
            run("count", 7, 7, 0),
            sent(1, "default", "split", "shuffle", None, 100),
            sent(2, "default", "count", "fields", 5, 120),
            sent(3, "default", "count", "fields", 6, 40),
            sent(4, "default", "count", "fields", 5, 20),
            sent(4, "errors", "count", "fields", 6, 5),
            sent(4, "done", "count", "all", 5, 10),
            sent(4, "done", "count", "all", 6, 10),
            sent(4, "done", "count", "all", 7, 10),
            # From no executor that is known.
            sent(9, "default", "count", "fields", 5, 1000),
        )
    )
    # A fields stream of 60 + 20 + 20 tuples/s for 20 + 30 that come; one task gets nothing.
    assert [
        (s.source, s.stream, s.target, s.grouping, s.sent_tps, s.selectivity, s.shares, s.skew) for s in streams
    ] == [
        ("split", "default", "count", "fields", 100, 2, {5: 0.8, 6: 0.2, 7: 0}, pytest.approx(2.4)),
        ("split", "done", "count", "all", 30, 0.2, pytest.approx({5: 1 / 3, 6: 1 / 3, 7: 1 / 3}), pytest.approx(1)),
        ("split", "errors", "count", "fields", 5, 0.1, {5: 0, 6: 1, 7: 0}, 3),
        ("spout", "default", "split", "shuffle", 100, None, {}, None),
    ]
    assert stream_traffic(facts()) == []
    assert stream_traffic(facts(sent(1, "default", "b", "fields", 2, 3))) == []


def test_service_time_is_computed_per_executor_across_nodes() -> None:
    work = executor_work(
        facts(
            run("b", 2, 3, 100, execute_ns=1_000_000),
            run("b", 2, 3, 300, execute_ns=7_000_000, seconds=3, supervisor="b"),
            run("a", 1, 1, 0, execute_ns=5),
        )
    )
    assert work == [ExecutorWork("a", 1, 1, 0, None), ExecutorWork("b", 2, 3, 100, 2e-5)]


def test_missing_records_are_counted_per_worker() -> None:
    """In order or not, in one pane or several; a worker that follows on the same port starts from 0."""

    def worker(
        pane_ms: int, start_ms: int, lowest: int, highest: int, records: int, port: int = 1
    ) -> dict[str, object]:
        keys = {"kind": "worker", "topology": "t", "supervisor": "a", "first": start_ms, "second": port}
        return keys | {"pane_ms": pane_ms, "lowest_seq": lowest, "highest_seq": highest, "records": records}

    before = panes(worker(0, 50, 5, 9, 3), worker(3000, 50, 10, 11, 2), worker(3000, 99, 0, 0, 1))
    table = merged(before, panes(worker(0, 50, 4, 6, 1), worker(0, 7, 3, 3, 1, port=2)))
    _, window = newest_window(table, SETTINGS)
    assert worker_records(window_facts(window)) == [
        WorkerRecords("t", "a", 1, 50, records=6, missing=2),
        WorkerRecords("t", "a", 1, 99, records=1, missing=0),
        WorkerRecords("t", "a", 2, 7, records=1, missing=0),
    ]


def test_nodes_have_headroom_where_their_capacity_is_known() -> None:
    def worker(node: str, start_ms: int, port: int, heap_bytes: int) -> dict[str, object]:
        keys = {"kind": "worker", "topology": "t", "supervisor": node, "first": start_ms, "second": port}
        return keys | {"heap_bytes": heap_bytes}

    heard = facts(worker("a", 7, 6700, 5), worker("a", 9, 6700, 100), worker("a", 1, 6701, 20), worker("b", 1, 6700, 3))
    loads = node_loads(heard, {"a": 2.5, "b": 0.5, "c": 0.0}, {"a": 2.0, "z": 9.0})
    assert {node: load.as_dict() for node, load in loads.items()} == {
        "a": {"cpu_cores": 2.5, "capacity_cores": 2.0, "headroom_cores": -0.5, "heap_bytes": 120, "workers": 2},
        "b": {"cpu_cores": 0.5, "capacity_cores": None, "headroom_cores": None, "heap_bytes": 3, "workers": 1},
        "c": {"cpu_cores": 0.0, "capacity_cores": None, "headroom_cores": None, "heap_bytes": 0, "workers": 0},
    }
