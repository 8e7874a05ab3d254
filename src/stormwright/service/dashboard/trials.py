"""Long-running questions: comparisons of schedulers, and what-if predictions.

They are answered one after the other, in a thread of their own; a page shows how far each is.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, Protocol

from stormwright.base.tables import TextTable
from stormwright.errors import ConflictError, NotFoundError, StormwrightError
from stormwright.model import Problem

log = logging.getLogger(__name__)

#: Answers that are kept, and questions that may wait.
_MAX_TRIALS, _WAITING = 50, 8


@dataclass(frozen=True)
class TrialAnswer:
    """A table, and the notes on it.

    Parameters
    ----------
    table
        Table with the result, a row for each scheduler or figure.
    notes
        Paragraphs of text to show below the table.
    text_columns
        Columns (by index) that are aligned to the left, besides the first.
    """

    table: TextTable
    notes: Sequence[str] = ()
    text_columns: Sequence[int] = ()


@dataclass(frozen=True)
class Change:
    """A what-if change as `stormwright whatif` takes it; empty texts change nothing.

    Parameters
    ----------
    rate
        As in ``×1.5`` or ``TOPOLOGY=×1.5``.
    add_nodes
        Number of nodes to add, like the one with most CPU.
    kill_node
        Supervisor id or host.
    parallelism
        New number of executors of a component, as in ``TOPOLOGY/COMPONENT=8``.
    link
        Speed of all links, as in ``1gbit`` or ``100mbit``.
    scheduler
        Scheduler that places everything from scratch.
    """

    rate: str = ""
    add_nodes: int = 0
    kill_node: str = ""
    parallelism: str = ""
    link: str = ""
    scheduler: str = ""


class Trials(Protocol):
    """Answers long-running questions; each method raises `StormwrightError` if it cannot."""

    def schedulers(self) -> Mapping[str, str]:
        """Return name → description of the schedulers."""

    def compare(self, problem: Problem, schedulers: Sequence[str]) -> TrialAnswer:
        """Return cost, resources and moves of their placements, best first."""

    def what_if(self, problem: Problem, change: Change) -> TrialAnswer:
        """Return the prediction for a change, beside today."""


_State = Literal["waits", "runs", "answered", "failed"]


@dataclass
class Trial:
    """A question and its state.

    Parameters
    ----------
    id
        Identifier in the address of its page: eight random hexadecimal digits.
    title, command
        The question, as a sentence and as a command of a shell.
    state, answer, error
        Where it stands; its answer, or why there is none.
    created_ms, seconds
        When it was created, and how long it took.
    """

    id: str
    title: str
    command: str
    state: _State = "waits"
    answer: TrialAnswer | None = None
    error: str = ""
    created_ms: int = field(default_factory=lambda: round(time.time() * 1000))
    seconds: float = 0.0

    @property
    def open(self) -> bool:
        """Whether it is still to be answered."""
        return self.state in ("waits", "runs")


class TrialService:
    """Takes questions and answers them one after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "stormwright-trials")
        self._lock = threading.Lock()
        self._trials: dict[str, Trial] = {}

    def close(self) -> None:
        """Answer no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def ask(self, title: str, command: str, answer: Callable[[], TrialAnswer]) -> Trial:
        """Take a question.

        Raises
        ------
        ConflictError
            Too many wait already.
        """
        with self._lock:
            if sum(each.open for each in self._trials.values()) >= _WAITING:
                raise ConflictError(f"{_WAITING} questions wait already: ask again when one is answered")
            trial = Trial(secrets.token_hex(4), title, command)
            self._trials[trial.id] = trial
            done = [each.id for each in self._trials.values() if not each.open]
            for old in done[: max(len(self._trials) - _MAX_TRIALS, 0)]:
                del self._trials[old]
        self._thread.submit(self._answer, trial, answer)
        return trial

    def trial(self, name: str) -> Trial:
        """Return a trial by its id; raises NotFoundError."""
        try:
            return self._trials[name]
        except KeyError:
            raise NotFoundError(f"no trial has the id {name}: it is too old, or the service was restarted") from None

    def trials(self) -> list[Trial]:
        """Return the stored trials, newest first."""
        with self._lock:
            return list(self._trials.values())[::-1]

    @staticmethod
    def _answer(trial: Trial, answer: Callable[[], TrialAnswer]) -> None:
        trial.state, begin = "runs", time.perf_counter()
        try:
            trial.answer, trial.state = answer(), "answered"
        except StormwrightError as error:
            trial.error, trial.state = str(error), "failed"
        except Exception as error:  # a bug of a scheduler: who waits is told
            log.exception("a question of the dashboard could not be answered")
            trial.error, trial.state = f"{type(error).__name__}: {error}", "failed"
        trial.seconds = time.perf_counter() - begin
