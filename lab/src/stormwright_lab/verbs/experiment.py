"""``stormwright experiment``: repeat published evaluations on a real local cluster, or in virtual time."""

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
    from stormwright_lab.evaluations.cell_store import CellStore
    from stormwright_lab.evaluations.cells import Cell
    from stormwright_lab.evaluations.definitions import Paper

#: In the output directory: a line for each cell, measured or simulated.
_CELLS, _SIMULATED_CELLS = "cells.jsonl", "simulated-cells.jsonl"


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
@click.option(
    "--simulated",
    is_flag=True,
    help="Run in virtual time, without Storm, in minutes; real verdicts of the same directory are shown beside.",
)
@options.as_json("Print the result, or the list, as JSON; progress goes to standard error.")
@click.pass_context
def command(
    ctx: click.Context, name: str | None, output: Path, fresh: bool, quick: bool, simulated: bool, as_json: bool
) -> None:
    """The clusters are started on this machine, which needs root and takes hours. No other cluster is used.

    Without NAME the experiments are listed with their approximate duration; NAME may be all. Interrupted experiments
    resume. Exits with 1 if a cell could not be measured; the verdicts are in the pages.
    """
    from stormwright_lab.evaluations.cell_store import CellStore
    from stormwright_lab.evaluations.papers import ALL, PAPERS, papers_named

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
        file = _SIMULATED_CELLS if simulated else _CELLS
        stored = CellStore(output / file, {cell.key for cell in every} if fresh else ())
        failed = _run(every, stored, simulated=simulated)
        pages = output / "simulated" if simulated else output
        documents = _write(papers, cells, stored, pages, simulated=simulated)
        if simulated:
            _add_real(documents, papers, cells, CellStore(output / _CELLS))
    if as_json:
        print_json(documents)
    else:
        _print(documents, pages)
    if failed:
        ctx.exit(1)


def _cells(paper: Paper, quick: bool) -> list[Cell]:
    from stormwright_lab.evaluations.cells import CellTimes, cells_of, quick_cells

    return list(quick_cells(paper)) if quick else cells_of(paper, CellTimes())


def _run(cells: Sequence[Cell], stored: CellStore, *, simulated: bool) -> int:
    if all(cell.key in stored.found for cell in cells):
        return 0
    from stormwright_lab.evaluations.lab.cluster import ClusterLab
    from stormwright_lab.evaluations.lab.simulated import SimulatedLab
    from stormwright_lab.evaluations.run import run_cells

    return run_cells(cells, stored, SimulatedLab if simulated else ClusterLab)


def _add_real(
    documents: Sequence[dict[str, Any]],
    papers: Sequence[Paper],
    cells: Mapping[str, Sequence[Cell]],
    measured: CellStore,
) -> None:
    """Add the verdict on the real cluster to each row of simulated experiments."""
    from stormwright_lab.evaluations.run import measurements
    from stormwright_lab.evaluations.verdict import judge

    for document, paper in zip(documents, papers, strict=True):
        found = measurements(paper, cells[paper.name], measured)
        for row, published in zip(document["rows"], paper.rows, strict=True):
            row["real"] = judge(published, found).verdict


def _write(
    papers: Sequence[Paper],
    cells: Mapping[str, Sequence[Cell]],
    stored: CellStore,
    output: Path,
    *,
    simulated: bool,
) -> list[dict[str, Any]]:
    from stormwright.formats.files.json_files import write_json
    from stormwright_lab.evaluations.report import as_dict, write_page

    documents = []
    for paper in papers:
        own = cells[paper.name]
        rows = write_page(output / f"{paper.name}.html", paper, own, stored, simulated=simulated)
        document = as_dict(paper, rows, own, stored)
        write_json(output / f"{paper.name}.json", document)
        documents.append(document)
    return documents


def _list(papers: Sequence[Paper], cells: Mapping[str, Sequence[Cell]], stored: CellStore, as_json: bool) -> None:
    from stormwright_lab.evaluations.cells import minutes

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
    whole = round(minutes([cell for group in left.values() for cell in group]))
    table.add_row("all", *(sum(int(str(r[n])) for r in rows) for n in ("rows", "cells", "left")), whole, "")
    print_table(table)


def _print(documents: Sequence[Mapping[str, Any]], output: Path) -> None:
    for document in documents:
        say(f"{document['title']} ({document['measured']} of {document['cells']} cells)")
        for row in document["rows"]:
            real = f" (on the real cluster: {row['real']})" if "real" in row else ""
            say(f"  {row['verdict']}{real}: {row['where']}: {row['says']}")
        say(f"  report: {output / document['experiment']}.html")
