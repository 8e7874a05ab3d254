"""Two processes never share a directory that is one's own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stormwright.errors import StormwrightError
from stormwright.file_lock import alone


def test_second_lock_holder_is_rejected_with_process_id_of_the_first(tmp_path):
    state = tmp_path / "state"
    with alone(state, "taken"):
        for _ in range(2):
            with pytest.raises(StormwrightError, match=rf"taken \(process {os.getpid()}\)"), alone(state, "taken"):
                pass
    with alone(state, "taken"):
        assert (state / "lock").read_text() == str(os.getpid())


def test_lock_of_a_killed_process_is_released(tmp_path):
    code = "import sys, time\nfrom pathlib import Path\nfrom stormwright.file_lock import alone\n"
    code += "with alone(Path(sys.argv[1]), 'taken'):\n    print('there', flush=True)\n    time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    assert other.stdout
    assert other.stdout.readline() == "there\n"
    with pytest.raises(StormwrightError, match=rf"process {other.pid}"), alone(tmp_path, "taken"):
        pass
    other.kill()
    other.communicate()
    with alone(tmp_path, "taken"):
        pass
