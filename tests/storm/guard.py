"""What ends what a test has left, however the process of the test ends."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Self

#: Nothing is to be done where a line comes; the end of its input says that nobody is there any more who could send one.
_SCRIPT = 'read -r line || exec "$@"'


class Guard:
    """A context: a command is run when it ends, unless `all_well` was called, or when this process ends in it.

    Parameters
    ----------
    command
        Ends what may be left.
    """

    def __init__(self, *command: str) -> None:
        self._command = command

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["sh", "-c", _SCRIPT, "guard", *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is for the tests
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.communicate(timeout=120)

    def all_well(self) -> None:
        """There is nothing to be ended."""
        self._process.communicate(b"\n", timeout=120)
