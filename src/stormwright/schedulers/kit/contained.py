"""Runs code of other packages so that it harms nobody: its output is not mixed with ours, its failure has its name."""

from __future__ import annotations

from types import TracebackType

from stormwright import stdout
from stormwright.errors import SchedulerError, StormwrightError
from stormwright.model import Assignment, Problem, Scheduler
from stormwright.schedulers.kit.checked import checked
from stormwright.schedulers.kit.params import Params
from stormwright.schedulers.kit.traits import Traits, passed_on

_MOST_CHARACTERS = 300


class Contained:
    """A context for code of another package.

    1. Standard output is standard error meanwhile, for child processes too: what it prints is no part of ``--json``.
    2. Whatever it raises is a `SchedulerError` that says who failed at what. Errors of `StormwrightError` and Ctrl-C
       pass.

    Parameters
    ----------
    what
        Begins the message: who failed at what.
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        stdout.turn_away()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        stdout.turn_back()
        if error is not None and not isinstance(error, (StormwrightError, KeyboardInterrupt)):
            raise SchedulerError(f"{self._what}: {told(error)}") from error


class Guest:
    """A scheduler of another package: held apart while it runs, its answer checked.

    Parameters
    ----------
    name, params, traits
        What it is called, how it is set, and what its class declares.
    scheduler
        It itself.

    Raises
    ------
    SchedulerError
        From `schedule`: it failed, or its answer is none.
    """

    def __init__(self, name: str, scheduler: Scheduler, params: Params, traits: Traits) -> None:
        self.name, self.scheduler, self.params = name, scheduler, params
        vars(self).update(passed_on(scheduler, traits))

    def schedule(self, problem: Problem) -> Assignment:
        """What it says, if that can be used."""
        with Contained(f"scheduler {self.name!r} failed"):
            return checked(problem, self.scheduler.schedule(problem), self.name)


def told(error: BaseException) -> str:
    """An error in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own method may be what is broken
        text = ""
    text = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
