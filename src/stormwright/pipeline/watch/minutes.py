"""Loads of components minute by minute: what forecasts are made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stormwright.files import writing
from stormwright.model import LoadProfile, Problem
from stormwright.model.arrays import FloatArray

#: Per component and minute (since 1970) the CPU of its executors and what they send.
MINUTES = pa.schema(
    [
        ("topology", pa.string()),
        ("component", pa.string()),
        ("minute", pa.int64()),
        ("cpu_hz", pa.float64()),
        ("rate_tps", pa.float64()),
    ]
)

_MINUTE_MS = 60_000


class MinuteTable:
    """A rolling table, `MINUTES`, kept in a file.

    Parameters
    ----------
    path
        The file; what is in it is gone on with, unless it is damaged.
    keep_minutes
        Older ones are forgotten.
    """

    def __init__(self, path: Path, keep_minutes: int) -> None:
        self._path, self._keep = path, keep_minutes
        self._table = _read(path) if path.exists() else MINUTES.empty_table()
        self._minute = -1
        self._end_ms = 0
        self._windows: dict[tuple[str, str], list[tuple[float, float]]] = {}

    def add(self, profile: LoadProfile, problem: Problem) -> None:
        """Take what was measured last, unless it overlaps with what was taken before; a minute is the mean of such."""
        if profile.start_ms < self._end_ms:
            return
        self._end_ms = profile.end_ms
        minute = profile.start_ms // _MINUTE_MS
        if minute != self._minute:
            self._close()
            self._minute = minute
        for topology in problem.topologies:
            load = profile.topologies.get(topology.id)
            if load is None:
                continue
            of, size = topology.executor_component, len(topology.components)
            cpu_hz = np.bincount(of, load.cpu_hz, size)
            sent_tps = np.bincount(of[load.pair_source], load.pair_tps, size)
            sent_tps = sent_tps + np.bincount(of[load.flow_source], load.flow_tps, size)
            for component, amounts in zip(topology.components, zip(cpu_hz, sent_tps, strict=True), strict=True):
                self._windows.setdefault((topology.id, component.id), []).append(amounts)

    def table(self) -> pa.Table:
        """The minutes that are over, `MINUTES`."""
        return self._table

    def save(self) -> None:
        """Replace the file at once."""
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with writing(self._path) as file, pa.ipc.new_file(file, MINUTES, options=options) as table:
            table.write_table(self._table)

    def _close(self) -> None:
        """Add the minute that is over."""
        rows = [
            (topology, component, self._minute, *np.mean(windows, axis=0).tolist())
            for (topology, component), windows in self._windows.items()
        ]
        self._windows = {}
        new = pa.Table.from_pylist([dict(zip(MINUTES.names, row, strict=True)) for row in rows], MINUTES)
        table = pa.concat_tables([self._table, new])
        self._table = table.filter(pc.greater(table["minute"], self._minute - self._keep)).combine_chunks()


def series_of(minutes: pa.Table) -> tuple[list[tuple[str, str]], FloatArray, FloatArray, int]:
    """A table of minutes as series.

    Returns
    -------
    names
        Topology and component of each of the S series, in order.
    cpu_hz, rate_tps
        Minute by minute from the oldest to the newest, NaN where nothing was measured, shape (S, n).
    newest
        The last minute.
    """
    keys = list(zip(minutes["topology"].to_pylist(), minutes["component"].to_pylist(), strict=True))
    names = sorted(set(keys))
    row = {name: number for number, name in enumerate(names)}
    at = minutes["minute"].to_numpy()
    first, newest = int(at.min()), int(at.max())
    cpu_hz = np.full((len(names), newest - first + 1), np.nan)
    rate_tps = cpu_hz.copy()
    place = ([row[key] for key in keys], at - first)
    cpu_hz[place], rate_tps[place] = minutes["cpu_hz"].to_numpy(), minutes["rate_tps"].to_numpy()
    return names, cpu_hz, rate_tps, newest


def _read(path: Path) -> pa.Table:
    """The minutes in a file; none where it is damaged: they are learnt again."""
    try:
        with pa.ipc.open_file(path) as file:
            return file.read_all().select(MINUTES.names).cast(MINUTES)
    except (pa.ArrowException, KeyError):
        return MINUTES.empty_table()
