"""The helper JVM's process, over stand-ins: how its end is reported, and that nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stormwright.storm import helper_jvm
from stormwright.storm.helper_jvm import HelperJvm, JvmEndedError, NoAnswerError

#: Longer than anything here takes; whoever waits goes on as soon as it may.
SOON_S = 20.0

#: Answers, says something in its log each time, and dies by the signal that a request names.
MORTAL = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if "signal" in request:
        os.kill(os.getpid(), request["signal"])
    if "words" in request:
        sys.exit(request["words"])
    print("a warning", "-" * request.get("dashes", 0), file=sys.stderr, flush=True)
    print(json.dumps({"id": request["id"]}), flush=True)
"""

#: Starts a child that shares its standard output, writes both process ids to a file, and answers nothing.
PARENT = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[1] + ".new").write_text(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""

#: Starts a child that shares its standard output, in a session of its own or not; ends at once, or when it is told.
LEAVES = """
import os, pathlib, subprocess, sys
mark, session, end = sys.argv[1:]
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=session == "own")
pathlib.Path(mark).write_text(str(child.pid))
print("left one behind", file=sys.stderr, flush=True)
if end == "at once":
    print('{"id": 1, "half', flush=True)
    os._exit(4)
print('{"id": 1}', flush=True)
sys.stdin.read()
"""

#: Answers with many bytes on one line, after as many that are no answer.
FLOOD = """
import sys
sys.stdin.readline()
sys.stdout.write("-" * 20_000_000 + '\\n{"id": 1, "text": "' + "x" * 20_000_000 + '"}\\n')
sys.stdout.flush()
sys.stdin.readline()
"""

#: Waits for a stand-in in its main thread, as the command line does.
CALLER = """
import sys
from stormwright.storm.helper_jvm import HelperJvm
with HelperJvm([sys.executable, "-c", sys.argv[1], sys.argv[2]]) as jvm:
    jvm._ask({}, 600)
"""


class Jvm(HelperJvm):
    def ask(self, request: dict[str, object], limit_s: float) -> None:
        self._ask(request, limit_s)

    def log_bytes(self) -> int:
        return os.fstat(self._log.fileno()).st_size


def mortal() -> Jvm:
    return Jvm([sys.executable, "-c", MORTAL])


def parent(pids: Path) -> Jvm:
    return Jvm([sys.executable, "-c", PARENT, str(pids)])


def eventually(true: Callable[[], bool]) -> bool:
    until = time.monotonic() + SOON_S
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def all_gone(pids: Path) -> bool:
    numbers = [int(pid) for pid in pids.read_text().split()]
    return eventually(lambda: not any(runs(pid) for pid in numbers))


def test_jvm_end_reports_signal_and_last_output() -> None:
    with mortal() as jvm:
        jvm.ask({}, SOON_S)
        with pytest.raises(JvmEndedError, match=r"^signal 9: a warning"):
            jvm.ask({"signal": signal.SIGKILL}, SOON_S)


def test_output_of_previous_jvm_is_not_attributed_to_next() -> None:
    with mortal() as jvm:
        with pytest.raises(JvmEndedError, match=r"^exit code 1: no heap$"):
            jvm.ask({"words": "no heap"}, SOON_S)
        with pytest.raises(JvmEndedError, match=r"^signal 9$"):
            jvm.ask({"signal": signal.SIGKILL}, SOON_S)


def test_jvm_log_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_jvm, "_LOG_BYTES", 10_000)
    with mortal() as jvm:
        for _ in range(100):
            jvm.ask({"dashes": 1000}, SOON_S)
            assert jvm.log_bytes() < 12_000
        with pytest.raises(JvmEndedError, match=r"^exit code 1: that was it$"):
            jvm.ask({"words": "that was it"}, SOON_S)


@pytest.mark.slow
def test_the_time_limit_ends_children_too(tmp_path: Path) -> None:
    """A child has the standard output open that the answer is waited for on."""
    begin = time.monotonic()
    with parent(tmp_path / "pids") as jvm, pytest.raises(NoAnswerError):
        jvm.ask({}, 2.0)
    assert time.monotonic() - begin < SOON_S
    assert all_gone(tmp_path / "pids")


@pytest.mark.parametrize("session", ["same", "own"])
def test_leftover_child_does_not_delay_jvm_end(tmp_path: Path, session: str) -> None:
    """It has the standard output open long after the JVM has ended; a session of its own prevents killing it."""
    pids, begin = tmp_path / "pids", time.monotonic()
    with (
        Jvm([sys.executable, "-c", LEAVES, str(pids), session, "at once"]) as jvm,
        pytest.raises(JvmEndedError, match=r"^exit code 4: left one behind$"),
    ):
        jvm.ask({}, 60.0)
    assert time.monotonic() - begin < SOON_S
    if session == "own":
        os.kill(int(pids.read_text()), signal.SIGKILL)
    assert all_gone(pids)


def test_child_left_after_an_answer_ends_with_the_jvm(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with Jvm([sys.executable, "-c", LEAVES, str(pids), "same", "when told"]) as jvm:
        jvm.ask({}, SOON_S)
    assert all_gone(pids)


@pytest.mark.long
def test_a_long_answer_is_read_in_no_long_time() -> None:
    with Jvm([sys.executable, "-c", FLOOD]) as jvm:
        jvm.ask({}, SOON_S)


def test_close_ends_jvm_another_thread_waits_for(tmp_path: Path) -> None:
    pids, errors = tmp_path / "pids", []

    def ask() -> None:
        try:
            jvm.ask({}, 600)
        except JvmEndedError as error:
            errors.append(str(error))

    jvm = parent(pids)
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert eventually(pids.exists)
    jvm.close()
    thread.join(SOON_S)
    assert errors == ["signal 9"]
    assert all_gone(pids)


def test_ctrl_c_ends_jvm_and_its_children(tmp_path: Path) -> None:
    """A terminal interrupts the processes of its foreground group, which the JVM is not in."""
    pids = tmp_path / "pids"
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, PARENT, str(pids)],
        stderr=subprocess.DEVNULL,
    )
    assert eventually(pids.exists)
    caller.send_signal(signal.SIGINT)
    caller.wait(SOON_S)
    assert all_gone(pids)
