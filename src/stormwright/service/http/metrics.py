"""The service's status as metrics that Prometheus collects."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stormwright.model import UNPLACED, Problem
from stormwright.pipeline.streaming.progress import StreamProgress
from stormwright.plans.modes import Mode, Modes, mode_of
from stormwright.predict.prediction import TopologyPrediction
from stormwright.service.dashboard.scene import Scene
from stormwright.service.status import ServiceStatus
from stormwright.service.storage.database import State

log = logging.getLogger(__name__)


# Families -----------------------------------------------------------------------------------------
# Metrics as Prometheus' client has them, under the names and with the labels that ours have.

#: By the values of the labels.
Samples = Mapping[Any, float | None]


def gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """A figure that rises and falls.

    Parameters
    ----------
    name, text
        Without the ``stormwright_`` that all begin with; what it says.
    labels
        Names of the labels, in the order of the samples' keys.
    samples
        By the values of the labels; those that are None are left out.
    """
    return _filled(GaugeMetricFamily(f"stormwright_{name}", text, labels=labels), samples)


def counter(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """A figure that only rises, and begins again with the service.

    Parameters
    ----------
    name, text, labels, samples
        As of a gauge; Prometheus adds ``_total`` to the name.
    """
    return _filled(CounterMetricFamily(f"stormwright_{name}", text, labels=labels), samples)


def quantiles(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    """Return a summary that consists of quantiles only: Prometheus reserves the label ``quantile`` for summaries.

    Parameters
    ----------
    name, text
        As of a gauge.
    labels
        Their names, without ``quantile``.
    samples
        By the values of the labels, followed by the quantile; those that are None are left out.
    """
    family = Metric(f"stormwright_{name}", text, "summary")
    for values, value in samples.items():
        if value is not None:
            family.add_sample(family.name, dict(zip((*labels, "quantile"), values, strict=True)), value)
    return family


def _filled(
    family: GaugeMetricFamily | CounterMetricFamily, samples: Samples
) -> GaugeMetricFamily | CounterMetricFamily:
    for labels, value in samples.items():
        if value is not None:
            family.add_metric(labels, value)
    return family


# Cluster ------------------------------------------------------------------------------------------
# The cluster as metrics, labelled as Storm's own reporters name things: topology, component, task, host, port.
#
# By default there are some for each topology and each node, which a cluster has few thousands of. What is finer is
# asked for with ``/metrics?detail=``, and left out where it would be more than `MAX_SAMPLES`.

#: How finely the cluster is told: the first is what everybody is told, each other one comes on top of it.
DETAILS = ("topology", "component", "worker", "executor")

#: Things of one detail, each with two figures, at most: an answer stays at a few megabytes.
MAX_SAMPLES = 10_000

#: What tells things of a detail apart.
_LABELS = {
    "component": ("topology", "component"),
    "worker": ("topology", "host", "port"),
    "executor": ("topology", "component", "task", "host", "port"),
}


def of_cluster(
    problem: Problem, predicted: Mapping[str, TopologyPrediction], detail: str = DETAILS[0]
) -> Iterator[Metric]:
    """Yield metrics of topologies and nodes, and of the requested detail; CPU only if it was measured.

    Parameters
    ----------
    problem
        The cluster, under the load that was measured last.
    predicted
        Topology (id) → what is predicted of it.
    detail
        Finest level with metrics, one of `DETAILS`; the coarsest by default.
    """
    yield from _of_topologies(problem, predicted)
    yield from _of_nodes_cluster(problem)
    if detail in _LABELS:
        yield from _in_detail(problem, detail)


def _of_topologies(problem: Problem, predicted: Mapping[str, TopologyPrediction]) -> Iterator[Metric]:
    ids, by = [topology.id for topology in problem.topologies], ("topology",)
    lost = np.bincount(problem.executor_topology[problem.current_slot == UNPLACED], minlength=len(ids))
    workers = Counter(name for slot, name in problem.running.owner.items() if slot in problem.slot_index)
    cores = {
        (name,): float(load.cpu_hz.sum()) / problem.core_hz
        for name, load in zip(ids, problem.demand.measured, strict=True)
        if load is not None
    }
    known = {name: each for name, each in predicted.items() if not each.assumed}
    rates = {(name,): each.measured_tps for name, each in known.items()}
    rooms = {(name,): each.headroom for name, each in known.items()}
    executors = {(topology.id,): topology.num_executors for topology in problem.topologies}
    yield gauge("topology_executors", "Executors of a topology.", by, executors)
    unplaced = {(name,): int(count) for name, count in zip(ids, lost, strict=True)}
    yield gauge("topology_unplaced_executors", "Those that have no slot.", by, unplaced)
    yield gauge("topology_workers", "Slots that a topology has.", by, {(name,): workers[name] for name in ids})
    yield gauge("topology_cpu_cores", "Cores that a topology's executors use.", by, cores)
    yield gauge("topology_trees_per_second", "Tuple trees that a topology was measured to complete.", by, rates)
    yield gauge("topology_headroom_ratio", "The rate that a topology can sustain, by what it does.", by, rooms)


def _of_nodes_cluster(problem: Problem) -> Iterator[Metric]:
    by, nodes = ("supervisor", "host"), problem.supervisors
    held = problem.current_slot[problem.current_slot != UNPLACED]
    slot_node = problem.slot_node
    for name, text, counted in (
        ("slots", "Slots that a node has.", slot_node),
        ("workers", "Slots of a node that hold executors.", slot_node[np.unique(held)]),
        ("executors", "Executors on a node.", slot_node[held]),
    ):
        counts = np.bincount(counted, minlength=len(nodes))
        samples = {(node.id, node.host): int(count) for node, count in zip(nodes, counts, strict=True)}
        yield gauge(f"node_{name}", text, by, samples)


def _in_detail(problem: Problem, detail: str) -> Iterator[Metric]:
    many = _number(problem, detail)
    left_out = many if many > MAX_SAMPLES else 0
    yield gauge("detail_left_out", "Series omitted over the limit.", ("detail",), {(detail,): left_out})
    if left_out:
        return
    executors: Counter[tuple[str, ...]] = Counter()
    cores: dict[tuple[str, ...], float] = {}
    for labels, used in _executors(problem, detail):
        executors[labels] += 1
        if used is not None:
            cores[labels] = cores.get(labels, 0.0) + used
    yield gauge(f"{detail}_executors", f"Executors, by {detail}.", _LABELS[detail], executors)
    yield gauge(f"{detail}_cpu_cores", f"Cores that are used, by {detail}.", _LABELS[detail], cores)


def _number(problem: Problem, detail: str) -> int:
    """Return the number of items of a detail."""
    if detail == "executor":
        return problem.num_executors
    if detail == "component":
        return sum(len(topology.components) for topology in problem.topologies)
    return len(np.unique(problem.current_slot[problem.current_slot != UNPLACED]))


def _executors(problem: Problem, detail: str) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Yield the labels of each executor and its cores; a worker's only if it has a slot."""
    hosts = [node.host for node in problem.supervisors]
    slots = [(hosts[node], str(slot.port)) for slot, node in zip(problem.slots, problem.slot_node, strict=True)]
    for index, (topology, load) in enumerate(zip(problem.topologies, problem.demand.measured, strict=True)):
        placed = problem.current_slot[problem.executors_of(index)].tolist()
        used = [None] * len(placed) if load is None else (load.cpu_hz / problem.core_hz).tolist()
        tasks, components = topology.executor_start_task.tolist(), topology.executor_component.tolist()
        for slot, cores, task, component in zip(placed, used, tasks, components, strict=True):
            name = topology.components[component].id
            where = ("", "") if slot == UNPLACED else slots[slot]
            if detail == "component":
                yield (topology.id, name), cores
            elif detail == "executor":
                yield (topology.id, name, str(task), *where), cores
            elif slot != UNPLACED:
                yield (topology.id, *where), cores


# Plans and modes ----------------------------------------------------------------------------------
# Modes, plans and what was done as metrics.


#: Name of a metric → what it says, its labels, and the rows that it is counted from.
_COUNTED: dict[str, tuple[str, Sequence[str], str]] = {
    "plans": (
        "Stored plans by origin and state.",
        ("origin", "state"),
        "SELECT origin, state, count(*) FROM plans GROUP BY 1, 2",
    ),
    "done": ("Entries of the history that are kept.", ("kind",), "SELECT kind, count(*) FROM decisions GROUP BY 1"),
    "done_moves": (
        "Moves of topologies in the history, by what they were part of.",
        ("kind", "result"),
        "SELECT kind, iif(failure = '', 'done', 'failed'), count(*) FROM moves JOIN decisions USING (n) GROUP BY 1, 2",
    ),
}


def of_modes(modes: Modes, topologies: Iterable[tuple[str, str]]) -> Iterator[Metric]:
    """Yield metrics of the automation modes.

    Parameters
    ----------
    modes
        Those that hold now.
    topologies
        Id and name of each running topology.
    """
    by_default = {(mode,): float(mode == modes.default) for mode in get_args(Mode)}
    yield gauge("mode", "1 for the default automation mode.", ("mode",), by_default)
    yield gauge("frozen", "1 while frozen.", (), {(): float(bool(modes.frozen))})
    own = {(topology, mode_of(modes, topology, name)): 1.0 for topology, name in topologies}
    yield gauge("topology_mode", "1 for what the service does by itself with a topology.", ("topology", "mode"), own)


def of_state(state: State) -> Iterator[Metric]:
    """Yield metrics of plans and history; nothing if they cannot be read now."""
    for name, (text, labels, statement) in _COUNTED.items():
        try:
            samples = {tuple(row)[:-1]: tuple(row)[-1] for row in state.read(statement)}
        except sqlite3.Error as error:
            log.warning("%s cannot be counted for /metrics: %s", name, error)
        else:
            yield gauge(name, text, tuple(labels), samples)


# Registry -----------------------------------------------------------------------------------------
# What a running service adds to its status in ``/metrics``.


class Figures:
    """Metrics of the cluster, modes and plans; callable from any thread.

    The cluster is that of the newest scene: it is worked out beside, for pages and for this together, so that who asks
    often costs nothing.

    Parameters
    ----------
    scene
        What runs now; None while that is not known.
    age_s
        Seconds since the last request of Nimbus; any large number where it never has.
    modes, state
        What the service may do unattended, and where plans and history are stored.
    """

    def __init__(
        self, scene: Callable[[], Scene | None], age_s: Callable[[], float], modes: Callable[[], Modes], state: State
    ) -> None:
        self._scene, self._age_s, self._modes, self._state = scene, age_s, modes, state
        self._began_s = time.monotonic()

    def __call__(self, detail: str) -> Iterator[Metric]:
        """All of them, the cluster in `detail` (`stormwright.service.http.metrics.DETAILS`)."""
        scene = self._scene()
        wanted = {(): min(self._age_s(), time.monotonic() - self._began_s)}
        yield gauge("snapshot_age_seconds", "Since Nimbus asked last, or the service began.", (), wanted)
        topologies = [(each.id, each.name) for each in scene.problem.topologies] if scene else []
        yield from of_modes(self._modes(), topologies)
        yield from of_state(self._state)
        if scene:
            yield from of_cluster(scene.problem, scene.by_topology, detail)


# Metrics ------------------------------------------------------------------------------------------

#: What Prometheus is told the text is.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


#: Of the metric that tells of several services which one leads.
LEADS = "1 where this service leads, 0 where it stands by; none where it is alone."


def metrics_text(status: ServiceStatus, more: Iterable[Metric] = ()) -> bytes:
    """Return status and further metrics in Prometheus' text format; unknown values are omitted."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(
        ReadyMetrics([*_of_controller(status), *_of_history(status), *_of_pipeline(status.pipeline), *more])
    )
    return generate_latest(registry)


class ReadyMetrics(Collector):
    """Precomputed metrics."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _of_controller(status: ServiceStatus) -> Iterator[Metric]:
    counts = status.counts
    yield counter("searches", "Searches for a better placement.", (), {(): counts.looks})
    yield counter("decisions", "Looks after which something was to move.", (), {(): counts.decisions})
    moves = {("done",): counts.moves, ("failed",): counts.failed_moves}
    yield counter("moves", "Moves of topologies; those to a spare slot on the way are a part.", ("result",), moves)
    yield counter(
        "moves_rolled_back",
        "Moves that were rolled back because the topology performed worse.",
        (),
        {(): counts.rolled_back},
    )
    yield gauge("topologies_waiting", "Topologies of which too little was measured.", (), {(): status.waiting})
    if status.pair:
        yield gauge("leads", LEADS, (), {(): 1.0})
    held = {(status.hold,): 1.0} if status.hold else {}
    yield gauge("held", "1 while nothing is moved, by the reason.", ("why",), held)
    drifted = {(drift.topology,): drift.change for drift in status.drift}
    yield gauge("load_drift_ratio", "Relative change of a load that has drifted.", ("topology",), drifted)


def _of_history(status: ServiceStatus) -> Iterator[Metric]:
    history, evaluation = status.history, status.evaluation
    for key in ("staged_files", "staged_bytes"):
        yield gauge(f"history_{key}", "What waits to be taken into the tables.", (), {(): history[key]})
    taken_ms = history["taken"].get("at_ms")
    taken = {(): None if taken_ms is None else taken_ms / 1000}
    yield gauge("history_taken_timestamp_seconds", "When rows were taken into the tables last.", (), taken)
    failed = {(part,): error["at_ms"] / 1000 for part, error in history["errors"].items()}
    yield gauge("history_failure_timestamp_seconds", "When a part of the history failed last.", ("part",), failed)
    share = {(): evaluation.get("calibration")}
    errors = {(of,): error for of, error in status.costs["errors"].items()}
    yield gauge("cost_error_ratio", "Relative error of fitted costs.", ("of",), errors)
    fitted = {(): 60.0 * status.costs["minutes"]}
    yield gauge("cost_fitted_seconds", "Length of the log that costs are fitted to.", (), fitted)
    yield gauge("calibration_ratio", "Share of a predicted change in traffic that arrives, in the median.", (), share)


def _of_pipeline(pipeline: StreamProgress) -> Iterator[Metric]:
    yield gauge("pipeline_running", "1 while the stream of loads runs.", (), {(): float(pipeline["running"])})
    ledger = {(outcome,): count for outcome, count in pipeline.get("ledger", {}).items()}
    yield counter("lines", "Lines of the performance log by outcome.", ("outcome",), ledger)
    yield gauge("profile_age_seconds", "Since the last load profile.", (), {(): pipeline.get("profile_age_s")})
    lags = {(_quantile(name),): ms / 1000 for name, ms in (pipeline.get("lag_ms") or {}).items()}
    yield quantiles("record_lag_seconds", "From a record's writing until a profile held it.", (), lags)
    aside = {(): pipeline.get("files_set_aside")}
    yield gauge("files_set_aside", "Files set aside because batches failed over them.", (), aside)
    latencies = {
        (topology, _quantile(name)): None if ms is None else ms / 1000
        for topology, quantiles in pipeline.get("complete_latency_ms", {}).items()
        for name, ms in quantiles.items()
    }
    yield quantiles("complete_latency_seconds", "Of tuple trees.", ("topology",), latencies)
    yield from _of_nodes(pipeline.get("nodes", {}))
    yield from _of_alarms(pipeline.get("alarms"))
    yield from _of_queries(pipeline.get("queries", {}))


def _of_nodes(nodes: Mapping[str, Any]) -> Iterator[Metric]:
    for key, text in (
        ("cpu_cores", "Cores that a node's workers use."),
        ("capacity_cores", "Cores that a node has."),
        ("headroom_cores", "Cores that a node has left."),
        ("heap_bytes", "Java heap that a node's workers have in use."),
    ):
        yield gauge(f"node_{key}", text, ("supervisor",), {(node,): load[key] for node, load in nodes.items()})


def _of_alarms(alarms: Mapping[str, Any] | None) -> Iterator[Metric]:
    if alarms is None:
        return
    up = {(alarm["supervisor"],): 1.0 for alarm in alarms["up"]}
    yield gauge("overload_alarm", "1 while a node is over its CPU capacity for too long.", ("supervisor",), up)
    yield counter("overload_alarms", "Alarms that were raised.", (), {(): alarms["raised"]})


def _of_queries(queries: Mapping[str, Any]) -> Iterator[Metric]:
    phases = {
        (name, phase): ms / 1000 for name, figures in queries.items() for phase, ms in figures["phases_ms"].items()
    }
    yield gauge("batch_seconds", "The last batch of a query, by Spark's phase.", ("query", "phase"), phases)
    for key, metric, text in (
        ("batch", "batch", "Number of the last batch of a query."),
        ("state_rows", "state_rows", "Rows that a query keeps as state."),
        ("state_bytes", "state_bytes", "Memory that a query's state takes."),
        ("offsets_behind", "offsets_behind", "Messages of a topic that its query has not read yet."),
    ):
        yield gauge(metric, text, ("query",), {(name,): figures.get(key) for name, figures in queries.items()})
    restarts = {(name,): figures["restarts"] for name, figures in queries.items()}
    yield counter("query_restarts", "How often a query was started again.", ("query",), restarts)


def _quantile(name: str) -> str:
    """``p95`` as Prometheus writes it."""
    return f"{float(name.removeprefix('p')) / 100:g}"
