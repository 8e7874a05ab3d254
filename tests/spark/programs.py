"""What the tests here start as programs of their own: a process has one kind of Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stormwright.pipeline.parsing.quarantine import QUARANTINE
from tests.spark.clusters import environment, settings

_HERE = Path(__file__).parent


class Backfilled(NamedTuple):
    """What a backfill left: its ledger, and both tables in a known order."""

    ledger: dict[str, int]
    panes: list[str]
    quarantine: list[str]


def backfilled(master: str, conf: Mapping[str, str], landing: Path, into: Path) -> Backfilled:
    """Run the batch pipeline wherever Spark is; locations travel as URIs."""
    arguments = [master, landing.as_uri(), into.as_uri(), *(f"{key}={value}" for key, value in conf.items())]
    output = _run([sys.executable, str(_HERE / "backfill_there.py"), *arguments], environment())
    panes = _rows(into / "panes")
    lines = [line for file in (into / "quarantine").glob("*.json") for line in file.read_text().splitlines()]
    quarantine = [[json.loads(line).get(name) for name in QUARANTINE.names] for line in lines]
    return Backfilled(json.loads(output), sorted(map(str, panes)), sorted(map(str, quarantine)))


def sweep_command(spec: Path, table: Path | str, master: str | None, conf: Mapping[str, str]) -> list[str]:
    """Argument vector of a sweep that prints JSON."""
    where = [] if master is None else ["--master", master]
    return ["sweep", str(spec), "--table", str(table), *where, *settings(conf), "--json"]


def swept(command: list[str], plugins: Path, code: int = 0) -> dict[str, Any]:
    """Run a sweep to its end; what it prints."""
    result: dict[str, Any] = json.loads(
        _run([sys.executable, "-m", "stormwright", *command], environment(plugins), code)
    )
    return result


def _run(command: list[str], env: Mapping[str, str], code: int = 0) -> str:
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def write_spec(path: Path, schedulers: Mapping[str, object], **others: object) -> Path:
    """A sweep over one problem of the TOP-Storm paper."""
    problems = ["ready:top-storm-word-count-1"]
    document = {"schema": "stormwright-sweep/1", "problems": problems, "schedulers": schedulers, **others}
    path.write_text(json.dumps(document))
    return path


def cells_in(table: Path) -> list[dict[str, Any]]:
    """All rows, however often a cell is there."""
    files = [str(path) for path in table.glob("[!._]*.parquet")]
    return _rows(files)


def _rows(files: Path | list[str]) -> list[dict[str, Any]]:
    import pyarrow.dataset as ds  # it takes pandas along: other processes are not to wait for it

    rows: list[dict[str, Any]] = ds.dataset(files, format="parquet").to_table().to_pylist()
    return rows
