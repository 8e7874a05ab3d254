"""Scenarios of chaos tests as data: faults, moments of a move, actions and workloads.

The kinds of faults are those of Toxiproxy (down, latency, bandwidth, timeout, reset_peer) and Chaos Mesh (PodChaos,
NetworkChaos, StressChaos, IOChaos, TimeChaos), as far as they concern processes, links, CPU, disk and clock:

========== ============================= ===========================================
kind       Toxiproxy                     Chaos Mesh
========== ============================= ===========================================
kill       –                             PodChaos: container-kill
stop       timeout (0)                   PodChaos: pod-failure
restart    –                             PodChaos: pod-kill
cut        down                          NetworkChaos: partition
slow-link  latency, bandwidth            NetworkChaos: delay, loss, bandwidth
slow-cpu   –                             StressChaos: cpu
fill-disk  –                             IOChaos: fault (ENOSPC)
set-clock  –                             TimeChaos
refuse     reset_peer                    NetworkChaos: partition to a target
damage     –                             IOChaos: mistake
========== ============================= ===========================================

The same data drives the local cluster (`stormwright_lab.chaos.run`) and virtual time (`stormwright_lab.chaos.virtual`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

from stormwright.errors import Fault, InputError
from stormwright_lab.chaos.ledger_files import LedgerKind

_Known = TypeVar("_Known", bound=StrEnum)


class FaultKind(StrEnum):
    """Kind of a fault."""

    #: SIGKILL; the supervision of the process starts it again.
    KILL = "kill"
    #: SIGSTOP, then SIGCONT.
    STOP = "stop"
    #: SIGTERM; the supervision of the process starts it again.
    RESTART = "restart"
    #: No packet passes its link.
    CUT = "cut"
    #: Its link has a low rate (`rate`), or delay and loss (`delay_ms`, `loss_percent`).
    SLOW_LINK = "slow-link"
    #: Its control group has few cores (`cores`).
    SLOW_CPU = "slow-cpu"
    #: The file system of its state is full.
    FILL_DISK = "fill-disk"
    #: Its clock is changed by `seconds`.
    SET_CLOCK = "set-clock"
    #: Connections to it are refused.
    REFUSE = "refuse"
    #: A state file (`file`) is incomplete or damaged.
    DAMAGE = "damage"


class FaultTarget(StrEnum):
    """Target of a fault. Workers and nodes are those of the move, from `SOURCE_NODE` to `TARGET_NODE`."""

    SERVICE = "service"
    NIMBUS = "nimbus"
    ZOOKEEPER = "zookeeper"
    SOURCE_SUPERVISOR = "source-supervisor"
    TARGET_SUPERVISOR = "target-supervisor"
    MOVING_WORKER = "moving-worker"
    UNCHANGED_WORKER = "unchanged-worker"
    GATEWAY = "gateway"
    SPARK = "spark"
    STANDBY = "standby"
    SOURCE_NODE = "source-node"
    TARGET_NODE = "target-node"
    OTHER_NODE = "other-node"


SUPERVISORS = (FaultTarget.SOURCE_SUPERVISOR, FaultTarget.TARGET_SUPERVISOR)
WORKERS = (FaultTarget.MOVING_WORKER, FaultTarget.UNCHANGED_WORKER)
NODES = (FaultTarget.SOURCE_NODE, FaultTarget.TARGET_NODE, FaultTarget.OTHER_NODE)
DAEMONS = (FaultTarget.NIMBUS, FaultTarget.ZOOKEEPER, *SUPERVISORS)
HELPERS = (FaultTarget.GATEWAY, FaultTarget.SPARK, FaultTarget.STANDBY)

#: Kind → its possible targets.
POSSIBLE: Mapping[FaultKind, Sequence[FaultTarget]] = {
    FaultKind.KILL: tuple(FaultTarget),
    FaultKind.STOP: (FaultTarget.SERVICE, *DAEMONS, *WORKERS, *HELPERS),
    FaultKind.RESTART: (FaultTarget.SERVICE, *DAEMONS),
    FaultKind.CUT: (FaultTarget.SERVICE, *NODES),
    FaultKind.SLOW_LINK: (FaultTarget.SERVICE, *NODES),
    FaultKind.SLOW_CPU: NODES,
    FaultKind.FILL_DISK: (FaultTarget.SERVICE,),
    FaultKind.SET_CLOCK: (FaultTarget.SERVICE,),
    FaultKind.REFUSE: (FaultTarget.SERVICE, FaultTarget.NIMBUS),
    FaultKind.DAMAGE: (FaultTarget.SERVICE,),
}


@dataclass(frozen=True)
class PlannedFault:
    """One fault.

    Parameters
    ----------
    kind, target
        What happens to what.
    duration_s
        Seconds until it is undone; of a killed service or node, until it is started again. 0 for at once.
    delay_s
        Seconds after the moment.
    parameters
        Parameters of the kind.
    """

    kind: FaultKind
    target: FaultTarget
    duration_s: float = 0.0
    delay_s: float = 0.0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.target not in POSSIBLE[self.kind]:
            known = ", ".join(POSSIBLE[self.kind])
            text = f"{self.kind} is possible for {known}; got {self.target}"
            raise InputError("fault", [Fault(text, "$.target")])
        if self.duration_s < 0 or self.delay_s < 0:
            raise InputError("fault", [Fault("durations must not be negative", "$.duration_s")])

    def __str__(self) -> str:
        values = [f"{name}={value}" for name, value in self.parameters.items()]
        lasts = [f"{self.duration_s:g} s"] if self.duration_s else []
        details = f" ({', '.join([*lasts, *values])})" if lasts or values else ""
        return f"{self.kind} {self.target}{details}" + (f" after {self.delay_s:g} s" if self.delay_s else "")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the fault of a JSON object; raises InputError."""
        kind, target = _value(FaultKind, raw, "kind"), _value(FaultTarget, raw, "target")
        numbers = {name: float(raw.get(name, 0.0)) for name in ("duration_s", "delay_s")}
        return cls(kind, target, **numbers, parameters=dict(raw.get("parameters", {})))


class Moment(StrEnum):
    """Step of a move at which the faults begin."""

    #: Before anything moves: a plan has been made.
    BEFORE = "before"
    #: Spouts are paused, and tuple trees complete.
    PAUSED = "paused"
    #: Nimbus has the order to assign other slots.
    ORDERED = "ordered"
    #: An old worker has ended.
    SWAPPING = "swapping"
    #: Spouts are active again, and new workers begin to report.
    RESUMING = "resuming"
    #: The move has been made and is compared with its prediction; of a revert, it is complete.
    EVALUATING = "evaluating"


class Action(StrEnum):
    """Kind of the move."""

    #: A plan moves one worker to another node.
    PLAN = "plan"
    #: A node is drained.
    DRAIN = "drain"
    #: A plan is reverted.
    REVERT = "revert"
    #: Two topologies exchange two slots.
    SWAP = "swap"
    #: A plan changes the configuration of a topology.
    RECONFIGURE = "reconfigure"


@dataclass(frozen=True)
class Scenario:
    """Faults in a move.

    Parameters
    ----------
    name
        Its name in the catalogue.
    faults
        At least one; their delays count from the moment.
    moments
        Moments at which it is run.
    action
        Kind of the move during which the faults are injected.
    workload
        How the ledger processes its numbers.
    """

    name: str
    faults: tuple[PlannedFault, ...]
    moments: tuple[Moment, ...] = tuple(Moment)
    action: Action = Action.PLAN
    workload: LedgerKind = LedgerKind.DRAIN

    def __post_init__(self) -> None:
        found = [
            Fault(f"needs at least one {name[:-1]}", f"$.{name}")
            for name in ("faults", "moments")
            if not getattr(self, name)
        ]
        if found:
            raise InputError(f"scenario {self.name}", found)

    def __str__(self) -> str:
        return f"{self.action} of a {self.workload} ledger: {'; '.join(map(str, self.faults))}"

    @property
    def until_s(self) -> float:
        """Seconds from the moment until the last fault has been undone."""
        return max(fault.delay_s + fault.duration_s for fault in self.faults)

    def smaller(self) -> Iterator[Self]:
        """Yield the scenarios with one fault less, or one delay less."""
        faults = self.faults
        if len(faults) > 1:
            for number in range(len(faults)):
                yield replace(self, faults=faults[:number] + faults[number + 1 :])
        for number, fault in enumerate(faults):
            if fault.delay_s:
                at_once = replace(fault, delay_s=0.0)
                yield replace(self, faults=(*faults[:number], at_once, *faults[number + 1 :]))

    def to_dict(self) -> dict[str, Any]:
        """Return the scenario as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self:
        """Return the scenario of a JSON object.

        Raises
        ------
        InputError
            A value is none of the known ones, or a fault is impossible.
        """
        moments = tuple(_value(Moment, {"moments": each}, "moments") for each in raw.get("moments", Moment))
        return cls(
            str(raw.get("name", "unnamed")),
            tuple(PlannedFault.from_dict(each) for each in raw.get("faults", ())),
            moments,
            _value(Action, raw, "action", Action.PLAN),
            _value(LedgerKind, raw, "workload", LedgerKind.DRAIN),
        )


def _value(known: type[_Known], raw: Mapping[str, Any], name: str, default: _Known | None = None) -> _Known:
    given = raw.get(name, default)
    try:
        return known(given)
    except ValueError:
        fault = Fault(f"must be one of {', '.join(known)}; got {given!r}", f"$.{name}")
        raise InputError("scenario", [fault]) from None
