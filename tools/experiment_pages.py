"""The page ``docs/experiments.md``: every published figure and table, and how it is measured or why it is not.

``python tools/experiment_pages.py docs/experiments.md`` (or ``make docs``) writes it; a test keeps it
equal. What came of the measurements is in the pages that ``stormwright experiment`` writes.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from stormwright.evaluations.cells import CellTimes, cells_of, minutes
from stormwright.evaluations.definitions import Claim, LimitClaim, NumberClaim, OrderClaim, Paper, PublishedRow
from stormwright.evaluations.papers import PAPERS
from stormwright.model.humanize import counted

_MADE = "<!-- Made by `make docs`; the contents are in `evaluations/papers`. -->"

_LEAD = """# The published evaluations again

`stormwright experiment` lists the experiments, `stormwright experiment NAME` runs one on a real cluster on this
machine, and `stormwright experiment all` runs them all: some {minutes:.0f} minutes on two cores. Each cell that is done
is kept at once, as a line of `cells.jsonl`; a run that was stopped goes on where it ended, `--fresh` begins again, and
`--quick` only shows that everything works. Each experiment becomes an HTML page with every row below, ours beside
theirs.

A row is *reproduced* where ours has the published order and direction by an interval of 95 %, *not reproduced* where
it has the contrary, and *undecided* where the interval holds both. A row of several claims is what the least of them
is."""


def text() -> str:
    """The whole page."""
    whole = minutes([cell for paper in PAPERS.values() for cell in cells_of(paper, CellTimes())])
    blocks = [_MADE, _LEAD.format(minutes=whole)]
    for paper in PAPERS.values():
        blocks += _paper(paper)
    return "\n\n".join(blocks) + "\n"


def _paper(paper: Paper) -> Iterator[str]:
    cells = cells_of(paper, CellTimes())
    yield f"## {paper.name}"
    yield f"{paper.title}. {paper.source}."
    yield f"{paper.how} ({counted(len(cells), 'cell')}, some {minutes(cells):.0f} minutes.)" if cells else paper.how
    yield "\n".join(["| figure or table | what it says | how it is checked |", "|---|---|---|", *map(_row, paper.rows)])


def _row(row: PublishedRow) -> str:
    how = "; ".join(f"{kind}: {count}" for kind, count in Counter(map(_kind, row.claims)).items())
    checked = ". ".join(part.rstrip(".") for part in (how, row.why_not) if part)
    return f"| {row.where} | {row.says} | {checked} |".replace("\n", " ")


def _kind(claim: Claim) -> str:
    if isinstance(claim, OrderClaim):
        return "order, measured"
    if isinstance(claim, LimitClaim):
        return "limit, measured"
    if isinstance(claim, NumberClaim):
        return "number, computed" if claim.published is not None else "computed and shown"
    return "measured and shown"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
