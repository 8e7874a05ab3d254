"""Who may not is refused: every way to ask, by every role and by who has none, from outside this machine."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import orjson
import pytest
from starlette.routing import Route

from stormwright.service.auth import middleware
from stormwright.service.auth.middleware import TokenBucket
from stormwright.service.auth.roles import Role
from stormwright.service.auth.tokens import FILE, Tokens
from tests.service.auth.guarded import Guarded, guarded, until

#: What is open to everybody, what is Nimbus's and the probes', and what is done with the plans of others.
OPEN = {("GET", "/assets/{name}"), ("GET", "/login"), ("POST", "/login"), ("GET", "/v1/health")}
OF_BRIDGE = {("POST", "/v1/schedule"): {"bridge"}, ("POST", "/v1/perflog"): {"bridge", "probe"}}
OF_APPROVERS = {("POST", f"/v1/plans/{{plan}}/{does}") for does in ("apply", "stop", "resume", "discard")} | {
    ("PUT", "/v1/modes"),
    ("POST", "/plans/{plan}/{button}"),
    ("POST", "/logout"),
}
OF_ALL = {("POST", "/logout")}

#: Where a stream without an end begins.
LIVE = "/live"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("state")) as found:
        found.door.failures = TokenBucket(10**9, 1e-9)
        found.door.costly = TokenBucket(10**9, 1e-9)
        yield found


def routes(service: Guarded) -> list[tuple[str, str]]:
    found = [each for each in service.app.routes if isinstance(each, Route)]
    assert len(found) == len(service.app.routes)
    return sorted((method, each.path) for each in found for method in each.methods or () if method != "HEAD")


def roles_of(method: str, path: str) -> set[str]:
    """Who may, written down here once more."""
    if (method, path) in OF_BRIDGE:
        return OF_BRIDGE[method, path]
    if method == "GET" or (method, path) in OF_ALL:
        return {"viewer", "operator", "approver"}
    return {"operator", "approver"} if (method, path) in OF_APPROVERS else {"operator"}


def named(path: str) -> str:
    """A path of this shape, of which there is nothing."""
    return re.sub(r"\{button\}", "apply", re.sub(r"\{n\}", "7", re.sub(r"\{(?!button|n\})\w+\}", "none", path)))


@pytest.mark.long
def test_every_endpoint_rejects_missing_or_invalid_tokens(service: Guarded) -> None:
    now_s = time.time()
    tokens = Tokens(service.directory / FILE, lambda: now_s)
    expired = tokens.create("late", "operator", round(now_s * 1000) - 1)
    revoked = tokens.create("gone", "operator")
    tokens.revoke("gone")
    service.look_again()
    good = service.secrets["operator"]
    wrong = [None, "", expired, revoked, "stormwright_" + "A" * 43, good[:-1], good + "x", good.swapcase(), "é"]
    requests = 0
    for method, path in routes(service):
        if (method, path) in OPEN:
            continue
        for token in wrong:
            status, headers, body = service.ask(method, named(path), token, b"{}" if method != "GET" else None)
            assert (status, set(orjson.loads(body))) == (401, {"error"}), (method, path, token)
            assert headers["www-authenticate"] == "Bearer"
            assert good not in body.decode()
            requests += 1
    assert requests > 250
    assert service.delivered == []


@pytest.mark.long
def test_each_role_is_limited_to_its_permissions(service: Guarded) -> None:
    for method, path in routes(service):
        if (method, path) in OPEN or path == LIVE:
            continue
        for role in get_args(Role):
            status, _, body = service.as_role(role, method, named(path), b"" if method != "GET" else None)
            if role in roles_of(method, path):
                assert status not in (401, 429), (method, path, role, body)
                assert status != 403 or b"two_people" in body, (method, path, role, body)
            else:
                assert status == 403, (method, path, role, status)
                assert role in orjson.loads(body)["error"]
    assert service.delivered == [b"", b""]
    service.delivered.clear()


def test_unknown_paths_are_refused_like_existing_ones(service: Guarded) -> None:
    for method, path in (
        ("GET", "/none"),
        ("POST", "/v1/none"),
        ("DELETE", "/v1/plans"),
        ("GET", "/assets/../v1/status"),
    ):
        assert service.ask(method, path)[0] == 401, path
    for path in ("/v1/perflog/", "//v1/perflog", "/v1/./perflog", "/v1/%70erflog", "/V1/PERFLOG"):
        assert service.ask("POST", path, body=b"{}\n")[0] == 401
    assert service.delivered == []


def test_a_delivery_on_its_short_way_is_let_in_by_its_token_only(service: Guarded) -> None:
    assert service.ask("POST", "/v1/perflog", None, b"no\n")[0] == 401
    assert service.as_role("operator", "POST", "/v1/perflog", b"no\n")[0] == 403
    assert service.as_role("bridge", "POST", "/v1/perflog", b"no\n", origin="http://evil.example")[0] == 403
    assert service.delivered == []
    assert service.as_role("bridge", "POST", "/v1/perflog", b"yes\n")[0] == 204
    assert service.as_role("probe", "POST", "/v1/perflog", b"too\n")[0] == 204
    assert service.delivered == [b"yes\n", b"too\n"]
    service.delivered.clear()


def test_anonymous_requests_access_only_health_and_login(service: Guarded) -> None:
    assert service.ask("GET", "/v1/health")[::2] == (200, b'{"ok":true}')
    status, _, body = service.ask("GET", "/login", accept="text/html")
    assert status == 200
    assert b"observe" not in body
    assert service.ask("GET", "/plans?state=planned", accept="text/html")[:1] == (303,)
    assert service.ask("GET", "/plans?page=2", accept="text/html")[1]["location"] == "/login?next=%2Fplans%3Fpage%3D2"


def test_token_is_valid_from_creation_until_revocation(service: Guarded) -> None:
    tokens = Tokens(service.directory / FILE)
    secret = tokens.create("guest", "viewer")
    service.look_again()
    assert service.ask("GET", "/v1/modes", secret)[0] == 200
    tokens.revoke("guest")
    service.look_again()
    assert service.ask("GET", "/v1/modes", secret)[0] == 401
    again = tokens.create("guest", "viewer")
    service.look_again()
    assert service.ask("GET", "/v1/modes", secret)[0] == 401
    assert service.ask("GET", "/v1/modes", again)[0] == 200


def test_plan_author_is_the_token_name(service: Guarded) -> None:
    status, _, body = service.as_role("operator", "POST", "/v1/plans", {"reason": "a look", "by": "root"})
    assert status == 202
    assert orjson.loads(body)["by"] == "operator"
    status, _, body = service.as_role("operator", "POST", "/v1/plans", {"reason": "a look"})
    assert (status, orjson.loads(body)["by"]) == (202, "operator")
    assert service.as_role("operator", "POST", "/v1/plans", [1])[0] == 400
    assert service.as_role("operator", "POST", "/v1/plans", b"{")[0] == 400


def test_two_people_are_two_tokens(service: Guarded) -> None:
    tokens = Tokens(service.directory / FILE)
    other = tokens.create("berta", "operator")
    service.look_again()
    modes = {"default": "observe", "reason": "a rule", "two_people": True}
    assert service.as_role("operator", "PUT", "/v1/modes", modes)[0] == 200
    plan = orjson.loads(service.as_role("operator", "POST", "/v1/plans", {"reason": "x"})[2])["id"]
    until(lambda: service.nimbus.plan_service.plan(plan).state == "planned")
    apply = f"/v1/plans/{plan}/apply"
    status, _, body = service.as_role("operator", "POST", apply, {"reason": "my own", "by": "berta"})
    assert (status, "another person" in orjson.loads(body)["error"]) == (409, True)
    # Whoever is bound by the rule does not end it, and who may end it changes nothing else.
    assert service.as_role("operator", "PUT", "/v1/modes", modes | {"two_people": False})[0] == 403
    assert service.as_role("approver", "PUT", "/v1/modes", modes | {"default": "auto"})[0] == 403
    assert service.ask("POST", apply, other, {"reason": "seen"})[0] == 202
    assert service.as_role("approver", "PUT", "/v1/modes", modes | {"two_people": False})[0] == 200


def test_changes_and_refusals_are_noted_and_secrets_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    with guarded(tmp_path) as service:
        secret = service.secrets["operator"]
        service.as_role("operator", "POST", "/v1/plans", {"reason": "before the sale"})
        service.as_role("viewer", "POST", "/v1/plans", {"reason": "mine"})
        service.as_role("viewer", "GET", "/v1/modes")
        service.ask("GET", "/v1/modes", secret + "x", x_more=f"Bearer {secret}")
        service.ask("GET", f"/v1/modes?token={secret}", secret)
        service.ask("POST", "/login", body=f"token={secret}".encode())
        service.ask("POST", "/login", body=f"token={secret}1&next=/plans".encode())
        noted = service.noted()
    entries = [(each["what"], each["who"], each["role"], each["status"]) for each in reversed(noted)]
    assert entries == [
        ("POST /v1/plans", "operator", "operator", 202),
        ("POST /v1/plans", "viewer", "viewer", 403),
        ("GET /v1/modes", "", "", 401),
        ("log in", "operator", "operator", 303),
        ("log in", "", "", 401),
    ]
    assert {each["from"] for each in noted} == {"127.0.0.1"} or {each["from"] for each in noted} == {"127.0.0.2"}
    assert noted[-1]["reason"] == "before the sale"
    logged = [str(record.__dict__) for record in caplog.records]
    files = [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    for text in (*logged, *files, *capfd.readouterr()):
        for one in service.secrets.values():
            assert one not in text


@pytest.mark.long
def test_token_guessing_is_throttled_without_blocking_valid_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "FAILURE_S", 3600.0)
    with guarded(tmp_path) as service:
        found = [service.ask("GET", "/v1/modes", f"guess-{n}") for n in range(middleware.FAILURES + 5)]
        assert [each[0] for each in found] == [401] * middleware.FAILURES + [429] * 5
        assert int(found[-1][1]["retry-after"]) > 1000
        assert service.ask("POST", "/login", body=b"token=x")[0] == 429
        assert service.as_role("viewer", "GET", "/v1/modes")[0] == 200
        assert service.ask("GET", "/v1/modes")[0] == 401
        assert len(service.noted()) == middleware.FAILURES + 1


def test_costly_requests_are_rate_limited_per_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "COSTLY", 3)
    monkeypatch.setattr(middleware, "COSTLY_S", 3600.0)
    with guarded(tmp_path) as service:
        found = [service.as_role("viewer", "GET", "/v1/problem")[0] for _ in range(5)]
        assert found == [200, 200, 200, 429, 429]
        assert service.as_role("operator", "GET", "/v1/problem")[0] == 200
        assert service.as_role("viewer", "GET", "/v1/modes")[0] == 200
