"""What happens to a service and its cluster while topologies move; and the least of it that still fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

#: Seconds that something takes on its way, and is late by.
USUAL_S, LATE_S = 0.05, (0.0, 0.3, 2.0, 11.0)

#: Who dies.
Who = Literal["service", "nimbus", "worker"]
WHO: tuple[Who, ...] = ("service", "nimbus", "worker")

#: Seconds until the service or Nimbus is back.
AWAY_S = (0.5, 4.0, 15.0)


@dataclass(frozen=True)
class Death:
    """Somebody dies at a step of the service.

    Parameters
    ----------
    step
        Its number: each time that the service waits, calls Nimbus (before and after), or keeps something.
    who
        Who does.
    away_s
        Until it is back, in seconds; of a worker that is the supervisor's doing.
    which
        Of workers.
    """

    step: int
    who: Who
    away_s: float = 4.0
    which: int = 0


@dataclass(frozen=True)
class Schedule:
    """One run.

    Parameters
    ----------
    world
        Seed of the cluster, and of where it is to go.
    deaths
        Who dies when.
    late
        Number of a message → seconds that it takes, of those that do not take the usual ones.
    """

    world: int
    deaths: tuple[Death, ...] = ()
    late: tuple[tuple[int, float], ...] = ()

    def __str__(self) -> str:
        deaths = [f"{each.who} dies at step {each.step} for {each.away_s:g} s" for each in self.deaths]
        late = [f"message {number} takes {seconds:g} s" for number, seconds in self.late]
        return f"world {self.world}: " + ("; ".join([*deaths, *late]) or "nothing happens")


def by_chance(seed: int, steps: int, messages: int, deaths: int = 3) -> Schedule:
    """A schedule by chance.

    Parameters
    ----------
    seed
        Of everything, the world included.
    steps, messages
        How many there are in a run in which nothing happens, about.
    deaths
        So many at most.
    """
    rng = random.Random(seed)  # noqa: S311 (no secret)
    die = tuple(
        Death(rng.randrange(steps), rng.choice(WHO), rng.choice(AWAY_S), rng.randrange(64))
        for _ in range(rng.randint(0, deaths))
    )
    part = rng.choice((0.0, 0.05, 0.3))
    late = tuple((number, rng.choice(LATE_S)) for number in range(messages) if rng.random() < part)
    return Schedule(seed, tuple(sorted(die, key=lambda each: each.step)), late)


def every_death(world: int, steps: int) -> Iterator[Schedule]:
    """Each of those that may die, at every step of a run."""
    for step in range(steps):
        for who in WHO:
            yield Schedule(world, (Death(step, who, which=step),))


def smallest(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """The schedule with as little happening as still makes it fail, each thing that is left being needed."""
    again = True
    while again:
        again = False
        for smaller in _smaller(schedule):
            if fails(smaller):
                schedule, again = smaller, True
                break
    return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    count = len(schedule.late)
    size = count
    while size >= 1:
        for start in range(0, count, size):
            yield replace(schedule, late=schedule.late[:start] + schedule.late[start + size :])
        size //= 2
    for number in range(len(schedule.deaths)):
        yield replace(schedule, deaths=schedule.deaths[:number] + schedule.deaths[number + 1 :])
