"""Scheduling from scratch: any scheduler run as if nothing ran, and the default policies for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from stormwright.errors import Fault, InputError
from stormwright.model import Assignment, Problem, Scheduler
from stormwright.schedulers.placement.relabel import renamed
from stormwright.schedulers.toolkit.plugin_guard import checked
from stormwright.schedulers.toolkit.traits import Traits, declared
from stormwright.schedulers.toolkit.triggers import BALANCE, NODES, TRAFFIC, Adaptation
from stormwright.schedulers.toolkit.wrappers import WrappedScheduler

_GAINS: Final = {
    TRAFFIC: "less traffic between nodes",
    NODES: "fewer nodes",
    BALANCE: "less CPU of the busiest workers",
}

#: Policy: whether a scheduler runs from scratch by default.
Default = Callable[[Scheduler], bool]


def running_text(traits: Traits) -> str:
    """Return a text about the running executors: by default, and otherwise."""
    if traits.moves_running:
        return "It moves of that what pays; with `--from-scratch` it answers as if nothing ran."
    if not traits.adapts.ever:
        return "It leaves that where it is; with `--from-scratch` it answers as if nothing ran."
    return " ".join(
        [
            "It keeps what runs; with `--from-scratch`, the default of `serve`, it places as if nothing ran.",
            *_moments(traits.adapts),
        ]
    )


def _moments(adapts: Adaptation) -> Iterator[str]:
    """Yield texts about when a service runs the scheduler, and for which gains it then moves."""
    looks = {"every `--period`": adapts.on_period, "once the load has drifted": adapts.on_drift}
    when = " and ".join(text for text, on in looks.items() if on)
    if when:
        yield f"A service asks it {when}, and moves for {' or '.join(_GAINS[kind] for kind in adapts.gains)}."
    if adapts.on_overload:
        yield "A service asks it once a node was overloaded for `--overload` seconds, and moves whatever that gains."


class FromScratchScheduler(WrappedScheduler):
    """Runs a scheduler as if nothing ran, and relabels slots so that as many executors as possible stay.

    The load stays as measured. Topologies that do not fit have no slots in the answer, even if they run.

    Parameters
    ----------
    scheduler
        Scheduler that gets the problem without its running placement.
    name
        Name for error messages; by default that of its class.
    """

    inherited = ("uses_forecast", "adapts", "times_itself", "keeps_time_limit")
    moves_running = True

    def __init__(self, scheduler: Scheduler, name: str = "") -> None:
        super().__init__(scheduler)
        self.name = name or type(scheduler).__name__

    def schedule(self, problem: Problem) -> Assignment:
        """Place everything.

        Raises
        ------
        SchedulerError
            The scheduler's answer is not an assignment of the problem.
        """
        answer = checked(problem, self.scheduler.schedule(problem.with_nothing_running()), self.name)
        return replace(answer, slot_of_executor=renamed(problem, answer.slot_of_executor))


def never(_: Scheduler) -> bool:
    """Policy: always pass the running executors to the scheduler."""
    return False


def always(_: Scheduler) -> bool:
    """Policy: always schedule from scratch."""
    return True


def unless_moving(scheduler: Scheduler) -> bool:
    """Policy: schedule from scratch unless the scheduler itself moves running executors."""
    return not declared(scheduler).moves_running


def only_adaptive(scheduler: Scheduler) -> bool:
    """Policy: schedule from scratch if its source does, unless the scheduler itself moves running executors."""
    return declared(scheduler).adapts.ever and unless_moving(scheduler)


def why_nothing_moves(name: str, scheduler: Scheduler) -> str:
    """Return a warning if a scheduler will never move running executors; otherwise empty."""
    if declared(scheduler).moves_running:
        return ""
    return f"{name} moves no running executor, so nothing will ever move: use --from-scratch"


def apply_from_scratch(name: str, scheduler: Scheduler, from_scratch: bool | None, default: Default) -> Scheduler:
    """Return a scheduler, wrapped in `FromScratchScheduler` if required.

    Parameters
    ----------
    name
        Name for error messages.
    scheduler
        Scheduler to wrap; returned unchanged if it uses the running placement.
    from_scratch
        True: from scratch; False: with the running executors; None: by `default`, except for schedulers set to stay
        near the running placement.
    default
        Policy if `from_scratch` is None.

    Raises
    ------
    InputError
        From scratch is requested, but the parameters limit the moves of running executors.
    """
    near = declared(scheduler).stays_near
    if from_scratch and near:
        message = "stays near the current placement and cannot also place from scratch: leave out one of them"
        raise InputError("from_scratch", [Fault(message, name)])
    wanted = default(scheduler) and not near if from_scratch is None else from_scratch
    return FromScratchScheduler(scheduler, name) if wanted else scheduler
