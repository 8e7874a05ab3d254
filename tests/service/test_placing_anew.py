"""A service whose scheduler leaves alone what runs, called from scratch: on a virtual Storm it moves once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stormwright.client.shapes import ModesChange
from stormwright.controller.planning.order import MoveBudget
from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.from_scratch import FromScratchScheduler
from stormwright.schedulers.toolkit.registry import traits_of
from tests.service.virtual import Deciding, Place, VirtualStorm


@pytest.fixture
def storm(monkeypatch: pytest.MonkeyPatch) -> VirtualStorm:
    return VirtualStorm(monkeypatch, lambda _: Place(1000.0, 20.0))


@pytest.fixture
def services() -> Iterator[list[Deciding]]:
    begun: list[Deciding] = []
    yield begun
    for service in begun:
        service.end()


def nodes(storm: VirtualStorm) -> set[str]:
    return {slot.supervisor for slot in storm.runs.slots}


@pytest.mark.slow
def test_from_scratch_scheduler_moves_only_once(storm: VirtualStorm, services: list[Deciding], tmp_path: Path) -> None:
    service = Deciding(storm, tmp_path, FromScratchScheduler(make_scheduler("binpack")))
    services.append(service)
    decision = service.moved(300)
    assert "inter-node traffic falls by 100 %" in decision.reason
    # Half of it keeps its slot.
    assert sum(move.moved_executors for move in decision.moves) == 2
    assert len(nodes(storm)) == 1
    service.run(600)
    assert len(storm.moves) == 1


@pytest.mark.slow
def test_changed_move_budget_applies_from_next_look(
    storm: VirtualStorm, services: list[Deciding], tmp_path: Path
) -> None:
    service = Deciding(storm, tmp_path, FromScratchScheduler(make_scheduler("binpack")))
    services.append(service)
    service.decider.change(replace(service.settings, budget=MoveBudget(0, 0)))
    service.run(300)
    assert service.memory.counts.looks > 0
    assert storm.moves == []
    service.decider.change(service.settings)
    assert service.moved(300).moves


@pytest.mark.slow
def test_scheduler_keeping_current_placement_never_moves(
    storm: VirtualStorm, services: list[Deciding], tmp_path: Path
) -> None:
    service = Deciding(storm, tmp_path, make_scheduler("binpack"))
    services.append(service)
    service.run(300)
    assert service.memory.counts.looks > 0
    assert storm.moves == []


@pytest.mark.long
def test_overload_triggered_scheduler_waits_for_overloaded_node(
    storm: VirtualStorm, services: list[Deciding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm, seconds = storm.problem, {"n1": 0.0}

    def loaded() -> Problem:
        problem = calm()
        assert problem.load is not None
        return problem.with_load(replace(problem.load, overload_s=dict(seconds)))

    monkeypatch.setattr(storm, "problem", loaded)
    service = Deciding(
        storm, tmp_path, FromScratchScheduler(make_scheduler("d_storm")), adapts=traits_of("d_storm").adapts
    )
    services.append(service)
    service.run(300)
    assert service.memory.counts.looks == 0
    seconds["n1"] = 31.0
    assert service.moved(60).reason.startswith("host1: over CPU capacity for more than 30 s")


@pytest.mark.slow
def test_ignored_overload_moves_nothing(
    storm: VirtualStorm, services: list[Deciding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = storm.problem

    def loaded() -> Problem:
        problem = calm()
        assert problem.load is not None
        return problem.with_load(replace(problem.load, overload_s={"n1": 99.0}))

    monkeypatch.setattr(storm, "problem", loaded)
    service = Deciding(
        storm, tmp_path, FromScratchScheduler(make_scheduler("d_storm")), adapts=traits_of("d_storm").adapts
    )
    services.append(service)
    guard = service.decider._guard  # noqa: SLF001
    guard.change(ModesChange(default="auto", responses={"overload": "ignore"}, by="anna", reason="it is known"))
    service.run(300)
    assert service.memory.counts.looks == 0
    guard.change(ModesChange(default="auto", by="anna", reason="it is over"))
    assert service.moved(60).because == "overload"
