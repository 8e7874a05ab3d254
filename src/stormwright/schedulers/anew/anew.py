"""Any scheduler asked as if nothing ran, and who is asked so where nobody says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stormwright.errors import Fault, InputError
from stormwright.model import Assignment, Problem, Scheduler
from stormwright.schedulers.anew.renaming import renamed
from stormwright.schedulers.kit.checked import checked
from stormwright.schedulers.kit.traits import declared


class Anew:
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
    return f"{name} leaves what runs where it is, so nothing will ever move: --anew has it place that anew"


def asked(name: str, scheduler: Scheduler, anew: bool | None, default: Default) -> Scheduler:
    """A scheduler as it is to be asked.

    Parameters
    ----------
    name
        What it is called, for a fault.
    scheduler
        As it is.
    anew
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
    if anew and near:
        message = "is set to stay near to what runs, and anew is as if nothing ran: leave out one of them"
        raise InputError("anew", [Fault(message, name)])
    wanted = default(scheduler) and not near if anew is None else anew
    return Anew(scheduler, name) if wanted else scheduler
