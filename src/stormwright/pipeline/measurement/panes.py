"""Facts from records, summed over panes, of which sliding windows consist.

A window that slides by 3 s and holds 15 s is the sum of five panes of 3 s. Panes are stored, so a fact is in one
place only; adding five of them up is left to `stormwright.pipeline.measurement.windows`. (Li, Maier, Tufte, Papadimos,
Tucker, "No pane, no gain", SIGMOD Record 34(1), 2005, https://doi.org/10.1145/1058150.1058158.)

A record unfolds into facts of six kinds; missing columns are null.

========  =================================================  ==========================================================
kind      keys                                               values
========  =================================================  ==========================================================
executor  topology, supervisor, component, first = its       length_ns, cpu_ns, received, execute_ns, emitted, trees,
          first task, second = its last                      acked, failed; waited_ns, runs, and pending_ns: pending
                                                             trees times the length of their intervals, each with the
                                                             length of the intervals that have it (waited_known_ns,
                                                             runs_known_ns, pending_known_ns)
pair      topology, component and grouping = of the target,  tuples, bytes, sampled (tuples whose bytes are known)
          stream, first = source task, second = target task
flow      as pair, without second: the grouping follows the  tuples, bytes, sampled
          placement, so which target it was says little
latency   topology, first = bucket                           tuples (trees completed)
node      topology, supervisor, first = a second since       cpu_ns of the worker's process and length_ns of its
          1970, second = the worker's port                   intervals in that second; used_ns of the node's control
                                                             group, quota_ns that it allows, and used_known_ns, the
                                                             length of the intervals that have them
worker    topology, supervisor, first = when it started      records, lowest_seq and highest_seq of them, heap_bytes
          (ms since 1970), second = its port                 (the most that was in use at the end of an interval)
========  =================================================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from stormwright.model.topology import PLACEMENT_FOLLOWING
from stormwright.pipeline.settings import StreamSettings

KEYS = {
    "kind": "string",
    "topology": "string",
    "supervisor": "string",
    "component": "string",
    "grouping": "string",
    "stream": "string",
    "first": "long",
    "second": "long",
}
SUMS = {
    "records": "long",
    "length_ns": "long",
    # Whole numbers but for nodes, where an interval is cut at full seconds.
    "cpu_ns": "double",
    "received": "long",
    "execute_ns": "long",
    "emitted": "long",
    "trees": "long",
    "acked": "long",
    "failed": "long",
    "tuples": "long",
    "bytes": "long",
    "sampled": "long",
    "waited_ns": "long",
    "waited_known_ns": "long",
    "runs": "long",
    "runs_known_ns": "long",
    # A product of two numbers of a record, which may be too large for 64 bits.
    "pending_ns": "double",
    "pending_known_ns": "long",
    "used_ns": "double",
    "quota_ns": "double",
    "used_known_ns": "long",
}
LOWEST = {"lowest_seq": "long"}
HIGHEST = {"highest_seq": "long", "heap_bytes": "long"}
VALUES = SUMS | LOWEST | HIGHEST

_HOW = dict.fromkeys(SUMS, F.sum) | dict.fromkeys(LOWEST, F.min) | dict.fromkeys(HIGHEST, F.max)

_OF_EXECUTOR = ("cpu_ns", "received", "execute_ns", "emitted", "trees", "acked", "failed")

_SECOND_NS = 1_000_000_000

#: Returns the columns of a fact from an element of a list and its position.
Fact: TypeAlias = Callable[[Column, Column], dict[str, Column]]


class _Kind(NamedTuple):
    """Facts of one kind (or two): one per element of a list in a record, of `counts` one per non-zero element."""

    each: Column
    fact: Fact
    counts: bool = False


def panes(records: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return the facts of all records, summed per pane: `pane_ms` (its start), `KEYS`, `VALUES`.

    A record belongs to the pane in which its interval begins. Each kind is unfolded and summed separately, with no more
    columns than it has, which is quick for many records.
    """
    flat = flat_records(records, settings)
    return reduce(DataFrame.union, (_summed(flat, kind) for kind in _kinds()))


def summed_facts(records: DataFrame, settings: StreamSettings) -> DataFrame:
    """Return the same as `panes`, from one list of all facts of a record: less to execute for few records."""
    facts = flat_records(records, settings).select("pane_ms", F.explode(all_facts()).alias("fact"))
    return facts.select("pane_ms", "fact.*").groupBy("pane_ms", *KEYS).agg(*sums())


def all_facts() -> Column:
    """Return all facts of a record of `flat_records`, as a list of structures of `KEYS` and `VALUES`."""
    return F.concat(*map(_unfolded, _kinds()))


def sums() -> list[Column]:
    """Return the `VALUES` of several facts with the same keys as those of one fact."""
    return [_HOW[name](name).alias(name) for name in VALUES]


def flat_records(records: DataFrame, settings: StreamSettings, *others: str) -> DataFrame:
    """Return records with their pane and without structures, of which Spark would copy a whole one into each fact.

    Columns named in `others` are added unchanged.
    """
    pane_ms = F.col("start_ms") - F.col("start_ms") % (settings.slide_s * 1000)
    return records.select(
        pane_ms.alias("pane_ms"),
        *(F.col(f"worker.{name}") for name in ("topology", "supervisor", "port")),
        F.col("worker.start_ms").alias("worker_start_ms"),
        *("seq", "start_ms", "length_ns", "process_cpu_ns", "heap_bytes", "executors", "streams", "pairs"),
        F.col("complete_latency.counts").alias("counts"),
        F.col("node.used_ns").alias("used_ns"),
        F.col("node.millicores").alias("millicores"),
        *others,
    )


def _unfolded(kind: _Kind) -> Column:
    each = F.transform(kind.each, lambda element, place: F.struct(*_in_order(kind.fact(element, place))))
    return F.filter(each, lambda fact: fact.tuples > 0) if kind.counts else each


def _summed(records: DataFrame, kind: _Kind) -> DataFrame:
    """Return the facts of one kind, summed by their keys."""
    place, each = F.col("place"), F.col("each")
    if kind.counts:
        unfolded = records.select("*", F.posexplode(kind.each).alias("place", "each")).where(each > 0)
    else:
        unfolded = records.select("*", F.explode(kind.each).alias("each"))
    columns = unfolded.select("pane_ms", *_in_order(kind.fact(each, place), missing=False))
    names = columns.columns
    sums = [_HOW[name](name).alias(name) for name in names if name in VALUES]
    summed = columns.groupBy(*(name for name in names if name not in VALUES)).agg(*sums)
    return summed.select("pane_ms", *_in_order({name: F.col(name) for name in names}))


def _in_order(columns: dict[str, Column], missing: bool = True) -> list[Column]:
    """Return the columns of a fact in order and type; with `missing`, absent ones as nulls."""
    return [
        columns.get(name, F.lit(None)).cast(column_type).alias(name)
        for name, column_type in (KEYS | VALUES).items()
        if missing or name in columns
    ]


def _kinds() -> tuple[_Kind, ...]:
    # Counted from the full second before the start: nanoseconds since 1970 are too many for the floats of a division.
    start_ns = F.col("start_ms") % 1000 * 1_000_000
    end_ns = start_ns + F.col("length_ns")
    seconds = F.sequence(F.lit(0).cast("long"), F.floor((end_ns - 1) / _SECOND_NS))

    def node(second: Column, _: Column) -> dict[str, Column]:
        inside_ns = F.least(end_ns, (second + 1) * _SECOND_NS) - F.greatest(start_ns, second * _SECOND_NS)
        # The quota of a group that is not the node's says nothing about the node.
        known_ns = F.when(F.col("used_ns").isNotNull() & F.col("millicores").isNotNull(), inside_ns)
        return {
            "kind": F.lit("node"),
            **_worker(),
            "first": F.floor(F.col("start_ms") / 1000) + second,
            "second": F.col("port"),
            "length_ns": inside_ns,
            "cpu_ns": F.col("process_cpu_ns") * (inside_ns / F.col("length_ns")),
            "used_ns": F.col("used_ns") * (known_ns / F.col("length_ns")),
            "quota_ns": F.col("millicores") / 1000 * known_ns,
            "used_known_ns": known_ns,
        }

    return (
        _Kind(F.col("executors"), _executor),
        _Kind(F.col("pairs"), _pair),
        _Kind(F.col("counts"), _latency, counts=True),
        _Kind(seconds, node),
        _Kind(F.array(F.lit(1)), _records),
    )


def _worker() -> dict[str, Column]:
    return {"topology": F.col("topology"), "supervisor": F.col("supervisor")}


def _executor(executor: Column, _: Column) -> dict[str, Column]:
    return {
        "kind": F.lit("executor"),
        **_worker(),
        "component": executor.component,
        "first": executor.first_task,
        "second": executor.last_task,
        "length_ns": F.col("length_ns"),
        **{name: executor[name] for name in _OF_EXECUTOR},
        "waited_ns": executor.waited_ns,
        "waited_known_ns": F.when(executor.waited_ns.isNotNull(), F.col("length_ns")),
        "runs": executor.runs,
        "runs_known_ns": F.when(executor.runs.isNotNull(), F.col("length_ns")),
        "pending_ns": executor.pending.cast("double") * F.col("length_ns"),
        "pending_known_ns": F.when(executor.pending.isNotNull(), F.col("length_ns")),
    }


def _pair(pair: Column, _: Column) -> dict[str, Column]:
    source, target, stream, tuples, size = (pair[column] for column in range(5))
    _source, name, component, grouping = (F.col("streams")[stream.cast("int")][column] for column in range(4))
    follows = grouping.isin(*sorted(PLACEMENT_FOLLOWING))
    return {
        "kind": F.when(follows, "flow").otherwise("pair"),
        "topology": F.col("topology"),
        "component": component,
        "grouping": grouping,
        "stream": name,
        "first": source,
        "second": F.when(~follows, target),
        "tuples": tuples,
        "bytes": size,
        "sampled": F.when(size > 0, tuples).otherwise(0),
    }


def _latency(count: Column, bucket: Column) -> dict[str, Column]:
    return {"kind": F.lit("latency"), "topology": F.col("topology"), "first": bucket, "tuples": count}


def _records(one: Column, _: Column) -> dict[str, Column]:
    return {
        "kind": F.lit("worker"),
        **_worker(),
        "first": F.col("worker_start_ms"),
        "second": F.col("port"),
        "records": one,
        "lowest_seq": F.col("seq"),
        "highest_seq": F.col("seq"),
        "heap_bytes": F.col("heap_bytes"),
    }
