"""Tables of windowed facts on this side of Spark: merging updates, choosing the window that speaks for now."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model.arrays import FloatArray
from stormwright.pipeline.derive import KEYS, SUMS
from stormwright.pipeline.settings import StreamSettings

_ARROW_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}

#: What `derive.windowed` gives, in Arrow's types.
WINDOWED = pa.schema([("window_ms", pa.int64()), *((n, _ARROW_TYPES[t]) for n, t in (KEYS | SUMS).items())])


def merged(before: pa.Table, update: pa.Table) -> pa.Table:
    """One row per window and key. Sums only grow while records arrive, so the greatest is the newest."""
    grouped = pa.concat_tables([before, update]).group_by(["window_ms", *KEYS])
    newest = grouped.aggregate([(name, "max") for name in SUMS])
    return newest.rename_columns([name.removesuffix("_max") for name in newest.column_names]).select(WINDOWED.names)


def without_closed(windows: pa.Table, settings: StreamSettings) -> pa.Table:
    """Leave out the windows that no record can reach any more."""
    if not windows.num_rows:
        return windows
    oldest_ms = pc.max(windows["window_ms"]).as_py() - settings.late_s * 1000 - settings.window_ms
    return windows.filter(pc.greater_equal(windows["window_ms"], oldest_ms))


def records_in(windows: pa.Table, settings: StreamSettings) -> int:
    """Records in the windows that do not overlap: each record once."""
    nodes = kind_of(windows, "node")
    starts = nodes["window_ms"].to_numpy()
    return int(nodes["records"].to_numpy()[starts % settings.window_ms == 0].sum())


def newest_window(windows: pa.Table, settings: StreamSettings) -> tuple[int, pa.Table]:
    """Start (ms) and facts of the window that reaches back furthest among those that hold the newest record."""
    start_ms = pc.max(windows["window_ms"]).as_py() - (settings.window_s - settings.slide_s) * 1000
    return start_ms, windows.filter(pc.equal(windows["window_ms"], start_ms))


def node_seconds(windows: pa.Table) -> pa.Table:
    """CPU time of every node in every second: `supervisor`, `second`, `cpu_ns`.

    At its edges a window lacks what intervals begun in the next one add to a second; another window has it all.
    """
    nodes = kind_of(windows, "node").select(["supervisor", "first", "cpu_ns"])
    return merged_seconds(nodes.rename_columns(["supervisor", "second", "cpu_ns"]))


def merged_seconds(*tables: pa.Table) -> pa.Table:
    """Tables of node seconds as one, of each second what is most complete."""
    fullest = pa.concat_tables(tables).group_by(["supervisor", "second"]).aggregate([("cpu_ns", "max")])
    return fullest.rename_columns(["supervisor", "second", "cpu_ns"])


def kind_of(facts: pa.Table, kind: str) -> pa.Table:
    """The facts of one kind."""
    return facts.filter(pc.equal(facts["kind"], kind))


def of_topology(facts: pa.Table, topology: str) -> pa.Table:
    """The facts of one topology."""
    return facts.filter(pc.equal(facts["topology"], topology))


def numbers(table: pa.Table, name: str) -> FloatArray:
    """A column as floats; the columns used so hold no nulls."""
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
