"""Nodes that are drained: nothing new comes to them, what runs there leaves in a plan, and drains are stored."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from stormwright.client.shapes import DrainRequest, ModesChange
from stormwright.errors import ConflictError, NotFoundError
from stormwright.model import Problem
from stormwright.plans.plan import Plan
from stormwright.schedulers import make_scheduler
from stormwright.storm.bridge import Bridge
from tests.controller.builders import on, problem, topology
from tests.service.plans.nimbus import ANNA, Nimbus, settled

DRAIN = DrainRequest(by="anna", reason="new disks")


def cluster(nodes: int = 4) -> Problem:
    """Two topologies on the first two nodes; all others are free."""
    topologies = [topology("a"), topology("b")]
    place = on("n0", "n1")
    other = replace(place, slots=tuple(slot._replace(port=6701) for slot in place.slots))
    return problem(topologies, nodes=nodes, current={"a-1-0": place, "b-1-0": other})


@pytest.fixture
def nimbus(tmp_path: Path) -> Iterator[Nimbus]:
    made = Nimbus(tmp_path, cluster())
    yield made
    made.end()


def hosts(nimbus: Nimbus) -> set[str]:
    return {slot.supervisor for placement in nimbus.runs.values() for slot in placement.slots}


def begun(nimbus: Nimbus, plan: str) -> Plan:
    """A plan that begins unattended, once it has."""
    until = time.monotonic() + 30
    while (found := settled(nimbus, plan)).auto_apply:
        assert time.monotonic() < until
        time.sleep(0.001)
    return found


def drained(nimbus: Nimbus, node: str = "host0", request: DrainRequest = DRAIN) -> Plan:
    plan = nimbus.plan_service.nodes.drain(node, request).plan
    assert plan is not None
    begun(nimbus, plan.id)
    nimbus.run()
    return nimbus.plan_service.plan(plan.id)


def test_simultaneous_drains_of_one_node_make_one_plan(nimbus: Nimbus) -> None:
    drain = nimbus.plan_service.nodes.drain
    with ThreadPoolExecutor(6) as pool:
        made = [each.plan.id for each in pool.map(lambda _: drain("host0", DRAIN), range(6)) if each.plan]
    assert len(made) == 6
    assert len(set(made)) == 1
    begun(nimbus, made[0])
    assert len([each for each in nimbus.plan_service.plans().plans if each.origin == "drain"]) == 1
    nimbus.run()
    assert nimbus.plan_service.plan(made[0]).state == "done"


def test_drain_before_made_plan_has_begun_refers_to_it(nimbus: Nimbus, monkeypatch: pytest.MonkeyPatch) -> None:
    made, begin = Event(), Event()
    before_moving = nimbus.guard.holds.before_moving

    def wait() -> object:
        made.set()
        assert begin.wait(30)
        return before_moving()

    monkeypatch.setattr(nimbus.guard.holds, "before_moving", wait)
    plan = nimbus.plan_service.nodes.drain("host0", DRAIN).plan
    assert made.wait(30)
    again = nimbus.plan_service.nodes.drain("host0", DRAIN).plan
    begin.set()
    assert plan is not None
    assert again is not None
    assert (again.id, again.state) == (plan.id, "planned")
    begun(nimbus, plan.id)


def test_drain_moves_executors_in_steps_and_revert_restores_them(nimbus: Nimbus) -> None:
    before = nimbus.where()
    plan = drained(nimbus)
    assert (plan.state, plan.stages, plan.reason) == ("done", 2, "host0 is drained: new disks")
    assert "n0" not in hosts(nimbus)
    # Workers that were elsewhere have not moved.
    assert all("n1:" in str(slots[2]) for slots in nimbus.where().values())
    (entry,) = nimbus.plan_service.nodes.drained().drained
    assert (entry.host, entry.nodes, entry.workers, entry.plan) == ("host0", ("n0",), 0, plan.id)
    assert plan.decision is not None
    refused = begun(nimbus, nimbus.plan_service.revert(plan.decision, ANNA).id)
    assert refused.state == "failed"
    assert "host0: is cordoned: `stormwright uncordon` it first" in refused.why
    nimbus.plan_service.nodes.uncordon("n0", ANNA)
    begun(nimbus, nimbus.plan_service.revert(plan.decision, ANNA).id)
    nimbus.run()
    assert nimbus.where() == before
    kinds = [each.kind for each in nimbus.plan_service.history().entries]
    assert kinds == ["rollback", "uncordon", "drain", "cordon"]


def test_cordon_survives_restart(nimbus: Nimbus) -> None:
    nimbus.plan_service.nodes.drain("n0", DrainRequest(by="anna", reason="new disks", only_cordon=True))
    nimbus.again()
    assert nimbus.guard.drains.hosts == {"host0"}
    assert not nimbus.now().node_usable[0]
    nimbus.plan_service.nodes.uncordon("host0", ANNA)
    nimbus.again()
    assert nimbus.guard.drains.hosts == set()
    assert nimbus.now().node_usable.all()


@pytest.mark.slow
def test_drain_resumes_after_service_is_killed(tmp_path: Path) -> None:
    plain = Nimbus(tmp_path, cluster())
    drained(plain)
    last = plain.ticks
    plain.end()
    for moment in range(0, last, 3):
        directory = tmp_path / str(moment)
        directory.mkdir()
        nimbus = Nimbus(directory, cluster())
        plan = nimbus.plan_service.nodes.drain("host0", DrainRequest(by="anna", reason="disks", wait=True)).plan
        assert plan is not None
        settled(nimbus, plan.id)
        nimbus.until_killed = moment
        nimbus.requested(lambda plan=plan, nimbus=nimbus: nimbus.plan_service.apply(plan.id, ANNA))
        nimbus.run()
        nimbus.until_killed = None
        assert nimbus.paused == set()
        assert nimbus.guard.drains.hosts == {"host0"}
        nimbus.end()


def test_cordoned_node_gets_no_new_placements(nimbus: Nimbus) -> None:
    nimbus.plan_service.nodes.drain("host2", DrainRequest(by="anna", reason="new disks", only_cordon=True))
    for name, later in (("even", {"n2", "n3"}), ("online", {"n2"})):
        bridge = Bridge(make_scheduler(name), name, shown=nimbus.guard.drains.on)
        new = topology("new")
        question = replace(cluster(), topologies=(*cluster().topologies, new))
        answer = bridge.answer(question)
        assert {slot.supervisor for slot in answer.assignments[new.id].slots} == {"n3"}
        # What Nimbus showed is not changed by it.
        snapshot = bridge.snapshot()
        assert snapshot is not None
        assert snapshot.node_usable.all()
        nimbus.guard.drains.uncordon("host2")
        again = replace(question, current=dict(question.current))
        assert {slot.supervisor for slot in bridge.answer(again).assignments[new.id].slots} == later
        nimbus.guard.drains.drain("host2", ["n2"], "anna", "new disks")


def test_invalid_drain_requests_are_rejected(nimbus: Nimbus) -> None:
    with pytest.raises(NotFoundError, match=r"there is no node hosd3; did you mean host3\?"):
        nimbus.plan_service.nodes.drain("hosd3", DRAIN)
    with pytest.raises(NotFoundError, match="there is no node x; known: host0, host1, host2, …"):
        nimbus.plan_service.nodes.drain("x", DRAIN)
    with pytest.raises(NotFoundError, match="host1 is not drained; no node is"):
        nimbus.plan_service.nodes.uncordon("host1", ANNA)
    for host in ("host0", "host1", "host2"):
        nimbus.plan_service.nodes.drain(host, DrainRequest(by="anna", reason="new disks", only_cordon=True))
    with pytest.raises(ConflictError, match="host3 is the last schedulable node"):
        nimbus.plan_service.nodes.drain("host3", DRAIN)


def test_drain_without_room_elsewhere_reports_stuck_topologies(tmp_path: Path) -> None:
    nimbus = Nimbus(tmp_path, cluster(nodes=2))
    plan = drained(nimbus)
    assert plan.state == "failed"
    assert "nothing can leave host0: a: no room elsewhere for 2 executors" in plan.why
    assert nimbus.guard.drains.hosts == {"host0"}
    nimbus.end()


def test_a_drain_waits_for_a_second_person_where_two_are_wanted(nimbus: Nimbus) -> None:
    nimbus.plan_service.change_modes(ModesChange(by="anna", reason="rules", two_people=True))
    plan = drained(nimbus)
    assert (plan.state, plan.why) == ("planned", "anna has requested it: another person has to apply it")
    nimbus.plan_service.apply(plan.id, ANNA.model_copy(update={"by": "ben"}))
    nimbus.run()
    assert "n0" not in hosts(nimbus)


def test_unstarted_drain_plan_is_discarded_on_uncordon(nimbus: Nimbus) -> None:
    waits = DrainRequest(by="anna", reason="new disks", wait=True)
    first, other = (nimbus.plan_service.nodes.drain(host, waits).plan for host in ("host0", "host1"))
    assert first is not None
    assert other is not None
    assert settled(nimbus, first.id).state == settled(nimbus, other.id).state == "planned"
    nimbus.plan_service.nodes.uncordon("host0", ANNA)
    found = nimbus.plan_service.plan(first.id)
    assert (found.state, found.why) == ("discarded", f"anna uncordoned host0: {ANNA.reason}")
    assert nimbus.plan_service.plan(other.id).state == "planned", "that of another node stays"


def test_running_drain_plan_stops_on_uncordon(nimbus: Nimbus) -> None:
    plan = nimbus.plan_service.nodes.drain("host0", DrainRequest(by="anna", reason="disks", wait=True)).plan
    assert plan is not None
    settled(nimbus, plan.id)
    nimbus.plan_service.apply(plan.id, ANNA)
    nimbus.plan_service.nodes.uncordon("host0", ANNA)
    nimbus.run()
    found = nimbus.plan_service.plan(plan.id)
    expected = "the cluster has changed: node host0 is schedulable now, and was not when the plan was made"
    assert (found.state, found.why) == ("stopped", expected)
    assert nimbus.plan_service.discard(plan.id, ANNA).state == "discarded"


def test_drained_view_of_problem_is_cached(nimbus: Nimbus) -> None:
    drains = nimbus.guard.drains
    drains.drain("host0", ["n0"], "anna", "new disks")
    one = cluster()
    first = drains.on(one)
    assert drains.on(one) is first
    assert first.blacklisted_hosts == {"host0"}
    assert re.fullmatch(r"drained by anna since \d{4}-\d\d-\d\d \d\d:\d\d UTC", first.drained["host0"])
    assert drains.on(first) is first
    second = drains.on(one.with_current({}))
    assert second.cluster is first.cluster
    assert np.array_equal(second.node_usable, [False, True, True, True])


def test_recovered_node_is_used_again_at_once(nimbus: Nimbus) -> None:
    """A node that Nimbus does not show is no part of any answer, and one that it shows again is of the next."""
    new, whole = topology("new"), cluster(nodes=3)
    bridge = Bridge(make_scheduler("online"), "online", shown=nimbus.guard.drains.on)
    back = replace(whole, topologies=(*whole.topologies, new))
    assert new.id not in bridge.answer(replace(back, supervisors=whole.supervisors[:2])).assignments
    assert {slot.supervisor for slot in bridge.answer(back).assignments[new.id].slots} == {"n2"}
