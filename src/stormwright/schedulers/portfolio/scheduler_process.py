"""Schedulers of other packages in a process of their own, which is killed at its time limit."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from stormwright.errors import SchedulerError, StormwrightError
from stormwright.model import Assignment, Problem
from stormwright.schedulers.portfolio.members import Members
from stormwright.schedulers.toolkit.plugin_guard import allow_exit, one_line
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.wrappers import WrappedScheduler

#: Command line of the process; the socket is its standard input.
_PROGRAM = "from stormwright.schedulers.portfolio.scheduler_process import answer_all; answer_all()"

#: Seconds for a process to exit after closing its socket.
_ENDING_S = 1.0

#: Linux: the kernel sends a signal to this process when the thread that started it ends.
_PR_SET_PDEATHSIG = 1


class Member(NamedTuple):
    """Name of a scheduler, and its time budget in seconds if it has a search budget."""

    members: Members
    name: str
    budget_s: float


class SchedulerProcess:
    """Context manager with a process that runs schedulers; started on demand, and again after it was killed.

    It is not a fork of this one, whose threads may hold locks, and needs nothing of its main program. It has the same
    import path, ends with this process, and its children are killed with it.

    Parameters
    ----------
    end_s
        Deadline of all answers, by `time.perf_counter`.
    """

    def __init__(self, end_s: float = float("inf")) -> None:
        self._end_s = end_s
        self._used_s: defaultdict[str, float] = defaultdict(float)
        self._failed: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def schedule(self, member: Member, problem: Problem, limit_s: float) -> Assignment:
        """Return the answer of a member.

        Parameters
        ----------
        member
            Scheduler, created in the process, as its state may not be picklable.
        problem
            Nodes, topologies, load and running placement; sent to the process.
        limit_s
            Seconds for all its answers, including the start of the process.

        Raises
        ------
        SchedulerError
            It failed, timed out, or ended its process; now or before, as then it is not run again.
        """
        answer: Assignment = self._within(member, problem, limit_s)
        return answer

    def traits(self, member: Member, limit_s: float) -> dict[str, Any]:
        """Return the inherited traits of a member (`WrappedScheduler.inherited`); raises like `schedule`.

        Parameters
        ----------
        member, limit_s
            See `schedule`; a constructor may hang, too.
        """
        found: dict[str, Any] = self._within(member, None, limit_s)
        return found

    def _within(self, member: Member, problem: Problem | None, limit_s: float) -> Any:
        name = member.name
        if name in self._failed:
            raise SchedulerError(self._failed[name])
        begun_s = time.perf_counter()
        left_s = max(min(limit_s - self._used_s[name], self._end_s - begun_s), 0.0)
        try:
            return self._request(member, problem, begun_s + left_s)
        except TimeoutError as error:
            self._end()
            self._failed[name] = f"no answer within {min(limit_s, self._used_s[name] + left_s):.3g} s"
            raise SchedulerError(self._failed[name]) from error
        except (EOFError, OSError) as error:
            code = self._end(_ENDING_S)
            self._failed[name] = "its process has ended" + ("" if code is None else f" with exit code {code}")
            raise SchedulerError(self._failed[name]) from error
        except SchedulerError as error:
            self._failed[name] = str(error)
            raise
        finally:
            self._used_s[name] += time.perf_counter() - begun_s

    def _request(self, member: Member, problem: Problem | None, until_s: float) -> Any:
        if self._connection is None:
            self._connection = self._start()
            _received(self._connection, until_s)  # it reads from now on, so that sending cannot block
        self._connection.send((member, problem))
        found = _received(self._connection, until_s)
        if isinstance(found, str):
            raise SchedulerError(found)
        return found

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        paths = os.pathsep.join(filter(None, sys.path))
        with ours, theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM],
                    stdin=theirs.fileno(),
                    stdout=2,
                    env=os.environ | {"PYTHONPATH": paths},
                    start_new_session=True,  # a process group that can be killed as a whole; Ctrl-C is handled here
                )
            except OSError as error:
                raise SchedulerError(f"the process for it did not start: {error}") from error
            return Connection(ours.detach())

    def _end(self, wait_s: float = 0.0) -> int | None:
        """Kill the process and its children, if any; return its exit code if it exits within `wait_s`."""
        if self._connection is None or self._process is None:
            return None
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        code = self._process.returncode
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = self._connection = None
        return code


class ProcessScheduler:
    """A scheduler of another package that runs in a `SchedulerProcess`.

    Parameters
    ----------
    apart
        Process that runs it.
    member
        Scheduler; its traits are inherited.
    limit_s
        Seconds for all its answers.

    Raises
    ------
    SchedulerError
        It cannot be created, or not in time.
    """

    def __init__(self, apart: SchedulerProcess, member: Member, limit_s: float) -> None:
        self._apart, self._member, self._limit_s = apart, member, limit_s
        vars(self).update(apart.traits(member, limit_s))

    def schedule(self, problem: Problem) -> Assignment:
        """See `SchedulerProcess.schedule`."""
        return self._apart.schedule(self._member, problem, self._limit_s)


def answer_all() -> None:
    """Main loop of the process: answer requests until the connection is closed."""
    allow_exit()
    # By the kernel, as a thread of this process would wait for machine code that hangs.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    connection = Connection(os.dup(0))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)  # members must not read from the socket
    connection.send(None)
    while True:
        try:
            member, problem = connection.recv()
        except EOFError:
            return
        answer = _answer(member, problem)
        try:
            connection.send(answer)
        except Exception as error:  # the answer may not be picklable
            connection.send(one_line(error))


def _answer(member: Member, problem: Problem | None) -> Assignment | dict[str, Any] | str:
    """Return the answer, the traits if there is no problem, or an error text."""
    try:
        scheduler = member.members.made(member.name, member.budget_s)
        if isinstance(scheduler, Exception):
            return str(scheduler)
        if problem is None:
            return WrappedScheduler.inherited_traits(scheduler, traits_of(member.name))
        return scheduler.schedule(problem)
    except StormwrightError as error:
        return str(error)
    except BaseException as error:  # exceptions that pass `PluginGuard`, such as KeyboardInterrupt
        return one_line(error)


def _received(connection: Connection, until_s: float) -> Any:
    """Return the next message before a time of `time.perf_counter`, or raise TimeoutError."""
    if not connection.poll(max(until_s - time.perf_counter(), 0.0)):
        raise TimeoutError
    return connection.recv()
