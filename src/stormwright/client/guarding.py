"""What goes over the service's API of nodes that take nothing new, and of what keeps things from moving."""

from __future__ import annotations

from stormwright.client.shapes import AnomalyKind, Plan, Response, Shape, Told


class Drained(Shape):
    """A host that takes nothing new.

    Parameters
    ----------
    host, nodes
        Its name, and the ids of its supervisors.
    since_ms, by, reason
        Since when, who wanted it, and why.
    plan
        The plan that empties it; empty where there is none.
    workers
        That are still on it; None where that is not known.
    """

    host: str
    nodes: tuple[str, ...]
    since_ms: int
    by: str
    reason: str
    plan: str = ""
    workers: int | None = None


class Drains(Shape):
    """All hosts that take nothing new, in the order in which they were drained."""

    drained: tuple[Drained, ...]


class DrainAsked(Told):
    """A node that is to take nothing new; with `only_cordon` what runs there stays, with `wait` it is only planned."""

    only_cordon: bool = False
    wait: bool = False


class DrainBegun(Shape):
    """A drain, and the plan that empties the host; None where it is empty, or what runs there stays."""

    drained: Drained
    plan: Plan | None = None


class Anomaly(Shape):
    """Something that is not as it should be.

    Parameters
    ----------
    kind, node, supervisor, text
        What it is, the node's name and the id of its supervisor, and a sentence.
    since_ms
        Since when it is known.
    response
        What the modes say of its kind.
    done, waits
        What was done about it, and why nothing was yet.
    """

    kind: AnomalyKind
    node: str
    supervisor: str = ""
    text: str
    since_ms: int
    response: Response
    done: str = ""
    waits: str = ""


class Anomalies(Shape):
    """All that are open, the oldest first."""

    anomalies: tuple[Anomaly, ...]
