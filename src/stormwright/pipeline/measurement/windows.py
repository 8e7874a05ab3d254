"""Facts in the driver: updates of panes, and the newest window assembled from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.model.arrays import FloatArray
from stormwright.pipeline.measurement.panes import HIGHEST, KEYS, LOWEST, VALUES
from stormwright.pipeline.settings import StreamSettings

# Gaps ---------------------------------------------------------------------------------------------
# Missing records: gaps in the sequence numbers of a worker.


@dataclass(frozen=True)
class WorkerRecords:
    """Records received from one worker in a window.

    Parameters
    ----------
    start_ms
        Start of the worker: one that takes over the port of another has its own sequence numbers.
    records
        Records that are used.
    missing
        Sequence numbers between the lowest and the highest of them that are not: lost, in quarantine or under way.
    """

    topology: str
    supervisor: str
    port: int
    start_ms: int
    records: int
    missing: int


def worker_records(facts: pa.Table) -> list[WorkerRecords]:
    """Return the records received from each worker, from the facts of one window."""
    keys = ("topology", "supervisor", "second", "first")
    workers = kind_of(facts, "worker").sort_by([(name, "ascending") for name in keys])
    return [
        WorkerRecords(
            topology=worker["topology"],
            supervisor=worker["supervisor"],
            port=worker["second"],
            start_ms=worker["first"],
            records=worker["records"],
            missing=worker["highest_seq"] - worker["lowest_seq"] + 1 - worker["records"],
        )
        for worker in workers.to_pylist()
    ]


# Windows ------------------------------------------------------------------------------------------

_ARROW_TYPES = {"string": pa.string(), "long": pa.int64(), "double": pa.float64()}

#: Arrow schema of the result of `panes.panes`.
PANES = pa.schema([("pane_ms", pa.int64()), *((n, _ARROW_TYPES[t]) for n, t in (KEYS | VALUES).items())])

#: Arrow schema of a worker's second (`at`, since 1970).
SECOND_KEYS = ["topology", "supervisor", "port", "at"]
SECOND_SUMS = ["cpu_ns", "length_ns", "used_ns", "quota_ns", "used_known_ns"]
SECONDS = [*SECOND_KEYS, *SECOND_SUMS]


def merged(before: pa.Table, update: pa.Table) -> pa.Table:
    """Return one row per pane and key, with values of both tables combined."""
    if not before.num_rows:
        return update
    return _grouped(pa.concat_tables([before, update]), ["pane_ms", *KEYS])


def by_pane(table: pa.Table, moment: str, slide_s: int) -> dict[int, pa.Table]:
    """Return the rows of each pane by its start; the moment (ms) in a column decides."""
    return _parts(table, table[moment].to_numpy() // (slide_s * 1000) * (slide_s * 1000))


def by_topology(facts: pa.Table) -> dict[str, pa.Table]:
    """Return the facts of each topology."""
    codes = facts["topology"].combine_chunks().dictionary_encode()
    names = codes.dictionary.to_pylist()
    return {names[code]: part for code, part in _parts(facts, codes.indices.to_numpy()).items()}


def _parts(table: pa.Table, labels: np.ndarray) -> dict[int, pa.Table]:
    """Return the rows of each label."""
    order = np.argsort(labels, kind="stable")
    found, begins = np.unique(labels[order], return_index=True)
    table = table.take(pa.array(order))
    ends = [*begins[1:], len(order)][: len(begins)]
    return {int(label): table.slice(begin, end - begin) for label, begin, end in zip(found, begins, ends, strict=True)}


def first_of_each(arriving: pa.Table, earlier: pa.Table) -> np.ndarray:
    """Return the first occurrence of rows of `arriving` that are not in `earlier`, unordered."""
    place = np.concatenate([np.full(earlier.num_rows, -1), np.arange(arriving.num_rows)])
    both = pa.concat_tables([earlier, arriving]).append_column("place", pa.array(place))
    grouped = both.group_by(arriving.column_names, use_threads=False).aggregate([("place", "min")])
    first: np.ndarray = grouped["place_min"].to_numpy()
    return first[first >= 0]


def records_in(panes: pa.Table) -> int:
    """Return the number of records in the panes."""
    return pc.sum(panes["records"]).as_py() or 0


def newest_window(panes: pa.Table, settings: StreamSettings) -> tuple[int, pa.Table]:
    """Return start (ms) and panes of the window that ends with the newest pane."""
    start_ms = pc.max(panes["pane_ms"]).as_py() - settings.window_ms + settings.slide_s * 1000
    return start_ms, panes.filter(pc.greater_equal(panes["pane_ms"], start_ms))


def window_facts(panes: pa.Table) -> pa.Table:
    """Return the facts (`KEYS`, `VALUES`) of the panes of a window, combined."""
    return _grouped(panes.drop_columns("pane_ms"), list(KEYS))


def worker_seconds(panes: pa.Table) -> pa.Table:
    """Return CPU time of every worker and of its node in every second, and the covered time, `SECONDS`."""
    nodes = kind_of(panes, "node").rename_columns({"first": "at", "second": "port"}).select(SECONDS)
    return _grouped(nodes, SECOND_KEYS)


def with_more(seconds: pa.Table, more: pa.Table, history_s: int) -> pa.Table:
    """Return the combined seconds, limited to `history_s` before the newest."""
    if not more.num_rows:
        return seconds
    # Only recent seconds can coincide with the added ones.
    recent = pc.greater_equal(seconds["at"], pc.min(more["at"]))
    changed = _grouped(pa.concat_tables([seconds.filter(recent), more]), SECOND_KEYS)
    both = pa.concat_tables([seconds.filter(pc.invert(recent)), changed])
    # One piece: a table would have one more with every batch.
    return both.filter(pc.greater(both["at"], pc.max(both["at"]).as_py() - history_s)).combine_chunks()


def _grouped(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return one row per combination of keys; other columns summed, or their minimum or maximum."""
    values = [name for name in table.column_names if name not in keys]
    how = [(name, "min" if name in LOWEST else "max" if name in HIGHEST else "sum") for name in values]
    # Arrow wraps around beyond 64 bits.
    for name, function in how:
        if function == "sum" and (pc.sum(table[name].cast(pa.float64())).as_py() or 0) >= 2**63:
            raise OverflowError(f"{name}: the sum of all is greater than 64 bits hold (overflow)")
    return table.group_by(keys, use_threads=False).aggregate(how).rename_columns([*keys, *values])


def kind_of(facts: pa.Table, kind: str) -> pa.Table:
    """Return the facts of one kind."""
    return facts.filter(pc.equal(facts["kind"], kind))


def numbers(table: pa.Table, name: str) -> FloatArray:
    """Return a column as floats, NaN for nulls."""
    return np.asarray(table[name].to_numpy(), dtype=np.float64)
