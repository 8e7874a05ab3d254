"""The move budget follows what comes of moves, over restarts, and the service goes by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormwright.controller.planning.order import MoveBudget
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.storage.database import FILE, State
from tests.service.virtual import AllOn, Deciding, Place, VirtualStorm


def test_move_budget_shrinks_after_failures_and_survives_restart(tmp_path: Path) -> None:
    state, pauses = State(tmp_path / FILE), [5.0] * 8
    budget = MoveBudgetKeeper(state, MoveBudget(max_topologies=8), lambda: pauses, adapts=True)
    for _ in range(5):
        budget.moved("t", 5.0, rolled_back=False)
    assert budget.status() == {"topologies": 6, "most": 8, "why": ""}
    budget.moved("t", 60.0, rolled_back=False)
    assert budget.status() == {"topologies": 3, "most": 8, "why": "t paused for 60 s, longer than usual"}
    again = MoveBudgetKeeper(state, MoveBudget(max_topologies=2), lambda: pauses, adapts=True)
    assert again.now().max_topologies == 2
    budget.failed("u")
    assert budget.now().max_topologies == 1
    state.close()


def test_fixed_budget_is_fully_available_at_once(tmp_path: Path) -> None:
    state = State(tmp_path / FILE)
    budget = MoveBudgetKeeper(state, MoveBudget(max_topologies=8), lambda: (), adapts=False)
    assert budget.now().max_topologies == 8
    budget.failed("t")
    budget.moved("t", 60.0, rolled_back=True)
    assert budget.status() == {"topologies": 8, "most": 8, "why": ""}
    assert state.document("budget").load() is None
    adapting = MoveBudgetKeeper(state, MoveBudget(max_topologies=8), lambda: (), adapts=True)
    assert adapting.now().max_topologies == 1
    adapting.failed("t")
    assert MoveBudgetKeeper(state, MoveBudget(max_topologies=8), lambda: (), adapts=False).status()["why"] == ""
    state.close()


@pytest.mark.long
def test_rollback_halves_move_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bad = lambda runs: Place(500.0, 40.0) if runs.slots[0].supervisor == "n2" else Place(1000.0, 20.0)  # noqa: E731
    storm = VirtualStorm(monkeypatch, bad)
    service = Deciding(storm, tmp_path, AllOn(2))
    budget = MoveBudgetKeeper(service.state, MoveBudget(max_topologies=4), lambda: (), adapts=True)
    service.runner._budget = service.decider._budget = budget  # noqa: SLF001
    try:
        service.moved(300)
        assert budget.now().max_topologies == 2
        service.moved(120)
        assert budget.status() == {"topologies": 1, "most": 4, "why": "the move of t was rolled back"}
    finally:
        service.end()
