"""Common parts of all pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

_Row = TypeVar("_Row")

#: Rows of a table that one page shows.
ROWS = 50

#: Values of a request's query, the last of each name.
Query = Mapping[str, str]


@dataclass(frozen=True)
class Page:
    """A page to be written.

    Parameters
    ----------
    template
        Its name, without its ending.
    title
        Heading and name of the tab.
    command
        The command of a shell that prints the same.
    shows
        Variables of the template.
    here
        The entry of the navigation that it belongs to.
    status
        HTTP status of the response; not 200 for a page about an error.
    """

    template: str
    title: str
    command: str
    shows: Mapping[str, Any] = field(default_factory=dict)
    here: str = ""
    status: int = 200


@dataclass(frozen=True)
class Column:
    """A column of a table by which it can be sorted.

    Parameters
    ----------
    key, title
        Its name in links, and its heading.
    value
        Returns the value of a row by which it is sorted: a number, NaN or None for an unknown one, or a text.
    is_text
        Whether it is aligned to the left.
    ascending
        Whether it is sorted in ascending order first; texts are.
    """

    key: str
    title: str
    value: Callable[[Any], float | str | None]
    is_text: bool = False
    ascending: bool = False

    @property
    def first_order(self) -> str:
        """Direction in which it is sorted first: ``asc`` or ``desc``."""
        return "asc" if self.is_text or self.ascending else "desc"


@dataclass(frozen=True)
class Listing(Generic[_Row]):
    """A table that is sorted, filtered and paged by the query of the request.

    Parameters
    ----------
    rows
        Rows of this page.
    total
        Number of rows of all pages.
    number, last
        Number of this page, and of the last one.
    columns, sort, descending
        Columns, the key of the one that rows are sorted by, and the direction.
    find
        Text that all rows contain; empty for no filter.
    query
        The query, for links.
    """

    rows: Sequence[_Row]
    total: int
    number: int
    last: int
    columns: Sequence[Column]
    sort: str
    descending: bool
    find: str
    query: Query

    @classmethod
    def of(
        cls,
        rows: Iterable[_Row],
        columns: Sequence[Column],
        query: Query,
        default: str,
        text: Callable[[_Row], str],
    ) -> Listing[_Row]:
        """Return the page that a query requests; invalid values count as the default.

        Parameters
        ----------
        rows
            Rows of all pages, before filter and order.
        columns
            All columns; equal and unknown values keep the order of the rows.
        query
            ``sort``, ``order`` (asc or desc), ``find`` and ``page``.
        default
            Key of the column by which it is sorted by default.
        text
            Returns the text of a row in which ``find`` is searched, ignoring case.
        """
        by = {column.key: column for column in columns}
        column = by.get(query.get("sort", ""), by[default])
        descending = query.get("order", column.first_order) == "desc"
        wanted = query.get("find", "").strip()
        found = [row for row in rows if wanted.lower() in text(row).lower()] if wanted else list(rows)
        values: list[Any] = [column.value(row) for row in found]
        known = [number for number, value in enumerate(values) if not _is_unknown(value)]
        unknown = [number for number, value in enumerate(values) if _is_unknown(value)]
        known.sort(key=lambda number: values[number], reverse=descending)
        ordered = [found[number] for number in known + unknown]
        last = max(-(-len(ordered) // ROWS), 1)
        given = query.get("page", "1")
        number = min(max(int(given), 1), last) if given.isascii() and given.isdigit() and len(given) < 9 else 1
        part = ordered[(number - 1) * ROWS : number * ROWS]
        return cls(part, len(ordered), number, last, columns, column.key, descending, wanted, query)

    def link(self, **changes: object) -> str:
        """Return the query with some values changed, such as ``page=2``."""
        return "?" + urlencode({name: value for name, value in {**self.query, **changes}.items() if value != ""})

    def sort_link(self, column: Column) -> str:
        """Return the query that sorts by a column; in the other direction if it does so already."""
        other = "asc" if self.descending else "desc"
        return self.link(sort=column.key, order=other if column.key == self.sort else column.first_order, page="")


def _is_unknown(value: float | str | None) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def waiting(here: str, title: str, error: str, served: bool) -> Page:
    """Where nothing is known yet.

    Parameters
    ----------
    here, title
        As `Page` has them.
    error
        Why what is known cannot be shown; empty where nothing is known.
    served
        Whether there is a service, which Nimbus asks.
    """
    shows = {"error": error, "served": served}
    return Page("waiting", title, "stormwright serve", shows, here, 503)
