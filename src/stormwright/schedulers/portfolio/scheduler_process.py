"""Schedulers of other packages, asked in a process of their own: one that does not answer in time is ended with it."""

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
from stormwright.schedulers.toolkit.plugin_guard import told
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.traits import passed_on

#: What a process runs; the socket is its standard input.
_PROGRAM = "from stormwright.schedulers.portfolio.scheduler_process import answer_all; answer_all()"

#: Seconds in which a process that has closed its socket has to end.
_ENDING_S = 1.0

#: Of Linux: the kernel sends a signal to this process when the thread that started it ends.
_PR_SET_PDEATHSIG = 1


class Member(NamedTuple):
    """One of some schedulers by its name, and the seconds that it gets where it searches for as long as it is told."""

    members: Members
    name: str
    budget_s: float


class SchedulerProcess:
    """A context with a process in which schedulers are asked; it is started once one is, and anew after it was ended.

    It is no fork of this one, whose threads may hold locks at that moment, and needs nothing of its main program. It
    finds packages where this one does, ends with it, and what was started in it is ended with it.

    Parameters
    ----------
    end_s
        When all answers have to be there, of `time.perf_counter`.
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
        """Its answer.

        Parameters
        ----------
        member
            Made anew there: what a scheduler of another package holds need not be of a kind that can be sent.
        problem
            It is asked about.
        limit_s
            Seconds that it may take for all its answers, with the start of a process for them.

        Raises
        ------
        SchedulerError
            It has failed, has not answered in time, or has ended its process; now or before, as then it is not asked.
        """
        answer: Assignment = self._within(member, problem, limit_s)
        return answer

    def traits(self, member: Member, limit_s: float) -> dict[str, Any]:
        """What holds of a member as it is set (`passed_on`); it raises what `schedule` raises.

        Parameters
        ----------
        member, limit_s
            As for `schedule`; a constructor may hang, too.
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
            return self._asked(member, problem, begun_s + left_s)
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

    def _asked(self, member: Member, problem: Problem | None, until_s: float) -> Any:
        if self._connection is None:
            self._connection = self._start()
            _received(self._connection, until_s)  # it reads from here on, so that nothing that is sent can wait for it
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
                    start_new_session=True,  # a group that can be ended as a whole; Ctrl-C in a terminal is for us
                )
            except OSError as error:
                raise SchedulerError(f"the process for it did not start: {error}") from error
            return Connection(ours.detach())

    def _end(self, wait_s: float = 0.0) -> int | None:
        """End the process and what it has started, if there is one; what it ended with by itself within some time."""
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
    """A scheduler of another package as `SchedulerProcess` asks it.

    Parameters
    ----------
    apart
        Asks it.
    member
        Which it is; this one has its traits.
    limit_s
        Seconds that it may take for all its answers.

    Raises
    ------
    SchedulerError
        It cannot be made, or not in time.
    """

    def __init__(self, apart: SchedulerProcess, member: Member, limit_s: float) -> None:
        self._apart, self._member, self._limit_s = apart, member, limit_s
        vars(self).update(apart.traits(member, limit_s))

    def schedule(self, problem: Problem) -> Assignment:
        """See `SchedulerProcess.schedule`."""
        return self._apart.schedule(self._member, problem, self._limit_s)


def answer_all() -> None:
    """What the process does: answer what it is asked, until nobody is at the other end."""
    # By the kernel, as a thread of this process would wait for machine code that hangs.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    connection = Connection(os.dup(0))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)  # what members read is not the socket
    connection.send(None)
    while True:
        try:
            member, problem = connection.recv()
        except EOFError:
            return
        answer = _answer(member, problem)
        try:
            connection.send(answer)
        except Exception as error:  # what a package has made may be of a kind that cannot be sent
            connection.send(told(error))


def _answer(member: Member, problem: Problem | None) -> Assignment | dict[str, Any] | str:
    """The answer, without a problem the traits, or why there is none."""
    try:
        scheduler = member.members.made(member.name, member.budget_s)
        if isinstance(scheduler, Exception):
            return str(scheduler)
        return passed_on(scheduler, traits_of(member.name)) if problem is None else scheduler.schedule(problem)
    except StormwrightError as error:
        return str(error)
    except BaseException as error:  # what else goes through `PluginGuard`, such as KeyboardInterrupt
        return told(error)


def _received(connection: Connection, until_s: float) -> Any:
    """What comes until a moment of `time.perf_counter`; TimeoutError where nothing does."""
    if not connection.poll(max(until_s - time.perf_counter(), 0.0)):
        raise TimeoutError
    return connection.recv()
