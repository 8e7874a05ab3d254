"""A sweep's cells in the history: what its own table holds is there once, wherever the sweep was ended."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stormwright.history.tables.definitions import EXPERIMENTS
from stormwright.history.tables.staging import Staging
from stormwright.workbench.sweep.run import StagedTable
from stormwright.workbench.sweep.table import LocalTable
from stormwright.workbench.sweep.work import ROW


class Killed(BaseException):
    """Ends the sweep at once."""


def wave(number: int, ended_ms: int, error: str | None = None) -> pa.Table:
    rows = [
        {"key": f"{number}-{cell}", "scheduler": "even", "ended_ms": ended_ms + cell, "error": error, "cost": 1.5}
        for cell in range(3)
    ]
    return pa.Table.from_pylist(rows, ROW)


def staged(directory: Path) -> list[tuple[str, int, str | None]]:
    """Cells that an ingest would take, by key."""
    files = (directory / "staging" / "experiments" / "v1").glob("[!.]*.parquet")
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    assert all(row["name"] == "first" and row["scheduler"] == "even" and row["cost"] == 1.5 for row in rows)
    return sorted((row["cell"], row["at_ms"], row["error"]) for row in rows)


def in_table(table: LocalTable) -> list[tuple[str, int, str | None]]:
    return sorted((row["key"], row["ended_ms"], row["error"]) for row in table.read().to_pylist())


@pytest.mark.parametrize("place", ["write", "append", "publish"])
@pytest.mark.parametrize("done", [False, True])
def test_interrupted_sweep_records_each_cell_once(
    place: str, done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, staging = LocalTable(tmp_path / "cells"), Staging(tmp_path / "history")
    noted = StagedTable(table, staging, "cells", "first")
    noted.append(wave(1, 1000))
    with monkeypatch.context() as patch:
        kind = LocalTable if place == "append" else Staging
        real = getattr(kind, place)

        def killed(*arguments: object, **named: object) -> None:
            if done:
                real(*arguments, **named)
            raise Killed

        patch.setattr(kind, place, killed)
        with pytest.raises(Killed):
            noted.append(wave(2, 2000))
    again = StagedTable(table, staging, "cells", "first")
    assert staged(tmp_path / "history") == in_table(table)
    if "2-0" not in again.read()["key"].to_pylist():
        again.append(wave(2, 3000))
    again.append(wave(3, 4000))
    assert len(in_table(table)) == 9
    assert staged(tmp_path / "history") == in_table(table)
    assert staging.hidden(EXPERIMENTS) == []


def test_repeated_cell_is_recorded_with_both_answers(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "history")
    noted = StagedTable(LocalTable(tmp_path / "cells"), staging, "cells", "first")
    noted.append(wave(1, 1000, error="slow"))
    noted.append(wave(1, 2000))
    assert [(at_ms, error) for cell, at_ms, error in staged(tmp_path / "history") if cell == "1-0"] == [
        (1000, "slow"),
        (2000, None),
    ]


def test_hidden_rows_of_another_sweep_are_left_untouched(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "history")
    staging.write(EXPERIMENTS, "of-another", [dict.fromkeys(EXPERIMENTS.columns)], hidden=True)
    StagedTable(LocalTable(tmp_path / "cells"), staging, "cells", "first").append(wave(1, 1000))
    assert staging.hidden(EXPERIMENTS) == ["of-another"]
