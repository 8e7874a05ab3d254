"""The tables in Delta format: the same promises, in a Spark of its own, which has the jars."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from stormwright.errors import MissingDependencyError
from stormwright.history.tables import delta


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(delta, "version", missing)
    with pytest.raises(MissingDependencyError, match=r"stormwright\[delta\]"):
        delta.delta_conf()


@pytest.mark.spark
def test_rows_are_there_once_in_delta_too(tmp_path: Path) -> None:
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
