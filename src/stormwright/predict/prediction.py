"""Predictions of a placement as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, ClassVar, Literal

from stormwright.base.tables import Tabular, TextTable, bar_chart, paragraph
from stormwright.predict.bottleneck import Bottleneck

#: Whether a rate is sustained: ``perhaps`` if it is in one part of the interval only.
IsSustained = Literal["yes", "perhaps", "no"]

#: The note of a topology with an assumed load.
ASSUMED = "its load was not measured: this is predicted from an assumed one, 1 tuple/s from each spout executor"

#: Utilisation from which a resource counts as absent.
NONE_THERE = 1e9

#: Topologies and notes, and nodes, that are shown in a notebook.
_MAX_SHOWN, _MAX_BARS = 50, 20

#: Intervals of the JSON of topologies and nodes.
_INTERVALS_OF_TOPOLOGY = ("highest_tps", "pending_tps", "reachable_tps", "latency_ms", "p99_ms", "pending_latency_ms")
_INTERVALS_OF_NODE = ("cpu", "link_out", "link_in")

#: Texts for absent resources.
NOT_SUSTAINED: dict[IsSustained, str] = {"perhaps": "perhaps not sustained", "no": "not sustained"}


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and its interval, by the errors of its inputs."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float | None]:
        """Return the interval for JSON; infinity is null."""
        return {name: value if isfinite(value) else None for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class TopologyPrediction:
    """Prediction of one topology.

    Parameters
    ----------
    topology
        Id of the topology.
    assumed
        Whether its load is assumed, not measured.
    measured_tps, rate_tps
        Trees/s as measured (or assumed), and those at which utilisation and latency are predicted.
    highest_tps
        Trees/s that the placement sustains if spouts are not limited, all topologies growing together by their
        weights; inf without a limit.
    pending_tps
        Trees/s with as many trees pending as allowed, in competition with the other topologies; None if the number of
        pending trees is not limited.
    bottleneck
        Limiting resource of the lower of the two.
    headroom
        Ratio of `highest_tps` to `rate_tps`: below 1 if overloaded; 0 without a rate.
    sustained
        Whether `rate_tps` is sustained; None if it is 0.
    latency_ms, p99_ms
        Mean and 99th percentile of complete latency, as Storm measures it, at `rate_tps`; None if that rate is not
        sustained.
    pending_latency_ms
        Mean complete latency at `pending_tps`.
    cpu_us
        CPU of a tree, over all threads that its tuples pass, in µs of a core of the problem's `core_hz`.
    no_latency
        Why there is no `latency_ms`; empty if there is one.
    scale
        Factor of its CPU by the measured rate of the placement that runs (`stormwright.predict.fixed_point`): above 1
        the model explains only a part of that CPU.
    notes
        Caveats of the prediction.
    """

    topology: str
    assumed: bool
    measured_tps: float
    rate_tps: float
    highest_tps: Interval
    pending_tps: Interval | None
    bottleneck: Bottleneck
    headroom: float
    sustained: IsSustained | None
    latency_ms: Interval | None
    p99_ms: Interval | None
    pending_latency_ms: Interval | None
    cpu_us: float = 0.0
    no_latency: str = ""
    scale: float = 1.0
    notes: tuple[str, ...] = ()

    @property
    def reachable_tps(self) -> Interval:
        """Reachable trees/s: the lower of the limits by the placement and by its pending trees."""
        return self.highest_tps if self.pending_tps is None else self.pending_tps

    @property
    def further_notes(self) -> tuple[str, ...]:
        """The notes without that of an assumed load, which is shown first."""
        return tuple(note for note in self.notes if note != ASSUMED)

    def as_dict(self) -> dict[str, Any]:
        """Return the prediction for JSON."""
        values = {name: getattr(self, name) for name in _INTERVALS_OF_TOPOLOGY}
        return {
            "topology": self.topology,
            "assumed": self.assumed,
            "measured_tps": self.measured_tps,
            "rate_tps": self.rate_tps,
            **{name: None if value is None else value.as_dict() for name, value in values.items()},
            "bottleneck": self.bottleneck.as_dict(),
            "cpu_us": self.cpu_us,
            "headroom": self.headroom if isfinite(self.headroom) else None,
            "sustained": self.sustained,
            "no_latency": self.no_latency or None,
            "scale": self.scale,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class NodePrediction:
    """Utilisation of a node at the given rates, as a fraction of its capacity.

    Parameters
    ----------
    node, supervisor, host
        Its name, the id of its supervisor, and its host.
    cpu, link_out, link_in
        Fraction in use; None for a link of unknown speed.
    spinning
        Additional CPU of idle threads, from the free CPU.
    workers
        Number of workers on it.
    """

    node: str
    supervisor: str
    host: str
    cpu: Interval
    link_out: Interval | None
    link_in: Interval | None
    spinning: float
    workers: int

    def as_dict(self) -> dict[str, Any]:
        """Return the prediction for JSON."""
        parts = {"cpu": self.cpu, "link_out": self.link_out, "link_in": self.link_in}
        intervals = {name: None if part is None else part.as_dict() for name, part in parts.items()}
        named = {"node": self.node, "supervisor": self.supervisor, "host": self.host}
        return {**named, **intervals, "spinning": self.spinning, "workers": self.workers}


@dataclass(frozen=True, slots=True)
class BusyThread:
    """A thread and the fraction of a core that it takes at the given rates."""

    thread: str
    topology: str
    use: float


@dataclass(frozen=True, repr=False)
class Prediction(Tabular):
    """Prediction of a placement; a sequence of the predictions of its topologies.

    Parameters
    ----------
    topologies, nodes
        In the problem's order.
    busiest
        The busiest threads, in descending order.
    fullest
        The fullest resource at the given rates, and its utilisation.
    notes
        Caveats of the prediction as a whole.
    """

    topologies: tuple[TopologyPrediction, ...]
    nodes: tuple[NodePrediction, ...]
    busiest: tuple[BusyThread, ...]
    fullest: Bottleneck
    fullest_use: float
    notes: tuple[str, ...] = ()

    empty_columns: ClassVar[Mapping[str, Sequence[str]]] = {
        "threads": tuple(field.name for field in fields(BusyThread))
    }

    def __iter__(self) -> Iterator[TopologyPrediction]:
        return iter(self.topologies)

    def __len__(self) -> int:
        return len(self.topologies)

    def __getitem__(self, topology: str) -> TopologyPrediction:
        """Return the prediction of a topology, by its id."""
        for each in self.topologies:
            if each.topology == topology:
                return each
        raise KeyError(topology)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return topologies, nodes and the busiest threads as tables; an interval has three columns."""
        return {
            "topologies": [_row(each.as_dict(), _INTERVALS_OF_TOPOLOGY) for each in self.topologies],
            "nodes": [_row(each.as_dict(), _INTERVALS_OF_NODE) for each in self.nodes],
            "threads": [asdict(each) for each in self.busiest],
        }

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return rates, latencies, bottlenecks and the utilisation of nodes for a notebook."""
        rows = [
            {
                "topology": each.topology,
                "trees/s": each.rate_tps,
                "sustained": each.sustained,
                "highest trees/s": each.reachable_tps.value,
                "latency, ms": each.latency_ms.value if each.latency_ms else None,
                "p99, ms": each.p99_ms.value if each.p99_ms else None,
                "bottleneck": str(each.bottleneck),
            }
            for each in self.topologies
        ]
        used = sorted((node for node in self.nodes if node.workers), key=lambda node: -node.cpu.value)[:_MAX_BARS]
        bars: dict[str, float] = {}
        for node in used:
            links = {"CPU": node.cpu, "link out": node.link_out, "link in": node.link_in}
            known = {name: part.value for name, part in links.items() if part and part.value < NONE_THERE}
            bars |= {f"{node.node}: {name}": part for name, part in known.items()}
        notes = [*self.notes, *(f"{each.topology}: {note}" for each in self.topologies for note in each.notes)]
        table = TextTable.of(rows, _MAX_SHOWN).as_html() if rows else ""
        parts = [table, bar_chart("in use at the given rates", bars), paragraph(self.fullest_text)]
        return "".join([*parts, *map(paragraph, notes[:_MAX_SHOWN])])

    @property
    def fullest_text(self) -> str:
        """The fullest resource, as a line of text."""
        how = f", {self.fullest_use:.0%}" if self.fullest_use < NONE_THERE else ", of which there is none"
        return f"fullest at the given rates: {self.fullest}{how}"

    def __str__(self) -> str:
        lines = [self._line(topology) for topology in self.topologies]
        first = [f"{each.topology}: {ASSUMED}" for each in self.topologies if each.assumed]
        notes = [f"note: {note}" for note in self.notes]
        notes += [f"note: {each.topology}: {note}" for each in self.topologies for note in each.further_notes]
        return "\n".join([*first, *lines, self.fullest_text, *notes])

    def as_dict(self) -> dict[str, Any]:
        """Return the prediction for JSON."""
        return {
            "topologies": [topology.as_dict() for topology in self.topologies],
            "nodes": [node.as_dict() for node in self.nodes],
            "busiest": [asdict(thread) for thread in self.busiest],
            "fullest": self.fullest.as_dict() | {"use": self.fullest_use if isfinite(self.fullest_use) else None},
            "notes": list(self.notes),
        }

    @staticmethod
    def _line(topology: TopologyPrediction) -> str:
        reach = topology.reachable_tps
        if topology.sustained is None and topology.no_latency:
            return f"{topology.topology}: nothing is predicted, as {topology.no_latency}"
        rate = (
            f"{reach.value:,.0f} trees/s ({reach.low:,.0f} to {reach.high:,.0f}), then limited by {topology.bottleneck}"
        )
        if topology.sustained is None:
            return f"{topology.topology}: {rate}"
        why = f": {topology.no_latency}" if topology.no_latency else ""
        details = [NOT_SUSTAINED[topology.sustained] + why] if topology.sustained in NOT_SUSTAINED else []
        if topology.latency_ms is not None and topology.p99_ms is not None:
            details.append(f"{topology.latency_ms.value:,.1f} ms, p99 {topology.p99_ms.value:,.1f} ms")
        return f"{topology.topology}: {rate}; at {topology.rate_tps:,.0f} trees/s {', '.join(details)}"


def _row(document: Mapping[str, Any], intervals: Sequence[str]) -> dict[str, Any]:
    """Return a JSON object as a row: an interval as its value and both ends, and texts instead of objects."""
    row: dict[str, Any] = {}
    for name, value in document.items():
        if name in intervals:
            one = value or {}
            row |= {name: one.get("value"), f"{name}_low": one.get("low"), f"{name}_high": one.get("high")}
        elif name == "bottleneck":
            row[name] = value["text"]
        elif name == "notes":
            row[name] = "; ".join(value)
        else:
            row[name] = value
    return row
