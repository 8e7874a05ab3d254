"""Schedules: faults and late messages of one run in virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from stormwright_lab.chaos.scenarios import Action, FaultKind, FaultTarget, Moment, PlannedFault, Scenario

#: Usual time of a message in seconds, and times of late ones.
USUAL_S, LATE_S = 0.05, (0.0, 0.3, 2.0, 11.0)

#: Targets of schedules by chance that are killed, and seconds until the service or Nimbus is back.
MORTAL = (FaultTarget.SERVICE, FaultTarget.NIMBUS, FaultTarget.MOVING_WORKER)
AWAY_S = (0.5, 4.0, 15.0)

#: Steps after its moment at which a fault of a scenario begins, at most, by seed.
_MAX_SKIPPED = 12

#: Reasons why a fault has no counterpart in virtual time, by kind and by target.
_NO_KIND = {
    FaultKind.SLOW_CPU: "the engine of the virtual cluster gives every topology its rate",
    FaultKind.DAMAGE: "the files concerned belong to Spark and to forecasts, which are not part of it",
}
_NO_TARGET = {
    FaultTarget.SPARK: "loads are not measured by Spark",
    FaultTarget.STANDBY: "workers start in a fixed time",
}


def why_no_counterpart(fault: PlannedFault) -> str:
    """Return why a fault has no counterpart in virtual time; empty if it has one."""
    if fault.kind is FaultKind.STOP and fault.target in (FaultTarget.MOVING_WORKER, FaultTarget.UNCHANGED_WORKER):
        return "a worker of the virtual cluster runs or has ended"
    return _NO_KIND.get(fault.kind) or _NO_TARGET.get(fault.target, "")


@dataclass(frozen=True)
class ScheduledFault:
    """A fault and its time.

    Parameters
    ----------
    fault
        Kind, target, duration and parameters of the fault.
    when
        Number of a step of the service (each time that it waits, calls Nimbus, before and after, or stores something),
        or moment of a move.
    skip
        Steps after that moment.
    which
        Selects one of several workers or nodes that the target means.
    """

    fault: PlannedFault
    when: int | Moment
    skip: int = 0
    which: int = 0

    def __str__(self) -> str:
        when = f"at step {self.when}" if isinstance(self.when, int) else f"when {self.when} + {self.skip} steps"
        return f"{self.fault} {when}"


@dataclass(frozen=True)
class Schedule:
    """One run in virtual time.

    Parameters
    ----------
    world
        Seed of the cluster, and of the placement that it moves to.
    faults
        Faults with their times.
    late
        Number of a message → its seconds, of those that do not take the usual time.
    action
        What moves; None for what the world's seed selects, and a revert.
    """

    world: int
    faults: tuple[ScheduledFault, ...] = ()
    late: tuple[tuple[int, float], ...] = ()
    action: Action | None = None

    def __str__(self) -> str:
        late = [f"message {number} takes {seconds:g} s" for number, seconds in self.late]
        return f"world {self.world}: " + ("; ".join([*map(str, self.faults), *late]) or "no faults")

    def smaller(self) -> Iterator[Self]:
        """Yield the schedules without some late messages, many first, and those without one fault."""
        size = len(self.late)
        while size >= 1:
            for start in range(0, len(self.late), size):
                yield replace(self, late=self.late[:start] + self.late[start + size :])
            size //= 2
        for number in range(len(self.faults)):
            yield replace(self, faults=self.faults[:number] + self.faults[number + 1 :])


def death(step: int, target: FaultTarget, away_s: float = 4.0, which: int = 0) -> ScheduledFault:
    """Return a kill at a step.

    Parameters
    ----------
    step, which
        Step of the service at which it happens, and number that selects among several targets.
    target
        Process or node that is killed, such as a worker.
    away_s
        Seconds until it is back; of a worker that depends on its supervisor.
    """
    return ScheduledFault(PlannedFault(FaultKind.KILL, target, away_s), step, which=which)


def by_chance(seed: int, steps: int, messages: int, deaths: int = 3) -> Schedule:
    """Return a schedule by chance.

    Parameters
    ----------
    seed
        Determines everything, the world included.
    steps, messages
        Their approximate numbers in a run without faults.
    deaths
        Maximum number of faults.
    """
    rng = random.Random(seed)  # noqa: S311 (no secret)
    faults = [
        death(rng.randrange(steps), rng.choice(MORTAL), rng.choice(AWAY_S), rng.randrange(64))
        for _ in range(rng.randint(0, deaths))
    ]
    return Schedule(seed, tuple(faults), _late(rng, messages))


def _late(rng: random.Random, messages: int) -> tuple[tuple[int, float], ...]:
    part = rng.choice((0.0, 0.05, 0.3))
    return tuple((number, rng.choice(LATE_S)) for number in range(messages) if rng.random() < part)


def every_death(world: int, steps: int) -> Iterator[Schedule]:
    """Yield a kill of each target at every step of a run."""
    for step in range(steps):
        for target in MORTAL:
            yield Schedule(world, (death(step, target, which=step),))


def of_scenario(scenario: Scenario, moment: Moment, seed: int, messages: int = 250) -> Schedule:
    """Return the schedule of a scenario: the seed selects world, steps after the moment, and late messages.

    Parameters
    ----------
    scenario, moment
        Scenario, and the moment at which its faults begin.
    seed
        Determines all the rest.
    messages
        Approximate number of messages of a run.
    """
    rng = random.Random(seed)  # noqa: S311 (no secret)
    faults = tuple(
        ScheduledFault(fault, moment, rng.randrange(_MAX_SKIPPED), rng.randrange(64)) for fault in scenario.faults
    )
    return Schedule(seed, faults, _late(rng, messages), scenario.action)
