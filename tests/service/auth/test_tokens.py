"""Tokens in their file: what is stored, what counts, and what becomes of a file that is broken."""

from __future__ import annotations

import hashlib
import json
import logging
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from stormwright.errors import ConflictError, InputError, NotFoundError, StormwrightError
from stormwright.service.auth.tokens import OWN_NAMES, PREFIX, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "state" / "tokens.json")


def test_token_file_stores_only_hashes(tokens: Tokens) -> None:
    made = [tokens.create(f"n{n}", "viewer") for n in range(20)]
    text = tokens.path.read_text(encoding="utf-8")
    assert len(set(made)) == 20
    for each in made:
        assert each.startswith(PREFIX)
        assert each not in text
        assert each.removeprefix(PREFIX) not in text
        assert hashlib.sha256(each.encode()).hexdigest() in text
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert [path.name for path in tokens.path.parent.iterdir() if "part" in path.name] == []


def test_each_name_has_one_valid_token(tokens: Tokens) -> None:
    tokens.create("anna", "viewer")
    with pytest.raises(ConflictError, match="there is a token of anna"):
        tokens.create("anna", "operator")
    tokens.revoke("anna")
    with pytest.raises(NotFoundError):
        tokens.revoke("anna")
    secret = tokens.create("anna", "operator")
    assert tokens.visitor(tokens.find_token(secret)).role == "operator"
    assert [bool(each.revoked_ms) for each in tokens.stored()] == [True, False]


@pytest.mark.parametrize("name", ["", " anna", "an na", "an\nna", "anna\n", "a" * 65, "é", "-a", *sorted(OWN_NAMES)])
def test_ambiguous_token_names_are_rejected(tokens: Tokens, name: str) -> None:
    with pytest.raises(InputError):
        tokens.create(name, "viewer")
    assert not tokens.path.exists()


def test_a_token_ends_at_its_moment(tmp_path: Path) -> None:
    now_s = [1000.0]
    tokens = Tokens(tmp_path / "tokens.json", lambda: now_s[0])
    secret = tokens.create("anna", "viewer", 1_000_000 + 5000)
    now_s[0] += 4.999
    assert tokens.visitor(tokens.find_token(secret))
    now_s[0] += 0.002
    assert tokens.visitor(tokens.find_token(secret)) is None
    assert tokens.find_token(secret).ended(now_s[0] * 1000) == "expired"


def test_missing_token_file_denies_all_and_broken_one_retains_previous_tokens(
    tokens: Tokens, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tokens.create("anna", "viewer")
    good = tokens.path.read_bytes()
    for bad in (b"", b"{", b"[]", b'{"tokens": [{}]}', good.replace(b"viewer", b"king"), b"\xff"):
        tokens.path.write_bytes(bad)
        with caplog.at_level(logging.ERROR):
            tokens.look()
        assert "tokens stay as they were" in caplog.text
        assert tokens.visitor(tokens.find_token(secret))
        with pytest.raises(InputError):
            tokens.create("berta", "viewer")
        assert tokens.path.read_bytes() == bad, "what cannot be read is not overwritten"
        caplog.clear()
    tokens.path.write_bytes(good)
    tokens.path.unlink()
    tokens.look()
    assert tokens.find_token(secret) is None


def test_concurrently_created_tokens_are_all_stored(tokens: Tokens) -> None:
    tokens.create("first", "viewer")
    made: list[str] = []

    def make(n: int) -> None:
        while True:
            with suppress(StormwrightError):  # somebody else is at it
                made.append(Tokens(tokens.path).create(f"n{n}", "viewer"))
                return

    threads = [threading.Thread(target=make, args=(n,)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(json.loads(tokens.path.read_text(encoding="utf-8"))["tokens"]) == 9
    tokens.look()
    assert all(tokens.find_token(each) for each in made)
