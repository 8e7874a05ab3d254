"""Two processes never share a directory that is one's own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stormwright.base.file_lock import exclusive_lock
from stormwright.errors import StormwrightError


def test_second_lock_holder_is_rejected_with_process_id_of_the_first(tmp_path):
    state = tmp_path / "state"
    with exclusive_lock(state, "taken"):
        for _ in range(2):
            with (
                pytest.raises(StormwrightError, match=rf"taken \(process {os.getpid()}\)"),
                exclusive_lock(state, "taken"),
            ):
                pass
    with exclusive_lock(state, "taken"):
        assert (state / "lock").read_text() == str(os.getpid())


def test_lock_of_a_killed_process_is_released(tmp_path):
    code = "import sys, time\nfrom pathlib import Path\nfrom stormwright.base.file_lock import exclusive_lock\n"
    code += "with exclusive_lock(Path(sys.argv[1]), 'taken'):\n    print('there', flush=True)\n    time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    assert other.stdout
    assert other.stdout.readline() == "there\n"
    with pytest.raises(StormwrightError, match=rf"process {other.pid}"), exclusive_lock(tmp_path, "taken"):
        pass
    other.kill()
    other.communicate()
    with exclusive_lock(tmp_path, "taken"):
        pass
