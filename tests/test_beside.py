"""The page beside Cruise Control names tests that there are."""

from __future__ import annotations

import re

import pytest

from tests.deploy.exposed import DEPLOY

PAGE = DEPLOY.parent / "docs" / "beside-cruise-control.md"
TEXT = PAGE.read_text(encoding="utf-8")

#: What its REST API has, by its documentation.
ENDPOINTS = (
    "state", "load", "partition_load", "kafka_cluster_state", "proposals", "user_tasks", "permissions", "rebalance",
    "add_broker", "remove_broker", "fix_offline_replicas", "demote_broker", "stop_proposal_execution", "pause_sampling",
    "resume_sampling", "topic_configuration", "admin", "review", "review_board", "rightsize", "train", "bootstrap",
    "remove_disks",
)  # fmt: skip


#: A table's rows: what there is, what is here, and what shows it.
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| Cruise Control |")
]

#: A test's name, and the file that it is in.
NAMED = re.compile(r"\[(\w+)\]\((\.\./[^)]+)\)")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_comparison_row_names_existing_tests(row: list[str]) -> None:
    """Python's functions and Java's methods."""
    _, here, shown = row
    assert len(here) > 2
    named = NAMED.findall(shown)
    assert named
    assert NAMED.sub("", shown).strip(" ,|") == "", "nothing else is named"
    for name, path in named:
        text = (PAGE.parent / path).read_text(encoding="utf-8")
        assert f"\ndef {name}(" in text or f"@Test\n    void {name}()" in text


def test_comparison_page_has_rows() -> None:
    assert len(ROWS) > 60


@pytest.mark.parametrize("name", ENDPOINTS)
def test_comparison_page_lists_every_interface(name: str) -> None:
    assert f"`{name}`" in TEXT
