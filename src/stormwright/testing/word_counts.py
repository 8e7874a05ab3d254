"""Word count with ackers and exactly known loads, for tests of predictions and placements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    default_executor_runs,
)
from stormwright.model.cluster import DEFAULT_CORE_HZ

#: Executors by component, in the order of their numbers.
ACKERS, COUNTS, SPLITS, SPOUTS = range(2), range(2, 6), range(6, 10), range(10, 12)

_WORDS = 8


@dataclass(frozen=True)
class WordCount:
    """Two spouts, four splits (shuffled), four counts (by fields) and two ackers on nodes with links.

    Parameters
    ----------
    nodes, cores, link_bps
        Number of nodes, and cores and link speed of each.
    pending
        `topology.max.spout.pending`; None for no limit.
    rate_tps
        Measured rate of both spouts together, in sentences per second.
    name
        Name of the topology.
    """

    nodes: int = 3
    cores: float = 2.0
    link_bps: float | None = 25e6
    pending: int | None = 200
    rate_tps: float = 1_000.0
    name: str = "words"

    #: CPU in µs of one tuple in a component's own code.
    acker_us: ClassVar[float] = 0.4
    count_us: ClassVar[float] = 1.2
    split_us: ClassVar[float] = 8.0
    spout_us: ClassVar[float] = 6.0

    def topology(self) -> Topology:
        """Return the topology."""
        components = (
            Component("__acker", "system", 2, tuple(Grouping(c, kind="fields") for c in ("spout", "split", "count"))),
            Component("count", "bolt", 4, (Grouping("split", kind="fields"),)),
            Component("split", "bolt", 4, (Grouping("spout"),)),
            Component("spout", "spout", 2),
        )
        conf = {} if self.pending is None else {"topology.max.spout.pending": self.pending}
        return Topology(f"{self.name}-1-0", self.name, 3, components, default_executor_runs(components), conf=conf)

    def load(self) -> TopologyLoad:
        """Return its load without costs of messages: as measured in one worker."""
        rate, words = self.rate_tps, self.rate_tps * _WORDS
        sent = [
            (SPLITS, COUNTS, words),
            (SPOUTS, ACKERS, rate),
            (SPLITS, ACKERS, rate),
            (COUNTS, ACKERS, words),
            (ACKERS, SPOUTS, rate),
        ]
        pairs = [
            (s, t, tps / len(sources) / len(targets))
            for sources, targets, tps in sent
            for s in sources
            for t in targets
        ]
        source, target, tps = (np.array(column) for column in zip(*pairs, strict=True))
        handled = {ACKERS: 2 * rate + words, COUNTS: words, SPLITS: rate, SPOUTS: rate}
        each_us = {ACKERS: self.acker_us, COUNTS: self.count_us, SPLITS: self.split_us, SPOUTS: self.spout_us}
        cpu_hz = np.concatenate(
            [
                np.full(len(component), each_us[component] * 1e-6 * DEFAULT_CORE_HZ * tuples / len(component))
                for component, tuples in handled.items()
            ]
        )
        return TopologyLoad(
            cpu_hz=cpu_hz,
            memory_mb=np.full(12, 128.0),
            pair_source=source.astype(np.int32),
            pair_target=target.astype(np.int32),
            pair_tps=tps,
            flow_source=np.array(SPOUTS, np.int32),
            flow_component=np.full(2, 2, np.int32),
            flow_tps=np.full(2, rate / 2),
            flow_grouping=("shuffle", "shuffle"),
            bytes_per_tuple=40.0,
        )

    def problem(self) -> Problem:
        """Return a problem in which all of it runs in one worker of the first node."""
        topology = self.topology()
        nodes = tuple(
            Supervisor(
                f"n{number}",
                f"n{number}",
                (6700, 6701),
                self.cores * DEFAULT_CORE_HZ,
                resources={"cpu.pcore.percent": 100 * self.cores, "memory.mb": 16_384.0},
                link_bps=self.link_bps,
            )
            for number in range(self.nodes)
        )
        problem = Problem(nodes, (topology,), name="word count", load=LoadProfile({topology.id: self.load()}))
        return problem.with_current({topology.id: TopologyAssignment(problem.slots[:1], (0,) * 12)})


def two_word_counts(**settings: Any) -> Problem:
    """Return a problem of two word counts, ``one`` and ``other``; the first runs on the first node."""
    both = [WordCount(name=name, **settings) for name in ("one", "other")]
    topologies = tuple(each.topology() for each in both)
    loads = {topology.id: each.load() for topology, each in zip(topologies, both, strict=True)}
    return replace(both[0].problem(), topologies=topologies, load=LoadProfile(loads))
