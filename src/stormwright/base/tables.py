"""Results as tables: text for a prompt, HTML for a notebook, and frames of pandas or Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, overload

from stormwright.errors import Fault, InputError, MissingDependencyError, suggestion_for

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: Kinds of frames.
FRAMES = ("pandas", "arrow")

#: Rows of a table in a notebook.
_MAX_ROWS = 50

#: Fraction in use from which a bar is drawn as full, and its colours.
_FULL, _BAR, _OVER = 0.9, "#4a7fb5", "#c0561a"

#: Rows as dictionaries: column → value.
Rows = Sequence[Mapping[str, Any]]


class TextTable(NamedTuple):
    """A table of texts; the first cell of each row is a name."""

    head: list[str]
    rows: list[list[str]]

    @classmethod
    def of(cls, rows: Rows, most: int | None = None) -> TextTable:
        """Return rows as texts, without the columns that have no value in any of them.

        Parameters
        ----------
        rows
            Rows with the same columns.
        most
            Maximum number of rows.
        """
        columns = [name for name in (rows[0] if rows else ()) if any(row[name] is not None for row in rows)]
        return cls(columns, [[cell_text(row[name]) for name in columns] for row in rows[:most]])

    def as_text(self) -> str:
        """Return the table as text, with numbers aligned to the right."""
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = []
        for name, *cells in [self.head, *self.rows]:
            padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([name.ljust(widths[0]), *padded]))
        return "\n".join(lines)

    def as_html(self) -> str:
        """Return the table as HTML for a notebook."""
        head = "".join(f"<th>{escape(text)}</th>" for text in self.head)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def cell_text(value: object) -> str:
    """Return the text of a value in a table."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
    return str(value)


def paragraph(text: str) -> str:
    """Return a paragraph of HTML; an empty text gives none."""
    return f"<p>{escape(text)}</p>" if text else ""


def bar_chart(title: str, bars: Mapping[str, float]) -> str:
    """Return horizontal bars as HTML.

    Parameters
    ----------
    title
        Heading above the bars; escaped for HTML.
    bars
        Label → fraction in use; 1 is full.
    """
    if not bars:
        return ""
    rows = []
    for label, part in bars.items():
        colour = _BAR if part < _FULL else _OVER
        inside = f'<div style="width:{min(max(part, 0.0), 1.0):.1%};height:0.8em;background:{colour}"></div>'
        track = f'<div style="width:16em;background:rgba(128,128,128,.2)">{inside}</div>'
        rows.append(f"<tr><td>{escape(label)}</td><td>{track}</td><td>{part:.0%}</td></tr>")
    return f"<table><thead><tr><th colspan=3>{escape(title)}</th></tr></thead><tbody>{''.join(rows)}</tbody></table>"


class Tabular(ABC):
    """A result with one or more tables, the first of which is the main one.

    Attributes
    ----------
    empty_columns
        Table → its columns, for those that may have no rows.
    """

    empty_columns: ClassVar[Mapping[str, Sequence[str]]] = {}

    @abstractmethod
    def tables(self) -> Mapping[str, Rows]:
        """Return the tables by name; the rows of one have the same columns."""

    def headline(self) -> str:
        """Return a line above the tables; empty for none."""
        return ""

    @overload
    def to_frame(self, kind: Literal["pandas"] = "pandas", table: str | None = None) -> pd.DataFrame: ...
    @overload
    def to_frame(self, kind: Literal["arrow"], table: str | None = None) -> pa.Table: ...
    def to_frame(self, kind: str = "pandas", table: str | None = None) -> Any:
        """Return a table as a frame.

        Parameters
        ----------
        kind
            ``pandas`` for a `pandas.DataFrame`, ``arrow`` for a `pyarrow.Table`.
        table
            Name of the table, one of `tables`; by default the first one.

        Raises
        ------
        InputError
            There is no such kind or table.
        MissingDependencyError
            pandas or PyArrow is not installed.
        """
        found = self.tables()
        name = next(iter(found)) if table is None else table
        faults = []
        if name not in found:
            faults.append(Fault(f"no such table{suggestion_for(name, found)}", "table"))
        if kind not in FRAMES:
            faults.append(Fault(f"should be one of {', '.join(FRAMES)}, got {kind!r}", "kind"))
        if faults:
            raise InputError("frame", faults)
        return frame(found[name], kind, self.empty_columns.get(name, ()))

    def __repr__(self) -> str:
        """Return the first table as text, for interactive use."""
        first = TextTable.of(next(iter(self.tables().values())))
        return "\n".join(filter(None, [self.headline(), first.as_text() if first.head else ""]))

    def _repr_html_(self) -> str:
        """Return all tables as HTML, for a notebook."""
        parts = [paragraph(self.headline())]
        for name, rows in self.tables().items():
            if rows:
                left = len(rows) - _MAX_ROWS
                more = f"and {left:,} more rows: to_frame(table={name!r}) has all" if left > 0 else ""
                parts += [paragraph(name), TextTable.of(rows, _MAX_ROWS).as_html(), paragraph(more)]
        return "".join(parts)


def frame(rows: Rows, kind: str, empty_columns: Sequence[str] = ()) -> Any:
    """Return rows as a frame; see `Tabular.to_frame`.

    Parameters
    ----------
    rows, kind
        Rows, and kind of the frame.
    empty_columns
        Columns if there are no rows.
    """
    try:
        if kind == "pandas":
            import pandas as pd

            return pd.DataFrame.from_records(list(rows), columns=None if rows else list(empty_columns))
        import pyarrow as pa

        schema = None if rows else pa.schema([(name, pa.null()) for name in empty_columns])
        return pa.Table.from_pylist(list(rows), schema=schema)
    except ImportError as error:
        name = "pandas" if kind == "pandas" else "PyArrow"
        message = f'{name} is not installed, and a frame needs it; install it with: pip install "stormwright[frames]"'
        raise MissingDependencyError(message) from error
