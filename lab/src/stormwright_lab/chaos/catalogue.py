"""Catalogue of the scenarios of chaos tests, and random ones beside them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from stormwright.errors import Fault, InputError
from stormwright_lab.chaos.ledger_files import LedgerKind
from stormwright_lab.chaos.scenarios import (
    DAEMONS,
    HELPERS,
    NODES,
    WORKERS,
    Action,
    FaultKind,
    FaultTarget,
    Moment,
    PlannedFault,
    Scenario,
)


def _single(
    kind: FaultKind, target: FaultTarget, duration_s: float = 0.0, name: str = "", **parameters: Any
) -> Scenario:
    return Scenario(name or f"{kind}-{target}", (PlannedFault(kind, target, duration_s, parameters=parameters),))


def _singles() -> Iterator[Scenario]:
    kill, stop, restart = FaultKind.KILL, FaultKind.STOP, FaultKind.RESTART
    yield _single(kill, FaultTarget.SERVICE, 1.0)
    yield _single(kill, FaultTarget.SERVICE, 15.0, "kill-service-for-long")
    yield _single(stop, FaultTarget.SERVICE, 8.0)
    yield _single(stop, FaultTarget.SERVICE, 25.0, "stop-service-for-long")
    yield _single(restart, FaultTarget.SERVICE, 1.0)
    for target in (*DAEMONS, *WORKERS, *HELPERS):
        yield _single(kill, target)
        yield _single(stop, target, 12.0)
    for target in DAEMONS:
        yield _single(restart, target)
    for target in NODES:
        yield _single(kill, target, 10.0)
        yield _single(FaultKind.CUT, target, 12.0)
        yield _single(FaultKind.SLOW_LINK, target, 12.0, rate="24kbit")
        yield _single(FaultKind.SLOW_CPU, target, 12.0, cores=0.2)
    yield _single(FaultKind.SLOW_LINK, FaultTarget.SOURCE_NODE, 12.0, "lossy-source-node", delay_ms=200, loss_percent=5)
    yield _single(FaultKind.SLOW_LINK, FaultTarget.TARGET_NODE, 12.0, "lossy-target-node", delay_ms=200, loss_percent=5)
    yield _single(FaultKind.CUT, FaultTarget.SERVICE, 12.0)
    yield _single(FaultKind.SLOW_LINK, FaultTarget.SERVICE, 12.0, rate="32kbit")
    yield _single(FaultKind.REFUSE, FaultTarget.SERVICE, 12.0)
    yield _single(FaultKind.REFUSE, FaultTarget.NIMBUS, 12.0)
    yield _single(FaultKind.FILL_DISK, FaultTarget.SERVICE, 12.0)
    yield _single(FaultKind.SET_CLOCK, FaultTarget.SERVICE, 15.0, "clock-back", seconds=-3600)
    yield _single(FaultKind.SET_CLOCK, FaultTarget.SERVICE, 15.0, "clock-ahead", seconds=3600)
    yield _single(FaultKind.DAMAGE, FaultTarget.SERVICE, 1.0, "half-written-record", file="landing")
    yield _single(FaultKind.DAMAGE, FaultTarget.SERVICE, 1.0, "damaged-forecasts", file="minutes.arrow")


def _several() -> Iterator[Scenario]:
    def both(name: str, *faults: PlannedFault) -> Scenario:
        return Scenario(name, faults)

    kill = FaultKind.KILL
    service, nimbus = PlannedFault(kill, FaultTarget.SERVICE, 1.0), PlannedFault(kill, FaultTarget.NIMBUS)
    yield both("service-and-nimbus", service, nimbus)
    yield both("service-and-moving-worker", service, PlannedFault(kill, FaultTarget.MOVING_WORKER))
    yield both("nimbus-and-target-supervisor", nimbus, PlannedFault(kill, FaultTarget.TARGET_SUPERVISOR, delay_s=1.0))
    yield both(
        "cut-target-then-service",
        PlannedFault(FaultKind.CUT, FaultTarget.TARGET_NODE, 12.0),
        replace(service, delay_s=3.0),
    )
    yield both("zookeeper-and-nimbus", PlannedFault(kill, FaultTarget.ZOOKEEPER), nimbus)
    yield both("service-twice", service, replace(service, delay_s=6.0))
    yield both(
        "full-disk-and-service",
        PlannedFault(FaultKind.FILL_DISK, FaultTarget.SERVICE, 12.0),
        replace(service, delay_s=2.0),
    )


def _others() -> Iterator[Scenario]:
    """Yield other workloads and actions."""
    kill = FaultKind.KILL
    for workload in (LedgerKind.CHECKPOINT, LedgerKind.WINDOW, LedgerKind.BATCH):
        for target, duration_s in (
            (FaultTarget.SERVICE, 1.0),
            (FaultTarget.MOVING_WORKER, 0.0),
            (FaultTarget.UNCHANGED_WORKER, 0.0),
        ):
            yield Scenario(f"{workload}-kill-{target}", (PlannedFault(kill, target, duration_s),), workload=workload)
    for action in (Action.DRAIN, Action.REVERT, Action.SWAP, Action.RECONFIGURE):
        for target, duration_s in (
            (FaultTarget.SERVICE, 1.0),
            (FaultTarget.NIMBUS, 0.0),
            (FaultTarget.MOVING_WORKER, 0.0),
            *([(FaultTarget.SOURCE_SUPERVISOR, 0.0)] if action is Action.RECONFIGURE else []),
        ):
            yield Scenario(f"{action}-kill-{target}", (PlannedFault(kill, target, duration_s),), action=action)


#: All named scenarios, by name.
CATALOGUE: Mapping[str, Scenario] = {each.name: each for each in (*_singles(), *_several(), *_others())}


def scenarios_named(pattern: str) -> list[Scenario]:
    """Return the scenarios of the catalogue whose names match a pattern with ``*``.

    Raises
    ------
    InputError
        There is none.
    """
    found = [each for name, each in CATALOGUE.items() if fnmatchcase(name, pattern)]
    if not found:
        fault = Fault("matches no scenario; `stormwright chaos list` lists them", pattern)
        raise InputError("scenario", [fault])
    return found


#: Faults of a scenario by chance, at most, and the longest delay and duration of one, in seconds.
_MAX_FAULTS, _LATEST_S, _LONGEST_S = 3, 8.0, 20.0


def by_chance(seed: int) -> Scenario:
    """Return a scenario by chance: one to three faults, each of a single scenario, at one moment.

    Parameters
    ----------
    seed
        Seed of all random choices: equal seeds give equal scenarios.
    """
    rng = random.Random(seed)  # noqa: S311 (no secret)
    known = [fault for scenario in CATALOGUE.values() for fault in scenario.faults]
    faults = []
    for _ in range(rng.randint(1, _MAX_FAULTS)):
        fault = rng.choice(known)
        duration_s = round(rng.uniform(1.0, _LONGEST_S), 1) if fault.duration_s else 0.0
        faults.append(replace(fault, duration_s=duration_s, delay_s=round(rng.uniform(0.0, _LATEST_S), 1)))
    actions = (Action.PLAN, Action.PLAN, Action.DRAIN, Action.REVERT, Action.SWAP)
    return Scenario(f"chance-{seed}", tuple(faults), (rng.choice(tuple(Moment)),), rng.choice(actions))
