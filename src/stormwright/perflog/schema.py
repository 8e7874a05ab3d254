"""Definition of a performance log record; everything else that knows its shape is derived from it.

A record is one JSON object on one line: the activity of one worker in one interval. `RECORD` describes it as a small
tree of types. `json_schema` derives the JSON Schema from it, `stormwright.perflog.validation` the checks of a line,
`sample_record` a record to try things with, and `stormwright.pipeline.parsing.parsed` the Spark type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

#: Version of the record that this package writes and reads.
VERSION = 1

#: Upper edges of the complete-latency buckets in ms: powers of 2^(1/4), so any two neighbours differ by 19 %. There is
#: one more count than there are edges; the last one is of latencies above the last edge.
LATENCY_EDGES_MS: tuple[float, ...] = tuple(2.0 ** (quarter / 4) for quarter in range(65))

#: Tolerance: two ways of computing a power differ in the last digits.
EDGE_TOLERANCE = 1e-6

#: Names of the texts of one entry of `streams`.
STREAM_COLUMNS = ("source", "stream", "target", "grouping")

#: Tolerance: no thread has more CPU time than wall time, but both clocks are read one after the other on a busy
#: machine.
MAX_CPU_PER_WALL = 2.0
CPU_SLACK_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """A whole number."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Fraction:
    """A number from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""


@dataclass(frozen=True, slots=True)
class Constants:
    """A list of numbers that is the same in every record, up to `EDGE_TOLERANCE`."""

    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of one type, with limits on its length."""

    element: Type
    shortest: int = 0
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A list of whole numbers, each with a meaning of its own: short where there are many."""

    columns: tuple[tuple[str, WholeNumber], ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A named part of a `Structure`; a nullable one may be null or left out."""

    name: str
    type: Type
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Structure:
    """An object with fields."""

    fields: tuple[Field, ...]


Type: TypeAlias = WholeNumber | Fraction | Text | Constants | ListType | Row | Structure

#: Upper limit of counts: far above any count of one interval, and thousands of them still add up in 64 bits.
COUNT = WholeNumber(0, 10**15)

#: Storm numbers tasks from 1; the one that sends ticks and metrics is -1.
TASK = WholeNumber(-1, 2**31 - 1)

#: `last` is 1 once the worker's tasks have ended: no other record follows. `connections` is the number of established
#: connections to its port, in the first minute after its start: other workers that can send it tuples. `configuration`
#: is a digest of the topology's configuration, as Nimbus had stored it when the worker started.
WORKER = Structure(
    (
        Field("topology", Text()),
        Field("supervisor", Text()),
        Field("host", Text()),
        Field("port", WholeNumber(1, 65535)),
        Field("pid", COUNT),
        Field("start_ms", COUNT),
        Field("last", WholeNumber(0, 1), nullable=True),
        Field("connections", COUNT, nullable=True),
        Field("configuration", Text(), nullable=True),
    )
)

#: One entry of an executor's `inputs`: tuples that came by a stream (an index into `streams`) and were executed, and
#: the time that these took, as `execute_ns`.
INPUT = Row((("stream", COUNT), ("tuples", COUNT), ("execute_ns", COUNT)))

#: `type` is spout, bolt or system. `trees` are tuple trees begun; of a spout `acked` and `failed` count trees, of a
#: bolt tuples. `execute_ns` is measured on a sample and scaled up, `queue` is the receive queue's population, `pending`
#: are a spout's trees that have neither been acked nor failed at the end of the interval, whenever they began.
#: `waited_ns` is how long its thread could have run and did not, for want of a core or because of a quota; `runs` is
#: how often it was given a core, mostly because it had slept. `inputs` are there of a bolt that subscribes to several
#: streams.
EXECUTOR = Structure(
    (
        Field("component", Text()),
        Field("type", Text(), nullable=True),
        Field("first_task", TASK),
        Field("last_task", TASK),
        Field("cpu_ns", COUNT),
        Field("received", COUNT),
        Field("emitted", COUNT),
        Field("trees", COUNT),
        Field("acked", COUNT),
        Field("failed", COUNT),
        Field("execute_ns", COUNT),
        Field("queue", Fraction(), nullable=True),
        Field("pending", COUNT, nullable=True),
        Field("waited_ns", COUNT, nullable=True),
        Field("runs", COUNT, nullable=True),
        Field("inputs", ListType(INPUT), nullable=True),
    )
)

#: CPU time of the worker's threads that are no executors': those that carry tuples from and to other workers, collect
#: garbage, compile (much of it: the JVM warms up), and all others: timers, heartbeats, metrics, the probe. With the
#: executors' it makes `process_cpu_ns`, but for threads that ended within the interval. An executor serializes what it
#: sends to another worker itself: that is part of its own time.
THREADS = Structure(tuple(Field(name, COUNT) for name in ("messaging_ns", "gc_ns", "compiler_ns", "other_ns")))

#: Collections of garbage and how long they took; while a serial collector works no executor does.
GC = Structure((Field("collections", COUNT), Field("ms", COUNT)))

#: The node as the worker sees it; its other workers see the same. `received_bytes` and `sent_bytes` went over its links
#: in the interval, from any sender: with headers and acknowledgements, without what stayed on the node. `millicores`
#: are thousandths of a core that the worker may use: what the narrowest control group around it leaves, else all.
#: `throttled_ns` is how long cores stood still for such groups, all added up; `core_hz` the speed of a core.
#: `quota_period_us` is after what time that group may use as much again, `processors` how many threads run at once.
#: `standbys` is the number of idle standby workers, with their memory and the CPU that they used in the last seconds.
#: `used_ns` is CPU time of all processes in the group that `millicores` comes from, if the node's supervisor is one of
#: them.
NODE = Structure(
    (
        Field("received_bytes", COUNT, nullable=True),
        Field("sent_bytes", COUNT, nullable=True),
        Field("millicores", COUNT, nullable=True),
        Field("throttled_ns", COUNT, nullable=True),
        Field("core_hz", COUNT, nullable=True),
        Field("quota_period_us", COUNT, nullable=True),
        Field("processors", COUNT, nullable=True),
        Field("standbys", COUNT, nullable=True),
        Field("standby_bytes", COUNT, nullable=True),
        Field("standby_millicores", COUNT, nullable=True),
        Field("used_ns", COUNT, nullable=True),
    )
)

#: One entry of `pairs`. `stream` is an index into `streams`; `bytes` is the mean sampled payload times the tuples, 0
#: where none was sampled.
PAIR = Row((("source_task", TASK), ("target_task", TASK), ("stream", COUNT), ("tuples", COUNT), ("bytes", COUNT)))

LATENCY = Structure(
    (
        # Left out by probes of today: always the same, and more to read than all the rest.
        Field("edges_ms", Constants(LATENCY_EDGES_MS), nullable=True),
        # Trailing zeros may be left out.
        Field("counts", ListType(COUNT, longest=len(LATENCY_EDGES_MS) + 1)),
    )
)

#: Component and name of a stream, and the error: a sample of its tuples could not be serialized as Storm would do it to
#: send them to another worker.
UNSERIALIZABLE = ListType(Text(), 3, 3)

#: Worker identity (`IDENTITY`) and `seq` name a record once and for all: it counts once, however often
#: it is delivered, and a gap in `seq` is a loss. `start_ms` and `written_ms` are wall clock, `length_ns` is monotonic.
RECORD = Structure(
    (
        Field("version", WholeNumber(VERSION, VERSION)),
        Field("worker", WORKER),
        Field("seq", COUNT),
        Field("start_ms", WholeNumber(0, 2**52)),
        Field("length_ns", WholeNumber(1, 3_600_000_000_000)),
        Field("written_ms", WholeNumber(0, 2**52)),
        Field("process_cpu_ns", COUNT),
        Field("heap_bytes", COUNT),
        Field("executors", ListType(EXECUTOR)),
        Field("streams", ListType(ListType(Text(), len(STREAM_COLUMNS), len(STREAM_COLUMNS)))),
        Field("pairs", ListType(PAIR)),
        Field("complete_latency", LATENCY),
        # Missing from older probes, and on systems that do not report it.
        Field("heap_limit_bytes", COUNT, nullable=True),
        Field("threads", THREADS, nullable=True),
        Field("gc", GC, nullable=True),
        Field("node", NODE, nullable=True),
        Field("unserializable", ListType(UNSERIALIZABLE), nullable=True),
        Field("backlog", COUNT, nullable=True),
    )
)

#: The fields of `worker` that, with `seq`, identify a record.
IDENTITY = ("topology", "supervisor", "port", "pid", "start_ms")


def sample_record(start_ms: int = 1_690_000_000_000, *, optional: bool = True, **values: Any) -> dict[str, Any]:
    """Return a valid record of one second, with one executor, stream and pair, made from the types above.

    Numbers are small and no two are equal, but for flags and indices of streams, which are 0; texts have the name of
    their field.

    Parameters
    ----------
    start_ms
        When its interval begins, a minute after its worker.
    optional
        Whether it has the fields that may be left out.
    **values
        Fields of the record to replace.
    """
    record: dict[str, Any] = _sample("", RECORD, count(2), optional)
    record["worker"]["start_ms"] = start_ms - 60_000
    record |= {"start_ms": start_ms, "length_ns": 10**9, "written_ms": start_ms + 1000}
    return record | {"streams": [list(STREAM_COLUMNS)]} | values


def _sample(name: str, kind: Type, numbers: Iterator[int], optional: bool) -> Any:
    match kind:
        case WholeNumber(minimum, maximum):
            return minimum if maximum == 1 or name == "stream" else max(minimum, next(numbers))
        case Fraction():
            return 0.5
        case Text():
            return name
        case Constants(values):
            return list(values)
        case ListType(element, shortest):
            length = 3 if isinstance(element, WholeNumber) else max(shortest, 1)
            return [_sample(name, element, numbers, optional) for _ in range(length)]
        case Row(columns):
            return [_sample(column, number, numbers, optional) for column, number in columns]
        case Structure(fields):
            given = (each for each in fields if optional or not each.nullable)
            return {each.name: _sample(each.name, each.type, numbers, optional) for each in given}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one record; unknown fields are left to later versions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"stormwright performance log record, version {VERSION}",
        **_json_type(RECORD),
    }


def _json_type(kind: Type) -> dict[str, Any]:
    match kind:
        case WholeNumber(minimum, maximum):
            return {"type": "integer", "minimum": minimum, "maximum": maximum}
        case Fraction():
            return {"type": "number", "minimum": 0, "maximum": 1}
        case Text():
            return {"type": "string"}
        case Constants(values):
            near = [
                {"type": "number", "minimum": v * (1 - EDGE_TOLERANCE), "maximum": v * (1 + EDGE_TOLERANCE)}
                for v in values
            ]
            return {"type": "array", "prefixItems": near, "minItems": len(values), "maxItems": len(values)}
        case ListType(element, shortest, longest):
            limits = {"minItems": shortest} | ({"maxItems": longest} if longest is not None else {})
            return {"type": "array", "items": _json_type(element), **limits}
        case Row(columns):
            numbers = [_json_type(number) for _, number in columns]
            return {"type": "array", "prefixItems": numbers, "minItems": len(columns), "maxItems": len(columns)}
        case Structure(fields):
            return {
                "type": "object",
                "properties": {f.name: _json_field(f) for f in fields},
                "required": [f.name for f in fields if not f.nullable],
            }


def _json_field(field: Field) -> dict[str, Any]:
    kind = _json_type(field.type)
    return {"anyOf": [kind, {"type": "null"}]} if field.nullable else kind
