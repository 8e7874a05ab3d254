"""The guard itself; it needs no cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storm.guard import Guard


def test_guard_cleans_up_after_failure_only(tmp_path: Path) -> None:
    left, well = tmp_path / "left", tmp_path / "well"
    with pytest.raises(AssertionError), Guard("touch", str(left)):
        raise AssertionError
    with Guard("touch", str(well)) as guard:
        guard.all_well()
    assert (left.exists(), well.exists()) == (True, False)


def test_guard_runs_cleanup_when_process_is_killed(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    program = f"""
import os, signal
from tests.storm.guard import Guard
with Guard("sh", "-c", "echo ended > {fifo}"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.Popen([sys.executable, "-c", program], env=environment)
    assert fifo.read_text(encoding="utf-8") == "ended\n"  # waits until somebody writes
    assert killed.wait() < 0
