"""The metrics are text that Prometheus reads, and say what the status says."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from stormwright.pipeline.monitoring.drift import Drift
from stormwright.service.http.metrics import metrics_text
from stormwright.service.memory import EventCounts
from stormwright.service.status import ServiceStatus

STATUS = ServiceStatus(
    scheduler="online",
    initial="even",
    decision=None,
    moves=[],
    counts=EventCounts(looks=7, decisions=2, moves=3, failed_moves=1, rolled_back=1),
    objective="throughput",
    waits=["t: 12 of 30 s measured"],
    drift=[Drift(topology='odd "name"\n', what="CPU", executor=3, change=-0.4, since_ms=5)],
    history={
        "staged_files": 3,
        "staged_bytes": 4000,
        "taken": {"at_ms": 1_795_219_140_500, "rows": None},
        "errors": {"old days": {"error": "no room", "at_ms": 1_795_219_000_000}},
    },
    evaluation={"calibration": 0.75, "pending": [], "evaluations": []},
    costs={"minutes": 3, "errors": {"work": 0.02, "messages": 0.05, "delays": 0.5}},
    pipeline={
        "running": True,
        "error": None,
        "files_set_aside": 1,
        "profile_age_s": 1.5,
        "lag_ms": {"p50": 400.0, "p95": 600.0},
        "ledger": {"read": 10, "used": 7, "duplicate": 2, "quarantined": 1},
        "nodes": {
            "a": {"cpu_cores": 1.5, "capacity_cores": 2.0, "headroom_cores": 0.5, "heap_bytes": 100, "workers": 2},
            "b": {"cpu_cores": 1.0, "capacity_cores": None, "headroom_cores": None, "heap_bytes": 5, "workers": 1},
        },
        "complete_latency_ms": {"t": {"p50": 8.0, "p95": None, "p99": 40.0}},
        "alarms": {"up": [{"supervisor": "a", "start_s": 1}], "ended": [], "raised": 4},
        "queries": {
            "loads": {
                "batch": 9,
                "phases_ms": {"triggerExecution": 500, "addBatch": 300},
                "state_rows": 20,
                "state_bytes": 2048,
                "restarts": 2,
            }
        },
    },
)

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(status: ServiceStatus) -> Samples:
    families = list(text_string_to_metric_families(metrics_text(status).decode()))
    assert all(family.documentation and family.type in ("gauge", "counter", "summary") for family in families)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((f"stormwright_{name}", frozenset(labels.items())))


OUTCOMES = ("read", "used", "duplicate", "quarantined")


def test_metrics_cover_every_part_of_status() -> None:
    found = read(STATUS)
    assert [value(found, "lines_total", outcome=outcome) for outcome in OUTCOMES] == [
        10, 7, 2, 1,
    ]  # fmt: skip
    assert [value(found, "moves_total", result=result) for result in ("done", "failed")] == [3, 1]
    assert (value(found, "searches_total"), value(found, "decisions_total")) == (7, 2)
    assert value(found, "load_drift_ratio", topology='odd "name"\n') == -0.4
    assert (value(found, "history_staged_files"), value(found, "history_staged_bytes")) == (3, 4000)
    assert value(found, "history_taken_timestamp_seconds") == 1_795_219_140.5
    assert value(found, "history_failure_timestamp_seconds", part="old days") == 1_795_219_000
    assert value(found, "calibration_ratio") == 0.75
    assert (value(found, "pipeline_running"), value(found, "profile_age_seconds")) == (1, 1.5)
    assert value(found, "record_lag_seconds", quantile="0.95") == 0.6
    assert value(found, "files_set_aside") == 1
    assert value(found, "node_headroom_cores", supervisor="a") == 0.5
    assert value(found, "node_heap_bytes", supervisor="b") == 5
    assert value(found, "node_headroom_cores", supervisor="b") is None
    assert value(found, "complete_latency_seconds", topology="t", quantile="0.99") == 0.04
    assert value(found, "complete_latency_seconds", topology="t", quantile="0.95") is None
    assert (value(found, "overload_alarm", supervisor="a"), value(found, "overload_alarms_total")) == (1, 4)
    assert value(found, "batch_seconds", query="loads", phase="addBatch") == 0.3
    assert value(found, "batch", query="loads") == 9
    assert (value(found, "state_rows", query="loads"), value(found, "state_bytes", query="loads")) == (20, 2048)
    assert value(found, "query_restarts_total", query="loads") == 2


def test_metrics_before_first_record_omit_unknown_values() -> None:
    nothing = {"staged_files": 0, "staged_bytes": 0, "taken": {}, "errors": {}}
    status = replace(
        STATUS, drift=[], history=nothing, evaluation={}, pipeline={"running": False, "error": None, "batch": -1}
    )
    found = read(status)
    assert value(found, "pipeline_running") == 0
    assert value(found, "history_staged_files") == 0
    assert value(found, "calibration_ratio") is value(found, "history_taken_timestamp_seconds") is None
    assert value(found, "lines_total", outcome="read") is None
    assert value(found, "overload_alarms_total") is None
