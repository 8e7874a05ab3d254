"""Plans, history and modes over a real socket: by the client, and by senders of any bytes."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stormwright.client import Client
from stormwright.controller.objectives.gains import inter_node_tps
from stormwright.errors import ClusterError, ConflictError, InputError, NotFoundError
from stormwright.model import Problem, cost_of
from stormwright.model.arrays import IntArray
from stormwright.plans.modes import Modes
from stormwright.schedulers import make_scheduler
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.http.api import EVERY_ENDPOINT, OVERVIEW, api_routes
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.service.plans.store import PlanStore
from stormwright.storm.bridge import Bridge
from tests.service.dashboard.sites import SERVED
from tests.service.http.test_metrics import STATUS
from tests.service.plans.nimbus import Nimbus, random_cluster, settled

HOST = "127.0.0.1"


def better() -> tuple[Problem, IntArray]:
    """A cluster, and a placement with less traffic between nodes to which several topologies move."""
    for seed in range(10_000):
        cluster, wanted = random_cluster(seed)
        now, then = (inter_node_tps(cost_of(cluster, slots)) for slots in (cluster.current_slot, wanted))
        if then < now and len(cluster.topologies) > 3:
            return cluster, wanted
    raise AssertionError


@pytest.fixture
def nimbus(tmp_path: Path) -> Iterator[Nimbus]:
    cluster, wanted = better()
    made = Nimbus(tmp_path, cluster)
    made.wants = wanted
    yield made
    made.end()


@pytest.fixture
def port(nimbus: Nimbus) -> Iterator[int]:
    with socket.socket() as free:
        free.bind((HOST, 0))
        number = free.getsockname()[1]
    bridge = Bridge(make_scheduler("even"), "even")
    with DashboardState(Sources(nimbus.look, lambda: SERVED, lambda: 4.0, dict, nimbus.plan_service)) as known:
        routes = api_routes(nimbus.plan_service, Site(known).overview)
        app = make_app(bridge, BodyRecipient(lambda _: None), lambda: STATUS, operating=routes)
        with HttpServer(app, HOST, number):
            yield number


@pytest.fixture
def client(port: int) -> Client:
    return Client(f"http://{HOST}:{port}", "anna")


@pytest.fixture
def running(nimbus: Nimbus) -> Iterator[None]:
    """The loop of a service."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.002):
            nimbus.executor.advance()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    over.set()
    thread.join()


def ended(client: Client, plan: str) -> str:
    until = time.monotonic() + 60
    while (found := client.show(plan)).state in ("planning", "planned", "applying", "evaluating", "rolling_back"):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found.state


@pytest.mark.long
def test_a_plan_is_made_applied_and_reverted(nimbus: Nimbus, client: Client, running: None) -> None:
    before = nimbus.where()
    requested = client.plan("less traffic", goals=["traffic"], least_gain_percent=0)
    plan = client.wait_until_planned(requested.id)
    assert (plan.state, plan.by, plan.reason, plan.goal) == ("planned", "anna", "less traffic", "traffic")
    assert plan.before is not None
    assert plan.after is not None
    assert plan.after.traffic_tps < plan.before.traffic_tps
    assert plan.score_after == plan.after.score
    assert {step.state for step in plan.steps} == {"planned"}
    assert all(each.pause_from.startswith("modelled") for each in plan.predictions)
    stopped = {plan.slot_name(slot).partition(":")[0] for move in plan.moves for slot in move.stopped_workers}
    assert stopped <= {node.host for node in nimbus.now().supervisors}
    client.apply(plan.id, "as agreed")
    assert ended(client, plan.id) == "done"
    done = client.show(plan.id)
    assert (done.approved_by, done.steps_completed) == ("anna", done.step_count)
    assert {each.verdict for each in done.evaluations} == {"as predicted"}
    assert nimbus.where() != before
    entry = client.history().entries[0]
    assert (entry.kind, entry.who, entry.reason, entry.plan) == (
        "person",
        "anna",
        "less traffic; as agreed",
        plan.id,
    )
    assert {move.pause_s for move in entry.moves} <= {4.0, 8.0}, "each pause takes 4 s there"
    back = client.revert(entry.n, "no")
    assert ended(client, back.id) == "done"
    assert nimbus.is_back(before)
    again = client.wait_until_planned(client.plan("once more", goals=["traffic"], least_gain_percent=0).id)
    assert {each.pause_from for each in again.predictions} == {"its own last 2 moves"}
    assert all(each.pause_s.low <= 8.0 and each.pause_s.high >= 4.0 for each in again.predictions)


def test_api_explains_placement_of_executor(nimbus: Nimbus, client: Client) -> None:
    assert client.explain().explanations == (), "all have slots"
    name = sorted(nimbus.runs)[0]
    placed = client.explain(name.partition("-")[0]).explanations
    assert placed, "of a topology with all its slots, by its name, why they are these"
    assert all(each.slot for each in placed)
    (found,) = client.explain(name, 1).explanations
    assert found.slot in {nimbus.now().cluster.slot_name(slot) for slot in nimbus.runs[name].slots}
    assert 1 in found.executors
    assert [each.cost_change for each in found.best] == sorted(each.cost_change for each in found.best)
    with pytest.raises(InputError, match="no such executor"):
        client.explain(name, 99)
    nimbus.lose(name)
    (lost,) = client.explain(name).explanations[:1]
    assert lost.slot is None
    assert "nodes: " in lost.text


def test_plan_document_is_read_from_storage_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of thousands of topologies is a megabyte, and each open page asks for the list of plans."""
    plan = client.wait_until_planned(client.plan("a look", least_gain_percent=0).id)
    assert client.show(plan.id).steps == plan.steps
    monkeypatch.setattr(PlanStore, "_read_content", lambda *_: pytest.fail("it is read again"))
    assert client.show(plan.id).steps == plan.steps
    assert [each.id for each in client.plans().plans] == [plan.id]


def test_unmatched_pattern_in_plan_request_is_reported_with_suggestion(client: Client) -> None:
    for wished, why in (
        ({"topologies": ["tt-*"]}, "tt-*: fits no topology"),
        ({"nodes": ["hots0"]}, "hots0: fits no node"),
    ):
        with pytest.raises(InputError) as caught:
            client.plan("a look", **wished)
        assert f"{why}; " in str(caught.value)
    assert str(caught.value).endswith("did you mean host0?")
    assert client.plans().plans == (), "nothing is left of it"


def test_api_rejects_impossible_plan_operations(nimbus: Nimbus, client: Client) -> None:
    with pytest.raises(NotFoundError, match="there is no plan 77"):
        client.show("77")
    for plan in ("", "../modes", "ünï", "\udcff"):
        with pytest.raises(NotFoundError, match="there is no plan"):
            client.show(plan)
    with pytest.raises(InputError, match=r"is no text in UTF-8 @ \$\.reason"):
        client.plan("\udcff")
    with pytest.raises(InputError, match=r"nope-\*: fits no topology; known: t0, t1, t2, …"):
        client.plan("a typo", topologies=["nope-*"])
    with pytest.raises(NotFoundError, match="the history has no entry 5"):
        client.revert(5, "no")
    with pytest.raises(InputError, match=r"windows\[0\]"):
        client.change_modes(Modes(windows=("whenever",)), "no")
    plan = nimbus.propose(nimbus.wants)
    client.change_modes(Modes(frozen="month end"), "accounts")
    with pytest.raises(ConflictError, match="everything is frozen: month end"):
        client.apply(plan, "now")
    assert client.discard(plan, "never").state == "discarded"
    assert [each.id for each in client.plans(["discarded"]).plans] == [plan]
    with pytest.raises(ConflictError, match=f"plan {plan} is discarded"):
        client.apply(plan, "still")


def test_modes_survive_restart_and_are_recorded_in_history(nimbus: Nimbus, client: Client) -> None:
    wanted = Modes(default="suggest", topologies={"t*": "observe"}, windows=("Mon-Fri 22:00-04:00",))
    wanted = wanted.model_copy(update={"version": 1})
    assert client.change_modes(wanted.model_copy(update={"version": 0}), "night shift") == wanted
    nimbus.again()
    assert nimbus.plan_service.modes() == wanted
    assert nimbus.plan_service.history().entries[0].reason == "night shift"


def test_history_records_freeze_and_unfreeze(client: Client) -> None:
    client.change_modes(Modes(frozen="month end"), "accounts")
    client.change_modes(Modes(), "over")
    until = Modes(frozen="the sale", frozen_until_ms=4_102_444_800_000)
    client.change_modes(until, "traffic")
    client.change_modes(Modes(two_people=True), "over")
    assert [each.text for each in client.history(4).entries] == [
        "no longer frozen; two_people: yes",
        "frozen until 2100-01-01 00:00:00 UTC: the sale",
        "no longer frozen",
        "frozen: month end",
    ]


def test_concurrent_mode_change_is_rejected_with_conflict(client: Client) -> None:
    one = other = client.modes()
    client.change_modes(one.model_copy(update={"frozen": "month end"}), "accounts")
    with pytest.raises(ConflictError, match="they are version 1, and this is a change of 0"):
        client.change_modes(other.model_copy(update={"default": "auto"}), "let it go")
    assert client.modes().frozen == "month end"
    assert client.change_modes(client.modes().model_copy(update={"default": "auto"}), "let it go").version == 2


def test_a_node_is_drained_and_uncordoned(nimbus: Nimbus, client: Client, running: None) -> None:
    begun = client.drain("host0", "new disks", wait=True)
    assert begun.plan is not None
    settled(nimbus, begun.plan.id)
    assert [each.host for each in client.drains().drained] == ["host0"]
    assert client.uncordon("n0", "done").host == "host0"
    assert client.drains().drained == ()
    with pytest.raises(NotFoundError, match="there is no node host9"):
        client.drain("host9", "new disks")


def test_client_rejects_invalid_addresses_and_reports_unreachable_service(port: int) -> None:
    for address in (
        "ftp://x",
        "http://[::1",
        "http://h/storm",
        "http://anna:secret@h",
        "http://h?x",
        "",
        "http://h:99999",
    ):
        with pytest.raises(InputError, match="should be an address"):
            Client(address, "anna")
    assert Client(f"{HOST}:{port}/", "anna").modes() == Modes()
    with pytest.raises(ClusterError, match="no service answers there"):
        Client("http://127.0.0.1:1", "anna").modes()


def ask(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_request_faults_are_reported_together_with_paths(port: int) -> None:
    code, answer = ask(port, "POST", "/v1/plans", b'{"reason": "", "goals": ["luck"], "speed": 1, "nodes": [3]}')
    assert code == 400
    assert {fault["path"] for fault in answer["faults"]} == {"$.reason", "$.by", "$.goals[0]", "$.speed", "$.nodes[0]"}
    code, answer = ask(port, "GET", "/v1/plans?lmit=3")
    assert (code, answer["faults"][0]["path"]) == (400, "$.lmit")
    assert "state, limit" in answer["error"]
    assert ask(port, "GET", "/v1/modes?x=1")[0] == 400
    code, answer = ask(port, "GET", "/v1/plans?state=lucky&limit=x")
    assert (code, answer["faults"][0]["path"]) == (400, "$.state")


def test_a_page_of_another_site_can_change_nothing(port: int, client: Client) -> None:
    change = b'{"reason": "because", "by": "mallory", "default": "auto"}'
    for headers in ({"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert ask(port, "PUT", "/v1/modes", change, **headers)[0] == 403
        assert ask(port, "POST", "/v1/plans", b'{"reason": "because", "by": "mallory"}', **headers)[0] == 403
    assert client.modes() == Modes()
    assert client.plans().plans == ()


@pytest.mark.long
def test_whatever_is_sent_nothing_breaks(port: int) -> None:
    rng = random.Random(1)  # noqa: S311 (no secret)
    parts = [b"{}", b"[]", b"null", b"", b'"x"', b"{", b"\xff\xfe", b"9" * 400, b"[" * 4000]
    parts.append(b'{"by": "a", "reason": "b"}')
    for number in range(300):
        each = rng.choice(EVERY_ENDPOINT)
        names = {"plan": rng.choice(["x", "%00", "..", "%c3"]), "n": rng.choice(["0", "-1", "9" * 30])}
        names |= {name: rng.choice(["x", "%00", "..", "host0"]) for name in ("node", "tuning")}
        path = each.path.format(**names)
        query = rng.choice(["", "?limit=-1", "?before=99999999999999999999", "?state=%ff", "?limit=0&limit=1"])
        code, answer = ask(port, each.method, path + query, rng.choice(parts) if each.takes else None)
        assert code < 500, (number, each.path, answer)
        assert "error" in answer or code < 300


def test_openapi_document_lists_all_endpoints(port: int) -> None:
    code, described = ask(port, "GET", "/v1/openapi.json")
    assert code == 200
    assert described["openapi"] == "3.1.0"
    assert {(path, method.upper()) for path, of in described["paths"].items() for method in of} == {
        (OVERVIEW, "GET"),
        *((each.path, each.method) for each in EVERY_ENDPOINT),
    }
    text = json.dumps(described)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(described["components"]["schemas"])
