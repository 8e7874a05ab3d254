"""The table of states: each plan comes to an end, and an end is one."""

from __future__ import annotations

from typing import get_args

from stormwright.plans.states import FINAL_STATES, HALTED_STATES, TRANSITIONS, PlanEvent, PlanState


def reached(state: PlanState) -> set[PlanState]:
    """States that a plan may come to from one."""
    found: set[PlanState] = set()
    left = [state]
    while left:
        here = left.pop()
        ahead = {to for (before, _), to in TRANSITIONS.items() if before == here} - found
        found |= ahead
        left += ahead
    return found


def test_no_event_leads_out_of_a_final_state() -> None:
    assert {state for state, _ in TRANSITIONS}.isdisjoint(FINAL_STATES)


def test_every_state_is_reached_from_the_first_and_comes_to_an_end() -> None:
    assert reached("planning") == set(get_args(PlanState)) - {"planning"}
    for state in set(get_args(PlanState)) - set(FINAL_STATES):
        assert reached(state) & set(FINAL_STATES), state


def test_every_event_is_in_the_table() -> None:
    assert {event for _, event in TRANSITIONS} == set(get_args(PlanEvent))


def test_a_person_can_go_on_with_a_halted_plan_or_discard_it() -> None:
    for state in HALTED_STATES:
        assert {event for before, event in TRANSITIONS if before == state} == {"next stage", "completed", "discarded"}
