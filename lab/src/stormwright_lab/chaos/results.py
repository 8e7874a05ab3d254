"""Results of chaos runs, one JSON line each; a run that has a result is not repeated."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from stormwright.errors import Fault, InputError
from stormwright_lab.chaos.invariants import FaultNaming, Invariant, InvariantViolation
from stormwright_lab.chaos.scenarios import Moment, Scenario

log = logging.getLogger(__name__)

#: In the output directory: a line for each run.
RUNS = "runs.jsonl"


@dataclass(frozen=True)
class RunKey:
    """Scenario, moment and seed, which determine a run."""

    scenario: str
    moment: Moment
    seed: int
    virtual: bool = False

    def __str__(self) -> str:
        return f"{self.scenario} at {self.moment}, seed {self.seed}{', virtual' if self.virtual else ''}"


@dataclass(frozen=True)
class RunResult:
    """Result of a run.

    Parameters
    ----------
    key
        Scenario, moment and seed.
    scenario
        The scenario itself, which may be one by chance or a smaller one.
    seconds
        Duration, of a virtual run in virtual seconds.
    recovery_s
        Seconds from the end of the last fault until acks flow again with nothing paused and all workers running; None
        if they do not, or unknown.
    ended_s
        Seconds from the end of the last fault until the plan has ended, too: an interrupted one moves again.
    violations
        Invariants that do not hold.
    namings
        Whether the status has named each fault.
    plan_state
        Final state of the plan; ``moved`` if all its steps are complete.
    skipped
        Why it was not run; empty if it was.
    smallest
        The smallest scenario that still fails; None if it was not sought.
    details
        Further JSON values by name, such as the number of starts of the service.
    """

    key: RunKey
    scenario: Scenario
    seconds: float = 0.0
    recovery_s: float | None = None
    ended_s: float | None = None
    violations: tuple[InvariantViolation, ...] = ()
    namings: tuple[FaultNaming, ...] = ()
    plan_state: str = ""
    skipped: str = ""
    smallest: Scenario | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """``ok``, ``skipped``, or the names of the violated invariants."""
        if self.skipped:
            return "skipped"
        return ", ".join(dict.fromkeys(each.invariant.value for each in self.violations)) or "ok"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            **asdict(self.key),
            "definition": self.scenario.to_dict(),
            "seconds": round(self.seconds, 2),
            "recovery_s": None if self.recovery_s is None else round(self.recovery_s, 2),
            "ended_s": None if self.ended_s is None else round(self.ended_s, 2),
            "violations": [each.to_dict() for each in self.violations],
            "namings": [each.to_dict() for each in self.namings],
            "plan_state": self.plan_state,
            "skipped": self.skipped,
            "smallest": None if self.smallest is None else self.smallest.to_dict(),
            "details": dict(self.details),
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the result of a JSON object; raises KeyError, TypeError, ValueError or InputError if it is none."""
        smaller = raw.get("smallest")
        return cls(
            RunKey(raw["scenario"], Moment(raw["moment"]), int(raw["seed"]), bool(raw["virtual"])),
            Scenario.from_dict(raw["definition"]),
            float(raw["seconds"]),
            raw["recovery_s"],
            raw["ended_s"],
            tuple(InvariantViolation.from_dict(each) for each in raw["violations"]),
            tuple(FaultNaming(**{**each, "words": tuple(each["words"])}) for each in raw["namings"]),
            raw["plan_state"],
            raw["skipped"],
            Scenario.from_dict(smaller) if smaller else None,
            raw.get("details", {}),
        )


class RunStore:
    """Results in a directory.

    Parameters
    ----------
    directory
        The directory; created with the first result.

    Raises
    ------
    InputError
        The results cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / RUNS
        self._whole = True
        try:
            self._results = {each.key: each for each in self._read()}
        except OSError as error:
            raise InputError("chaos", [Fault(error.strerror or str(error), str(self._path))]) from error

    def __contains__(self, key: RunKey) -> bool:
        return key in self._results

    def all(self) -> list[RunResult]:
        """Return all results in the order of the runs."""
        return list(self._results.values())

    def add(self, result: RunResult) -> None:
        """Store a result; it is on disk when this returns."""
        line = (b"" if self._whole else b"\n") + json.dumps(result.to_dict()).encode() + b"\n"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError("chaos", [Fault(error.strerror or str(error), str(self._path))]) from error
        self._whole = True
        self._results[result.key] = result

    def _read(self) -> Iterator[RunResult]:
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        self._whole = not content or content.endswith(b"\n")
        for line in content.splitlines():
            try:
                yield RunResult.from_dict(json.loads(line))
            except (ValueError, KeyError, TypeError, InputError):
                log.warning("%s: an incomplete line is skipped", self._path)


def p95(values: Sequence[float]) -> float:
    """Return the least of `values` that 95 % of them do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def verdict_text(results: list[RunResult]) -> str:
    """Return one sentence about all results."""
    ran = [each for each in results if not each.skipped]
    skipped = len(results) - len(ran)
    counts = dict.fromkeys(Invariant, 0)
    for each in ran:
        for invariant in {violation.invariant for violation in each.violations}:
            counts[invariant] += 1
    failed = sum(bool(each.violations) for each in ran)
    recoveries = [each.recovery_s for each in ran if each.recovery_s is not None]
    rest = f"; {skipped:,} skipped" if skipped else ""
    if recoveries:
        rest += f"; recovery p95 {p95(recoveries):.1f} s, longest {max(recoveries):.1f} s"
    if not ran:
        return f"no run{rest}"
    if not failed:
        return f"all invariants hold in {len(ran):,} runs{rest}"
    found = ", ".join(f"{invariant} in {count:,}" for invariant, count in counts.items() if count)
    return f"{failed:,} of {len(ran):,} runs violate an invariant ({found}){rest}"
