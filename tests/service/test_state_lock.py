"""Two services never share a state directory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stormwright.errors import InputError
from stormwright.service.state_lock import LOCK, only_service


def test_the_second_is_told_who_is_there(tmp_path):
    state = tmp_path / "state"
    with only_service(state):
        for _ in range(2):
            with pytest.raises(InputError, match=rf"another service \(pid {os.getpid()}\)"), only_service(state):
                pass
    with only_service(state):
        assert (state / LOCK).read_text() == str(os.getpid())


def test_who_was_killed_holds_nothing(tmp_path):
    code = "import sys, time\nfrom pathlib import Path\nfrom stormwright.service.state_lock import only_service\n"
    code += "with only_service(Path(sys.argv[1])):\n    print('there', flush=True)\n    time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    assert other.stdout
    assert other.stdout.readline() == "there\n"
    with pytest.raises(InputError, match=rf"pid {other.pid}"), only_service(tmp_path):
        pass
    other.kill()
    other.communicate()
    with only_service(tmp_path):
        pass
