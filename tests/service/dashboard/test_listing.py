"""Tables that are sorted, filtered and paged by the query of a request."""

from __future__ import annotations

from math import nan

import pytest

from stormwright.service.dashboard.views.page import ROWS, Column, Listing, Query

COLUMNS = (
    Column("name", "name", lambda row: row[0], is_text=True),
    Column("use", "use", lambda row: row[1]),
    Column("left", "left", lambda row: -row[1], ascending=True),
)
FEW = [("b", 0.5), ("a", nan), ("d", 0.9), ("c", 0.5)]


def listed(rows: list[tuple[str, float]], query: Query) -> Listing[tuple[str, float]]:
    return Listing.of(rows, COLUMNS, query, "use", lambda row: row[0])


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ({}, "dbca"),
        ({"sort": "use", "order": "asc"}, "bcda"),
        ({"sort": "name"}, "abcd"),
        ({"sort": "name", "order": "desc"}, "dcba"),
        ({"sort": "left"}, "dbca"),
        ({"sort": "nothing"}, "dbca"),
        ({"find": "B"}, "b"),
        ({"find": "zz"}, ""),
    ],
)
def test_rows_are_sorted_with_unknown_values_last_and_filtered(query: Query, order: str) -> None:
    assert "".join(name for name, _ in listed(FEW, query).rows) == order


def test_links_change_the_direction_and_return_to_the_first_page() -> None:
    found = listed([(str(n), float(n)) for n in range(3 * ROWS)], {"page": "2", "find": "1", "by": "cpu"})
    name, use, left = COLUMNS
    assert found.sort_link(use) == "?find=1&by=cpu&sort=use&order=asc"
    assert found.sort_link(name) == "?find=1&by=cpu&sort=name&order=asc"
    assert found.sort_link(left) == "?find=1&by=cpu&sort=left&order=asc"
    assert found.link(page=1) == "?page=1&find=1&by=cpu"


@pytest.mark.parametrize(("given", "number"), [("1", 1), ("3", 3), ("99", 3), ("0", 1), ("-1", 1), ("٣", 1), ("x", 1)])
def test_page_out_of_range_is_the_nearest(given: str, number: int) -> None:
    found = listed([(str(n), float(n)) for n in range(2 * ROWS + 1)], {"page": given})
    assert (found.number, found.last, found.total) == (number, 3, 2 * ROWS + 1)
