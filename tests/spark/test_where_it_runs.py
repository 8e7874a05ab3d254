"""The same results wherever Spark runs: this machine, a standalone cluster, a Connect server, under spark-submit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

import stormwright.__main__
from stormwright.schedulers.toolkit.resolve import choose_schedulers
from stormwright.workbench.comparison import compare
from stormwright.workbench.generated_problems import READY
from tests.spark.clusters import DRIVER, ROOT, Standalone, environment
from tests.spark.programs import Backfilled, backfilled, cells_in, sweep_command, swept, write_spec

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Without a cluster, a session's own settings: the server has the others.
IN_SESSION = {"spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def in_local(landing: Path, tmp_path_factory: pytest.TempPathFactory) -> Backfilled:
    return backfilled("local[2]", {}, landing, tmp_path_factory.mktemp("local") / "into")


def assert_all_there(table: Path, cells: int) -> None:
    """Every cell once, none failed, with the cost that `compare` finds here."""
    rows = cells_in(table)
    assert len(rows) == len({row["key"] for row in rows}) == cells
    assert {row["error"] for row in rows} == {None}
    problem = READY["top-storm-word-count-1"]()
    answers = {row.name: row.figures for row in compare(problem, choose_schedulers("even,online")).rows}
    for row in rows:
        figures = answers["online" if row["scheduler"] == "online" else "even"]
        assert figures is not None
        assert row["cost"] == figures.cost.total


def test_local_tables_account_for_every_line(in_local: Backfilled) -> None:
    ledger = in_local.ledger
    assert ledger["read"] == ledger["used"] + ledger["duplicate"] + ledger["quarantined"]
    assert min(ledger.values()) > 0
    assert len(in_local.quarantine) == ledger["quarantined"]


def test_backfill_on_a_standalone_cluster_equals_local_result(
    standalone: Standalone, landing: Path, in_local: Backfilled, tmp_path: Path
) -> None:
    assert backfilled(standalone.master, DRIVER, landing, tmp_path / "into") == in_local


def test_backfill_over_connect_equals_local_result(
    connect_server: str, landing: Path, in_local: Backfilled, tmp_path: Path
) -> None:
    assert backfilled(connect_server, IN_SESSION, landing, tmp_path / "into") == in_local


def test_sweep_over_connect_writes_to_a_uri(connect_server: str, tmp_path: Path, plugins: Path) -> None:
    spec = write_spec(tmp_path / "sweep.json", {"even": None, "online": None, "stand_in": None}, seeds=[*range(20)])
    table = tmp_path / "cells"
    result = swept(sweep_command(spec, table.as_uri(), connect_server, IN_SESSION), plugins)
    assert (result["cells"], result["decided"], result["failed"]) == (22, 22, [])
    assert_all_there(table, 22)


def test_killed_worker_loses_no_sweep_cell(standalone: Standalone, tmp_path: Path, plugins: Path) -> None:
    spec = write_spec(tmp_path / "sweep.json", {"online": None, "stand_in": {"ms": 50}}, seeds=[*range(150)])
    table = tmp_path / "cells"
    command = sweep_command(spec, table, standalone.master, DRIVER)
    with subprocess.Popen([sys.executable, "-m", "stormwright", *command], env=environment(plugins)) as sweep:
        wait_for_cells(table, sweep)
        standalone.kill_worker(1)
        assert sweep.wait(90) == 0
    assert_all_there(table, 151)


def test_sweep_example_runs_under_spark_submit(standalone: Standalone, tmp_path: Path, plugins: Path) -> None:
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", standalone.master]
    submit += [word for key, value in DRIVER.items() for word in ("--conf", f"{key}={value}")]
    sweep = sweep_command(ROOT / "examples" / "sweep.yaml", tmp_path / "cells", None, {})
    files = {"--output": tmp_path / "sweep.html", "--csv": tmp_path / "cells.csv"}
    sweep += [str(word) for pair in files.items() for word in pair]
    env = {**environment(plugins), "PYSPARK_DRIVER_PYTHON": sys.executable}
    program = str(stormwright.__main__.__file__)
    done = subprocess.run([*submit, program, *sweep], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    cells = 2 * (1 + 6 + 1 + 3) * 2
    rows = cells_in(tmp_path / "cells")
    assert len({row["key"] for row in rows}) == len(rows) == cells
    assert files["--output"].read_text().count("<svg") == 2
    assert len(files["--csv"].read_text().splitlines()) == cells + 1


def test_killed_sweep_resumes_and_a_worker_killing_cell_becomes_a_row(tmp_path: Path, plugins: Path) -> None:
    spec = write_spec(tmp_path / "sweep.json", {"stand_in": {"ms": 60, "end": "die"}}, seeds=[*range(60)])
    table = tmp_path / "cells"
    command = sweep_command(spec, table, "local[2]", {})
    with subprocess.Popen([sys.executable, "-m", "stormwright", *command], env=environment(plugins)) as sweep:
        wait_for_cells(table, sweep)
        sweep.send_signal(signal.SIGKILL)
    stored = len(cells_in(table))
    assert 0 < stored < 60
    result = swept(command, plugins, code=1)
    assert result["cells"] == 60
    assert result["decided"] <= 60 - stored
    (failed,) = result["failed"]
    assert failed["seed"] == 0
    assert "the worker that decided it failed" in failed["error"]
    rows = cells_in(table)
    assert len(rows) == len({row["key"] for row in rows}) == 60


def wait_for_cells(table: Path, sweep: subprocess.Popen[bytes]) -> None:
    """Wait until the first wave is in the table."""
    deadline = time.monotonic() + 60
    while not list(table.glob("[!._]*.parquet")):
        assert sweep.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
