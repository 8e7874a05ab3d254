"""Facts on this side of Spark: panes brought up to date, and the window that speaks for now made of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model.arrays import FloatArray
from stormwright.pipeline.derive import HIGHEST, KEYS, LOWEST, SUMS, VALUES
from stormwright.pipeline.settings import StreamSettings

_ARROW_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}

#: What `derive.panes` gives, in Arrow's types.
PANES = pa.schema([("pane_ms", pa.int64()), *((n, _ARROW_TYPES[t]) for n, t in (KEYS | VALUES).items())])

#: A worker's second (`at`, since 1970), and what is known of it.
SECOND_KEYS = ["topology", "supervisor", "port", "at"]
SECOND_SUMS = ["cpu_ns", "length_ns"]
SECONDS = [*SECOND_KEYS, *SECOND_SUMS]


def merged(before: pa.Table, update: pa.Table) -> pa.Table:
    """One row per pane and key. Sums only grow while records arrive, so the greatest is the newest."""
    return _grouped(pa.concat_tables([before, update]), ["pane_ms", *KEYS], _how("max"))


def parted(panes: pa.Table, newest_before_ms: int | None, settings: StreamSettings) -> tuple[pa.Table, pa.Table]:
    """Open panes, and closed ones, which no window needs and no record can reach any more.

    `newest_before_ms` is when the newest record of the batches before began: what Spark drops as late follows from it.
    """
    if newest_before_ms is None or not panes.num_rows:
        return panes, panes.slice(0, 0)
    slide_ms = settings.slide_s * 1000
    newest_pane_ms = pc.max(panes["pane_ms"]).as_py()
    oldest_ms = min(newest_pane_ms - settings.window_ms, newest_before_ms - settings.watermark_s * 1000 - slide_ms)
    is_open = pc.greater(panes["pane_ms"], oldest_ms)
    return panes.filter(is_open), panes.filter(pc.invert(is_open))


def records_in(panes: pa.Table) -> int:
    """How many records the panes hold."""
    return pc.sum(panes["records"]).as_py() or 0


def newest_window(panes: pa.Table, settings: StreamSettings) -> tuple[int, pa.Table]:
    """Start (ms) and facts (`KEYS`, `VALUES`) of the window that ends with the newest pane."""
    start_ms = pc.max(panes["pane_ms"]).as_py() - settings.window_ms + settings.slide_s * 1000
    inside = panes.filter(pc.greater_equal(panes["pane_ms"], start_ms))
    return start_ms, _grouped(inside, list(KEYS), _how("sum"))


def worker_seconds(panes: pa.Table) -> pa.Table:
    """CPU time and covered time of every worker in every second, `SECONDS`."""
    nodes = kind_of(panes, "node").rename_columns({"first": "at", "second": "port"}).select(SECONDS)
    return _grouped(nodes, SECOND_KEYS, dict.fromkeys(SECOND_SUMS, "sum"))


def with_history(seconds: pa.Table, earlier: pa.Table, history_s: int) -> pa.Table:
    """`seconds` and those before them; of a second that has lost a pane since, what was known of it earlier."""
    both = _grouped(pa.concat_tables([earlier, seconds]), SECOND_KEYS, dict.fromkeys(SECOND_SUMS, "max"))
    if not both.num_rows:
        return both
    return both.filter(pc.greater(both["at"], pc.max(both["at"]).as_py() - history_s))


def _how(sums: str) -> dict[str, str]:
    """How facts become one: what is a sum by `sums`, the lowest and the highest by what they are."""
    return dict.fromkeys(SUMS, sums) | dict.fromkeys(LOWEST, "min") | dict.fromkeys(HIGHEST, "max")


def _grouped(table: pa.Table, keys: list[str], how: dict[str, str]) -> pa.Table:
    """One row per combination of keys, the values aggregated, columns named as before."""
    return table.group_by(keys, use_threads=False).aggregate(list(how.items())).rename_columns([*keys, *how])


def kind_of(facts: pa.Table, kind: str) -> pa.Table:
    """The facts of one kind."""
    return facts.filter(pc.equal(facts["kind"], kind))


def of_topology(facts: pa.Table, topology: str) -> pa.Table:
    """The facts of one topology."""
    return facts.filter(pc.equal(facts["topology"], topology))


def numbers(table: pa.Table, name: str) -> FloatArray:
    """A column as floats; the columns used so hold no nulls."""
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
