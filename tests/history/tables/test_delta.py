"""The tables in Delta format: the same promises, in a Spark of its own, which has the jars."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

from stormwright.errors import MissingDependencyError, StormwrightError
from stormwright.history.tables import store
from stormwright.history.tables.definitions import FACTS


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(store, "version", missing)
    with pytest.raises(MissingDependencyError, match=r"stormwright\[delta\]"):
        store.delta_conf()


@pytest.mark.parametrize(("committed", "told"), [(False, None), (True, "is there and cannot be read: the log is gone")])
def test_unreadable_delta_table_is_an_error_instead_of_empty(
    monkeypatch: pytest.MonkeyPatch, committed: bool, told: str | None
) -> None:
    """Only where nothing was ever committed there is none, though an interrupted write has left files."""

    def load(_: str) -> None:
        raise AnalysisException("the log is gone")

    looked: list[str] = []
    monkeypatch.setattr(store, "keep_order", lambda _: None)
    monkeypatch.setattr(store, "exists", lambda _, path: looked.append(path) or committed)
    spark = MagicMock(**{"read.format.return_value.load": load, "createDataFrame.return_value": "empty"})
    tables = store.DeltaStore(spark, "file:///tables")
    if told is None:
        assert tables.days(FACTS) == []
        assert tables.read(FACTS) == "empty"
    else:
        for ask in (tables.days, tables.read, tables.size_bytes):
            with pytest.raises(StormwrightError, match=told):
                ask(FACTS)
    assert set(looked) == {"file:///tables/facts/version=1/_delta_log/*.json"}


@pytest.mark.spark
@pytest.mark.slow
def test_delta_rows_are_stored_exactly_once(tmp_path: Path) -> None:
    try:
        version("delta-spark")
    except PackageNotFoundError:
        pytest.skip("delta-spark is not installed")
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "tests.history.in_delta", str(tmp_path)],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot be had" in done.stderr:
        pytest.skip("the jars of Delta cannot be had here")
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == dict.fromkeys(told, True)
    assert len(told) == 6
