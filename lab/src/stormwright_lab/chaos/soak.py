"""Soak: a ledger under changing load, with moves and faults, while the service and its Spark JVM are sampled.

Each minute the rate of the ledger changes or something moves; in every fifth minute a fault of the catalogue strikes
the move. Faults that end the service or Spark strike only in the first minutes: afterwards one process of each is
sampled. An interrupted soak goes on with a new session, which has a cluster and a ledger of its own, until its sessions
together have lasted as long as wanted.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from stormwright.controller.move import ACTIVE
from stormwright.errors import ClusterError, InputError, NimbusError, StormwrightError
from stormwright_lab.chaos.actions import ForcedPlacement, NoFreeSlotError, RunAction
from stormwright_lab.chaos.catalogue import CATALOGUE
from stormwright_lab.chaos.faults import FaultError, FaultInjector
from stormwright_lab.chaos.finishing import finish_ledgers
from stormwright_lab.chaos.lab import ChaosLab, until
from stormwright_lab.chaos.ledger import read_ledger
from stormwright_lab.chaos.ledger_workload import LedgerWorkload
from stormwright_lab.chaos.run import CONF
from stormwright_lab.chaos.scenarios import Action, FaultKind, FaultTarget, PlannedFault
from stormwright_lab.chaos.service_process import SPARK
from stormwright_lab.chaos.soak_record import (
    LedgerResult,
    ProcessSample,
    SoakEvent,
    SoakRecord,
    SoakSample,
    sample_of,
    state_sizes,
)

log = logging.getLogger(__name__)

#: Seconds between samples, and of a round.
SAMPLE_S, ROUND_S = 10.0, 60.0

#: Rounds of which one has a fault.
FAULT_EVERY = 5

#: Minutes from the start of a session in which faults may end the service or Spark.
ENDING_MIN = 3.0

#: Least and largest rate of the ledger in numbers/s, and its workers.
RATES_TPS, WORKERS = (50, 400), 3

#: Longest waits in seconds: for the workers of the ledger, and for the end of a move.
_UP_S, _MOVE_S = 120.0, 240.0

#: Attempts to select a worker that can move.
_ATTEMPTS = 8


@dataclass(frozen=True)
class SoakSettings:
    """Settings of a soak.

    Parameters
    ----------
    minutes
        Minutes of all sessions together.
    seed
        Determines rates, moves and faults.
    output
        Directory of the record.
    """

    minutes: float
    seed: int
    output: Path


def soak(settings: SoakSettings, record: SoakRecord, report: Callable[[str], None]) -> None:
    """Soak for the minutes that are left; the record has all that happened.

    Parameters
    ----------
    settings
        Duration, seed and output directory of the soak.
    record
        Record of the sessions before, to which this one is added.
    report
        Called with a line about each event.

    Raises
    ------
    ClusterError
        The cluster or the ledger cannot be started.
    """
    _check_interrupted(settings.output, record)
    if record.elapsed_s >= 60 * settings.minutes:
        return
    session = record.sessions + 1
    with ChaosLab(settings.output / f"session-{session}") as lab:
        lab.prepare()
        _Session(settings, record, lab, session, report).run()


def _check_interrupted(output: Path, record: SoakRecord) -> None:
    """Record the ledgers of sessions that have not recorded theirs."""
    for session in range(1, record.sessions + 1):
        if session not in record.ledgers:
            with suppress(InputError):
                record.add(_result(session, output / f"session-{session}" / "ledger"))


def _result(session: int, directory: Path) -> LedgerResult:
    ledger = read_ledger(directory)
    violations = tuple(map(str, ledger.violations()))
    return LedgerResult(session, ledger.emitted, ledger.acked, ledger.replays, violations, ended=False)


def ends_service(fault: PlannedFault) -> bool:
    """Return whether a fault ends the service or its Spark JVM."""
    if fault.target is FaultTarget.SPARK:
        return True
    return fault.target is FaultTarget.SERVICE and fault.kind in (FaultKind.KILL, FaultKind.RESTART, FaultKind.DAMAGE)


def fault_by_chance(rng: random.Random, *, may_end: bool) -> PlannedFault:
    """Return a fault of the catalogue.

    Parameters
    ----------
    rng
        Random generator that selects the fault from the catalogue.
    may_end
        Whether it may end the service or its Spark JVM.
    """
    known = [scenario.faults[0] for scenario in CATALOGUE.values() if len(scenario.faults) == 1]
    return rng.choice([each for each in known if may_end or not ends_service(each)])


class _Session:
    """One session: a cluster, a ledger, rounds of changes, and samples.

    Parameters
    ----------
    settings, record, report
        Settings of the soak, its record, and the function that receives lines about events.
    lab
        The cluster, which runs.
    session
        Number of the session.
    """

    def __init__(
        self, settings: SoakSettings, record: SoakRecord, lab: ChaosLab, session: int, report: Callable[[str], None]
    ) -> None:
        self._settings, self._record, self._lab, self._session, self._report = settings, record, lab, session, report
        self._rng = random.Random(1000 * settings.seed + session)  # noqa: S311 (no secret)
        self._rate_tps = float(RATES_TPS[0])
        directory = settings.output / f"session-{session}" / "ledger"
        self._rate_file = directory.parent / "rate.txt"
        self._workload = LedgerWorkload(directory.absolute(), name="soak", workers=WORKERS)
        self._before_s, self._began_s = record.elapsed_s, time.monotonic()
        self._locked = threading.Lock()

    @property
    def elapsed_s(self) -> float:
        """Seconds of all sessions until now."""
        return self._before_s + time.monotonic() - self._began_s

    def run(self) -> None:
        """Run until all minutes are over."""
        self._submit()
        self._began_s = time.monotonic()
        with ExitStack() as stack:
            stack.callback(self._finish)
            stack.enter_context(self._sampling())
            injector = stack.enter_context(FaultInjector(self._lab.cluster, self._lab.service))
            number = 0
            while self.elapsed_s < 60 * self._settings.minutes:
                until_s = time.monotonic() + ROUND_S
                number += 1
                self._round(number, injector)
                end_s = self._began_s + 60 * self._settings.minutes - self._before_s
                time.sleep(max(0.0, min(until_s, end_s) - time.monotonic()))

    def _note(self, kind: str, text: str) -> None:
        with self._locked:
            self._record.add(SoakEvent(self.elapsed_s, self._session, kind, text))
        self._report(f"minute {self.elapsed_s / 60:.1f}: {kind}: {text}")

    def _submit(self) -> None:
        self._workload.directory.mkdir(parents=True, exist_ok=True)
        self._set_rate()
        self._workload.submit(
            self._lab.cluster,
            {
                **CONF,
                "stormwright.probe.service.url": self._lab.cluster.service_url,
                "stormwright.rate.file": str(self._rate_file.absolute()),
            },
        )
        if not until(self._workers_run, _UP_S):
            raise ClusterError(f"the ledger has not run within {_UP_S:g} s")

    def _workers_run(self) -> bool:
        placement = ForcedPlacement.current(self._lab)
        assigned = [place for index in range(len(placement.problem.topologies)) for place in placement.workers(index)]
        return bool(assigned) and sorted(assigned) == sorted(self._lab.processes.workers())

    def _is_active(self) -> bool:
        return set(self._lab.statuses().values()) == {ACTIVE}

    def _set_rate(self) -> None:
        self._rate_tps = float(self._rng.randint(*RATES_TPS))
        partial = self._rate_file.with_suffix(".partial")
        partial.write_text(f"{self._rate_tps}\n", encoding="ascii")
        partial.replace(self._rate_file)

    def _finish(self) -> None:
        """Drain the ledger once it runs as Nimbus has placed it, and record the result of the oracle.

        A ledger that is paused while its workers are exchanged does not emit again what they had.
        """
        until(lambda: self._is_active() and self._workers_run(), _MOVE_S, 1.0)
        ((ledger, found),) = finish_ledgers(self._lab.nimbus, [self._workload])
        violations = tuple(map(str, found))
        with self._locked:
            self._record.add(LedgerResult(self._session, ledger.emitted, ledger.acked, ledger.replays, violations))
        self._report(f"the ledger has {ledger.emitted:,} numbers; {len(violations)} violations")
        self._lab.kill_topology(self._workload.name)

    def _round(self, number: int, injector: FaultInjector) -> None:
        """Change the rate; in every second round something moves, in every fifth with a fault."""
        strikes = number % FAULT_EVERY == 0 or (number == 2 and self._session == 1)
        if number % 2 and not strikes:
            self._set_rate()
            self._note("rate", f"{self._rate_tps:g} numbers/s")
            return
        action = self._rng.choice((Action.PLAN, Action.REVERT, Action.DRAIN))
        with suppress(StormwrightError, OSError):
            if not self._moved(action, injector if strikes else None):
                self._moved(Action.DRAIN, injector if strikes else None)

    def _moved(self, kind: Action, injector: FaultInjector | None) -> bool:
        """Move something, with a fault if there is an injector; return whether it could be."""
        action = RunAction(self._lab, kind, self._rng)
        if not self._prepared(action, kind):
            self._clean_up(action)
            return False
        until_s = time.monotonic() + _MOVE_S
        if not until(action.start, 60.0, 1.0):
            self._note("note", f"{kind} not started")
        elif injector is not None:
            time.sleep(self._rng.uniform(0.0, 6.0))
            self._strike(injector, action)

        def ended() -> bool:
            in_force = injector is not None and injector.in_force
            if not in_force:
                action.continue_plan()
            waits = action.states.get(action.plan) in ("planning", "planned")  # a drain that has not begun yet
            return action.has_ended() and not waits and not in_force

        until(ended, until_s - time.monotonic(), 0.5)
        self._note("plan", f"{kind}: {', '.join(action.states.values()) or 'no answer'}")
        self._clean_up(action)
        return True

    def _prepared(self, action: RunAction, kind: Action) -> bool:
        """Prepare an action; another worker may be able to move if the selected one has no free slot to go to."""
        for attempt in range(_ATTEMPTS):
            try:
                action.prepare()
            except StormwrightError as error:
                if attempt == _ATTEMPTS - 1 or not isinstance(error, NoFreeSlotError):
                    self._note("note", f"{kind} not possible: {error}")
                    return False
            else:
                return True
        return False

    def _clean_up(self, action: RunAction) -> None:
        def cleaned() -> bool:
            action.clean_up()
            return True

        until(cleaned, 60.0, 2.0)

    def _strike(self, injector: FaultInjector, action: RunAction) -> None:
        may_end = self.elapsed_s < 60 * ENDING_MIN
        fault = fault_by_chance(self._rng, may_end=may_end)
        if why := injector.why_impossible(fault):
            self._note("note", f"{fault} is not possible: {why}")
            return
        try:
            injector.inject(fault, action.parts)
        except (FaultError, ClusterError) as error:
            self._note("note", f"{fault} not injected: {error}")
        else:
            self._note("fault", str(fault))

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        """Sample in a thread of its own."""
        stop = threading.Event()

        def sample() -> None:
            while not stop.wait(SAMPLE_S):
                with suppress(OSError, NimbusError):
                    found = self._sample()
                    with self._locked:
                        self._record.add(found)

        thread = threading.Thread(target=sample, name="soak-samples", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(30)

    def _sample(self) -> SoakSample:
        service = self._lab.service
        pids = {"service": service.pid, "spark": next(iter(service.jvms(SPARK)), None)}
        found: dict[str, ProcessSample] = {}
        for name, pid in pids.items():
            if pid and (each := sample_of(pid)) is not None:
                found[name] = each
        return SoakSample(round(self.elapsed_s, 1), self._session, found, state_sizes(service.state), self._rate_tps)
