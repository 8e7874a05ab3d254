"""What a running service is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stormwright.clock import WALL, Clock
from stormwright.controller.objectives.outlook import TRAFFIC
from stormwright.controller.planning.plan import MoveBudget
from stormwright.controller.reports import MoveLimits
from stormwright.controller.safety.holds import MOST_MISSING
from stormwright.defaults import STORMS_OWN
from stormwright.modes import Mode
from stormwright.pipeline.settings import StreamSettings
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation, TriggerParams
from stormwright.service.auth.settings import AccessSettings
from stormwright.service.leader_election.lead import ALONE, Lead
from stormwright.service.notifications.hook_program import Hook
from stormwright.service.notifications.notifier import Target
from stormwright.service.storage.history import HistorySettings


@dataclass(frozen=True)
class ServiceSettings:
    """What a running service is told.

    Parameters
    ----------
    state_dir
        Landing directory, checkpoints and profiles.
    host, port
        Where Nimbus and the probes reach the service.
    access
        Who may reach it.
    initial
        Scheduler for topologies without a slot; Storm's own by default.
    mode
        What it may do by itself, as `stormwright.client.shapes.Modes` has it; None for what was kept, which is
        ``observe`` at first.
    rules
        Options of all schedulers, which `initial` takes over: who comes first, and what users may have.
    on_failure
        Called, in a thread of its own, for every topology that `initial` finds no slots for.
    notify
        Who is told of which events.
    modes
        What else of `stormwright.client.shapes.Modes` holds from the start, whatever was kept.
    keep_records
        Keep the newest records in memory, for measurements.
    forecast_min
        How many minutes ahead the load is forecast, for a scheduler that uses that.
    adapts
        When the scheduler looks for a better placement, by its source.
    objective
        What a move has to gain, one of `stormwright.controller.objectives.outlook.OBJECTIVES`; `serve` says throughput.
    least_measured_s
        A topology is moved only once it was measured for so long since its workers started and warmed up.
    budget_adapts
        Whether less than the budget moves at first, and after moves that the cluster has not borne well.
    most_missing
        Nothing moves while more than this part of the nodes that were there lately is missing.
    clock
        Of the cluster.
    lead
        Whether it may decide: where there are several services, while it leads.
    """

    state_dir: Path
    host: str
    port: int
    initial: str = STORMS_OWN
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
    most_missing: float = MOST_MISSING
    clock: Clock = WALL
    lead: Lead = ALONE
    triggers: TriggerParams = field(default_factory=TriggerParams)
    budget: MoveBudget = field(default_factory=MoveBudget)
    budget_adapts: bool = False
    limits: MoveLimits = field(default_factory=MoveLimits)
    stream: StreamSettings = field(default_factory=StreamSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    history: HistorySettings = field(default_factory=HistorySettings)

    def stream_of(self, learned: Mapping[str, float], overload_percent: float) -> StreamSettings:
        """As told; speeds of cores are those that are learned, unless they are told too.

        A node is overloaded where the scheduler would put no more on it, at `overload_percent` of its CPU.
        """
        overload = min(self.stream.overload_percent, overload_percent)
        return replace(self.stream, core_hz_of=self.stream.core_hz_of or learned, overload_percent=overload)
