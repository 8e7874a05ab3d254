"""How much one decision may move."""

from __future__ import annotations

from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.safety.move_budget import AdaptiveBudget, long_pause

MAX = MoveBudget(max_topologies=10, max_executors=500)


def test_budget_grows_by_one_and_is_halved_after_failure() -> None:
    budget = AdaptiveBudget()
    limits = []
    for well in (True,) * 6 + (False,) + (True,) * 8 + (False,) * 6:
        limits.append(budget.of(MAX).max_topologies)
        budget.record_success(MAX) if well else budget.record_failure("x")
    assert limits == [1, 2, 3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 8, 9, 10, 10, 5, 2, 1, 1, 1]
    assert budget.of(MAX).max_executors == 500


def test_budget_never_exceeds_configured_maximum() -> None:
    budget = AdaptiveBudget(7.0)
    assert budget.of(MoveBudget(max_topologies=3)).max_topologies == 3
    assert budget.of(MoveBudget(max_topologies=0)).max_topologies == 0
    budget.record_success(MoveBudget(max_topologies=0))
    assert budget.topologies == 1


def test_pause_counts_as_long_relative_to_usual_pauses() -> None:
    assert not long_pause(500.0, [])
    assert not long_pause(19.0, [4.0] * 5)
    assert long_pause(20.0, [4.0] * 5)
    assert not long_pause(20.0, [15.0] * 5)
    assert long_pause(30.0, [15.0] * 5)
