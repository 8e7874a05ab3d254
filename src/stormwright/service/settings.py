"""Settings of a service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stormwright.base.clock import WALL, Clock
from stormwright.controller.autopilot import AutopilotSettings
from stormwright.controller.objectives.outlook import TRAFFIC
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.holds import MAX_MISSING
from stormwright.defaults import BASELINE
from stormwright.pipeline.settings import StreamSettings
from stormwright.plans.modes import Mode
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation, TriggerParams
from stormwright.service.auth.settings import AccessSettings
from stormwright.service.leader_election.leadership import SINGLE_SERVICE, Leadership
from stormwright.service.notifications.hook_program import Hook
from stormwright.service.notifications.notifier import Target
from stormwright.service.storage.history import HistorySettings


@dataclass(frozen=True)
class ServiceSettings:
    """Settings of a service.

    Parameters
    ----------
    state_dir
        State directory: landing directory, checkpoints, database.
    host, port
        Address at which Nimbus and the probes reach the service.
    access
        Token file and TLS settings of the HTTP server.
    initial
        Scheduler for topologies without a slot; Storm's own by default.
    mode
        Automation mode, as in `stormwright.client.shapes.Modes`; None for the stored one, which is ``observe`` at
        first.
    rules
        Options of all schedulers, which `initial` uses too: priorities and quotas of users.
    on_failure
        Called, in a thread of its own, for every topology that `initial` finds no slots for.
    notify
        Targets to which events are sent, each with the kinds that it receives.
    modes
        Other fields of `stormwright.client.shapes.Modes` that replace the stored ones at the start.
    keep_records
        Keep the newest records in memory, for measurements.
    forecast_min
        Minutes ahead for which the load is forecast, for a scheduler that uses forecasts.
    adapts
        When the scheduler looks for a better placement, by its source.
    objective
        Quantity that a move has to improve, one of `stormwright.controller.objectives.outlook.OBJECTIVES`; throughput
        in `serve`.
    least_measured_s
        Seconds for which a topology has to be measured after its workers have warmed up before it may move.
    budget_adapts
        Whether the move budget starts low, and shrinks after moves that disturbed the cluster.
    trials_per_day
        Trials of one topology within a day, in mode ``auto`` with objective throughput: moves that are expected to gain
        much, and are undone unless they measurably do.
    autopilot
        Limits of the changes of topologies with an objective; None for the defaults.
    most_missing
        Nothing moves while more than this fraction of the recently present nodes is missing.
    clock
        Clock of the cluster.
    changes_executors
        Whether the cluster can change the numbers of executors of a running topology.
    leadership
        Leadership: with several services only the leader decides.
    """

    state_dir: Path
    host: str
    port: int
    initial: str = BASELINE
    mode: Mode | None = None
    rules: Mapping[str, object] = field(default_factory=dict)
    on_failure: Hook | None = None
    notify: Sequence[Target] = ()
    modes: Mapping[str, Any] = field(default_factory=dict)
    keep_records: bool = False
    forecast_min: int = 10
    objective: str = TRAFFIC
    adapts: Adaptation = ONLINE
    least_measured_s: float = 30.0
    autopilot: AutopilotSettings | None = None
    most_missing: float = MAX_MISSING
    clock: Clock = WALL
    changes_executors: bool = True
    leadership: Leadership = SINGLE_SERVICE
    triggers: TriggerParams = field(default_factory=TriggerParams)
    budget: MoveBudget = field(default_factory=MoveBudget)
    budget_adapts: bool = False
    trials_per_day: int = 2
    limits: MoveLimits = field(default_factory=MoveLimits)
    stream: StreamSettings = field(default_factory=StreamSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    history: HistorySettings = field(default_factory=HistorySettings)

    def stream_of(self, learned: Mapping[str, float], overload_percent: float) -> StreamSettings:
        """Return the settings of the stream; learned speeds of cores are used unless speeds are set.

        A node counts as overloaded from `overload_percent` of its CPU, above which the scheduler would not place any
        more.
        """
        overload = min(self.stream.overload_percent, overload_percent)
        return replace(self.stream, core_hz_of=self.stream.core_hz_of or learned, overload_percent=overload)
