"""Advised requests against quantiles by numpy, over a history with a snapshot of what ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from pyspark.sql import SparkSession

from stormwright.formats import problem_to_dict
from stormwright.history.rightsizing import HEAP_FACTOR, component_uses, flux_part
from stormwright.history.tables.definitions import FACTS, SNAPSHOTS
from stormwright.history.tables.store import ParquetStore
from stormwright.pipeline.streaming.backfill import TimeStretch
from tests.controller.builders import on, problem, topology
from tests.history.samples import frame

pytestmark = pytest.mark.spark

START_MS = 1_690_000_200_000
MINUTES, PANE_MS = 20, 3000


def recorded(rng: np.random.Generator) -> tuple[list[dict[str, Any]], dict[str, list[float]], list[float]]:
    """Panes of a spout and three bolt executors in two workers; CPU of each minute in cores, and heaps in bytes."""
    rows, live = list[dict[str, Any]](), list[float]()
    cores: dict[str, list[float]] = {"a-spout": [], "b-bolt": []}
    panes = 60_000 // PANE_MS
    for minute in range(MINUTES):
        for task, component in enumerate(("a-spout", "b-bolt", "b-bolt", "b-bolt"), 1):
            used = rng.uniform(0, 1, panes)
            cores[component].append(float(used.mean()))
            rows += [
                _row(minute, pane, "executor", component=component, first=task, second=task,
                     length_ns=PANE_MS * 10**6, cpu_ns=float(used[pane]) * PANE_MS * 1e6)
                for pane in range(panes)
            ]  # fmt: skip
    for port in (6700, 6701):
        for bucket in range(MINUTES // 10):
            heaps = rng.integers(50 << 20, 90 << 20, 10 * panes)
            live.append(float(heaps.min()))
            rows += [
                _row(10 * bucket, number, "worker", first=START_MS, second=port, heap_bytes=int(heap))
                for number, heap in enumerate(heaps)
            ]
    return rows, cores, live


def _row(minute: int, pane: int, kind: str, **values: Any) -> dict[str, Any]:
    moment = {"pane_ms": START_MS + minute * 60_000 + pane * PANE_MS, "kind": kind}
    return dict.fromkeys(FACTS.columns) | moment | {"topology": "words-1-0", "supervisor": "n0"} | values


def test_requests_cover_the_quantile_of_use(spark: SparkSession, tmp_path: Path) -> None:
    words = topology("words", workers=2)
    ran = problem([words], current={words.id: on("n0", "n1")})
    rows, cores, live = recorded(np.random.default_rng(1))
    store = ParquetStore(spark, tmp_path.as_uri())
    document = json.dumps(problem_to_dict(ran))
    store.write(SNAPSHOTS, frame(spark, [{"at_ms": START_MS, "id": "one", "document": document}], SNAPSHOTS), 1)
    store.write(FACTS, frame(spark, rows, FACTS), 1)
    uses = component_uses(store, TimeStretch(), START_MS + 3_600_000, 0.9, 0.25)
    counts = words.executor_counts
    assert {use.component: use.executors for use in uses} == counts
    requested = {each.id: amounts for each, amounts in zip(words.components, ran.workload.requested[0], strict=True)}
    heap_mb = sum(requested[each]["onheap.memory.mb"] * count for each, count in counts.items())
    ratio = HEAP_FACTOR * np.quantile(live, 0.9, method="inverted_cdf") / 2**20 * 2 / heap_mb
    for use in uses:
        percent = 100 * np.quantile(cores[use.component], 0.9, method="inverted_cdf")
        assert use.used_cpu_percent == pytest.approx(percent)
        assert use.advised_cpu_percent == int(np.ceil(1.25 * percent))
        assert use.advised_heap_mb == int(np.ceil(use.heap_mb * ratio))
    part = yaml.safe_load(yaml.safe_dump(flux_part(uses)))
    assert part["name"] == "words"
    assert {each["cpuLoad"] for kind in ("spouts", "bolts") for each in part[kind]} == {
        use.advised_cpu_percent for use in uses
    }
