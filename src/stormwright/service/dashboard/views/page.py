"""Common parts of all pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

_Row = TypeVar("_Row")

#: Rows of a table that one page shows.
ROWS = 100

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
        The command of a shell that tells the same.
    shows
        What its template is told.
    here
        The entry of the navigation that it belongs to.
    status
        Of HTTP.
    """

    template: str
    title: str
    command: str
    shows: Mapping[str, Any] = field(default_factory=dict)
    here: str = ""
    status: int = 200


@dataclass(frozen=True)
class PagePart(Generic[_Row]):
    """Some of many rows, and links to the others."""

    rows: Sequence[_Row]
    total: int
    number: int
    last: int
    query: Query

    def link(self, number: int) -> str:
        """The query of another part."""
        return "?" + urlencode({**self.query, "page": number})

    @classmethod
    def of(cls, rows: Sequence[_Row], query: Query) -> PagePart[_Row]:
        """The part that a query asks for; one that is not there is the nearest."""
        last = max(-(-len(rows) // ROWS), 1)
        given = query.get("page", "1")
        number = min(max(int(given), 1), last) if given.isascii() and given.isdigit() and len(given) < 9 else 1
        others = {name: value for name, value in query.items() if name != "page"}
        return cls(rows[(number - 1) * ROWS : number * ROWS], len(rows), number, last, others)


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
