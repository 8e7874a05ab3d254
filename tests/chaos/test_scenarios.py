"""Scenarios as data: the catalogue, JSON, chance and shrinking."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from stormwright_lab.chaos.catalogue import CATALOGUE, by_chance, scenarios_named
from stormwright_lab.chaos.scenarios import POSSIBLE, Action, FaultKind, FaultTarget, Moment, PlannedFault, Scenario
from stormwright_lab.chaos.shrinking import smallest

from stormwright.errors import InputError


def test_catalogue_has_every_kind_and_target_at_five_moments_or_more() -> None:
    faults = [fault for scenario in CATALOGUE.values() for fault in scenario.faults]
    assert len(CATALOGUE) >= 40
    assert {fault.kind for fault in faults} == set(FaultKind)
    assert {fault.target for fault in faults} == set(FaultTarget)
    assert {scenario.action for scenario in CATALOGUE.values()} == set(Action)
    assert all(len(scenario.moments) >= 5 for scenario in CATALOGUE.values())


@pytest.mark.parametrize("scenario", [*CATALOGUE.values(), by_chance(7)], ids=lambda each: each.name)
def test_scenario_survives_json(scenario: Scenario) -> None:
    assert Scenario.from_dict(json.loads(json.dumps(scenario.to_dict()))) == scenario


@pytest.mark.parametrize(
    "raw",
    [
        {"faults": [{"kind": "explode", "target": "service"}]},
        {"faults": [{"kind": "kill", "target": "universe"}]},
        {"faults": [{"kind": "fill-disk", "target": "nimbus"}]},
        {"faults": [{"kind": "kill", "target": "service", "duration_s": -1}]},
        {"faults": []},
        {"faults": [{"kind": "kill", "target": "service"}], "moments": ["never"]},
        {"faults": [{"kind": "kill", "target": "service"}], "action": "dance"},
    ],
)
def test_invalid_scenario_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Scenario.from_dict(raw)


def test_scenarios_by_chance_depend_on_the_seed_alone() -> None:
    several = [by_chance(seed) for seed in range(200)]
    assert several == [by_chance(seed) for seed in range(200)]
    assert {len(each.faults) for each in several} == {1, 2, 3}
    assert {each.moments[0] for each in several} == set(Moment)
    assert all(fault.target in POSSIBLE[fault.kind] for each in several for fault in each.faults)


def test_unknown_pattern_is_refused() -> None:
    assert [each.name for each in scenarios_named("kill-serv*")] == ["kill-service", "kill-service-for-long"]
    with pytest.raises(InputError):
        scenarios_named("no-such*")


def test_smallest_scenario_has_only_necessary_faults() -> None:
    kill, cut = (
        PlannedFault(FaultKind.KILL, FaultTarget.NIMBUS, delay_s=2.0),
        PlannedFault(FaultKind.CUT, FaultTarget.SOURCE_NODE, 5.0, 1.0),
    )
    stop = PlannedFault(FaultKind.STOP, FaultTarget.SERVICE, 3.0)
    scenario = Scenario("several", (kill, cut, stop))

    def fails(smaller: Scenario) -> bool:
        kinds = {fault.kind for fault in smaller.faults}
        return {FaultKind.KILL, FaultKind.STOP} <= kinds

    assert smallest(scenario, fails).faults == (replace(kill, delay_s=0.0), stop)


def test_delay_that_a_failure_needs_stays() -> None:
    kill = PlannedFault(FaultKind.KILL, FaultTarget.NIMBUS, delay_s=2.0)
    scenario = Scenario("late", (kill,))
    assert smallest(scenario, lambda smaller: smaller.faults[0].delay_s > 1) == scenario
