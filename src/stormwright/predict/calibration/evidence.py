"""Evidence on a cluster's costs: minute by minute, by topology and placement, with forgetting.

Minutes of one placement are alike, so only the last ones count; another placement adds new information, and that of
previous ones is forgotten slowly. Evidence of removed topologies on messages stays with the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np

from stormwright.predict.calibration.least_squares import Moments
from stormwright.predict.calibration.regression import StretchRows, TopologyRows
from stormwright.predict.calibration.stream_costs import COMMON, InputObservations, added, scaled
from stormwright.predict.calibration.windows import CpuQuota
from stormwright.predict.costs import CostRange, LearnedScale

#: Speed of a core if no record reports one; then it is only the unit.
_SOME_HZ = 3e9


#: Weight that remains of a minute after another one of the same placement: ten count; that of a placement after another
#: one; and number of placements stored per topology.
MINUTE_RETENTION, PLACEMENT_RETENTION, PLACEMENTS = 0.9, 0.9, 8

#: Coefficients of messaging threads.
MESSAGING = 5

#: Exponent of the rate in a minute's weight: at low rates messages cost more, and high rates are of interest.
_FULLEST = 4

#: Prior precision of a component's own work: next to none.
_NO_PRECISION = 1e-12

#: Prior deviation of the fraction that garbage collection adds to executors' CPU.
GARBAGE_DEVIATION = 0.05


@dataclass
class TopologyEvidence:
    """Evidence of one topology: sums of rows by placement, oldest first, and the highest rate there.

    And observations of its input streams, by placement and component.
    """

    components: tuple[str, ...] = ()
    placements: dict[str, list[Moments]] = field(default_factory=dict)
    fullest_tps: dict[str, float] = field(default_factory=dict)
    rate_tps: CostRange = field(default_factory=lambda: CostRange(inf, 0.0))
    message_bytes: float = 0.0
    messages: float = 0.0
    by_input: dict[str, dict[str, InputObservations]] = field(default_factory=dict)

    def add(self, rows: TopologyRows) -> None:
        """Add a minute."""
        components = tuple(sorted({*self.components, *rows.components}))
        new = [rows.messaging, rows.others, _aligned(rows.executors, rows.components, components)]
        for moments in self.placements.values():
            moments[2] = _aligned(moments[2], self.components, components)
        self.components, new_inputs = components, dict(rows.by_input)
        before, inputs_before = self.placements.pop(rows.placement, None), self.by_input.pop(rows.placement, {})
        if before is None:
            self.placements = {
                name: [one.scaled(PLACEMENT_RETENTION) for one in moments]
                for name, moments in list(self.placements.items())[1 - PLACEMENTS :]
            }
            self.by_input = {
                name: scaled(observations, PLACEMENT_RETENTION)
                for name, observations in self.by_input.items()
                if name in self.placements
            }
        else:
            highest, rate = self.fullest_tps.get(rows.placement, 0.0), rows.rate_tps.most
            if highest == rate == 0.0:
                highest = rate = 1.0  # without ackers no tree is reported
            fullest = max(highest, rate)
            old_part, new_part = MINUTE_RETENTION * (highest / fullest) ** _FULLEST, (rate / fullest) ** _FULLEST
            new = [old.scaled(old_part) + more.scaled(new_part) for old, more in zip(before, new, strict=True)]
            new_inputs = added(scaled(inputs_before, old_part), scaled(new_inputs, new_part))
        self.placements[rows.placement], self.by_input[rows.placement] = new, new_inputs
        there = {rows.placement: rows.rate_tps.most, **self.fullest_tps}
        there[rows.placement] = max(there[rows.placement], rows.rate_tps.most)
        self.fullest_tps = {name: there[name] for name in self.placements}
        self.rate_tps = _both(self.rate_tps, rows.rate_tps)
        self.message_bytes = MINUTE_RETENTION * self.message_bytes + rows.message_bytes
        self.messages = MINUTE_RETENTION * self.messages + rows.messages

    @property
    def messaging(self) -> Moments:
        """Moments of tuples sent, kB sent, tuples received, kB received, and the base CPU."""
        return _sum([moments[0] for moments in self.placements.values()], MESSAGING)

    @property
    def others(self) -> Moments:
        """Moments of the executors' CPU, and of the base CPU."""
        return _sum([moments[1] for moments in self.placements.values()], 2)

    @property
    def executors(self) -> Moments:
        """Moments of a tuple of each component, then of the common coefficients."""
        return _sum([moments[2] for moments in self.placements.values()], len(self.components) + COMMON)

    @property
    def inputs(self) -> dict[str, InputObservations]:
        """Observations of a tuple of each stream, by the target component."""
        found: dict[str, InputObservations] = {}
        for observations in self.by_input.values():
            found = added(found, observations)
        return found

    @property
    def counts_polls(self) -> bool:
        """Whether any record says how often threads were given a core."""
        return bool(self.executors.xtx[-1, -1] > 0)

    def of_cluster(self) -> list[Moments]:
        """Return the moments on messages, on the base CPU, and on the common coefficients of executors."""
        garbage = np.array([GARBAGE_DEVIATION**-2])
        nothing = np.full(len(self.components), _NO_PRECISION)
        return [
            self.messaging,
            self.others.without(1, garbage),
            self.executors.without(len(self.components), nothing),
        ]


@dataclass
class Evidence:
    """Evidence of a cluster.

    Parameters
    ----------
    reference_hz
        Speed of the core in whose time costs are given: that of most nodes in the first minute; None before.
    topologies
        Evidence of each topology, by id.
    of_gone
        Evidence of removed topologies on messages, the base CPU and the executors' common costs.
    wire
        Evidence on the bytes of a message and on the base traffic.
    utilisation
        Observed CPU of nodes, as a fraction of their capacity.
    core_hz, held
        Highest core speed that each supervisor reported, and the CPU quota of its node.
    scales
        Learned scale of each topology, by id (`stormwright.predict.fixed_point.learn_scales`).
    minutes, workers
        Number of fits, and of windows of workers in them.
    """

    reference_hz: float | None = None
    topologies: dict[str, TopologyEvidence] = field(default_factory=dict)
    of_gone: list[Moments] = field(default_factory=lambda: [Moments.none(size) for size in (MESSAGING, 1, COMMON)])
    wire: Moments = field(default_factory=lambda: Moments.none(2))
    utilisation: CostRange | None = None
    core_hz: dict[str, float] = field(default_factory=dict)
    held: dict[str, CpuQuota] = field(default_factory=dict)
    scales: dict[str, LearnedScale] = field(default_factory=dict)
    minutes: int = 0
    workers: int = 0

    @property
    def counts_polls(self) -> bool:
        """Whether any record says how often threads were given a core."""
        gone = self.of_gone[2].xtx[-1, -1] > 0
        return bool(gone) or any(one.counts_polls for one in self.topologies.values())

    def add(self, rows: StretchRows) -> None:
        """Add a minute."""
        for name, one in rows.topologies.items():
            self.topologies.setdefault(name, TopologyEvidence()).add(one)
        self.wire = self.wire.scaled(MINUTE_RETENTION) + rows.wire
        if rows.utilisation:
            self.utilisation = _both(self.utilisation, rows.utilisation) if self.utilisation else rows.utilisation
        for node, hz in rows.core_hz.items():
            self.core_hz[node] = max(hz, self.core_hz.get(node, 0.0))
        self.held.update(rows.held)
        self.minutes += 1
        self.workers += rows.workers

    def forget(self, there: Collection[str]) -> None:
        """Forget all topologies except the given ones; their evidence on the cluster stays."""
        self.scales = {name: scale for name, scale in self.scales.items() if name in there}
        for gone in [name for name in self.topologies if name not in there]:
            moments = self.topologies.pop(gone).of_cluster()
            self.of_gone = [
                old.scaled(PLACEMENT_RETENTION) + more for old, more in zip(self.of_gone, moments, strict=True)
            ]

    def as_dict(self) -> dict[str, Any]:
        """Return the evidence for JSON."""
        return {
            "reference_hz": self.reference_hz,
            "topologies": {
                name: {
                    "components": list(one.components),
                    "placements": {key: [m.as_list() for m in moments] for key, moments in one.placements.items()},
                    "fullest_tps": one.fullest_tps,
                    "rate_tps": [one.rate_tps.least, one.rate_tps.most],
                    "message_bytes": one.message_bytes,
                    "messages": one.messages,
                    "by_input": {
                        key: {component: each.as_list() for component, each in observations.items()}
                        for key, observations in one.by_input.items()
                    },
                }
                for name, one in self.topologies.items()
            },
            "of_gone": [moments.as_list() for moments in self.of_gone],
            "wire": self.wire.as_list(),
            "utilisation": [self.utilisation.least, self.utilisation.most] if self.utilisation else None,
            "core_hz": self.core_hz,
            "held": {node: list(held) for node, held in self.held.items()},
            "scales": {name: list(scale) for name, scale in self.scales.items()},
            "minutes": self.minutes,
            "workers": self.workers,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Evidence:
        """Restore evidence from the result of `as_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is damaged.
        """
        topologies = {}
        for name, one in document["topologies"].items():
            components = tuple(one["components"])
            sizes = (MESSAGING, 2, len(components) + COMMON)
            topologies[name] = TopologyEvidence(
                components,
                {key: _moments_list(moments, sizes) for key, moments in one["placements"].items()},
                {str(key): float(rate) for key, rate in one["fullest_tps"].items()},
                CostRange(*one["rate_tps"]),
                one["message_bytes"],
                one["messages"],
                # Older files do not have it.
                {
                    str(key): {
                        str(component): InputObservations.from_list(each) for component, each in observations.items()
                    }
                    for key, observations in one.get("by_input", {}).items()
                },
            )
        return cls(
            reference_hz=document["reference_hz"],
            topologies=topologies,
            of_gone=_moments_list(document["of_gone"], (MESSAGING, 1, COMMON)),
            wire=_moments_list([document["wire"]], (2,))[0],
            utilisation=CostRange(*document["utilisation"]) if document["utilisation"] else None,
            core_hz={str(node): float(hz) for node, hz in document["core_hz"].items()},
            # Older files do not have these.
            held={str(node): CpuQuota(*map(float, held)) for node, held in document.get("held", {}).items()},
            scales={str(name): LearnedScale(*map(float, one)) for name, one in document.get("scales", {}).items()},
            minutes=int(document["minutes"]),
            workers=int(document["workers"]),
        )


def _sum(moments: list[Moments], size: int) -> Moments:
    return sum(moments, Moments.none(size))


def _both(one: CostRange, other: CostRange) -> CostRange:
    return CostRange(min(one.least, other.least), max(one.most, other.most))


def _aligned(moments: Moments, before: tuple[str, ...], after: tuple[str, ...]) -> Moments:
    """Return the moments with coefficients for more components."""
    if before == after:
        return moments
    return moments.at([*(after.index(name) for name in before), *range(len(after), len(after) + COMMON)])


def _moments_list(listed: Any, sizes: tuple[int, ...]) -> list[Moments]:
    return [Moments.from_list(one, size) for one, size in zip(listed, sizes, strict=True)]
