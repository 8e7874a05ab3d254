"""Size and length of a demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stormwright.controller.aims.outlook import OBJECTIVES, THROUGHPUT, TRAFFIC
from stormwright.experiments.demo.topologies import Submission
from stormwright.schedulers import Scheduler
from stormwright.schedulers.anew.anew import Anew
from stormwright.schedulers.kit.triggers import ONLINE, Adaptation
from stormwright.storm.local import LocalClusterConfig

#: Cores of each node of the demonstration: as few as leave JVMs room to start within a minute, so that the service and
#: Spark have the rest of a small machine, and figures are alike on larger ones.
CORES = 0.4

#: Speed of each node's link: 62 Mbit/s for a core, as a node of 16 cores with 1 Gbit/s has; and where nodes share the
#: machine's cores, so little that links are the limit.
LINK, LINK_OF_SHARED_CORES = "25mbit", "40mbit"


@dataclass(frozen=True)
class DemoSettings:
    """Size and length of a demonstration; times in seconds."""

    cluster: LocalClusterConfig
    submissions: Sequence[Submission]
    scheduler: Scheduler
    scheduler_name: str
    warm_up_s: float = 30.0
    measure_s: float = 30.0
    probe_interval_ms: int = 250

    @property
    def adapts(self) -> Adaptation:
        """What a move has to be for: where everything is placed anew that is shown, whatever it gains."""
        return Adaptation(on_period=True, gains=()) if isinstance(self.scheduler, Anew) else ONLINE

    @property
    def objective(self) -> str:
        """What a move has to gain: what the scheduler aims at where it has a choice, else less traffic."""
        chosen = getattr(getattr(self.scheduler, "params", None), "objective", TRAFFIC)
        if chosen == "auto":
            return THROUGHPUT
        return chosen if chosen in OBJECTIVES else TRAFFIC
