"""Cells run in order, each is stored at once, and what is done is not done again."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from stormwright_lab.evaluations.cell_store import CellOutcome, CellStore
from stormwright_lab.evaluations.cells import QUICK, CellTimes, cells_of, minutes, quick_cells
from stormwright_lab.evaluations.definitions import Variant
from stormwright_lab.evaluations.intervals import MIN_STARTS
from stormwright_lab.evaluations.papers import PAPERS, papers_named
from stormwright_lab.evaluations.run import SAME, measurements, run_cells

from stormwright.errors import ClusterError, InputError
from stormwright.schedulers.toolkit.resolve import is_java, resolve_scheduler
from stormwright.workbench.demo.submissions import parse_submissions
from tests.evaluations.labs import BLOCK, PAPER, StandIn

CELLS = cells_of(PAPER, CellTimes())


def test_a_whole_run(tmp_path):
    store, log = CellStore(tmp_path / "cells.jsonl"), []
    assert run_cells(CELLS, store, StandIn(log)) == 0
    # The third is placed as the first: there is nothing to measure.
    assert log == ["make steady", "up", "default", "packed", "down"]
    found = measurements(PAPER, CELLS, store)
    assert found["words", "default"]["nodes"] == [[5.0] * 4]
    assert found["words", "packed"]["nodes"] == [[2.0] * 4]
    assert found["words", "as default"] == found["words", "default"]
    assert store.found[CELLS[2].key].details[SAME] == "default"


def test_every_start_has_the_rate_of_the_first(tmp_path):
    paper, lab = replace(PAPER, blocks=(replace(BLOCK, repeats=3),)), StandIn([])
    cells, store = cells_of(paper, CellTimes()), CellStore(tmp_path / "cells.jsonl")
    assert run_cells(cells, store, lab) == 0
    assert lab.rates == [0.0, *[500.0] * 5]
    assert [len(starts["nodes"]) for starts in measurements(paper, cells, store).values()] == [3, 3, 3]


def test_stopped_run_resumes_at_next_cell(tmp_path):
    path, log = tmp_path / "cells.jsonl", []
    with pytest.raises(KeyboardInterrupt):
        run_cells(CELLS, CellStore(path), StandIn(log, stopping="packed"))
    assert log == ["make steady", "up", "default", "packed", "down"]
    with path.open("ab") as file:
        file.write(b'{"key": "half a li')
    again: list[str] = []
    assert run_cells(CELLS, CellStore(path), StandIn(again)) == 0
    assert again == ["make steady", "up", "packed", "down"]
    assert len(CellStore(path).found) == len(CELLS)
    third: list[str] = []
    assert run_cells(CELLS, CellStore(path), StandIn(third)) == 0
    assert third == []


def test_failing_cell_is_retried_on_new_cluster_then_in_next_run(tmp_path):
    path, log = tmp_path / "cells.jsonl", []
    assert run_cells(CELLS, CellStore(path), StandIn(log, {"packed": 1})) == 0
    assert log == ["make steady", "up", "default", "packed", "down", "make steady", "up", "packed", "down"]

    path, log, failing = tmp_path / "others.jsonl", [], {"default": 2}
    store = CellStore(path)
    assert run_cells(CELLS, store, StandIn(log, failing)) == 3
    assert store.errors[CELLS[0].key] == "no worker reported"
    assert "requires its result" in store.errors[CELLS[1].key]
    assert run_cells(CELLS, CellStore(path), StandIn(log, failing)) == 0
    assert CellStore(path).errors == {}


def test_cell_without_placement_starts_no_cluster(tmp_path):
    block = replace(BLOCK, variants={"default": Variant("even"), "no such": Variant("no_such_scheduler")})
    cells, log = cells_of(replace(PAPER, blocks=(block,)), CellTimes()), []
    store = CellStore(tmp_path / "cells.jsonl")
    assert run_cells(cells, store, StandIn(log)) == 1
    assert "no_such_scheduler" in store.errors[cells[1].key]
    assert log == ["make steady", "up", "default", "down"]


def test_without_a_cluster_the_run_ends_and_nothing_counts_as_failed(tmp_path, caplog):
    class NoCluster(StandIn):
        def __enter__(self):
            raise ClusterError("nodes cannot be held to cores")

    store = CellStore(tmp_path / "cells.jsonl")
    with pytest.raises(ClusterError, match="cannot be held"), caplog.at_level(logging.WARNING):
        run_cells(CELLS, store, NoCluster([]))
    assert (store.found, store.errors) == ({}, {})


def test_cluster_with_killed_nodes_serves_only_one_cell(tmp_path):
    block, log = replace(BLOCK, kind="kills"), []
    assert (
        run_cells(cells_of(replace(PAPER, blocks=(block,)), CellTimes()), CellStore(tmp_path / "c"), StandIn(log)) == 0
    )
    assert log.count("make kills") == log.count("down") == 3


def test_beginning_again_forgets_these_cells_alone(tmp_path):
    path = tmp_path / "cells.jsonl"
    run_cells(CELLS, CellStore(path), StandIn([]))
    before = path.read_bytes()
    store = CellStore(path, {CELLS[1].key})
    assert set(store.found) == {CELLS[0].key, CELLS[2].key} == set(CellStore(path).found)
    assert path.with_name("cells.jsonl.old").read_bytes() == before


def test_records_of_a_cell_are_stored_beside_its_result(tmp_path):
    store = CellStore(tmp_path / "cells.jsonl")
    records = [{"seq": 1, "worker": {"topology": "words-1"}}]
    store.add(CELLS[0], CellOutcome({"nodes": [1.0]}, records=records))
    again = CellStore(tmp_path / "cells.jsonl")
    assert again.records(CELLS[0].key) == records
    assert again.records(CELLS[1].key) == []
    assert again.found[CELLS[0].key].records == ()


def test_invalid_lines_of_cell_store_are_logged_and_skipped(tmp_path, caplog):
    path = tmp_path / "cells.jsonl"
    path.write_text('[]\n{"key": "a", "figures": {"x": [1]}}\n{"key": "b", "figures": 3}\nnonsense\n')
    with caplog.at_level(logging.WARNING):
        assert list(CellStore(path).found) == ["a"]
    assert "3 lines skipped" in caplog.text


def test_unreadable_cell_store_raises_input_error(tmp_path):
    with pytest.raises(InputError):
        CellStore(tmp_path)


def test_cell_key_depends_only_on_the_measured_configuration():
    changed = [
        cells_of(replace(PAPER, blocks=(replace(BLOCK, **change),)), CellTimes())[0].key
        for change in ({"link": "1mbit"}, {"share": 0.4}, {"slots": 3}, {"conf": {"a": 1}}, {"topologies": ("sol",)})
    ]
    quick = next(quick_cells(PAPER)).key
    assert len({CELLS[0].key, quick, *changed}) == 7
    # Another variant in the block changes nothing of this one.
    more = replace(BLOCK, variants={**BLOCK.variants, "other": Variant("online")})
    assert cells_of(replace(PAPER, blocks=(more,)), CellTimes())[1].key == CELLS[1].key


def test_a_start_of_everything_takes_no_longer_than_three_hours():
    every = [cell for paper in PAPERS.values() for cell in cells_of(paper, CellTimes())]
    assert minutes([cell for cell in every if cell.repeat == 0]) <= 180
    assert len({cell.key for cell in every}) == len(every)


def test_every_variant_has_enough_starts_for_a_verdict():
    assert {block.repeats >= MIN_STARTS for paper in PAPERS.values() for block in paper.blocks} == {True}


@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
def test_claims_refer_to_existing_blocks_variants_and_figures(paper):
    blocks = {block.name: block for block in paper.blocks}
    assert len(blocks) == len(paper.blocks)
    for claim in (claim for row in paper.rows for claim in row.claims if hasattr(claim, "block")):
        named = {getattr(claim, name) for name in ("first", "second", "variant") if hasattr(claim, name)}
        assert named <= set(blocks[claim.block].variants)
    for block in blocks.values():
        parse_submissions(list(block.topologies))
        for by in block.variants.values() if block.kind != "moves" else ():
            if not is_java(by.scheduler):
                resolve_scheduler(by.scheduler, dict(by.settings))
    for row in paper.rows:
        assert row.claims or row.why_not
    for cell in quick_cells(paper):
        assert cell.times == QUICK


def test_papers_by_name():
    assert [paper.name for paper in papers_named("all")] == list(PAPERS)
    assert papers_named("top-storm") == [PAPERS["top-storm"]]
    with pytest.raises(InputError, match="did you mean top-storm"):
        papers_named("topstorm")
