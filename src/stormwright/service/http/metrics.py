"""The service's status as metrics that Prometheus collects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from stormwright.pipeline.streaming.progress import Progress
from stormwright.service.http.figures.families import counter, gauge
from stormwright.service.status import ServiceStatus

#: What Prometheus is told the text is.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


#: Of the metric that tells of several services which one leads.
LEADS = "1 where this service leads, 0 where it stands by; none where it is alone."


def metrics_text(status: ServiceStatus, more: Iterable[Metric] = ()) -> bytes:
    """A status, and what there is more, in Prometheus' text format; what is not known yet is left out."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(
        ReadyMetrics([*_of_controller(status), *_of_history(status), *_of_pipeline(status.pipeline), *more])
    )
    return generate_latest(registry)


class ReadyMetrics(Collector):
    """Metrics that are told as they are."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _of_controller(status: ServiceStatus) -> Iterator[Metric]:
    counts = status.counts
    yield counter("looks", "Looks for a better placement.", (), {(): counts.looks})
    yield counter("decisions", "Looks after which something was to move.", (), {(): counts.decisions})
    moves = {("done",): counts.moves, ("failed",): counts.failed_moves}
    yield counter("moves", "Moves of topologies; those to a spare slot on the way are a part.", ("result",), moves)
    yield counter("moves_taken_back", "Moves after which a topology did worse.", (), {(): counts.taken_back})
    yield gauge("topologies_waiting", "Topologies of which too little was measured.", (), {(): len(status.waits)})
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
    yield gauge("cost_error_ratio", "Relative error of what predictions go by.", ("of",), errors)
    fitted = {(): float(status.costs["minutes"])}
    yield gauge("cost_fitted_minutes", "Minutes of the log that costs are fitted to.", (), fitted)
    yield gauge("calibration_ratio", "Share of a predicted change in traffic that arrives, in the median.", (), share)


def _of_pipeline(pipeline: Progress) -> Iterator[Metric]:
    yield gauge("pipeline_running", "1 while the stream of loads runs.", (), {(): float(pipeline["running"])})
    ledger = {(fate,): count for fate, count in pipeline.get("ledger", {}).items()}
    yield counter("lines", "Lines of the performance log by what became of them.", ("fate",), ledger)
    yield gauge("profile_age_seconds", "Since the last load profile.", (), {(): pipeline.get("profile_age_s")})
    lags = {(_quantile(name),): ms / 1000 for name, ms in (pipeline.get("lag_ms") or {}).items()}
    yield gauge("record_lag_seconds", "From a record's writing until a profile held it.", ("quantile",), lags)
    aside = {(): pipeline.get("files_set_aside")}
    yield gauge("files_set_aside", "Files set aside because batches failed over them.", (), aside)
    latencies = {
        (topology, _quantile(name)): None if ms is None else ms / 1000
        for topology, quantiles in pipeline.get("complete_latency_ms", {}).items()
        for name, ms in quantiles.items()
    }
    yield gauge("complete_latency_seconds", "Of tuple trees.", ("topology", "quantile"), latencies)
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
        ("watermark_lag_s", "watermark_lag_seconds", "How far a query's watermark is behind the clock."),
    ):
        yield gauge(metric, text, ("query",), {(name,): figures[key] for name, figures in queries.items()})
    restarts = {(name,): figures["restarts"] for name, figures in queries.items()}
    yield counter("query_restarts", "How often a query was started again.", ("query",), restarts)


def _quantile(name: str) -> str:
    """``p95`` as Prometheus writes it."""
    return f"{float(name.removeprefix('p')) / 100:g}"
