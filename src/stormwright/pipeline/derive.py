"""Records to facts, and facts summed over panes, which sliding windows are made of.

A window that slides by 3 s and holds 15 s is the sum of five panes of 3 s. Spark keeps the panes, so a fact is in one
place only; adding five of them up is left to `stormwright.pipeline.windows`. (Li, Maier, Tufte, Papadimos, Tucker,
"No pane, no gain", SIGMOD Record 34(1), 2005, https://doi.org/10.1145/1058150.1058158.)

A record unfolds into facts of six kinds; what a kind leaves out is null.

========  =================================================  ==========================================================
kind      keys                                               values
========  =================================================  ==========================================================
executor  topology, supervisor, component, first = its       length_ns, cpu_ns, received, execute_ns, emitted, trees,
          first task, second = its last                      acked, failed
pair      topology, component and grouping = of the target,  tuples, bytes, sampled (tuples whose bytes are known)
          stream, first = source task, second = target task
flow      as pair, without second: the grouping follows the  tuples, bytes, sampled
          placement, so which target it was says little
latency   topology, first = bucket                           tuples (trees completed)
node      topology, supervisor, first = a second since       cpu_ns of the worker's process and length_ns of its
          1970, second = the worker's port                   intervals in that second
worker    topology, supervisor, first = when it started      records, lowest_seq and highest_seq of them, heap_bytes
          (ms since 1970), second = its port                 (the most that was in use at the end of an interval)
========  =================================================  ==========================================================
"""

from __future__ import annotations

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
}
LOWEST = {"lowest_seq": "long"}
HIGHEST = {"highest_seq": "long", "heap_bytes": "long"}
VALUES = SUMS | LOWEST | HIGHEST

_OF_EXECUTOR = ("cpu_ns", "received", "execute_ns", "emitted", "trees", "acked", "failed")

_SECOND_NS = 1_000_000_000


def panes(records: DataFrame, settings: StreamSettings) -> DataFrame:
    """The facts of all records, summed per pane: `pane_ms` (its start), `KEYS`, `VALUES`.

    A record belongs to the pane in which its interval begins. A pane that has been emitted before comes again,
    greater, when more of its records arrive.
    """
    return (
        facts(records)
        .groupBy(F.window("event_time", f"{settings.slide_s} seconds").alias("pane"), *KEYS)
        .agg(
            *(F.sum(name).alias(name) for name in SUMS),
            *(F.min(name).alias(name) for name in LOWEST),
            *(F.max(name).alias(name) for name in HIGHEST),
        )
        .select(F.unix_millis("pane.start").alias("pane_ms"), *KEYS, *VALUES)
    )


def facts(records: DataFrame) -> DataFrame:
    """Unfold records into facts: `event_time`, `KEYS`, `VALUES`."""
    everything = F.concat(_executors(), _pairs(), _latencies(), _node_seconds(), F.array(_worker()))
    return records.select("event_time", F.explode(everything).alias("fact")).select("event_time", "fact.*")


def _executors() -> Column:
    return F.transform(
        "executors",
        lambda e: _fact(
            "executor",
            topology=F.col("worker.topology"),
            supervisor=F.col("worker.supervisor"),
            component=e.component,
            first=e.first_task,
            second=e.last_task,
            length_ns=F.col("length_ns"),
            **{name: e[name] for name in _OF_EXECUTOR},
        ),
    )


def _pairs() -> Column:
    def fact(pair: Column) -> Column:
        source, target, stream, tuples, size = (pair[column] for column in range(5))
        _, name, component, grouping = (F.col("streams")[stream.cast("int")][column] for column in range(4))
        follows = grouping.isin(*sorted(PLACEMENT_FOLLOWING))
        return _fact(
            F.when(follows, "flow").otherwise("pair"),
            topology=F.col("worker.topology"),
            component=component,
            grouping=grouping,
            stream=name,
            first=source,
            second=F.when(~follows, target),
            tuples=tuples,
            bytes=size,
            sampled=F.when(size > 0, tuples).otherwise(0),
        )

    return F.transform("pairs", fact)


def _latencies() -> Column:
    counted = F.transform(
        "complete_latency.counts",
        lambda count, bucket: _fact("latency", topology=F.col("worker.topology"), first=bucket, tuples=count),
    )
    return F.filter(counted, lambda fact: fact.tuples > 0)


def _node_seconds() -> Column:
    # Counted from the full second before the start: nanoseconds since 1970 are too many for the floats of a division.
    first = F.floor(F.col("start_ms") / 1000)
    start_ns = F.col("start_ms") % 1000 * 1_000_000
    end_ns = start_ns + F.col("length_ns")

    def fact(second: Column) -> Column:
        inside_ns = F.least(end_ns, (second + 1) * _SECOND_NS) - F.greatest(start_ns, second * _SECOND_NS)
        return _fact(
            "node",
            topology=F.col("worker.topology"),
            supervisor=F.col("worker.supervisor"),
            first=first + second,
            second=F.col("worker.port"),
            length_ns=inside_ns,
            cpu_ns=F.col("process_cpu_ns") * (inside_ns / F.col("length_ns")),
        )

    return F.transform(F.sequence(F.lit(0).cast("long"), F.floor((end_ns - 1) / _SECOND_NS)), fact)


def _worker() -> Column:
    return _fact(
        "worker",
        topology=F.col("worker.topology"),
        supervisor=F.col("worker.supervisor"),
        first=F.col("worker.start_ms"),
        second=F.col("worker.port"),
        records=F.lit(1),
        lowest_seq=F.col("seq"),
        highest_seq=F.col("seq"),
        heap_bytes=F.col("heap_bytes"),
    )


def _fact(kind: str | Column, **values: Column) -> Column:
    """A fact with every column, in order and in its type."""
    values["kind"] = F.lit(kind)
    return F.struct(
        *(values.get(name, F.lit(None)).cast(column_type).alias(name) for name, column_type in (KEYS | VALUES).items())
    )
