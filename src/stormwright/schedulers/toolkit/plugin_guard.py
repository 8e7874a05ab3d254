"""Guard for schedulers of other packages: isolates their output and errors, and validates their answers."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
import orjson

from stormwright.base import stdout
from stormwright.errors import SchedulerError, StormwrightError
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler, Unplaced
from stormwright.model.arrays import IntArray, frozen_ints
from stormwright.schedulers.toolkit.params import Params
from stormwright.schedulers.toolkit.traits import Traits
from stormwright.schedulers.toolkit.wrappers import WrappedScheduler

#: Reason of an executor without a slot if the scheduler gives none.
NO_REASON = "the scheduler gave no reason"

#: Maximum length of a message.
_MAX_CHARACTERS = 300


class PluginGuard:
    """Context manager for code of another package.

    1. Standard output is redirected to standard error, for child processes too: its output does not mix with
       ``--json``.
    2. `os._exit` raises `SystemExit` in this process, as it would end the program without a message. Processes that the
       code forks may call it.
    3. Any exception becomes a `SchedulerError` that names the scheduler and the operation. Errors of `StormwrightError`
       and Ctrl-C pass.

    Parameters
    ----------
    what
        Begins the message: who failed at what.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        stdout.redirect_to_stderr()
        _ExitGuard.enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _ExitGuard.leave()
        stdout.end_redirection()
        if error is not None and not isinstance(error, (StormwrightError, KeyboardInterrupt)):
            raise SchedulerError(f"{self._what}: {one_line(error)}") from error


def allow_exit() -> None:
    """Let code of other packages end this process, as one that exists for it alone."""
    _ExitGuard.is_active = False


class _ExitGuard:
    """Replaces `os._exit` while code of other packages runs, in any number of threads."""

    is_active = True
    _lock = threading.Lock()
    _depth = 0
    _exit = staticmethod(os._exit)

    @classmethod
    def enter(cls) -> None:
        """Replace it."""
        owner = os.getpid()

        def refuse(status: int) -> NoReturn:
            if os.getpid() == owner and cls.is_active:
                raise SystemExit(f"os._exit({status}) was called")
            cls._exit(status)

        with cls._lock:
            cls._depth += 1
            os._exit = refuse

    @classmethod
    def leave(cls) -> None:
        """Restore it if no other code of another package runs."""
        with cls._lock:
            cls._depth -= 1
            if not cls._depth:
                os._exit = cls._exit


class PluginScheduler(WrappedScheduler):
    """A scheduler of another package: guarded while it runs, its answer validated.

    Parameters
    ----------
    name, params, traits
        Its name, its parameters, and the traits of its class.
    scheduler
        Scheduler of the other package; its exceptions become SchedulerError.

    Raises
    ------
    SchedulerError
        From `schedule`: it failed, or its answer is invalid.
    """

    def __init__(self, name: str, scheduler: Scheduler, params: Params, traits: Traits) -> None:
        super().__init__(scheduler, params, traits)
        self.name = name

    def schedule(self, problem: Problem) -> Assignment:
        """Return the scheduler's answer if it is valid."""
        with PluginGuard(f"scheduler {self.name!r} failed"):
            return checked(problem, self.scheduler.schedule(problem), self.name)


def one_line(error: BaseException) -> str:
    """Return an error in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its `__str__` may be broken
        text = ""
    text = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def checked(problem: Problem, assignment: object, name: str) -> Assignment:
    """Return the answer of a scheduler if it is valid. Constraints are not checked.

    Parameters
    ----------
    problem
        Problem that the scheduler was given.
    assignment
        Its answer, of any type.
    name
        Name of the scheduler, for error messages.

    Returns
    -------
    Assignment
        The same answer, frozen; every executor without a slot has a reason, at least `NO_REASON`.

    Raises
    ------
    SchedulerError
        It is not an `Assignment`; its slots are not integers, too few, too many or not among the problem's; its reasons
        are about executors that have a slot or do not exist; its texts are not strings, or its parameters cannot be
        written as JSON.
    """
    if not isinstance(assignment, Assignment):
        _fail(name, f"should be an Assignment, not {_a(assignment)}")
    slots = _slots(problem, assignment.slot_of_executor, name)
    return replace(
        assignment,
        slot_of_executor=slots,
        unplaced=tuple(_unplaced(problem, slots, assignment.unplaced, name)),
        status=_status(problem, assignment.status, name),
        scheduler=_text(assignment.scheduler, "its scheduler's name", name) or name,
        parameters=_parameters(assignment.parameters, name),
        seconds=_seconds(assignment.seconds, name),
    )


def _fail(name: str, what: str) -> NoReturn:
    # Quoted values may be of any length.
    text = what if len(what) <= _MAX_CHARACTERS else f"{what[:_MAX_CHARACTERS]}…"
    raise SchedulerError(f"the answer of scheduler {name!r} cannot be used: {text}")


def _a(value: object) -> str:
    return f"a value of the type {type(value).__name__}"


def _slots(problem: Problem, slots: object, name: str) -> IntArray:
    what = "slot_of_executor"
    if not isinstance(slots, np.ndarray):
        _fail(name, f"{what} should be an array of integers, not {_a(slots)}")
    if not np.issubdtype(slots.dtype, np.integer):
        _fail(name, f"{what} should be an array of integers, not of {slots.dtype}")
    if slots.shape != (problem.num_executors,):
        _fail(name, f"{what} should have the shape ({problem.num_executors},), not {slots.shape}")
    wrong = np.flatnonzero((slots < UNPLACED) | (slots >= len(problem.slots)))
    if len(wrong):
        first = int(wrong[0])
        allowed = f"should be from {UNPLACED} to {len(problem.slots) - 1}"
        _fail(name, f"{what} {allowed}, and is {slots[first]} for executor {first} ({len(wrong)} such executors)")
    return frozen_ints(slots)


def _unplaced(problem: Problem, slots: IntArray, entries: object, name: str) -> Iterator[Unplaced]:
    """Yield the scheduler's reasons in its order, then default ones for the other unplaced executors."""
    if not isinstance(entries, Sequence):
        _fail(name, f"unplaced should be a tuple, not {_a(entries)}")
    waiting = set(np.flatnonzero(slots == UNPLACED).tolist())
    for entry in entries:
        executor = _executor(problem, entry, name)
        if executor not in waiting:
            _fail(name, f"{_named(entry)} has a slot or occurs twice, and is among the unplaced")
        waiting.remove(executor)
        yield _explained(problem, executor, entry.reasons, name)
    for executor in sorted(waiting):
        yield _explained(problem, executor, (), name)


def _executor(problem: Problem, entry: Unplaced, name: str) -> int:
    """Return the executor of the problem that an entry is about."""
    if not isinstance(entry, Unplaced):
        _fail(name, f"unplaced should hold entries of the type Unplaced, not {_a(entry)}")
    index = problem.topology_index.get(entry.topology) if isinstance(entry.topology, str) else None
    known = index is not None and isinstance(entry.executor, (int, np.integer))
    if index is None or not known or not 0 <= entry.executor < problem.topologies[index].num_executors:
        _fail(name, f"{_named(entry)} is among the unplaced, and not in the problem")
    return int(problem.executor_offset[index]) + int(entry.executor)


def _explained(problem: Problem, executor: int, reasons: object, name: str) -> Unplaced:
    index = int(problem.executor_topology[executor])
    topology, number = problem.topologies[index], executor - int(problem.executor_offset[index])
    component = topology.components[topology.executor_component[number]].id
    if isinstance(reasons, str) or not isinstance(reasons, Sequence):
        _fail(name, f"reasons should be a tuple of texts, not {_a(reasons)}")
    texts = tuple(_text(reason, "a reason", name) for reason in reasons)
    return Unplaced(topology.id, number, component, texts or (NO_REASON,))


def _named(entry: Unplaced) -> str:
    return f"executor {entry.executor!r} of {entry.topology!r}"


def _status(problem: Problem, status: object, name: str) -> dict[str, str]:
    if not isinstance(status, Mapping):
        _fail(name, f"status should be a mapping of topology ids, not {_a(status)}")
    for topology in status:
        if topology not in problem.topology_index:
            _fail(name, f"status is about topology {topology!r}, which is not in the problem")
    return {topology: _text(text, "a status", name) for topology, text in status.items()}


def _parameters(parameters: object, name: str) -> dict[str, Any]:
    if not isinstance(parameters, Mapping):
        _fail(name, f"parameters should be a mapping, not {_a(parameters)}")
    try:
        orjson.dumps(dict(parameters))
    except TypeError as error:
        _fail(name, f"its parameters are nothing that JSON can hold: {error}")
    return dict(parameters)


def _text(text: object, what: str, name: str) -> str:
    if not isinstance(text, str):
        _fail(name, f"{what} should be a text, not {_a(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        _fail(name, f"{what} should be a text, not half of a character: {text!r}")
    return text


def _seconds(seconds: object, name: str) -> float:
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
        _fail(name, f"seconds should be a number, at least 0, not {seconds!r}")
    return float(seconds)
