"""Browsers: a token is requested once, then a cookie stands for it; no other page or client can use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import pytest

from stormwright.service.auth.sessions import COOKIE, LASTS_S, Sessions
from stormwright.service.auth.tokens import FILE, Tokens
from tests.service.auth.guarded import Answer, Guarded, guarded
from tests.service.plans.nimbus import random_cluster

HTML = {"accept": "text/html"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Guarded]:
    with guarded(tmp_path) as found:
        yield found


def sent(service: Guarded, path: str, cookie: str = "", site: str = "same-origin", **fields: str) -> Answer:
    """What is answered to a form."""
    sent_headers = HTML | {
        "cookie": cookie,
        "sec_fetch_site": site,
        "content_type": "application/x-www-form-urlencoded",
    }
    return service.ask("POST", path, body=urlencode(fields).encode(), **sent_headers)


def logged_in(service: Guarded, role: str = "operator", **fields: str) -> str:
    """What the browser sends from then on."""
    status, headers, _ = sent(service, "/login", token=service.secrets[role], **fields)
    assert status == 303
    (cookie,) = SimpleCookie(headers["set-cookie"]).values()
    assert (cookie.key, cookie["httponly"], cookie["samesite"], cookie["path"]) == (COOKIE, True, "strict", "/")
    assert service.secrets[role] not in headers["set-cookie"]
    return f"{cookie.key}={cookie.value}"


def key_in(page: bytes) -> str:
    return re.findall(r'name="key" value="([^"]+)"', page.decode())[-1]


def test_login_grants_access_to_pages_until_logout(service: Guarded) -> None:
    assert service.ask("GET", "/plans", **HTML)[1]["location"] == "/login?next=%2Fplans"
    cookie = logged_in(service)
    status, headers, page = service.ask("GET", "/plans", cookie=cookie, **HTML)
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"operator" in page
    assert b'name="by"' not in page, "who is known is not asked for his name"
    assert service.ask("GET", "/v1/modes", cookie=cookie)[0] == 200
    status, headers, _ = sent(service, "/logout", cookie, key=key_in(page))
    assert (status, headers["location"]) == (303, "/login")
    assert "Max-Age=0" in headers["set-cookie"]
    assert service.ask("GET", "/v1/modes", cookie=cookie)[0] == 401


def test_a_form_is_taken_from_a_page_of_the_same_visitor_only(service: Guarded) -> None:
    cookie, other = logged_in(service), logged_in(service, "approver")
    key = key_in(service.ask("GET", "/plans", cookie=cookie, **HTML)[2])
    foreign = key_in(service.ask("GET", "/plans", cookie=other, **HTML)[2])
    wish = {"goal": "throughput", "reason": "a look", "by": "root"}
    for wrong in ({}, {"key": ""}, {"key": foreign}, {"key": key + "x"}, {"key": "é"}):
        assert sent(service, "/plans", cookie, **wish, **wrong)[0] == 403
        assert sent(service, "/logout", cookie, **wrong)[0] == 403
    assert sent(service, "/plans", cookie, site="cross-site", key=key, **wish)[0] == 403
    assert service.nimbus.plan_service.plans().plans == ()
    assert sent(service, "/plans", cookie, key=key, **wish)[0] == 303
    (plan,) = service.nimbus.plan_service.plans().plans
    assert plan.by == "operator"
    assert service.noted()[0]["reason"] == "a look"


def test_a_cookie_changes_nothing_but_by_forms(service: Guarded) -> None:
    cookie = logged_in(service)
    for site in ({}, {"sec_fetch_site": "same-origin"}, {"origin": f"http://{service.host}:{service.port}"}):
        assert service.ask("POST", "/v1/plans", body={"reason": "x", "by": "x"}, cookie=cookie, **site)[0] == 403
    assert service.nimbus.plan_service.plans().plans == ()


def test_a_session_ends_with_its_token(service: Guarded) -> None:
    cookie = logged_in(service, "viewer")
    assert service.ask("GET", "/v1/modes", cookie=cookie)[0] == 200
    Tokens(service.directory / FILE).revoke("viewer")
    service.look_again()
    assert service.ask("GET", "/v1/modes", cookie=cookie)[0] == 401
    assert service.ask("GET", "/plans", cookie=cookie, **HTML)[0] == 303


def test_login_with_invalid_credentials_is_rejected(service: Guarded) -> None:
    for token in ("", "x", service.secrets["bridge"], service.secrets["viewer"][:-1]):
        status, headers, page = sent(service, "/login", token=token)
        assert (status, "set-cookie" in headers) == (401, False)
        assert b'role="alert"' in page
    for cookie in ("stormwright=", "stormwright=x", "stormwright", "a=b; stormwright=é", "stormwright=" + "x" * 4000):
        assert service.ask("GET", "/v1/modes", cookie=cookie.encode().decode("latin-1"))[0] == 401
    assert sent(service, "/login", site="cross-site", token=service.secrets["viewer"])[0] == 403


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    ["//evil.example/", "http://evil.example", "/\\evil.example", "", "x", "/\r\nx: y", "/" + "x" * 3000, "/é"],
)
def test_login_never_redirects_to_other_sites(service: Guarded, target: str) -> None:
    status, headers, _ = sent(service, "/login", token=service.secrets["viewer"], next=target)
    assert (status, headers["location"]) == (303, "/")
    assert b"evil" not in service.ask("GET", f"/login?{urlencode({'next': target})}", **HTML)[2]


def test_login_redirects_to_requested_page(service: Guarded) -> None:
    _, headers, _ = sent(service, "/login", token=service.secrets["viewer"], next="/history?before=3")
    assert headers["location"] == "/history?before=3"


def test_a_session_lasts_for_half_a_day(tmp_path: Path) -> None:
    now_s = [0.0]
    tokens = Tokens(tmp_path / FILE)
    secret = tokens.create("anna", "viewer")
    sessions = Sessions(tokens, lambda: now_s[0])
    token = tokens.find_token(secret)
    assert token
    value = sessions.begin(token)
    now_s[0] = LASTS_S - 1
    visitor = sessions.visitor(value)
    assert visitor
    assert visitor.name == "anna"
    assert len(visitor.form_key) > 40
    now_s[0] = LASTS_S
    assert sessions.visitor(value) is None


def test_without_authentication_only_this_machine_is_served_under_its_own_name(tmp_path: Path) -> None:
    with guarded(tmp_path, "127.0.0.1", asks=False) as service:
        for host in ("localhost", "127.0.0.1", f"localhost:{service.port}", "127.1.2.3", "[::1]:7070", "x.localhost"):
            assert service.ask("GET", "/v1/modes", host=host)[0] == 200, host
        for host in ("evil.example", f"evil.example:{service.port}", "127.0.0.1.evil.example", "", "[", "10.0.0.1"):
            assert service.ask("GET", "/v1/modes", host=host)[0] == 403, host
            assert service.ask("GET", "/", host=host, **HTML)[0] == 403, host
        assert service.ask("POST", "/v1/perflog", body=b"x\n", host="nimbus")[0] == 204, "programs name it as they like"
        assert service.ask("POST", "/v1/perflog", body=b"x\n", origin="http://evil.example")[0] == 403
        assert service.ask("POST", "/v1/schedule", body=b"{}", sec_fetch_site="cross-site")[0] == 403
        assert service.ask("GET", "/login")[0] == 404


@pytest.mark.parametrize(
    ("role", "node", "plans", "applies"), [("viewer", 0, 0, 0), ("approver", 0, 0, 1), ("operator", 1, 1, 1)]
)
def test_pages_contain_only_forms_permitted_for_role(
    service: Guarded, role: str, node: int, plans: int, applies: int
) -> None:
    plan = service.nimbus.propose(random_cluster(1)[1])
    cookie = logged_in(service, role)

    def page(path: str) -> bytes:
        status, _, body = service.ask("GET", path, cookie=cookie, **HTML)
        assert status == 200
        return body

    of_node = page(f"/cluster/nodes/{random_cluster(1)[0].supervisors[0].id}")
    assert of_node.count(b'/drain"') == node
    assert (b"This needs the role operator" in of_node) == (not node)
    assert page("/plans").count(b'action="/plans"') == plans
    assert page(f"/plans/{plan}").count(b'/apply"') == applies
