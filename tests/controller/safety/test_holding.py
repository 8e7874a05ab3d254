"""How much of a cluster may be missing."""

from __future__ import annotations

from stormwright.controller.safety.holds import LATELY_S, NodePresence

TEN = [f"n{number}" for number in range(10)]


def test_more_than_the_share_holds_and_not_the_share_itself() -> None:
    known = NodePresence(0.4)
    known.see(TEN, 0.0)
    assert known.hold(TEN[:6]) is None
    hold = known.hold(TEN[:5])
    assert hold is not None
    assert hold.code == "missing"
    assert hold.why == (
        "5 nodes of 10 that were there in the last 30 min are missing (n5, n6, n7, …): nothing moves while more than "
        "40 % are"
    )


def test_long_absent_nodes_are_forgotten_and_drained_nodes_excused() -> None:
    known = NodePresence(0.4)
    known.see(TEN, 0.0)
    known.see(TEN[:5], LATELY_S)
    assert known.hold(TEN[:5]) is not None
    assert known.hold(TEN[:5], excused=["n8", "n9"]) is None
    known.see(TEN[:5], LATELY_S + 1)
    assert known.hold(TEN[:5]) is None
    assert len(known.last_present_s) == 5


def test_new_nodes_and_first_observation_cause_no_hold() -> None:
    known = NodePresence(0.0)
    assert known.hold([]) is None
    known.see(TEN[:2], 0.0)
    assert known.hold(TEN) is None
    assert known.hold(TEN[:1]) is not None
