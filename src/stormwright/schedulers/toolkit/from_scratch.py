"""Any scheduler asked as if nothing ran, and who is asked so where nobody says."""

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

# Description --------------------------------------------------------------------------------------
# What a scheduler does with what runs, in words.

_GAINS: Final = {
    TRAFFIC: "less traffic between nodes",
    NODES: "fewer nodes",
    BALANCE: "less CPU of the busiest workers",
}


def what_runs(traits: Traits) -> str:
    """What becomes of what runs by default, and otherwise."""
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
    """When a service asks it, and for what it moves then."""
    looks = {"every `--period`": adapts.on_period, "once the load has drifted": adapts.on_drift}
    when = " and ".join(text for text, on in looks.items() if on)
    if when:
        yield f"A service asks it {when}, and moves for {' or '.join(_GAINS[kind] for kind in adapts.gains)}."
    if adapts.on_overload:
        yield "A service asks it once a node was overloaded for `--overload` seconds, and moves whatever that gains."


# From scratch -------------------------------------------------------------------------------------


class FromScratchScheduler:
    """What a scheduler answers where nothing runs, in slots of which as many as can be are those of what runs.

    The load stays as it was measured. Topologies that the scheduler finds no room for have no slots in the answer, even
    if they run.

    Parameters
    ----------
    scheduler
        Who is asked.
    name
        What it is called where its answer is none; by default as its class is.
    """

    moves_running = True

    def __init__(self, scheduler: Scheduler, name: str = "") -> None:
        self.scheduler, self.params = scheduler, getattr(scheduler, "params", None)
        self.name = name or type(scheduler).__name__
        traits = declared(scheduler)
        #: As `Traits` has them.
        self.uses_forecast, self.adapts = traits.uses_forecast, traits.adapts
        self.times_itself, self.keeps_time_limit = traits.times_itself, traits.keeps_time_limit

    def schedule(self, problem: Problem) -> Assignment:
        """Place everything.

        Raises
        ------
        SchedulerError
            What the scheduler answers is no assignment of the problem.
        """
        answer = checked(problem, self.scheduler.schedule(problem.with_nothing_running()), self.name)
        return replace(answer, slot_of_executor=renamed(problem, answer.slot_of_executor))


#: Whether a scheduler is asked as if nothing ran where nobody says.
Default = Callable[[Scheduler], bool]


def never(_: Scheduler) -> bool:
    """Every scheduler is told what runs."""
    return False


def always(_: Scheduler) -> bool:
    """Every scheduler is asked as if it were the first."""
    return True


def unless_it_moves(scheduler: Scheduler) -> bool:
    """Those are told what runs that move of it what pays: the others would leave it where it is."""
    return not declared(scheduler).moves_running


def if_it_adapts(scheduler: Scheduler) -> bool:
    """Those are asked anew that are by their source, unless they move what runs by themselves."""
    return declared(scheduler).adapts.ever and unless_it_moves(scheduler)


def why_nothing_moves(name: str, scheduler: Scheduler) -> str:
    """What to tell of a scheduler that will never move what runs, as it is asked; empty of one that may."""
    if declared(scheduler).moves_running:
        return ""
    return f"{name} leaves what runs where it is, so nothing will ever move: --from-scratch has it place that anew"


def asked(name: str, scheduler: Scheduler, from_scratch: bool | None, default: Default) -> Scheduler:
    """A scheduler as it is to be asked.

    Parameters
    ----------
    name
        What it is called, for a fault.
    scheduler
        As it is.
    from_scratch
        True: as if nothing ran; False: it is told what runs; None: as `default` has it, which leaves alone what is set
        to stay near to what runs.
    default
        For those of which nobody says.

    Raises
    ------
    InputError
        It is to be asked as if nothing ran, and its parameters say how much of what runs may move.
    """
    near = declared(scheduler).near_what_runs
    if from_scratch and near:
        message = "is set to stay near to what runs, and anew is as if nothing ran: leave out one of them"
        raise InputError("from_scratch", [Fault(message, name)])
    wanted = default(scheduler) and not near if from_scratch is None else from_scratch
    return FromScratchScheduler(scheduler, name) if wanted else scheduler
