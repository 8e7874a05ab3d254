"""``stormwright token``, and what else of the command line has to do with who asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stormwright.service.auth.tokens import FILE, Tokens
from stormwright.service.storage.database import FILE as DATABASE
from tests.service.auth.guarded import guarded


@pytest.fixture(autouse=True)
def without_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORMWRIGHT_TOKEN", raising=False)
    monkeypatch.delenv("STORMWRIGHT_TOKEN_FILE", raising=False)


def test_a_token_is_made_listed_and_revoked(run: Any, tmp_path: Path) -> None:
    code, secret, _ = run("token", "create", "anna", "--role", "operator", "--expires", 90, "--state", tmp_path)
    assert code == 0
    assert Tokens(tmp_path / FILE).find_token(secret.strip())
    code, out, _ = run("token", "list", "--state", tmp_path)
    assert code == 0
    assert "anna" in out
    assert secret.strip() not in out
    (one,) = json.loads(run("token", "list", "--tokens", tmp_path / FILE, "--json")[1])["tokens"]
    assert (one["name"], one["role"], one["ended"]) == ("anna", "operator", "")
    assert one["expires_ms"] - one["created_ms"] == pytest.approx(90 * 86_400_000, abs=10_000)
    assert "digest" not in one
    assert run("token", "create", "anna", "--role", "viewer", "--state", tmp_path)[0] == 2
    assert run("token", "revoke", "anna", "--state", tmp_path)[:2] == (0, "the token of anna is revoked\n")
    code, _, err = run("token", "revoke", "anna", "--state", tmp_path)
    assert (code, "no token of anna" in err) == (2, True)
    noted = (tmp_path / "audit.jsonl").read_text(encoding="utf-8")
    assert [json.loads(line)["what"] for line in noted.splitlines()] == [
        "token create anna --role operator",
        "token revoke anna",
    ]


def test_token_json_matches_stored_tokens(run: Any, tmp_path: Path) -> None:
    made = json.loads(run("token", "create", "anna", "--role", "viewer", "--state", tmp_path, "--json")[1])
    assert Tokens(tmp_path / FILE).find_token(made.pop("token"))
    (listed,) = json.loads(run("token", "list", "--state", tmp_path, "--json")[1])["tokens"]
    assert made == listed
    ended = json.loads(run("token", "revoke", "anna", "--state", tmp_path, "--json")[1])
    assert ended == json.loads(run("token", "list", "--state", tmp_path, "--json")[1])["tokens"][0]
    assert (ended["name"], ended["ended"]) == ("anna", "revoked")


def test_token_list_names_missing_options_and_next_command(run: Any, tmp_path: Path) -> None:
    code, _, err = run("token", "list")
    assert (code, "--state" in err) == (2, True)
    (tmp_path / FILE).write_bytes(b"{")
    code, _, err = run("token", "list", "--state", tmp_path)
    assert (code, FILE in err, "Traceback" in err) == (2, True, False)
    new = tmp_path / "new"
    new.mkdir()
    message = f"there is no token yet: `stormwright token create NAME --role operator --state {new}` makes one\n"
    assert run("token", "list", "--state", new)[:2] == (0, message)


def test_token_commands_reject_missing_directory(run: Any, tmp_path: Path) -> None:
    slip, deep = tmp_path / "slip", tmp_path / "slip" / "deep"
    for verb in (("list",), ("list", "--json"), ("revoke", "anna")):
        code, _, err = run("token", *verb, "--state", slip)
        assert (code, f"--state: there is no directory {slip}\n" in err) == (2, True)
    code, _, err = run("token", "create", "anna", "--role", "viewer", "--tokens", deep / "tokens.json")
    assert (code, f"--tokens: there is no directory {slip}: make it first" in err) == (2, True)
    assert not slip.exists()
    assert run("token", "create", "anna", "--role", "viewer", "--state", slip)[0] == 0, "before a service first starts"


def test_commands_send_configured_token(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with guarded(tmp_path) as service:
        address = f"http://{service.host}:{service.port}"
        code, _, err = run("mode", "--service", address)
        assert (code, "STORMWRIGHT_TOKEN" in err) == (2, True)
        file = tmp_path / "token"
        file.write_text(service.secrets["viewer"] + "\n", encoding="utf-8")
        assert run("mode", "--service", address, "--token-file", file)[:2] == (0, "mode observe\n")
        code, _, err = run("mode", "auto", "--service", address, "--token-file", file)
        assert (code, "viewer is a viewer: only an approver or an operator may do this" in err) == (2, True)
        monkeypatch.setenv("STORMWRIGHT_TOKEN", service.secrets["operator"])
        assert run("mode", "suggest", "--service", address, "--by", "root")[0] == 0
        assert service.nimbus.plan_service.history(1).entries[0].who == "operator"
        assert run("history", "--service", address)[0] == 0
        code, out, _ = run("doctor", "--service", address, "--json", "--storm-home", tmp_path)
        found = {each["check"]: each["verdict"] for each in json.loads(out)["checks"]}
        assert found["service reached"] == "ok"
        monkeypatch.setenv("STORMWRIGHT_TOKEN_FILE", str(file))
        assert run("mode", "auto", "--service", address)[0] == 2, "the file goes before"


def test_changes_and_refusals_are_listed(run: Any, tmp_path: Path) -> None:
    with guarded(tmp_path) as service:
        service.as_role("operator", "POST", "/v1/plans", {"reason": "before the sale"})
        service.as_role("viewer", "POST", "/v1/plans", {"reason": "mine"})
    with (tmp_path / "audit.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"at": "cut off')
    code, out, _ = run("history", "--audit", tmp_path)
    assert code == 0
    assert [text in out for text in ("before the sale", "operator", "127.0.0", "viewer is a viewer", "403")] == [
        True
    ] * 5
    found = json.loads(run("history", "--audit", tmp_path, "--json", "--limit", 1)[1])["audit"]
    assert [(each["who"], each["status"]) for each in found] == [("viewer", 403)]
    assert run("history", "--audit", tmp_path / "none")[0] == 2
    (tmp_path / "new").mkdir()
    code, _, err = run("history", "--audit", tmp_path / "new", "--json")
    assert (code, "is no state directory of a service" in err) == (2, True)
    (tmp_path / "new" / DATABASE).touch()
    assert run("history", "--audit", tmp_path / "new", "--json")[0] == 0


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff", b"two words", "tök".encode(), None])
def test_token_file_without_token_is_rejected(run: Any, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    code, _, err = run("mode", "--token-file", file)
    assert code == 2
    assert "token" in err
    assert "Traceback" not in err


def test_doctor_reports_token_unreadable_by_nimbus(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STORM_CONF_DIR", raising=False)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "storm.yaml").write_text(f"stormwright.token.file: {tmp_path}/none\n", encoding="utf-8")
    _, out, _ = run("doctor", "--storm-home", tmp_path, "--service", "http://127.0.0.1:1", "--json")
    (found,) = [each for each in json.loads(out)["checks"] if each["check"] == "credentials of Nimbus"]
    assert (found["verdict"], found["text"]) == (
        "wrong",
        f"stormwright.token.file {tmp_path}/none: No such file or directory",
    )
