"""``stormwright experiment``: repeat published evaluations on a real local cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import numbers_table, print_json, print_table
from stormwright.cli.progress import shown
from stormwright.errors import Fault, InputError

if TYPE_CHECKING:
    from stormwright.evaluations.cell_store import CellStore
    from stormwright.evaluations.cells import Cell
    from stormwright.evaluations.definitions import Paper

#: In the output directory: a line for each cell.
_CELLS = "cells.jsonl"


@click.command()
@click.argument("name", required=False)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("experiment-output"),
    show_default=True,
    help="Directory of the measurements, and of NAME.html and NAME.json.",
)
@click.option("--fresh", is_flag=True, help="Start over; earlier measurements are moved to cells.jsonl.old.")
@click.option(
    "--quick", is_flag=True, help="Smoke test: two cells of each kind for a few seconds. The figures mean nothing."
)
@options.as_json("Print the result, or the list, as JSON; progress goes to standard error.")
@click.pass_context
def command(ctx: click.Context, name: str | None, output: Path, fresh: bool, quick: bool, as_json: bool) -> None:
    """Without NAME the experiments are listed with their approximate duration; NAME may be all. Interrupted experiments
    resume. Exits with 1 if a cell could not be measured; the verdicts are in the pages.
    """
    from stormwright.evaluations.cell_store import CellStore
    from stormwright.evaluations.papers import ALL, PAPERS, papers_named

    papers = papers_named(ALL if name is None else name)
    if name is None and fresh:
        raise InputError("--fresh", [Fault("requires the NAME of an experiment", "experiment")])
    cells = {paper.name: _cells(paper, quick) for paper in papers}
    if name is None:
        stored = CellStore(output / _CELLS)
        _list(list(PAPERS.values()), cells, stored, as_json)
        return
    from stormwright.workbench.report import check_report

    check_report()
    with shown(err=as_json):
        every = [cell for group in cells.values() for cell in group]
        stored = CellStore(output / _CELLS, {cell.key for cell in every} if fresh else ())
        failed = _run(every, stored)
        documents = _write(papers, cells, stored, output)
    if as_json:
        print_json(documents)
    else:
        _print(documents, output)
    if failed:
        ctx.exit(1)


def _cells(paper: Paper, quick: bool) -> list[Cell]:
    from stormwright.evaluations.cells import CellTimes, cells_of, quick_cells

    return list(quick_cells(paper)) if quick else cells_of(paper, CellTimes())


def _run(cells: Sequence[Cell], stored: CellStore) -> int:
    if all(cell.key in stored.found for cell in cells):
        return 0
    from stormwright.evaluations.lab.real import RealLab
    from stormwright.evaluations.run import run_cells

    return run_cells(cells, stored, RealLab)


def _write(
    papers: Sequence[Paper], cells: Mapping[str, Sequence[Cell]], stored: CellStore, output: Path
) -> list[dict[str, Any]]:
    from stormwright.evaluations.report import as_dict, write_page
    from stormwright.formats.files.json_files import write_json

    documents = []
    for paper in papers:
        own = cells[paper.name]
        document = as_dict(paper, write_page(output / f"{paper.name}.html", paper, own, stored), own, stored)
        write_json(output / f"{paper.name}.json", document)
        documents.append(document)
    return documents


def _list(papers: Sequence[Paper], cells: Mapping[str, Sequence[Cell]], stored: CellStore, as_json: bool) -> None:
    from stormwright.evaluations.cells import minutes

    left = {name: [cell for cell in group if cell.key not in stored.found] for name, group in cells.items()}
    rows = [
        {
            "experiment": paper.name,
            "title": paper.title,
            "rows": len(paper.rows),
            "cells": len(cells[paper.name]),
            "left": len(left[paper.name]),
            "minutes": round(minutes(left[paper.name])),
        }
        for paper in papers
    ]
    if as_json:
        print_json(rows)
        return
    table = numbers_table("experiment", "rows", "cells", "left", "minutes left", "", texts=(0, -1))
    for row in rows:
        table.add_row(*(row[name] for name in ("experiment", "rows", "cells", "left", "minutes", "title")))
    table.add_row("all", *(sum(int(str(r[n])) for r in rows) for n in ("rows", "cells", "left", "minutes")), "")
    print_table(table)


def _print(documents: Sequence[Mapping[str, Any]], output: Path) -> None:
    for document in documents:
        say(f"{document['title']} ({document['measured']} of {document['cells']} cells)")
        for row in document["rows"]:
            say(f"  {row['verdict']}: {row['where']}: {row['says']}")
        say(f"  report: {output / document['experiment']}.html")
