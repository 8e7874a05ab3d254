"""Placements that were taken back are not tried again soon, also by a service that was restarted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stormwright.base.documents import FileDocument
from stormwright.controller.objectives.refusals import FIRST_S, LONGEST_S, Refusal, RefusedPlacements, crowds
from stormwright.model import Problem
from tests.controller.builders import on, problem, topology

T = topology("t")
NOW_MS = 1_795_219_140_000.0

#: Two slots a node: all on the second node, in one worker or, with the bolts changing places, in two.
WISHED = np.full(4, 2, dtype=np.int32)


@pytest.fixture
def now() -> Problem:
    return problem([T], current={T.id: on("n0", "n1")})


def refusal(now: Problem, worth: float | None = 100.0) -> Refusal:
    return Refusal(crowds(now, 0, WISHED), worth, 1000.0, NOW_MS + FIRST_S * 1000, FIRST_S, "it was slow")


def stay(
    refused: RefusedPlacements, now: Problem, wanted: np.ndarray, worth: float = 200.0, **more: float
) -> dict[str, str]:
    at_ms, rate = more.get("at_ms", NOW_MS), more.get("rate", 1000.0)
    return refused.stay(now, wanted, {T.id: worth}, {T.id: rate}, at_ms)


def test_same_or_no_more_promising_placement_is_refused(now: Problem, tmp_path: Path) -> None:
    refused = RefusedPlacements(FileDocument(tmp_path / "refused.json"))
    assert stay(refused, now, WISHED) == {}
    refused.note(T.id, refusal(now))
    why = "this placement was rolled back: it was slow; next try in 60 min"
    assert stay(refused, now, WISHED) == {T.id: why}
    # Executors of one component are as good as each other, and so are a node's ports.
    other_ports = np.array([3, 2, 3, 3], dtype=np.int32)
    assert stay(refused, now, other_ports) == {T.id: why}
    elsewhere = np.full(4, 4, dtype=np.int32)
    assert stay(refused, now, elsewhere, worth=104.0) == {
        T.id: "one that promised as much was rolled back: it was slow; next try in 60 min"
    }
    assert stay(refused, now, elsewhere, worth=106.0) == {}
    assert refused.reasons(NOW_MS) == {T.id: ["it was slow"]}


def test_refusal_ends_after_time_or_load_change(now: Problem, tmp_path: Path) -> None:
    refused = RefusedPlacements(FileDocument(tmp_path / "refused.json"))
    refused.note(T.id, refusal(now))
    assert stay(refused, now, WISHED, rate=1200)
    assert stay(refused, now, WISHED, rate=1300) == stay(refused, now, WISHED, rate=700) == {}
    later_ms = NOW_MS + FIRST_S * 1000
    assert stay(refused, now, WISHED, at_ms=later_ms - 1)
    assert stay(refused, now, WISHED, at_ms=later_ms) == refused.reasons(later_ms) == {}


def test_refusal_time_doubles_up_to_one_day(now: Problem, tmp_path: Path) -> None:
    refused = RefusedPlacements(FileDocument(tmp_path / "refused.json"))
    waits = []
    for _ in range(7):
        refused.note(T.id, refusal(now))
        hours = (h for h in range(100) if not stay(refused, now, WISHED, at_ms=NOW_MS + h * 3_600_000))
        waits.append(next(hours))
    assert waits == [1, 2, 4, 8, 16, 24, 24]
    assert LONGEST_S == 24 * 3600


def test_a_restart_forgets_nothing_and_a_damaged_document_is_replaced(now: Problem, tmp_path: Path) -> None:
    path = tmp_path / "refused.json"
    RefusedPlacements(FileDocument(path)).note(T.id, refusal(now))
    assert stay(RefusedPlacements(FileDocument(path)), now, WISHED)
    for damaged in ("{", "[1]", '{"t": [{"crowds": 5}]}', '{"t": 5}', '{"t": [{"crowds": [[1]]}]}'):
        path.write_text(damaged, encoding="utf-8")
        assert stay(RefusedPlacements(FileDocument(path)), now, WISHED) == {}


def test_where_nothing_was_predicted_only_the_same_is_refused(now: Problem, tmp_path: Path) -> None:
    refused = RefusedPlacements(FileDocument(tmp_path / "refused.json"))
    refused.note(T.id, refusal(now, worth=None))
    assert stay(refused, now, WISHED)
    assert stay(refused, now, np.full(4, 4, dtype=np.int32), worth=1.0) == {}


def test_refusal_holds_when_its_file_cannot_be_written(now: Problem, tmp_path: Path) -> None:
    refused = RefusedPlacements(FileDocument(tmp_path / "gone" / "refused.json"))
    refused.note(T.id, refusal(now))
    assert stay(refused, now, WISHED)
