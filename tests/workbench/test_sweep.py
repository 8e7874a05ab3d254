"""Sweeps without Spark: cells out of a file, a worker's rows, the table, the summary, the report."""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stormwright import sketch
from stormwright.errors import InputError, StormwrightError
from stormwright.formats import write_problem
from stormwright.model import cost_of
from stormwright.pipeline.spark.target import SparkTarget
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit import registry
from stormwright.schedulers.toolkit.resolve import choose_schedulers
from stormwright.workbench.comparison import compare
from stormwright.workbench.generated_problems import READY
from stormwright.workbench.sweep.cells import Sweep, SweepCell, SweepProblem, read_cells
from stormwright.workbench.sweep.report import write_sweep_report
from stormwright.workbench.sweep.run import WAVE_S, part, small_jobs, to_do, wave_size
from stormwright.workbench.sweep.summary import own_cells, summaries
from stormwright.workbench.sweep.table import LocalTable
from stormwright.workbench.sweep.work import ROW, SweepPart, decide
from tests.workbench import stand_in

WORD_COUNT = "top-storm-word-count-1"


def write_spec(directory: Path, **changes: object) -> Path:
    document = {
        "schema": "stormwright-sweep/1",
        "problems": [f"ready:{WORD_COUNT}"],
        "schedulers": {"even": None},
        **changes,
    }
    path = directory / "sweep.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def _stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Where a process of its own finds it, too.
    monkeypatch.syspath_prepend(stand_in.offer(tmp_path / "offered"))
    # What has been looked for already is not looked for again.
    monkeypatch.setattr(registry, "entry_points", lambda group: entry_points(group=group))


def test_cells_are_the_product_and_only_dice_have_seeds(tmp_path: Path) -> None:
    for number in (1, 2):
        write_problem(tmp_path / f"p{number}.json", READY[f"top-storm-word-count-{number}"]())
    schedulers = {"online": {"alpha": [0, 0.5, 1], "beta": [0.2, 0.4]}, "random": None}
    spec = write_spec(tmp_path, problems=["p*.json"], schedulers=schedulers, seeds=[1, 2, 3], repeats=2)
    sweep = read_cells(spec)
    assert [problem.name for problem in sweep.problems.values()] == ["p1.json", "p2.json"]
    assert len(sweep.cells) == 2 * (6 + 3) * 2
    assert {cell.seed for cell in sweep.cells if cell.scheduler == "online"} == {None}
    assert {cell.seed for cell in sweep.cells if cell.scheduler == "random"} == {1, 2, 3}
    assert [cell.problem for cell in sweep.cells] == sorted(
        (cell.problem for cell in sweep.cells), key=list(sweep.problems).index
    )


def test_excessive_cell_count_is_rejected_before_enumeration(tmp_path: Path) -> None:
    spec = write_spec(tmp_path, problems=[f"ready:{WORD_COUNT}"], schedulers={"random": None}, repeats=10**9)
    with pytest.raises(InputError, match=r"asks for 1,000,000,000 cells; a sweep has at most 1,000,000"):
        read_cells(spec)


def test_identical_problem_in_two_files_counts_once(tmp_path: Path) -> None:
    write_problem(tmp_path / "plain.json", READY[WORD_COUNT]())
    write_problem(tmp_path / "packed.json.gz", READY[WORD_COUNT]())
    sweep = read_cells(write_spec(tmp_path, problems=["plain.json", "packed.json.gz", f"ready:{WORD_COUNT}"]))
    assert len(sweep.problems) == len(sweep.cells) == 1


def test_all_specification_faults_are_reported_with_paths(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"schema": "stormwright-problem/1", "supervisors": 1, "topologies": []}')
    problems = ["bad.json", "none-*.json", "ready:top-storm-word-count-9", "missing.json"]
    schedulers = {"onlin": None, "online": {"alpha": [0, 2], "x": 1}}
    with pytest.raises(InputError) as caught:
        read_cells(write_spec(tmp_path, problems=problems, schedulers=schedulers))
    places = sorted(fault.path for fault in caught.value.faults)
    assert places == [
        *(f"$.problems[{n}]" for n in range(4)),
        "$.schedulers.onlin",
        "$.schedulers.online.alpha",
        "$.schedulers.online.x",
    ]


def test_cell_keys_depend_on_all_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    base = ("digest", "online", {"alpha": 0.5, "beta": 1}, 1, 0)
    same = SweepCell("digest", "online", {"beta": 1, "alpha": 0.5}, 1, 0)
    assert SweepCell(*base).key == same.key
    others = [
        SweepCell("other", *base[1:]),
        SweepCell("digest", "even", *base[2:]),
        SweepCell(*base[:2], {"alpha": 0.6, "beta": 1}, 1, 0),
        SweepCell(*base[:3], 2, 0),
        SweepCell(*base[:4], 1),
    ]
    others.append(SweepCell(*base, from_scratch=True))
    monkeypatch.setattr("stormwright.workbench.sweep.cells.__version__", "another")
    others.append(SweepCell(*base))
    assert len({same.key, *(cell.key for cell in others)}) == 8


def decided(sweep: Sweep) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = decide(part(sweep, sweep.cells)).to_pylist()
    return rows


def test_from_scratch_sweep_replaces_running_topologies(tmp_path: Path) -> None:
    problem = READY[WORD_COUNT]()
    even = make_scheduler("even").schedule(problem)
    write_problem(tmp_path / "running.json", problem.with_current(even.by_topology(problem)))
    spec = write_spec(tmp_path, problems=["running.json"], schedulers={"top_storm": None})
    (staying,), (from_scratch,) = decided(read_cells(spec)), decided(read_cells(spec, from_scratch=True))
    assert (staying["moved_executors"], staying["parameters"]) == (0, "{}")
    assert (from_scratch["moved_executors"] > 0, from_scratch["parameters"]) == (True, '{"from_scratch":true}')
    first = make_scheduler("top_storm").schedule(problem).slot_of_executor
    assert from_scratch["cost"] == pytest.approx(cost_of(problem, first).total)
    near = write_spec(tmp_path, schedulers={"online": {"keep_running": True}})
    with pytest.raises(InputError, match=r"stays near the current placement.* @ \$\.schedulers\.online"):
        read_cells(near, from_scratch=True)


def test_sweep_rows_match_compare_output(tmp_path: Path) -> None:
    sweep = read_cells(write_spec(tmp_path, schedulers={"even": None, "online": {"alpha": 0.2}, "r_storm": None}))
    names = "even,online,r_storm"
    answers = {
        row.name: row for row in compare(READY[WORD_COUNT](), choose_schedulers(names, ["online.alpha=0.2"])).rows
    }
    rows = decided(sweep)
    assert len(rows) == 3
    for row in rows:
        figures = answers[row["scheduler"]].figures
        assert figures is not None
        expected = figures.as_dict()
        assert row["cost"] == expected["cost"]["total"]
        assert row["inter_node"] == expected["cost"]["inter_node"]
        assert row["to_unplaced"] == expected["cost"]["unplaced"]
        assert row["nodes"] == expected["nodes_used"]
        assert row["limits_broken"] == len(expected["limits_broken"])
        for name in ("valid", "unplaced", "workers", "cpu_max_over_mean", "moved_executors"):
            assert row[name] == expected[name]
        assert row["error"] is None
        assert 0 < row["seconds"] < 60
        assert row["cores"] > 0


@pytest.mark.long
def test_placements_are_simulated_under_each_trace(tmp_path: Path) -> None:
    (tmp_path / "half.csv").write_text("0,0.5\n")
    simulate = {"seconds": 300, "traces": ["half.csv"]}
    sweep = read_cells(write_spec(tmp_path, schedulers={"even": None, "online": None}, seeds=[1, 2], simulate=simulate))
    assert len({cell.key for cell in sweep.cells}) == 2 * 2 * 2, "seeds are those of the simulation, too"
    rows = decided(sweep)
    assert {row["error"] for row in rows} == {None}
    whole, half = ([row for row in rows if row["trace"] == name] for name in ("", "half.csv"))
    assert {row["simulated_s"] for row in rows} == {300.0}
    assert all(row["simulating_s"] > 0 for row in rows)
    ordered = (sorted(each, key=lambda row: (row["scheduler"], row["seed"])) for each in (whole, half))
    for one, other in zip(*ordered, strict=True):
        assert other["trees_per_s"] == pytest.approx(one["trees_per_s"] / 2, rel=0.15)
        assert 0 < one["mean_ms"] <= one["p99_ms"]
        assert one["p95_ms"] <= one["p99_ms"]
    again = decided(sweep)
    came = ("trees_per_s", "mean_ms", "p95_ms", "timed_out")
    assert [[row[name] for name in came] for row in rows] == [[row[name] for name in came] for row in again]
    best = max(summary.relative_rate or 0.0 for summary in summaries(rows))
    assert 0.9 < best <= 1.0


def test_topology_without_ackers_has_no_tree_rate(tmp_path: Path) -> None:
    write_problem(tmp_path / "sketch.json", sketch("a 2 -> b 2"))
    sweep = read_cells(write_spec(tmp_path, problems=["sketch.json"], simulate={"seconds": 1}))
    rows = decided(sweep)
    assert [(row["error"], row["simulated_s"], row["trees_per_s"]) for row in rows] == [(None, 1.0, None)]
    assert [summary.relative_rate for summary in summaries(rows)] == [None]


def test_trace_faults_are_reported_with_their_location(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("0,1\nsoon,2\n")
    with pytest.raises(InputError) as caught:
        read_cells(write_spec(tmp_path, simulate={"seconds": 2, "traces": ["bad.csv", "none.csv"]}))
    first, second = caught.value.faults
    assert (first.path, second.path) == ("$.simulate.traces[0]", "$.simulate.traces[1]")
    assert "bad.csv" in first.message
    assert "line 2" in first.message
    with pytest.raises(InputError, match=r"\$\.simulate\.seconds"):
        read_cells(write_spec(tmp_path, simulate={"seconds": 0}))


@pytest.mark.slow
@pytest.mark.usefixtures("_stand_in")
def test_failures_are_rows_and_time_is_limited(tmp_path: Path) -> None:
    grid = {"end": ["answer", "raise", "die", "hang"]}
    spec = write_spec(tmp_path, schedulers={"stand_in": grid, "online": None}, time_limit_s=3.0)
    rows = {row["parameters"]: row for row in decided(read_cells(spec))}
    errors = {json.loads(text).get("end"): row["error"] for text, row in rows.items()}
    assert errors == {
        None: None,
        "answer": None,
        "raise": "scheduler 'stand_in' failed: ArithmeticError: as it was told",
        "die": "its process ended with exit code -9",
        "hang": "took longer than the limit of 3 s",
    }
    answer = rows['{"end":"answer"}']
    assert 0.005 <= answer["seconds"] < 3.0
    assert answer["cost"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("_stand_in")
def test_a_limited_cell_is_decided_whatever_threads_hold_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork would wait for ever for a lock that a thread held when it was made."""
    spec = write_spec(tmp_path, schedulers={"stand_in": {"end": ["answer"]}}, time_limit_s=20.0)
    monkeypatch.delattr(os, "fork")
    (row,) = decided(read_cells(spec))
    assert row["error"] is None


@pytest.mark.usefixtures("_stand_in")
def test_scheduler_exception_without_time_limit_is_reported_as_row(tmp_path: Path) -> None:
    (row,) = decided(read_cells(write_spec(tmp_path, schedulers={"stand_in": {"end": "raise"}})))
    assert row["error"] == "scheduler 'stand_in' failed: ArithmeticError: as it was told"
    assert row["cost"] is None


def test_scheduler_missing_on_worker_is_reported_as_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no_such_package_at_all:Scheduler", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    (row,) = decided(read_cells(write_spec(tmp_path, schedulers={"broken": None})))
    assert "cannot be loaded" in row["error"]


def test_a_worker_of_another_version_refuses() -> None:
    with pytest.raises(StormwrightError, match=r"0\.0\.0 on the driver"):
        decide(SweepPart({}, [], None, version="0.0.0"))


def test_cell_table_retains_last_appended_rows(tmp_path: Path) -> None:
    sweep = read_cells(write_spec(tmp_path, repeats=4))
    table = LocalTable(tmp_path / "cells")
    assert to_do(sweep, table, retry_failed=False) == list(sweep.cells)
    rows = decide(part(sweep, sweep.cells[:3])).to_pylist()
    rows[1] |= {"error": "broke", "cost": None}
    table.append(pa.Table.from_pylist(rows, ROW))
    assert to_do(sweep, table, retry_failed=False) == [sweep.cells[3]]
    again = to_do(sweep, table, retry_failed=True)
    assert again == [sweep.cells[1], sweep.cells[3]]
    table.append(pa.Table.from_batches([decide(part(sweep, again))]))
    found = LocalTable(tmp_path / "cells").read()
    assert found.num_rows == 4
    assert found["error"].null_count == 4
    assert set(own_cells(sweep, found)["key"].to_pylist()) == {cell.key for cell in sweep.cells}


def test_a_table_is_no_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        LocalTable(tmp_path / "file" / "cells")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="no sweep wrote"):
        LocalTable(tmp_path).read()
    (tmp_path / "other.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match="holds something else"):
        LocalTable(tmp_path).read()


def cell_row(number: int, problem: str, scheduler: str, cost: float | None, **others: object) -> dict[str, Any]:
    return {
        "key": str(number),
        "problem": problem,
        "problem_digest": problem,
        "scheduler": scheduler,
        "parameters": '{"alpha":1}',
        "seed": None,
        "repeat": 0,
        "error": None,
        "cost": cost,
        "valid": True,
        "seconds": float(number),
        "host": "here",
        "cores": 2,
        "load_1min": 0.5,
        **others,
    }


#: Two problems whose lowest valid costs are 10 and 100; the 5 is of a placement that breaks limits.
TABLE = [
    cell_row(1, "p", "a", 10.0),
    cell_row(2, "q", "a", 300.0),
    cell_row(3, "p", "b", 15.0),
    cell_row(4, "q", "b", 100.0),
    cell_row(5, "p", "b", 5.0, valid=False),
    cell_row(6, "p", "c", None, valid=None, error="broke", seconds=None),
]


def test_summary_matches_manual_calculation() -> None:
    found = summaries(TABLE)
    assert [(one.label, one.cells, one.failed) for one in found] == [
        ("b alpha=1", 3, 0),
        ("a alpha=1", 2, 0),
        ("c alpha=1", 1, 1),
    ]
    assert [one.relative_cost for one in found] == [1.25, 2.0, None]
    assert [one.valid_share for one in found] == [pytest.approx(2 / 3), 1.0, 0.0]
    assert [one.seconds for one in found] == [4.0, 1.5, None]


@pytest.mark.long
def test_sweep_report_is_one_page_with_all_schedulers_and_failures(tmp_path: Path) -> None:
    page = tmp_path / "deep" / "sweep.html"
    write_sweep_report(page, "of a test", TABLE, summaries(TABLE))
    text = page.read_text()
    assert text.count("<svg") == 2
    assert "broke" in text
    assert "b alpha=1" in text
    assert "http://" not in text.replace("http://www.w3.org", "")


def test_a_report_of_failures_alone(tmp_path: Path) -> None:
    write_sweep_report(tmp_path / "sweep.html", "x", TABLE[5:], summaries(TABLE[5:]))
    assert "broke" in (tmp_path / "sweep.html").read_text()


def test_wave_size_follows_measured_rate() -> None:
    assert wave_size(100_000, 40.0, tasks=2) == 40 * WAVE_S
    assert wave_size(100_000, 0.01, tasks=8) == 8, "a cell for every core"
    assert wave_size(3, 0.01, tasks=8) == 3
    assert 0 < wave_size(100_000, None, tasks=2) <= 1000, "nothing is known yet"
    assert wave_size(10, None, tasks=8) == 5, "the other half is for the wave beside it"


def test_last_waves_halve_until_they_are_short() -> None:
    waiting, sizes = 390, []
    while waiting:
        sizes.append(wave_size(waiting, 40.0, tasks=2))
        waiting -= sizes[-1]
    assert sizes == [195, 100, 95]


@pytest.mark.parametrize(("seconds", "rows"), [(0.0, 1), (60.0, 3), (None, 3)])
def test_part_returns_decided_cells_when_time_is_up(tmp_path: Path, seconds: float | None, rows: int) -> None:
    sweep = read_cells(write_spec(tmp_path, repeats=3))
    decided_rows = decide(part(sweep, sweep.cells, seconds)).to_pylist()
    assert [row["key"] for row in decided_rows] == [cell.key for cell in sweep.cells[:rows]]


def test_rows_of_equal_placements_have_equal_figures(tmp_path: Path) -> None:
    first, *others = decided(read_cells(write_spec(tmp_path, repeats=3)))
    same = [name for name in ROW.names if name not in ("key", "repeat", "seconds", "ended_ms", "load_1min")]
    assert all([other[name] for name in same] == [first[name] for name in same] for other in others)


def test_own_settings_override_those_for_small_jobs() -> None:
    own = {"spark.sql.codegen.wholeStage": "true", "spark.executor.memory": "2g"}
    local, cluster = (small_jobs(SparkTarget(master, own)) for master in ("local[2]", "spark://host:7077"))
    assert own.items() <= local.conf.items()
    assert own.items() <= cluster.conf.items()
    assert [key for key in cluster.conf if not key.startswith("spark.sql.")] == ["spark.executor.memory"]
    assert local.conf.keys() > cluster.conf.keys()


def test_packed_problems_are_unchanged_after_transfer(tmp_path: Path) -> None:
    problem = READY[WORD_COUNT]()
    write_problem(tmp_path / "problem.json", problem)
    packed = SweepProblem.of("name", problem)
    shutil.rmtree(tmp_path)
    assert SweepProblem.of("other", packed.unpacked()).digest == packed.digest
