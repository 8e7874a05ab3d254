"""Requests of components beside their use, and requests that would do: for the next submission of their topology.

Storm gives a worker the heap that its executors request together (``Cluster.calculateWorkerResources``), and its
ResourceAwareScheduler gives nodes to requests, not to use. CPU is taken from minutes of executors. The live heap of a
worker is the least that was in use within ten minutes, garbage included: an upper bound, closest after a collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, NamedTuple

from pyspark.sql import functions as F  # noqa: N812

from stormwright.history.decisions import known_at, within
from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.store import Store
from stormwright.model import Problem, Topology
from stormwright.model.requests import ACKER, CPU, ON_HEAP
from stormwright.pipeline.streaming.backfill import TimeStretch

_MINUTE_MS: Final = 60_000

#: Time within which garbage is collected, and panes of it without which nothing is known.
_HEAP_MS, _MIN_PANES = 600_000, 60

#: Heap of a worker as a multiple of its live objects: with less a JVM spends its time on collections. (Blackburn,
#: Cheng, McKinley, "Myths and realities: the performance impact of garbage collection", SIGMETRICS 2004,
#: https://doi.org/10.1145/1005686.1005693: costs rise steeply below twice the minimum heap.)
HEAP_FACTOR: Final = 2.0

#: Relative accuracy of quantiles, as its reciprocal.
_ACCURACY = 1000


@dataclass(frozen=True)
class ComponentUse:
    """Requests and use of one executor of a component.

    Parameters
    ----------
    topology, name, component
        Id and name of the topology, and id of the component.
    kind
        Type of the component: spout, bolt or system.
    executors
        Number of its executors.
    cpu_percent, used_cpu_percent, advised_cpu_percent
        CPU in percent of a core: requested, the quantile over minutes and executors, and the latter with headroom.
    heap_mb, advised_heap_mb
        Memory on the heap in MB: requested, and so much that workers have `HEAP_FACTOR` times their live heap; None if
        that is unknown.
    """

    topology: str
    name: str
    component: str
    kind: str
    executors: int
    cpu_percent: float
    used_cpu_percent: float
    advised_cpu_percent: int
    heap_mb: float
    advised_heap_mb: int | None


class _Used(NamedTuple):
    """Quantiles by name of topology: of CPU in cores by component, too, and of the live heap of workers in MB."""

    cores: Mapping[tuple[str, str], float]
    live_mb: Mapping[str, float]


def component_uses(
    store: Store, stretch: TimeStretch, now_ms: int, quantile: float = 0.95, headroom: float = 0.25
) -> list[ComponentUse]:
    """Return requests and use by topology and component, of topologies that ran at the end of a stretch of time.

    Parameters
    ----------
    store
        Tables of the history.
    stretch
        Range of time over which quantiles are taken.
    now_ms
        Current time in ms since 1970, for a range without an end.
    quantile
        Part of minutes and executors, or of workers, in which less is used.
    headroom
        CPU that stays free, as a part of what is used.

    Raises
    ------
    InputError
        There is no record up to the end of the range.
    """
    problem = known_at(store, now_ms if stretch.end_ms is None else stretch.end_ms)
    used = _used(store, stretch, quantile)
    found = []
    for index, topology in enumerate(problem.topologies):
        ratio = _heap_ratio(problem, index, used.live_mb.get(topology.name))
        counts = topology.executor_counts
        for component, requests in zip(topology.components, problem.workload.requested[index], strict=True):
            cores = used.cores.get((topology.name, component.id))
            if cores is None:
                continue
            heap_mb = requests.get(ON_HEAP, 0.0)
            found.append(
                ComponentUse(
                    topology.id,
                    topology.name,
                    component.id,
                    component.type,
                    counts[component.id],
                    requests.get(CPU, 0.0),
                    100 * cores,
                    max(ceil(100 * cores * (1 + headroom)), 1),
                    heap_mb,
                    None if ratio is None else max(ceil(heap_mb * ratio), 1),
                )
            )
    return found


def _used(store: Store, stretch: TimeStretch, quantile: float) -> _Used:
    # Days may cover several submissions of a topology, of which each has an id NAME-NUMBER-SECONDS.
    rows = within(store, FACTS, stretch).withColumn("name", F.regexp_replace("topology", r"-\d+-\d+$", ""))
    minute = (F.col("pane_ms") / _MINUTE_MS).cast("long").alias("minute")
    executors = rows.where(F.col("kind") == "executor").groupBy("topology", "name", "component", "first", minute)
    cores = executors.agg((F.sum("cpu_ns") / F.sum("length_ns")).alias("cores"))
    of_components = cores.groupBy("name", "component").agg(_quantile("cores", quantile))
    bucket = (F.col("pane_ms") / _HEAP_MS).cast("long").alias("bucket")
    workers = rows.where(F.col("kind") == "worker").groupBy("name", "supervisor", "first", "second", bucket)
    live = workers.agg(F.min("heap_bytes").alias("live"), F.count("*").alias("panes"))
    of_topologies = live.where(F.col("panes") >= _MIN_PANES).groupBy("name").agg(_quantile("live", quantile))
    return _Used(
        {(row["name"], row["component"]): row["quantile"] for row in of_components.collect()},
        {row["name"]: row["quantile"] / 2**20 for row in of_topologies.collect()},
    )


def _quantile(column: str, quantile: float) -> Any:
    return F.percentile_approx(column, quantile, _ACCURACY).alias("quantile")


def _heap_ratio(problem: Problem, index: int, live_mb: float | None) -> float | None:
    """Return the heap that workers of a topology need as a multiple of the mean that is requested."""
    topology = problem.topologies[index]
    placed = problem.current.get(topology.id)
    workers = len(placed.slots) if placed else 0
    requested = _requested_mb(problem, index, topology)
    if live_mb is None or not workers or not requested:
        return None
    return HEAP_FACTOR * live_mb * workers / requested


def _requested_mb(problem: Problem, index: int, topology: Topology) -> float:
    counts = topology.executor_counts
    requests = problem.workload.requested[index]
    return sum(
        each.get(ON_HEAP, 0.0) * counts[component.id]
        for component, each in zip(topology.components, requests, strict=True)
    )


def flux_part(uses: Sequence[ComponentUse]) -> dict[str, Any]:
    """Return the advised requests of one topology as a part of a Flux file.

    Parameters
    ----------
    uses
        Its components, at least one; those of Storm itself have keys of their own, or none.
    """
    part: dict[str, Any] = {"name": uses[0].name}
    for use in uses:
        if use.component == ACKER:
            config = {"topology.acker.cpu.pcore.percent": use.advised_cpu_percent}
            if use.advised_heap_mb is not None:
                config["topology.acker.resources.onheap.memory.mb"] = use.advised_heap_mb
            part["config"] = config
    for kind in ("spout", "bolt"):
        own = [use for use in uses if use.kind == kind and not use.component.startswith("__")]
        if own:
            part[f"{kind}s"] = [_flux_component(use) for use in own]
    return part


def _flux_component(use: ComponentUse) -> dict[str, Any]:
    found: dict[str, Any] = {"id": use.component, "cpuLoad": use.advised_cpu_percent}
    if use.advised_heap_mb is not None:
        found["onHeapMemoryLoad"] = use.advised_heap_mb
    return found
