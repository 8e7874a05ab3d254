"""What verbs print with."""

from __future__ import annotations

import click
import orjson
from rich.console import Console
from rich.table import Table


def print_json(document: object) -> None:
    """`document` as one line of JSON, for programs."""
    click.echo(orjson.dumps(document))


def console() -> Console:
    """Standard output for people; numbers keep their colour, nothing is cut to the width of a terminal."""
    return Console(highlight=False, soft_wrap=True)


def numbers_table(*columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(box=None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left")
    return table
