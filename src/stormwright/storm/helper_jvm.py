"""A helper JVM that is kept warm and answers questions: one JSON request a line in, one JSON response a line out."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Any, Self

import orjson


class JvmEndedError(Exception):
    """The JVM ended before it answered; the text is what it said last."""


class NoAnswerError(Exception):
    """The JVM did not answer in time."""


class HelperJvm:
    """A JVM that reads requests and prints responses, started with the first one; a context manager.

    Safe to use from several threads, one request at a time. Every request has a number, ``id``, which its response
    repeats. Other lines, whoever printed them, are passed over.

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
        # A file, not a pipe: nobody reads the JVM's log while it runs, and a full pipe would stop it.
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM; no request can follow."""
        with self._lock:
            self._end()
            self._log.close()

    def _ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """The response to `request`, which gets its ``id`` here.

        Parameters
        ----------
        limit_s
            Seconds that taking the request and answering it may last together.

        Raises
        ------
        JvmEndedError
            The JVM ended, or was closed before.
        NoAnswerError
            The limit has passed; the JVM has been killed.
        """
        with self._lock:
            self._last_id += 1
            line = orjson.dumps({"id": self._last_id, **request}) + b"\n"
            process = self._running()
            try:
                with _killed_after(process, limit_s) as expired:
                    response = _exchange(process, line, self._last_id)
            except BaseException:  # what is half written, or still at work, would be in the way of the next request
                self._end(at_once=True)
                raise
            if expired.is_set():
                self._end(at_once=True)
                raise NoAnswerError
            if response is None:
                exit_code = self._end()
                raise JvmEndedError(self._last_words() or f"exit code {exit_code}")
            return response

    def _running(self) -> subprocess.Popen[bytes]:
        if self._log.closed:
            raise JvmEndedError("it was closed")
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
            )
        return self._process

    def _end(self, *, at_once: bool = False) -> int | None:
        """End the JVM; its exit code, if there was one. It stops by itself when its input closes, unless it is busy."""
        process, self._process = self._process, None
        if process is None:
            return None
        if at_once:
            process.kill()
        if process.stdin:
            with suppress(BrokenPipeError):  # it has ended already
                process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
        return process.returncode

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


@contextmanager
def _killed_after(process: subprocess.Popen[bytes], limit_s: float) -> Iterator[threading.Event]:
    """Kill `process` if the block lasts longer; the event tells whether it did."""
    expired = threading.Event()

    def give_up() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield expired
    finally:
        timer.cancel()
        timer.join()


def _exchange(process: subprocess.Popen[bytes], request: bytes, request_id: int) -> dict[str, Any] | None:
    """The response to a request; None if the process has ended."""
    if process.stdin is None or process.stdout is None:  # both are pipes; the type checker cannot know
        return None
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except BrokenPipeError:
        return None
    for line in process.stdout:
        with suppress(orjson.JSONDecodeError):  # the JVM's own warnings, too, go to standard output
            response = orjson.loads(line)
            if isinstance(response, dict) and response.get("id") == request_id:
                return response
    return None
