"""What verbs print with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
import orjson
from rich.console import Console
from rich.table import Table

from stormwright.model import Problem

#: Wider than any table; rich makes columns narrower to fit the width, but none wider.
_ANY_WIDTH = 2000


def print_json(document: object) -> None:
    """`document` as one line of JSON, for programs."""
    click.echo(orjson.dumps(document))


def size_of(problem: Problem) -> str:
    """How large a problem is, in a few words."""
    return (
        f"{len(problem.topologies)} topologies, {problem.num_executors} executors, "
        f"{len(problem.supervisors)} nodes, {len(problem.slots)} slots"
    )


def cut_short(lines: Sequence[str], most: int, rest: str = "") -> Iterator[str]:
    """The first `most` of `lines`, and how many more there are; `rest` ends that last line."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most} more{rest}"


def console() -> Console:
    """Standard output for people; numbers keep their colour, nothing is cut to the width of a terminal."""
    return Console(highlight=False, soft_wrap=True)


def print_table(table: Table) -> None:
    """Print a table in its own width: a terminal breaks lines that are too long for it, a file keeps them."""
    Console(highlight=False, soft_wrap=True, width=_ANY_WIDTH).print(table)


def numbers_table(*columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(box=None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left")
    return table
