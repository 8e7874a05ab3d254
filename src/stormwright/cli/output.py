"""What verbs print with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.table import Table

from stormwright.errors import Fault, InputError

#: Wider than any table; rich makes columns narrower to fit the width, but none wider.
_ANY_WIDTH = 2000


def prepare_output(path: Path | None, *inputs: Path, given_as: str = "--output") -> None:
    """Make the directories above `path`, and fail now, before the work, where nothing could be written after it.

    Parameters
    ----------
    path
        Where the user wants something written; None, and nothing happens.
    inputs
        Files that are read, none of which is to be overwritten.
    given_as
        The option or argument that the user named it with.

    Raises
    ------
    InputError
        There cannot be a file at `path`, or it is one of `inputs`.
    """
    if path is None:
        return
    if wrong := _wrong_output(path, inputs):
        raise InputError(given_as, [Fault(wrong, str(path))])


def _wrong_output(path: Path, inputs: Sequence[Path]) -> str | None:
    try:
        if path.is_dir():
            return "is a directory, and a file is to be written"
        if any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
            return "is read here, and would be overwritten; choose another name"
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"cannot be written: {error.filename or path.parent}: {error.strerror or error}"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "cannot be written: permission denied"
    return None


def print_json(document: object) -> None:
    """`document` as one line of JSON, for programs."""
    click.echo(orjson.dumps(document))


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
    table = text_table(*columns)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def text_table(*columns: str) -> Table:
    """A table of text."""
    return Table(*columns, box=None, pad_edge=False)
