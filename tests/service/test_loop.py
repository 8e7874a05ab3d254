"""What the loop reports of a decision."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stormwright.controller.propose import Plan
from stormwright.plans.plan import Move, TopologyMove
from stormwright.service.loop import Loop
from tests.controller.builders import on, topology


def move(name: str, *, arrives: bool) -> TopologyMove:
    return TopologyMove(topology(name).id, name, on("n0"), on("n1"), 4, (), (), (), (), arrives)


def test_observe_mode_names_each_topology_once(caplog: pytest.LogCaptureFixture) -> None:
    """One that makes room first and then goes on has two moves."""
    moves = [move("a", arrives=False), move("b", arrives=True), move("a", arrives=True)]
    decision = Plan(reason="better", steps=tuple(Move((each,)) for each in moves))
    stop = threading.Event()

    def decide() -> Plan:
        stop.set()
        return decision

    executor, guard = (
        SimpleNamespace(advance=lambda _: False),
        SimpleNamespace(verdict=lambda _: ("observe", "observe")),
    )
    loop = Loop(cast(Any, SimpleNamespace(decide=decide)), cast(Any, guard), str, cast(Any, executor))
    with caplog.at_level(logging.INFO):
        loop.run(stop, 0.001)
    assert caplog.messages == ["observe, a, b would move: better"]
