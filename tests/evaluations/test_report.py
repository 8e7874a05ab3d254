"""The page of an experiment, what programs get, and the page of the docs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from stormwright_lab.evaluations.cell_store import CellStore
from stormwright_lab.evaluations.cells import CellTimes, cells_of, quick_cells
from stormwright_lab.evaluations.report import as_dict, write_page
from stormwright_lab.evaluations.run import run_cells
from stormwright_lab.evaluations.verdict import IN_DIRECTION, IN_MAGNITUDE, NOTHING, REPORTED, UNDECIDED

from tests.evaluations.labs import BLOCK, PAPER, StandIn
from tools import experiment_pages as pages

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("quick", [False, True])
def test_report_page_has_every_row_and_marks_too_short_measurements(tmp_path, quick):
    paper = replace(PAPER, blocks=(replace(BLOCK, repeats=3),))
    cells = list(quick_cells(paper)) if quick else cells_of(paper, CellTimes())
    store = CellStore(tmp_path / "cells.jsonl")
    run_cells(cells, store, StandIn([]))
    rows = write_page(tmp_path / "page.html", paper, cells, store)
    text = (tmp_path / "page.html").read_text()
    for row in PAPER.rows:
        assert f"<td>{row.where}</td>" in text
    first = [UNDECIDED, UNDECIDED] if quick else [IN_DIRECTION, IN_MAGNITUDE]
    assert [row.verdict for row in rows] == [*first, REPORTED, NOTHING]
    assert ("too short for any figure" in text) == quick
    assert text.count("<svg") == 2
    assert "placed as under default: its figures" in text or quick
    assert "http" not in re.sub(r"http://www\.w3\.org/\S*", "", text)


def test_report_page_without_measurements_states_so(tmp_path):
    cells, store = cells_of(PAPER, CellTimes()), CellStore(tmp_path / "cells.jsonl")
    run_cells(cells, store, StandIn([], {"default": 2}))
    rows = write_page(tmp_path / "page.html", PAPER, cells, store)
    text = (tmp_path / "page.html").read_text()
    assert "0 of 3 cells measured" in text
    assert "no worker reported" in text
    assert "<svg" not in text
    document = as_dict(PAPER, rows, cells, store)
    assert (document["cells"], document["measured"], len(document["failed"])) == (3, 0, 3)
    assert document["rows"][0]["verdict"] == "not measured yet"


def test_published_experiments_page_matches_generated_page():
    """If this fails: make docs."""
    assert (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8") == pages.text()
