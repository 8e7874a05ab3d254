"""Who may reach a service, by its options: by default only clients on this machine."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from stormwright.cli.serve import command
from stormwright.cli.serve.access import access_of, warnings_of
from stormwright.errors import Fault
from stormwright.service.auth.settings import AccessSettings, is_loopback
from stormwright.service.auth.tokens import FILE, Tokens


@pytest.fixture
def access_with(tmp_path: Path) -> Any:
    """What `serve` gets with these options: who may reach it, what is wrong, and what it warns of."""

    def of(*options: object) -> tuple[AccessSettings, list[Fault], list[str]]:
        given = ["--storm-home", str(tmp_path), "--state", str(tmp_path / "state"), *map(str, options)]
        faults: list[Fault] = []
        with command.make_context("serve", given) as context:
            access = access_of(context.params, faults)
            return access, faults, warnings_of(context.params, access)

    return of


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_host_requires_no_authentication(access_with: Any, host: str) -> None:
    assert access_with("--host", host) == (AccessSettings(), [], [])


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "192.168.1.1", "no.such.host.invalid"])  # noqa: S104
def test_non_loopback_host_without_tokens_is_rejected(access_with: Any, host: str) -> None:
    _, (fault,), _ = access_with("--host", host)
    assert fault.path == "--host"
    assert "stormwright token create NAME" in fault.message
    assert "--without-authentication" in fault.message
    access, faults, (warning,) = access_with("--host", host, "--without-authentication")
    assert (access, faults) == (AccessSettings(), [])
    assert "every request is accepted" in warning


def test_token_advice_for_temporary_state_names_permanent_state(run: Any) -> None:
    code, _, err = run("serve", "--simulated", "ready:cluster-20", "--host", "0.0.0.0")  # noqa: S104
    assert code == 2
    fault = next(line for line in err.splitlines() if "without authentication" in line)
    assert "--role operator --tokens FILE" in fault
    assert "a permanent --state" in fault
    assert "stormwright-simulated-" not in fault


def test_non_loopback_host_with_tokens_starts_with_warning_about_missing_tls(access_with: Any, tmp_path: Path) -> None:
    file = tmp_path / "state" / FILE
    Tokens(file).create("anna", "operator")
    access, faults, (warning,) = access_with("--host", "10.0.0.5")
    assert (access, faults) == (AccessSettings(file), [])
    assert "--tls-cert" in warning
    assert access_with()[0].tokens == file, "who has made tokens is asked for one here, too"
    assert access_with("--without-authentication")[0].tokens is None
    _, (fault,), _ = access_with("--without-authentication", "--tokens", file)
    assert "contradicts" in fault.message


def test_tokens_of_which_none_counts_are_none(access_with: Any, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    _, (fault,), _ = access_with("--tokens", file)
    assert "no valid token" in fault.message
    Tokens(file).create("anna", "operator")
    Tokens(file).revoke("anna")
    assert "no valid token" in access_with("--tokens", file)[1][0].message
    file.write_bytes(b"nonsense")
    assert str(file) not in str(access_with()[1])
    assert "--tokens" in access_with("--tokens", file)[1][0].path


def test_unusable_tls_certificates_are_rejected_at_startup(access_with: Any, tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("nonsense", encoding="utf-8")
    assert [each.path for each in access_with("--tls-cert", junk)[1]] == ["--tls-cert"]
    assert "without --tls-cert and --tls-key" in access_with("--tls-client-ca", junk)[1][0].message
    assert access_with("--tls-cert", tmp_path / "no", "--tls-key", junk)[1][0].path == f"--tls-cert {tmp_path / 'no'}"
    assert access_with("--tls-cert", junk, "--tls-key", tmp_path / "no")[1][0].path == f"--tls-key {tmp_path / 'no'}"
    assert "is no certificate" in access_with("--tls-cert", junk, "--tls-key", junk)[1][0].message


def test_a_name_is_of_this_machine_where_all_its_addresses_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(*addresses: str) -> bool:
        found = [(0, 0, 0, "", (each, 0)) for each in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        return is_loopback("some.name")

    assert resolved("127.0.1.1")
    assert resolved("127.0.0.1", "::1")
    assert not resolved("127.0.0.1", "10.0.0.5")
