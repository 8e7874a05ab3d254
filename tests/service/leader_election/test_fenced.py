"""What a service that leads no more would change is not changed: neither by it nor, later, by its JVM."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from stormwright.errors import NotLeadingError
from stormwright.model import Supervisor
from stormwright.schedulers import make_scheduler
from stormwright.service.http.app import NimbusRequests
from stormwright.service.leader_election.leadership import LeaderOnlyNimbus
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway
from tests.service.leader_election.test_processes import QUESTION

#: A gateway that writes down what it is asked, and answers with nothing.
NOTING = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps([request["call"], request.get("not_after_ns")]) + chr(10))
    print(json.dumps({"id": request["id"], "result": {}}), flush=True)
"""

SUPERVISOR = Supervisor("s", "host", (6700,), 1e9)


def change(nimbus: Any) -> None:
    nimbus.activate("t")
    nimbus.deactivate("t")
    nimbus.rebalance("t", 0)
    nimbus.release("t-1", SUPERVISOR)


def test_mutating_nimbus_calls_carry_an_epoch(tmp_path: Path) -> None:
    calls_file = tmp_path / "told"
    with NimbusGateway([sys.executable, "-c", NOTING, str(calls_file)], lambda: 7) as nimbus:
        nimbus.cluster()
        change(nimbus)
        nimbus.kill("t", 0)
    calls = [json.loads(line) for line in calls_file.read_text().splitlines()]
    assert calls == [
        ["cluster", None],
        *([each, 7] for each in ("activate", "deactivate", "rebalance", "release", "kill")),
    ]


class Nimbus:
    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.called.append(name)


def test_former_leader_reads_but_changes_nothing() -> None:
    nimbus, leads = Nimbus(), threading.Event()

    def require() -> None:
        if not leads.is_set():
            raise NotLeadingError("another one leads")

    fenced = LeaderOnlyNimbus(cast(Any, nimbus), require)
    for changes in (fenced.activate, fenced.deactivate):
        with pytest.raises(NotLeadingError):
            changes("t")
    with pytest.raises(NotLeadingError):
        fenced.rebalance("t", 0)
    with pytest.raises(NotLeadingError):
        fenced.release("t-1", SUPERVISOR)
    fenced.cluster()
    assert nimbus.called == ["cluster"]
    leads.set()
    change(fenced)
    assert nimbus.called[1:] == ["activate", "deactivate", "rebalance", "release"]


def test_placement_answer_contains_epoch_and_is_refused_after_lost_leadership() -> None:
    epochs: list[int | None] = [None, None, 7, 7, 7]

    def leads() -> int | None:
        if not epochs:
            raise NotLeadingError("another one leads")
        return epochs.pop(0)

    questions = NimbusRequests(Bridge(make_scheduler("even"), "even", leads=leads))
    question = json.dumps(QUESTION).encode()
    alone, leading, after = (questions.answer_now(question, 0.0) for _ in range(3))
    assert (alone[0], "epoch" in json.loads(alone[1])) == (200, False)
    assert (leading[0], json.loads(leading[1])["epoch"]) == (200, 7)
    assert after[0] == 503, "it was overtaken while it decided"
