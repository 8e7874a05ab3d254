"""The page ``docs/experiments.md``: every published figure and table, how it is measured or why not, and the verdict.

``python tools/experiment_pages.py docs/experiments.md`` (or ``make docs``) writes it, with the verdicts of
``docs/results/experiments.json``; a test compares them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stormwright_lab.evaluations.cells import CellTimes, cells_of, minutes
from stormwright_lab.evaluations.definitions import Claim, LimitClaim, NumberClaim, OrderClaim, Paper, PublishedRow
from stormwright_lab.evaluations.intervals import MIN_STARTS
from stormwright_lab.evaluations.papers import PAPERS
from stormwright_lab.evaluations.verdict import OTHERWISE, UNDECIDED, judge

from stormwright.model.humanize import counted

_MADE = "<!-- Made by `make docs` from `evaluations/papers` and docs/results/experiments.json. -->"

#: Verdicts, written by ``python -m benchmarks.storm.experiments``.
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "experiments.json"

_LEAD = """# Reproduction of published evaluations

`stormwright experiment` lists the experiments, `stormwright experiment NAME` runs one on a real cluster on this
machine, and `stormwright experiment all` runs them all: some {minutes:.0f} minutes on two cores. Each cell that is done
is kept at once, as a line of `cells.jsonl`; a run that was stopped goes on where it ended, `--fresh` begins again, and
`--quick` only shows that everything works. Each experiment becomes an HTML page with every row below: published and
measured values.

Each variant has {starts} starts or more, which take turns. A row is reproduced *in direction* where the interval of
95 % over the starts has the published order, *in magnitude* where it also contains the published number or overlaps the
published range; *not reproduced* where it has the contrary order, and *undecided* where it contains both. A row of
several claims takes the worst verdict of its claims; each claim is judged at 95 %, so of many claims without any
difference one in forty is *not reproduced* by chance. `stormwright experiment NAME --simulated` runs the same in
virtual time, in minutes; the last column has its verdicts.
{measured}"""


def text() -> str:
    """The whole page."""
    whole = minutes([cell for paper in PAPERS.values() for cell in cells_of(paper, CellTimes())])
    measured, verdicts = "", {}
    if RESULTS.exists():
        document = json.loads(RESULTS.read_text(encoding="utf-8"))
        measured = (
            f"\nMeasured until {document['date']}, commit {document['commit']}, {document['machine']}: "
            "[results](results/experiments.md).\n"
        )
        verdicts = {each["experiment"]: each["rows"] for each in document["papers"]}
    blocks = [_MADE, _LEAD.format(minutes=whole, starts=MIN_STARTS, measured=measured)]
    for paper in PAPERS.values():
        blocks += _paper(paper, verdicts.get(paper.name, ()))
    return "\n\n".join(blocks) + "\n"


def _paper(paper: Paper, verdicts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cells = cells_of(paper, CellTimes())
    yield f"## {paper.name}"
    yield f"{paper.title}. {paper.source}."
    yield f"{paper.how} ({counted(len(cells), 'cell')}, some {minutes(cells):.0f} minutes.)" if cells else paper.how
    known = verdicts if len(verdicts) == len(paper.rows) else [{}] * len(paper.rows)
    rows = [_row(row, found) for row, found in zip(paper.rows, known, strict=True)]
    header = ["| figure or table | what it says | how it is checked | verdict | simulated |", "|---|---|---|---|---|"]
    yield "\n".join([*header, *rows])


def _row(row: PublishedRow, found: Mapping[str, Any]) -> str:
    how = "; ".join(f"{kind}: {count}" for kind, count in Counter(map(_kind, row.claims)).items())
    checked = ". ".join(part.rstrip(".") for part in (how, row.why_not) if part)
    verdict, simulated = found.get("verdict") or judge(row, {}, compute=False).verdict, found.get("simulated", "")
    why = "; ".join(
        f"{claim['what']} {claim['ours']}, published {claim['published']}"
        for claim in found.get("claims", ())
        if claim["verdict"] == verdict in (OTHERWISE, UNDECIDED)
    )
    cells = [row.where, row.says, checked, f"{verdict}: {why}" if why else verdict, simulated]
    return f"| {' | '.join(cells)} |".replace("\n", " ")


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
