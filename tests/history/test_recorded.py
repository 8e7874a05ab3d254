"""Time travel, decisions and replay: what is read from the history is what a scheduler saw and did."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stormwright.controller.objectives.gains import inter_node_tps
from stormwright.controller.objectives.placements import without_assumed_traffic
from stormwright.errors import InputError
from stormwright.formats import problem_to_dict
from stormwright.history.decisions import known_at
from stormwright.history.reports import decisions
from stormwright.history.tables.definitions import PROFILES
from stormwright.history.tables.ingest import ingest
from stormwright.history.tables.staging import Staging
from stormwright.history.tables.store import ParquetStore
from stormwright.model import Problem, cost_of
from stormwright.pipeline.streaming.backfill import TimeStretch
from stormwright.schedulers import make_scheduler
from stormwright.workbench.replay import replay
from tests.history.recorded import START_MS, Clockwork, look, record_looks

pytestmark = pytest.mark.spark

LOOKS = 4


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded") / "tables"


@pytest.fixture(scope="module")
def history(spark: SparkSession, tables: Path) -> tuple[ParquetStore, list[Any]]:
    state = tables.with_name("state")
    with pytest.MonkeyPatch.context() as patch:
        looks = record_looks(state, Clockwork(patch), LOOKS)
    store = ParquetStore(spark, tables.as_uri())
    taken = ingest(spark, store, Staging(state))
    # The cluster changed once, and a day began.
    assert taken == {"snapshots": 3, "profiles": LOOKS, "decisions": LOOKS}
    return store, looks


def scheduler_view(problem: Problem) -> dict[str, Any]:
    assert problem.load is not None
    about = (problem.load.node_cpu_hz, problem.load.overload_s, problem.load.start_ms, problem.load.end_ms)
    return {**problem_to_dict(problem), "name": "", "about": about}


def test_recorded_state_equals_the_scheduler_input(history: tuple[ParquetStore, list[Any]]) -> None:
    store, looks = history
    for at_ms, problem, _ in looks:
        assert scheduler_view(known_at(store, at_ms)) == scheduler_view(problem)
    later = known_at(store, START_MS + 10**9)
    assert scheduler_view(later) == scheduler_view(looks[-1][1])
    with pytest.raises(InputError, match="no record exists"):
        known_at(store, START_MS - 1)


def test_decisions_include_their_effect(history: tuple[ParquetStore, list[Any]]) -> None:
    store, looks = history
    found = decisions(store, TimeStretch())
    assert [row["at_ms"] for row in found] == [at_ms for at_ms, _, _ in looks]
    for row, (_, _, decision) in zip(found, looks, strict=True):
        assert row["cost_before"] == decision.search.before.total
        assert row["inter_node_wanted_tps"] == inter_node_tps(decision.search.wanted)
        assert json.loads(row["moves"]) == {move.topology: [move.moved_executors] for move in decision.moves}
        assert json.loads(row["parameters"]) == decision.search.parameters
    moving = [row for row in found if row["moves"] != "{}"]
    assert moving
    assert decisions(store, TimeStretch(), moving_only=True) == moving
    middle_ms = looks[2][0]
    assert decisions(store, TimeStretch(start_ms=middle_ms)) == found[2:]
    assert decisions(store, TimeStretch(end_ms=middle_ms)) == found[:2]


def test_the_same_scheduler_decides_the_same_again(history: tuple[ParquetStore, list[Any]]) -> None:
    store, looks = history
    steps: list[tuple[int, int]] = []
    again = replay(store, TimeStretch(), "online", progress=lambda *step: steps.append(step))
    assert [(found.at_ms, found.error) for found in again] == [(at_ms, None) for at_ms, _, _ in looks]
    for found in again:
        assert found.cost == pytest.approx(found.cost_decided, rel=1e-12)
        assert found.inter_node_tps == pytest.approx(found.inter_node_decided_tps, rel=1e-12)
    assert steps == [(0, LOOKS), (LOOKS, LOOKS)]


def test_replay_with_another_scheduler_equals_its_direct_decision(history: tuple[ParquetStore, list[Any]]) -> None:
    store, looks = history
    some = replay(store, TimeStretch(end_ms=looks[3][0]), "binpack", from_scratch=False)
    assert len(some) == 3
    for found, (_, problem, _) in zip(some, looks, strict=False):
        search = look(problem, "binpack").search
        assert search is not None
        expected = search.wanted
        assert (found.cost, found.inter_node_tps) == (expected.total, inter_node_tps(expected))


def test_replay_places_running_topologies_from_scratch_by_default(history: tuple[ParquetStore, list[Any]]) -> None:
    """But for those that move of it what pays."""
    store, looks = history
    (found,) = replay(store, TimeStretch(end_ms=looks[1][0]), "binpack")
    problem = looks[0][1]
    first = make_scheduler("binpack").schedule(without_assumed_traffic(problem).with_nothing_running())
    assert found.cost == pytest.approx(cost_of(without_assumed_traffic(problem), first.slot_of_executor).total)
    assert found.moved_executors
    with pytest.raises(InputError, match="online: stays near the current placement"):
        replay(store, TimeStretch(), "online", ["keep_running=true"], from_scratch=True)


def test_unreplayable_snapshot_becomes_a_row_with_its_error(
    history: tuple[ParquetStore, list[Any]], spark: SparkSession, tables: Path, tmp_path: Path
) -> None:
    _, looks = history
    store = ParquetStore(spark, shutil.copytree(tables, tmp_path / "tables").as_uri())
    store.drop(PROFILES, date(2026, 11, 20))
    found = replay(store, TimeStretch(), "online")
    assert [row.error is not None for row in found] == [True, False, False, False]
    assert "is missing" in str(found[0].error)
    assert found[0].cost_before == looks[0][2].search.before.total


def test_invalid_replay_request_raises_input_error(history: tuple[ParquetStore, list[Any]]) -> None:
    store, _ = history
    with pytest.raises(InputError, match="no decision"):
        replay(store, TimeStretch(end_ms=START_MS), "online")
    with pytest.raises(InputError, match="beta"):
        replay(store, TimeStretch(), "online", ["no_such_beta=1"])
