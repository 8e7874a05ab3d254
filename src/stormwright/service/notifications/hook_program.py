"""The ``--on-failure`` hook: a program, or a Python function in its own process."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Self

import orjson

from stormwright.errors import Fault, HookError, InputError
from stormwright.storm.bridge import Failure

log = logging.getLogger(__name__)


# Hook program -------------------------------------------------------------------------------------

#: What the operator gives: called with every failure, in a thread of its own.
Hook = Callable[[Failure], object]

#: Seconds that a call may take; then its process is killed.
LIMIT_S = 10.0

#: Of what a call that failed has written, so much is told at most.
_MAX_BYTES = 2000

_FUNCTION = re.compile(r"[\w.]+:\w+")


def load_hook(name: str) -> Hook:
    """The function ``package.module:function``, or the program of that name or path, as something to call.

    Either is run in a process of its own: one that hangs is killed, and one that crashes harms nothing. What is called
    raises `HookError` if the process fails or takes more than `LIMIT_S` seconds.

    Raises
    ------
    InputError
        There is no such program, or the function cannot be loaded.
    """
    if _FUNCTION.fullmatch(name):
        # -P: a module in the directory that the service happens to run in hides no other.
        command = [sys.executable, "-P", "-m", "stormwright.service.notifications.call_hook", name]
        try:
            _run(command, b"")
        except HookError as error:
            raise InputError("--on-failure", [Fault(f"cannot be loaded: {error}", name)]) from error
        return _Program(tuple(command))
    program = shutil.which(name)
    if program is None:
        raise InputError("--on-failure", [Fault("is neither package.module:function nor a program", name)])
    return _Program((program,))


def load_program(name: str, is_function: bool) -> Callable[[bytes], None]:
    """A program, or a function ``package.module:function``, as something that takes a JSON document; as `load_hook`."""
    if is_function:
        command = [sys.executable, "-P", "-m", "stormwright.service.notifications.call_hook", name]
        try:
            if not _FUNCTION.fullmatch(name):
                raise HookError("should be package.module:function")
            _run(command, b"")
        except HookError as error:
            raise InputError("--notify", [Fault(f"{name} cannot be loaded: {error}", name)]) from error
        return lambda document: _run(command, document)
    program = shutil.which(name)
    if program is None:
        raise InputError("--notify", [Fault(f"there is no program {name}", name)])
    return lambda document: _run((program,), document)


@dataclass(frozen=True)
class _Program:
    """A program to call; the same command line is the same program."""

    command: tuple[str, ...]

    def __call__(self, failure: Failure) -> None:
        _run(self.command, orjson.dumps(asdict(failure)) + b"\n")


def _run(command: Sequence[str], document: bytes) -> None:
    """Run `command` with `document` on its standard input."""
    # Files: pipes would have to be emptied, and be waited for where a child of the process keeps them open.
    with TemporaryFile() as given, TemporaryFile() as written:
        given.write(document)
        given.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=given, stdout=written, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            raise HookError(f"cannot be started: {error.strerror}") from error
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise HookError(f"killed after {LIMIT_S:g} s{_end_of(written)}") from None
        if code:
            how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
            raise HookError(f"{how}{_end_of(written)}")


def _end_of(written: IO[bytes]) -> str:
    size = written.seek(0, os.SEEK_END)
    written.seek(max(size - _MAX_BYTES, 0))
    text = written.read().decode(errors="replace").strip()
    return f": {text}" if text else ""


# Failure hook -------------------------------------------------------------------------------------
# Tells somebody outside of topologies that have no slots: what the operator names.


#: Seconds that a call under way has to finish when the service ends: a little more than its process has.
SHUTDOWN_TIMEOUT_S = LIMIT_S + 2

#: A number by itself; digits within a name (``bolt-2``, ``10.0.0.7``, ``"4"``) are part of the name.
_NUMBER = re.compile(r"(?<![\w.\"'-])[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)(?![\w-])(?!\.\w)", re.IGNORECASE)


class FailureHook:
    """Calls `hook` once for every topology that cannot be placed, and again when other reasons come.

    A context manager; the calls come one at a time, from a thread of its own, while the `with` block runs.

    1. A topology that is placed, or gone, is forgotten: if it fails later, that is news.
    2. However slow the hook is, nothing piles up: of each topology only the newest failure waits, and none of one that
       is over.
    3. What the hook raises is logged, and the failure counts as reported.
    4. Reasons that differ in numbers alone are the same: those measured are others in every answer.
    5. Another hook gets all current failures. Without a hook nothing counts as reported.
    """

    def __init__(self, hook: Hook | None) -> None:
        self._hook = hook
        self._failing: dict[str, Failure] = {}
        self._notified: dict[str, tuple[str, ...]] = {}
        self._closing = False
        self._changed = threading.Condition()
        # A daemon: a hook that never returns does not keep the service from ending.
        self._thread = threading.Thread(target=self._run, name="stormwright-on-failure", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(SHUTDOWN_TIMEOUT_S)

    def update(self, failures: Collection[Failure]) -> None:
        """Take note of all that cannot be placed now; returns at once."""
        with self._changed:
            self._failing = {failure.topology_id: failure for failure in failures}
            self._notified = {t: reasons for t, reasons in self._notified.items() if t in self._failing}  # 1
            self._changed.notify()

    def change(self, hook: Hook | None) -> None:
        """Replace the hook."""
        with self._changed:
            self._hook, self._notified = hook, {}  # 5
            self._changed.notify()

    def _run(self) -> None:
        while following := self._next():
            hook, failure = following
            try:
                hook(failure)
            except HookError as error:  # 3
                self._complain(failure, str(error))
            except (Exception, SystemExit):
                self._complain(failure, traceback.format_exc())

    def _complain(self, failure: Failure, text: str) -> None:
        log.warning("--on-failure: hook for %s failed: %s", failure.topology_name, text)

    def _next(self) -> tuple[Hook, Failure] | None:
        """Waits for a failure that the hook does not know of yet; None once the service ends."""
        with self._changed:
            while not self._closing:
                hook = self._hook
                for failure in self._failing.values():  # 2
                    reasons = tuple(_NUMBER.sub("#", reason) for reason in failure.reasons)  # 4
                    if hook and self._notified.get(failure.topology_id) != reasons:
                        self._notified[failure.topology_id] = reasons
                        return hook, failure
                self._changed.wait()
            return None
