"""What verbs print with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stormwright.cli.lines import TAKEN, output_is_stdout
from stormwright.errors import Fault, InputError
from stormwright.files import is_standard_output, target_of
from stormwright.formats.files.json_files import STANDARD_INPUT
from stormwright.printable import printable

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
    context = click.get_current_context(silent=True)
    if context and is_standard_output(path):
        context.meta[TAKEN] = True


def _wrong_output(path: Path, inputs: Sequence[Path]) -> str | None:
    try:
        if path.is_dir():
            return "is a directory, and a file is to be written"
        if is_standard_output(path):
            return None
        if any(_is_read(path, other) for other in inputs):
            return "is read here, and would be overwritten; choose another name"
        target = target_of(path)
        if above := next((above for above in target.parents if above.exists() and not above.is_dir()), None):
            return f"cannot be written: {above}: is a file, and no directory"
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"cannot be written: {error.filename or path.parent}: {error.strerror or error}"
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        return "cannot be written: permission denied"
    return None


def _is_read(path: Path, other: Path) -> bool:
    """Whether `path` is the file that is read as `other`."""
    if not path.exists():
        return False
    if other == STANDARD_INPUT:
        known = path.stat()
        return path.is_file() and sys.stdin is not None and os.path.samestat(known, os.fstat(0))
    return other.exists() and path.samefile(other)


def print_json(document: object) -> None:
    """`document` as one line of JSON, for programs."""
    click.echo(orjson.dumps(document))


def cut_short(lines: Sequence[str], most: int, rest: str = "") -> Iterator[str]:
    """The first `most` of `lines`, and how many more there are; `rest` ends that last line."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most} more{rest}"


def print_table(table: Table) -> None:
    """Print a table in its own width: a terminal breaks lines that are too long for it, a file keeps them."""
    terminal(err=output_is_stdout(), width=_ANY_WIDTH).print(table)


def terminal(err: bool = False, width: int | None = None) -> Console:
    """A console that takes texts as they are: ``[prod]`` in a name is no markup, and ``:fire:`` no picture."""
    return Console(stderr=err, highlight=False, soft_wrap=True, markup=False, emoji=False, width=width)


class _Table(Table):
    """One whose cells are names and numbers, and cannot steer the terminal."""

    def add_row(self, *cells: object, **how: Any) -> None:
        """See rich."""
        super().add_row(*(Text(printable(str(cell))) for cell in cells), **how)


def numbers_table(*columns: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = text_table(*columns)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def text_table(*columns: str) -> Table:
    """A table of text."""
    return _Table(*(printable(column) for column in columns), box=None, pad_edge=False)
