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


def test_each_test_that_it_names_is_there() -> None:
    named = re.findall(r"\[(test_\w+)\]\(([^)]+)\)", TEXT)
    assert len(named) > 60
    there = {path: (PAGE.parent / path).read_text(encoding="utf-8") for _, path in named}
    assert [name for name, path in named if f"\ndef {name}(" not in there[path]] == []


@pytest.mark.parametrize("name", ENDPOINTS)
def test_no_way_to_ask_is_left_out(name: str) -> None:
    assert f"`{name}`" in TEXT
