"""Schedulers of other packages, asked in a process of their own: one that does not answer in time is ended with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Self

from stormwright.errors import SchedulerError, StormwrightError
from stormwright.model import Assignment, Problem, Scheduler
from stormwright.schedulers.choice.members import Members
from stormwright.schedulers.kit.registry import traits_of
from stormwright.schedulers.kit.traits import passed_on

#: Seconds in which the process has to be there.
_START_S = 60.0

#: What a process runs; the socket is its standard input.
_PROGRAM = "from stormwright.schedulers.choice.apart import answer_all; answer_all()"


class Member(NamedTuple):
    """One of some schedulers by its name, and the seconds that it gets where it searches for as long as it is told."""

    members: Members
    name: str
    budget_s: float


class Apart:
    """A context with a process in which schedulers are asked; it is started once one is, and anew after it was ended.

    It is no fork of this one, whose threads may hold locks at that moment, and needs nothing of its main program. It
    finds packages where this one does, and ends with it.
    """

    def __init__(self) -> None:
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
            Seconds that it may take.

        Raises
        ------
        SchedulerError
            It has failed, has not answered in time, or has ended its process.
        """
        connection = self._started()
        try:
            connection.send((member, problem))
            if not connection.poll(limit_s):
                self._end()
                raise SchedulerError(f"no answer within {limit_s:.3g} s")
            found = connection.recv()
        except (EOFError, OSError) as error:
            raise SchedulerError(f"its process has ended with exit code {self._end()}") from error
        if isinstance(found, str):
            raise SchedulerError(found)
        answer: Assignment = found
        return answer

    def _started(self) -> Connection:
        if self._connection is None:
            ours, theirs = socket.socketpair()
            paths = os.pathsep.join(filter(None, sys.path))
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _PROGRAM],
                    stdin=theirs.fileno(),
                    stdout=2,
                    env=os.environ | {"PYTHONPATH": paths},
                )
            self._connection = Connection(ours.detach())
            if not self._connection.poll(_START_S) or self._connection.recv() is not None:
                self._end()
                raise SchedulerError("the process for schedulers of other packages did not start")
        return self._connection

    def _end(self) -> int | None:
        """End the process, if there is one; what it ended with."""
        if self._connection is None or self._process is None:
            return None
        self._connection.close()
        code = self._process.poll()
        self._process.kill()
        self._process.wait()
        self._process = self._connection = None
        return code


class InApart:
    """A scheduler of another package as `Apart` asks it.

    Parameters
    ----------
    apart
        Asks it.
    member, scheduler
        Which it is, and it itself, whose traits this one has.
    limit_s
        Seconds that it may take for an answer. Once it has given none it is not asked again.
    """

    def __init__(self, apart: Apart, member: Member, scheduler: Scheduler, limit_s: float) -> None:
        self._apart, self._member, self._limit_s = apart, member, limit_s
        self._failed: SchedulerError | None = None
        vars(self).update(passed_on(scheduler, traits_of(member.name)))

    def schedule(self, problem: Problem) -> Assignment:
        """See `Apart.schedule`."""
        if self._failed is not None:
            raise self._failed
        try:
            return self._apart.schedule(self._member, problem, self._limit_s)
        except SchedulerError as error:
            self._failed = error
            raise


def answer_all() -> None:
    """What the process does: answer what it is asked, until nobody is at the other end."""
    connection = Connection(os.dup(0))
    connection.send(None)
    while True:
        try:
            member, problem = connection.recv()
        except EOFError:
            return
        connection.send(_answer(member, problem))


def _answer(member: Member, problem: Problem) -> Assignment | str:
    """The answer, or why there is none."""
    scheduler = member.members.made(member.name, member.budget_s)
    if isinstance(scheduler, Exception):
        return str(scheduler)
    try:
        return scheduler.schedule(problem)
    except StormwrightError as error:
        return str(error)
