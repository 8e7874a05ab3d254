"""What ``--on-failure`` names: a program, or a Python function that is called in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from tempfile import TemporaryFile
from typing import IO

import orjson

from stormwright.errors import Fault, HookError, InputError
from stormwright.storm.bridge import Failure

#: What the operator gives: called with every failure, in a thread of its own.
Hook = Callable[[Failure], object]

#: Seconds that a call may take; then its process is killed.
LIMIT_S = 10.0

#: Of what a call that failed has written, so much is told at most.
_MAX_BYTES = 2000

_FUNCTION = re.compile(r"[\w.]+:\w+")


def load_hook(name: str) -> Hook:
    """The function ``package.module:function``, or the program of that name or path, as something to call.

    Either is run in a process of its own: one that hangs is killed, and one that crashes harms nobody. What is called
    raises `HookError` if the process fails or takes more than `LIMIT_S` seconds.

    Raises
    ------
    InputError
        There is no such program, or the function cannot be loaded.
    """
    if _FUNCTION.fullmatch(name):
        # -P: a module in the directory that the service happens to run in hides no other.
        command = [sys.executable, "-P", "-m", "stormwright.service.hooks.call_hook", name]
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
        command = [sys.executable, "-P", "-m", "stormwright.service.hooks.call_hook", name]
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
