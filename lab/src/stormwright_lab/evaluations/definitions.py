"""Definitions of an experiment: a paper, its rows, and the blocks measured for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stormwright.model.topology_config import UNAWARE_SHUFFLE

#: Figure of a cell → what it is called. Each is measured several times in a cell.
FIGURES: Mapping[str, str] = {
    "acked_tps": "tuple trees acked / s",
    "latency_ms": "mean complete latency, ms",
    "inter_node_tps": "tuples between nodes / s",
    "inter_node_per_acked": "tuples between nodes for each acked tree",
    "nodes": "nodes used",
    "workers": "workers",
    "cpu_percent": "CPU of the nodes, % of their quota, mean",
    "cpu_sd_percent": "CPU of the nodes, % of their quota, standard deviation",
    "used_cpu_percent": "CPU of the nodes in use, % of their quota, mean",
    "recovery_s": "time to recover after a kill, s",
    "silence_s": "longest time without an acked tree, s",
    "kept_percent": "rate after a kill, % of the one before",
    "failed": "tuple trees failed (and begun again)",
    "lost_trees": "tuple trees lost",
    "lost_tuples": "tuples sent and not received",
    "lost_s": "tuples lost / tuples sent per second, s",
}

#: Configuration by which threads without work sleep at once. By default they look for tuples all the time for a while,
#: which uses up the CPU quota of a node whatever the load is.
SLEEPING: Mapping[str, Any] = {
    "topology.bolt.wait.progressive.level2.count": 0,
    "topology.backpressure.wait.progressive.level2.count": 0,
}

#: Configuration by which topologies run as before Storm 2.0: shuffled tuples go to all tasks alike, instead of staying
#: in the worker where they can, and threads without work sleep.
BEFORE_STORM_2: Mapping[str, Any] = {UNAWARE_SHUFFLE: True, **SLEEPING}

#: Setting of a variant of moves, and its values: who ends and starts the workers.
MOVED_BY = "moved by"
STORMS_REBALANCE, SAFE_MOVE = "Storm's rebalance", "stormwright's move"

BlockKind = Literal["steady", "kills", "moves"]


@dataclass(frozen=True)
class Variant:
    """Scheduler of a block's topologies; `settings` are parameters as for ``--set``."""

    scheduler: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Display text."""
        parameters_text = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.scheduler} ({parameters_text})" if parameters_text else self.scheduler


@dataclass(frozen=True)
class Machine:
    """Resources that a node declares: CPU in percent of a core, memory, and its scheduler meta."""

    cpu_percent: float
    memory_mb: float
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Topologies measured under several schedulers.

    Parameters
    ----------
    name
        Name of the block, unique within the paper.
    topologies
        Texts as for ``stormwright demo --topology``, without workers, which follow from `workers`.
    variants
        Schedulers by name. The first runs without a load; its measured load is used for all others.
    workers
        Workers of each topology, unless the scheduler determines them.
    slots
        Slots of each node, as declared to schedulers.
    share
        Part of the highest rate under the first variant at which all are measured; None for as many trees as can be.
    link
        Rate limit of each node's link in ``tc`` syntax.
    cores
        Of each node, all alike or one by one; None for as many as all of them can have at once. With more, no node is
        short of CPU before the machine is.
    repeats
        Starts of each variant, with seeds 0, 1, …
    machines
        Resources declared by nodes, in the order of their names; empty for the real ones.
    conf
        Storm settings of every topology in the block, by key.
    kind
        ``steady``: throughput and latency; ``kills``: while nodes die; ``moves``: while the topologies move.
    """

    name: str
    topologies: tuple[str, ...]
    variants: Mapping[str, Variant]
    workers: int = 4
    slots: int = 5
    share: float | None = None
    link: str = "25mbit"
    cores: float | tuple[float, ...] | None = None
    repeats: int = 3
    machines: tuple[Machine, ...] = ()
    conf: Mapping[str, Any] = field(default_factory=dict)
    kind: BlockKind = "steady"


@dataclass(frozen=True)
class OrderClaim:
    """A claim that a figure of one variant is higher, or lower, than that of another in a block.

    Parameters
    ----------
    block, figure
        Block and measured figure.
    first, second
        Names of the compared variants.
    more
        Whether the figure of the first is higher.
    published
        Published ratio of the figures, or the lowest and the highest of several; None if there is none.
    """

    block: str
    figure: str
    first: str
    second: str
    more: bool
    published: float | tuple[float, float] | None = None

    @property
    def published_text(self) -> str:
        """Display text of the published ratio or direction."""
        if self.published is None:
            return "> 1" if self.more else "< 1"
        return (
            " to ".join(f"{each:g}" for each in self.published)
            if isinstance(self.published, tuple)
            else f"{self.published:g}"
        )


@dataclass(frozen=True)
class LimitClaim:
    """A claim that a figure of a variant in a block is at least, or at most, a value."""

    block: str
    figure: str
    variant: str
    limit: float
    at_least: bool = True


@dataclass(frozen=True)
class NumberClaim:
    """A number that needs no cluster; `ours` computes it, and may raise if it needs Java.

    Without a published number ours is only reported.
    """

    what: str
    published: float | None
    ours: Callable[[], float]
    #: How far apart both may be, as published numbers are rounded.
    within: float = 0.0


@dataclass(frozen=True)
class ReportedFigure:
    """A measured figure of a block without a published counterpart."""

    block: str
    figure: str


Claim = OrderClaim | LimitClaim | NumberClaim | ReportedFigure


@dataclass(frozen=True)
class PublishedRow:
    """A published figure or table.

    Parameters
    ----------
    where
        Number of the figure or table, or the place in the text.
    says
        Summary of the figure or table.
    claims
        Claims that are checked.
    why_not
        Why it is not checked, or not completely.
    """

    where: str
    says: str
    claims: tuple[Claim, ...] = ()
    why_not: str = ""


@dataclass(frozen=True)
class Paper:
    """A published evaluation and its reproduction.

    Parameters
    ----------
    name
        Name on the command line.
    title, source
        Title of the evaluation, and its publication.
    how
        Method of the reproduction, and its differences.
    rows, blocks
        Published rows, and measured blocks.
    """

    name: str
    title: str
    source: str
    how: str
    rows: Sequence[PublishedRow]
    blocks: Sequence[Block] = ()

    def block(self, name: str) -> Block:
        """Return the block of that name."""
        return next(block for block in self.blocks if block.name == name)
