"""A persistent helper JVM: one JSON request a line in, one JSON response a line out."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any, Self

import orjson

#: Maximum bytes read from the end of a JVM's log for its last line.
_LAST_BYTES = 4096

#: Maximum bytes of a log; it is truncated with the next request.
_LOG_BYTES = 2**20

#: Interval between liveness checks of a silent JVM, and bytes read at once: the capacity of a pipe.
_LOOK_MS = 100
_READ_BYTES = 2**16


class JvmEndedError(Exception):
    """The JVM ended before it answered; the message has its exit status and last output."""


class NoAnswerError(Exception):
    """The JVM did not answer in time."""


class BusyError(Exception):
    """Another request is in progress."""


class HelperJvm:
    """A JVM that reads requests and prints responses, started on demand; a context manager.

    Safe to use from several threads, one request at a time. Every request has a number, ``id``, which its response
    repeats. Other lines are ignored.

    The JVM has a session of its own, so that it can be killed with whatever it has started. Ctrl-C in a terminal
    reaches Python alone, which then ends the JVM: what interrupts a request kills it, and `close` does otherwise.

    Parameters
    ----------
    command
        Argument vector that starts the JVM; once more when it has ended.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._lock = threading.Lock()
        self._last_id = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._in_progress: tuple[Mapping[str, Any], float] | None = None
        # A file, not a pipe: the JVM's log is not read while it runs, and a full pipe would block it.
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        # What is written goes to its end, wherever we read, and to its beginning once it is cut.
        fcntl.fcntl(self._log, fcntl.F_SETFL, fcntl.fcntl(self._log, fcntl.F_GETFL) | os.O_APPEND)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM, also while another thread waits for it; no request can follow."""
        self._closed = True
        if not self._lock.acquire(blocking=False):
            if self._process is not None:
                _kill(self._process)
            self._lock.acquire()
        try:
            self._end()
            self._log.close()
        finally:
            self._lock.release()

    def _ask(self, request: Mapping[str, Any], limit_s: float, *, waits: bool = True) -> dict[str, Any]:
        """Return the response to `request`, to which its ``id`` is added.

        Parameters
        ----------
        limit_s
            Seconds that taking the request and answering it may last together.
        waits
            Whether to wait for a request in progress.

        Raises
        ------
        BusyError
            A request is in progress, and is not to be waited for.
        JvmEndedError
            The JVM ended, or was closed before.
        NoAnswerError
            The limit has passed; the JVM has been killed.
        """
        if not self._lock.acquire(blocking=waits):
            raise BusyError
        try:
            self._in_progress = request, time.monotonic()
            return self._answer(request, limit_s)
        finally:
            self._in_progress = None
            self._lock.release()

    def _answer(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Return the response to a request; the caller holds the lock."""
        self._last_id += 1
        line = orjson.dumps({"id": self._last_id, **request}) + b"\n"
        process = self._running()
        try:
            with _killed_after(process, limit_s) as expired:
                response = _exchange(process, line, self._last_id, expired)
        except BaseException:  # what is half written, or still at work, would be in the way of the next request
            self._end(at_once=True)
            raise
        if expired.is_set():
            self._end(at_once=True)
            raise NoAnswerError
        if response is None:
            ended, last_line = _how(self._end()), self._last_words()
            raise JvmEndedError(f"{ended}: {last_line}" if last_line else ended)
        return response

    def _running(self) -> subprocess.Popen[bytes]:
        if self._closed:
            raise JvmEndedError("it was closed")
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._log.truncate(0)  # without the output of an earlier JVM
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
            )
        elif os.fstat(self._log.fileno()).st_size > _LOG_BYTES:
            self._log.truncate(0)
        return self._process

    def _end(self, *, at_once: bool = False) -> int | None:
        """End the JVM and return its exit code, if any. It stops when its input closes, unless it is busy."""
        process, self._process = self._process, None
        if process is None:
            return None
        if at_once:
            _kill(process)
        if process.stdin:
            with suppress(BrokenPipeError):  # it has ended already
                process.stdin.close()
        try:
            _await_end(process, 5)
        finally:  # also when Ctrl-C ends the wait
            _kill(process)
            process.wait()
        if process.stdout:
            process.stdout.close()
        return process.returncode

    def _last_words(self) -> str:
        self._log.seek(-min(_LAST_BYTES, self._log.seek(0, os.SEEK_END)), os.SEEK_END)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children; a child may hold our pipe open."""
    if process.returncode is None:  # until then, the number is not reused
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _how(exit_code: int | None) -> str:
    return f"signal {-exit_code}" if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"


@contextmanager
def _killed_after(process: subprocess.Popen[bytes], limit_s: float) -> Iterator[threading.Event]:
    """Kill `process` and its children if the block lasts longer; the event shows whether it did."""
    expired = threading.Event()

    def give_up() -> None:
        expired.set()
        _kill(process)

    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()
        timer.join()


def _exchange(
    process: subprocess.Popen[bytes], request: bytes, request_id: int, expired: threading.Event
) -> dict[str, Any] | None:
    """Return the response to a request; None if the process ended or timed out."""
    if process.stdin is None or process.stdout is None:  # both are pipes; the type checker cannot know
        return None
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except BrokenPipeError:
        return None
    for line in _printed(process, process.stdout.fileno(), expired):
        with suppress(orjson.JSONDecodeError):  # the JVM's own warnings, too, go to standard output
            response = orjson.loads(line)
            if isinstance(response, dict) and response.get("id") == request_id:
                return response
    return None


def _printed(process: subprocess.Popen[bytes], pipe: int, expired: threading.Event) -> Iterator[bytes]:
    """Yield lines that a process prints until it ends; a surviving child may keep the pipe open."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    rest = bytearray()
    while not expired.is_set():
        ended = _has_ended(process)  # checked first: then all of its output is in the pipe
        if ended:
            _kill(process)
        if poll.poll(0 if ended else _LOOK_MS):
            part = os.read(pipe, _READ_BYTES)
            if not part:
                return
            rest += part
            if b"\n" in part:
                *lines, last = rest.split(b"\n")
                yield from map(bytes, lines)
                rest = last
        elif ended:
            return


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended, without reaping it: its ids stay reserved for killing the rest."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _await_end(process: subprocess.Popen[bytes], limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while not _has_ended(process) and time.monotonic() < until:
        time.sleep(0.01)
