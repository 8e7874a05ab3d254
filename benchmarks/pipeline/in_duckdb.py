"""What `stormwright.pipeline.measurement.panes.panes` works out, in DuckDB's SQL."""

from __future__ import annotations

from pathlib import Path

from stormwright.pipeline.measurement.panes import HIGHEST, KEYS, LOWEST, SUMS, VALUES

_KINDS = {
    "executors": {
        "from": "(select *, unnest(executors) as e from r)",
        "kind": "'executor'", "topology": "worker.topology", "supervisor": "worker.supervisor",
        "component": "e.component", "first": "e.first_task", "second": "e.last_task", "length_ns": "length_ns",
        **{name: f"e.{name}" for name in ("cpu_ns", "received", "execute_ns", "emitted", "trees", "acked", "failed")},
    },
    "pairs": {
        "from": "(select pane_ms, worker, p, streams[p[3] + 1] as s, s[4] in ('shuffle', 'local_or_shuffle', 'none') as"
        " follows from (select pane_ms, worker, streams, unnest(pairs) as p from r))",
        "kind": "if(follows, 'flow', 'pair')", "topology": "worker.topology", "component": "s[3]", "grouping": "s[4]",
        "stream": "s[2]", "first": "p[1]", "second": "if(follows, null, p[2])", "tuples": "p[4]", "bytes": "p[5]",
        "sampled": "if(p[5] > 0, p[4], 0)",
    },
    "latencies": {
        "from": "(select pane_ms, worker, unnest(complete_latency.counts) as n,"
        " generate_subscripts(complete_latency.counts, 1) - 1 as bucket from r)",
        "kind": "'latency'", "topology": "worker.topology", "first": "bucket", "tuples": "n",
    },
    "nodes": {
        "from": "(select *, least(begin_ns + length_ns, (s + 1) * 1000000000) - greatest(begin_ns, s * 1000000000) as"
        " inside_ns from (select *, unnest(generate_series(0, (begin_ns + length_ns - 1) // 1000000000)) as s"
        " from (select *, start_ms % 1000 * 1000000 as begin_ns from r)))",
        "kind": "'node'", "topology": "worker.topology", "supervisor": "worker.supervisor",
        "first": "start_ms // 1000 + s", "second": "worker.port", "length_ns": "inside_ns",
        "cpu_ns": "process_cpu_ns * (inside_ns / length_ns)",
    },
    "workers": {
        "from": "r",
        "kind": "'worker'", "topology": "worker.topology", "supervisor": "worker.supervisor",
        "first": "worker.start_ms", "second": "worker.port", "records": "1", "lowest_seq": "seq", "highest_seq": "seq",
        "heap_bytes": "heap_bytes",
    },
}  # fmt: skip

_TYPES = {"string": "varchar", "long": "bigint", "double": "double"}


def panes_sql(records: Path, slide_s: int) -> str:
    """The facts of all records of a Parquet table, summed per pane."""
    slide_ms = slide_s * 1000
    source = f"select *, start_ms - start_ms % {slide_ms} as pane_ms from read_parquet('{records}/*.parquet')"  # noqa: S608
    return f"with r as ({source}) " + " union all ".join(map(_part, _KINDS.values()))


def _part(kind: dict[str, str]) -> str:
    how = dict.fromkeys(SUMS, "sum") | dict.fromkeys(LOWEST, "min") | dict.fromkeys(HIGHEST, "max")
    keys = [f"cast({kind.get(name, 'null')} as {_TYPES[of]}) as {name}" for name, of in KEYS.items()]
    sums = {name: f"{how[name]}({kind[name]})" for name in VALUES if name in kind}
    values = [f"cast({sums.get(name, 'null')} as {_TYPES[of]}) as {name}" for name, of in VALUES.items()]
    where = "where n > 0" if kind["kind"] == "'latency'" else ""
    return f"select pane_ms, {', '.join([*keys, *values])} from {kind['from']} {where} group by all"  # noqa: S608
