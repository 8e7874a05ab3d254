"""Activity of a whole topology: tuples, trees, complete latency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stormwright.model import Topology
from stormwright.model.arrays import FloatArray
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.pipeline.measurement.windows import kind_of, numbers


@dataclass(frozen=True)
class LatencyHistogram:
    """Complete latencies of sampled tuple trees; one more count than `LATENCY_EDGES_MS`."""

    counts: FloatArray

    def quantile_ms(self, share: float) -> float | None:
        """Return the latency not exceeded by `share` of the trees, within 19 %; None without trees.

        Inside a bucket latencies are taken as evenly spread on a logarithmic scale.
        """
        total = self.counts.sum()
        if not total:
            return None
        reached = np.cumsum(self.counts)
        bucket = int(np.searchsorted(reached, share * total))
        inside = 1 - (reached[bucket] - share * total) / self.counts[bucket]
        step = LATENCY_EDGES_MS[1] / LATENCY_EDGES_MS[0]
        # Bucket 0 ends at the first edge; the last one has no end and is taken as wide as the others.
        return float(LATENCY_EDGES_MS[0] * step ** (bucket - 1 + inside))


@dataclass(frozen=True)
class TopologyActivity:
    """Rates of one topology in a window.

    Parameters
    ----------
    emitted_tps
        Tuples emitted by all executors.
    trees_tps, acked_tps, failed_tps
        Tuple trees begun, completed and failed, by its spouts.
    """

    emitted_tps: float
    trees_tps: float
    acked_tps: float
    failed_tps: float
    complete_latency: LatencyHistogram


def topology_activity(topology: Topology, facts: pa.Table) -> TopologyActivity:
    """Return the summed rates of one topology in one window."""
    executors = kind_of(facts, "executor")
    spouts = {component.id for component in topology.components if component.type == "spout"}
    of_spout = np.array([component in spouts for component in executors["component"].to_pylist()], dtype=bool)
    covered_s = numbers(executors, "length_ns") / 1e9
    trees, acked, failed = (
        float((numbers(executors, name) / covered_s)[of_spout].sum()) for name in ("trees", "acked", "failed")
    )
    return TopologyActivity(
        emitted_tps=float((numbers(executors, "emitted") / covered_s).sum()),
        trees_tps=trees,
        acked_tps=acked,
        failed_tps=failed,
        complete_latency=latency_histogram(facts),
    )


def latency_histogram(facts: pa.Table) -> LatencyHistogram:
    """Return the complete latencies among facts of one topology."""
    buckets = kind_of(facts, "latency")
    counts = np.zeros(len(LATENCY_EDGES_MS) + 1)
    counts[buckets["first"].to_numpy()] = numbers(buckets, "tuples")
    return LatencyHistogram(counts)
