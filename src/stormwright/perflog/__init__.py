"""The performance log: the activity of every worker per interval."""

from stormwright.perflog.landing import Landing
from stormwright.perflog.records import LogRecord, RejectedLine, encode, parse, parse_lines, read_file
from stormwright.perflog.schema import LATENCY_EDGES_MS, VERSION, json_schema

__all__ = [
    "LATENCY_EDGES_MS",
    "VERSION",
    "Landing",
    "LogRecord",
    "RejectedLine",
    "encode",
    "json_schema",
    "parse",
    "parse_lines",
    "read_file",
]
