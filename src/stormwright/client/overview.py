"""What goes over the service's API of whether all is well: the first page and ``stormwright status`` read it."""

from __future__ import annotations

from typing import Literal

from stormwright.client.shapes import Done, Mode, PlanLine, Shape

#: ``bad``: something does not work. ``warn``: something is short. ``note``: good to know.
Level = Literal["bad", "warn", "note"]


class Concern(Shape):
    """Something that needs a look: how bad it is, a sentence, and the page where more is told of it."""

    level: Level
    text: str
    page: str


class Overview(Shape):
    """Whether all is well, what the service would change, what it did change, and what waits.

    Parameters
    ----------
    service
        Name and version.
    well, verdict
        Whether nothing needs a look, which it does where nothing is known yet; and that in words.
    findings
        What needs a look, alarms and anomalies among it, the worst first. Notes alone leave all well.
    mode, frozen, scheduler
        What it does by itself, why nothing moves (empty where things may), and who decides.
    nimbus_age_s, load_age_s
        How long ago Nimbus has asked and the newest load was measured; None where that never was.
    topologies, executors, nodes
        That there are; None while that is not known.
    rate_tps
        Measured tuple trees a second of all topologies; None while that is not known.
    decision
        Why something was to move at the last look, or why nothing was; empty before the first.
    waits
        Why topologies stay because too little of them was measured.
    under_way
        Plans that are being made, move something, or were stopped, and those of which a person has to judge a stage.
    waiting
        Plans that would move something, and wait for a person to apply them.
    done
        What was done last, changes of mode left out, the newest first.
    """

    service: str
    well: bool
    verdict: str
    findings: tuple[Concern, ...]
    mode: Mode = "observe"
    frozen: str = ""
    scheduler: str = ""
    nimbus_age_s: float | None = None
    load_age_s: float | None = None
    topologies: int | None = None
    executors: int | None = None
    nodes: int | None = None
    rate_tps: float | None = None
    decision: str = ""
    waits: tuple[str, ...] = ()
    under_way: tuple[PlanLine, ...] = ()
    waiting: tuple[PlanLine, ...] = ()
    done: tuple[Done, ...] = ()
