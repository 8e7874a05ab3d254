"""The report of overloads against runs that are found by looking at all seconds at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stormwright.history.reports import overload_episodes
from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.ingest import ingest
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import ParquetStore
from stormwright.model import Problem
from stormwright.pipeline.streaming.backfill import TimeStretch
from stormwright.service.storage.recorder import Recorder
from tests.controller.builders import problem, topology
from tests.history.recorded import START_MS, Clockwork
from tests.pipeline.generator import dice

START_S = START_MS // 1000
#: Two minutes, midnight being in the middle.
SECONDS = range(START_S, START_S + 120)
#: From here on the nodes have other cores.
CHANGED_S = START_S + 70
BEFORE, AFTER = {"n0": 2.0, "n1": 4.0}, {"n0": 3.0, "n1": 4.0}
AFTER_S = 4.0

Cores = dict[str, dict[int, float]]
Found = list[tuple[str, int, int, float, float]]


def cluster(cores: dict[str, float]) -> Problem:
    plain = problem([topology("words")], nodes=len(cores))
    nodes = (replace(node, cpu_hz=cores[node.id] * plain.core_hz) for node in plain.supervisors)
    return replace(plain, supervisors=tuple(nodes))


def used_by_workers(seed: int) -> dict[tuple[str, int], dict[int, float]]:
    """Cores by worker and second, in long stretches; `n2` is no node that Nimbus knows."""
    rng = dice(seed)
    workers = {}
    for worker in [("n0", 6700), ("n0", 6701), ("n1", 6700), ("n2", 6700)]:
        lengths = [rng.randrange(1, 12) for _ in SECONDS]
        stretches = [[rng.choice([0.25, 1.0, 2.0, 4.5])] * length for length in lengths]
        workers[worker] = dict(zip(SECONDS, itertools.chain(*stretches), strict=False))
    return workers


def fact(worker: tuple[str, int], second: int, cores: float) -> dict[str, object]:
    node, port = worker
    about = {"kind": "node", "topology": "words-1-0", "supervisor": node, "first": second, "second": port}
    # A record tells of seconds after the one that it begins in, too.
    pane_ms = (second - second % 2) // 3 * 3000
    return dict.fromkeys(FACTS.columns) | about | {"pane_ms": pane_ms, "cpu_ns": cores * 4e8, "length_ns": 4 * 10**8}


def expected(workers: dict[tuple[str, int], dict[int, float]], start_s: int, end_s: int) -> Found:
    found = []
    for node in BEFORE:

        def used(second: int, node: str = node) -> float:
            return sum(cores[second] for worker, cores in workers.items() if worker[0] == node)

        def capacity(second: int, node: str = node) -> float:
            return (BEFORE if second < CHANGED_S else AFTER)[node]

        for over, run in itertools.groupby(range(start_s, end_s), key=lambda s: used(s) >= capacity(s)):
            seconds = list(run)
            if over and len(seconds) > AFTER_S:
                most = max(map(used, seconds)), max(map(capacity, seconds))
                found.append((node, seconds[0], seconds[-1] + 1, *most))
    return sorted(found, key=lambda episode: (episode[1], episode[0]))


@pytest.mark.spark
@pytest.mark.slow
def test_overload_episodes_use_the_core_count_at_their_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, clock = Staging(tmp_path / "history"), Clockwork(monkeypatch)
    recorder = Recorder(staging, "online")
    for moment_s, cores in [(START_S + 20, BEFORE), (CHANGED_S, AFTER)]:
        clock.now_ms = moment_s * 1000
        # What else changes is no change of a node.
        recorder.observe(cluster(cores))
        clock.now_ms += 100
        recorder.observe(replace(cluster(cores), name="again"))
    workers = used_by_workers(seed=5)
    rows = [fact(worker, second, cores) for worker, loads in workers.items() for second, cores in loads.items()]
    staging.write(FACTS, "facts", rows)
    store = ParquetStore(spark, (tmp_path / "tables").as_uri())
    ingest(spark, store, staging)

    def found(stretch: TimeStretch) -> Found:
        episodes = overload_episodes(store, stretch, AFTER_S)
        return [(e.supervisor, e.start_s, e.end_s, pytest.approx(e.peak_cores), e.capacity_cores) for e in episodes]

    everything = expected(workers, SECONDS[0], SECONDS[-1] + 1)
    assert len(everything) > 4
    assert any(start_s < CHANGED_S <= end_s for _, start_s, end_s, _, _ in everything)
    assert found(TimeStretch()) == everything
    inside = START_S + 33, START_S + 91
    assert found(TimeStretch(inside[0] * 1000, inside[1] * 1000)) == expected(workers, *inside)
    assert found(TimeStretch(end_ms=START_MS)) == []
