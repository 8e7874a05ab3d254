"""Tables and JSON on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import click
import orjson

from stormwright.base.escaping import printable
from stormwright.base.files import is_standard_output, name_of_output, target_of
from stormwright.cli.lines import TAKEN, output_is_stdout, shows_all
from stormwright.errors import Fault, InputError
from stormwright.formats.files.json_files import STANDARD_INPUT
from stormwright.model.humanize import counted


def prepare_output(path: Path | None, *inputs: Path, given_as: str = "--output") -> None:
    """Raise before the work if the output cannot be written afterwards.

    Parameters
    ----------
    path
        Output file; nothing happens if None.
    inputs
        Input files, which are not to be overwritten.
    given_as
        Option or argument of the output.

    Raises
    ------
    InputError
        The output cannot be created, or is one of the inputs.
    """
    if path is None:
        return
    if wrong := _wrong_output(path, inputs):
        raise InputError(given_as, [Fault(wrong, name_of_output(path))])
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
        if not target.parent.is_dir():
            return f"there is no directory {target.parent}: make it first, or choose another name"
    except OSError as error:
        return f"cannot be written: {error.filename or path.parent}: {error.strerror or error}"
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        return "cannot be written: permission denied"
    return None


def _is_read(path: Path, other: Path) -> bool:
    """Return whether `path` is the input file `other`."""
    if not path.exists():
        return False
    if other == STANDARD_INPUT:
        known = path.stat()
        return path.is_file() and sys.stdin is not None and os.path.samestat(known, os.fstat(0))
    return other.exists() and path.samefile(other)


def print_json(document: object) -> None:
    """Print `document` as one line of JSON."""
    click.echo(orjson.dumps(document))


#: End of a list that was cut short.
_SHOWS_ALL = "; --all shows them"


def cut_short(lines: Sequence[str], most: int, rest: str = _SHOWS_ALL) -> Iterator[str]:
    """Yield the first `most` of `lines`, or all with ``--all``; then the number of the others, followed by `rest`."""
    left = 0 if shows_all() else len(lines) - most
    yield from lines[: len(lines) - max(left, 0)]
    if left > 0:
        yield f"and {left:,} more{rest}"


class _Table:
    """A text table whose columns are as wide as their content; control characters are escaped.

    Parameters
    ----------
    columns
        Titles of the columns.
    right
        Positions of the columns that are aligned to the right.
    """

    def __init__(self, columns: Sequence[str], right: Collection[int] = ()) -> None:
        self._rows = [[printable(column) for column in columns]]
        self._right = right

    def add_row(self, *cells: object) -> None:
        """Add a row with one cell for each column."""
        self._rows.append([printable(str(cell)) for cell in cells])

    @property
    def size(self) -> int:
        """Number of rows without the titles."""
        return len(self._rows) - 1

    def lines(self, most: int | None = None) -> Iterator[str]:
        """Yield the titles and the first `most` rows as text, or every row."""
        shown = self._rows if most is None else self._rows[: most + 1]
        widths = [max(map(_width, column)) for column in zip(*shown, strict=True)]
        for row in shown:
            parts = []
            for position, (cell, width) in enumerate(zip(row, widths, strict=True)):
                blank = " " * (width - _width(cell))
                parts.append(blank + cell if position in self._right else cell + blank)
            yield "  ".join(parts).rstrip()  # a terminal breaks blanks that are too many into empty lines


def _width(text: str) -> int:
    """Return the width of a text on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # takes time to import, as all of rich does

    return cell_len(text)


def print_table(table: _Table, most: int | None = None, noun: str = "", rest: str = _SHOWS_ALL) -> None:
    """Print a table in its own width: a terminal breaks lines that are too long for it, a file keeps them.

    Parameters
    ----------
    table
        Table to print; only the rows shown are formatted.
    most
        Maximum number of rows without ``--all``; None for all rows.
    noun
        What a row is, as in ``node``; empty for none.
    rest
        End of the line that counts the other rows.
    """
    rows = table.size
    shown = rows if most is None or shows_all() else min(most, rows)
    titles, *lines = table.lines(shown)
    if shown < rows:
        left = counted(rows - shown, f"more {noun}") if noun else f"{rows - shown:,} more"
        lines.append(f"and {left}{rest}")
    stream = sys.stderr if output_is_stdout() else sys.stdout
    print(click.style(titles, bold=True) if stream.isatty() else titles, *lines, sep="\n", file=stream, flush=True)


def numbers_table(*columns: str, texts: Collection[int] = (0,)) -> _Table:
    """Return a table of numbers; `texts` are the positions of text columns, -1 the last."""
    return _Table(columns, set(range(len(columns))) - {position % len(columns) for position in texts})


def text_table(*columns: str) -> _Table:
    """Return a table of text."""
    return _Table(columns)
