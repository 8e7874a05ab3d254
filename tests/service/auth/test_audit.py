"""The audit log on disk: bounded, whole lines, and a disk that is full stops no request."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import pytest

from stormwright.service.auth import audit
from stormwright.service.auth.audit import Audit, audit_files, audit_lines
from stormwright.service.auth.middleware import MAX_REMEMBERED, TokenBucket


def test_audit_log_retains_newest_entries_within_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_BYTES", 1000)
    path = tmp_path / "audit.jsonl"
    log = Audit(path)
    for n in range(500):
        log.note("try", n=n)
    assert len(audit_files(path)) == audit.MAX_FILES + 1
    assert all(each.stat().st_size < 1200 for each in audit_files(path))
    found = [each["n"] for each in audit_lines(path)]
    assert found == list(range(499, 499 - len(found), -1))
    assert len(found) > 80
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_of_several_writers_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    def write(who: str) -> None:
        log = Audit(path)
        for n in range(200):
            log.note("x" * 300, who=who, n=n)

    threads = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert sorted((each["who"], each["n"]) for each in lines) == [(f"w{w}", n) for w in range(4) for n in range(200)]


def test_refused_requests_cannot_forge_or_flood_audit_log(tmp_path: Path) -> None:
    log = Audit(tmp_path / "audit.jsonl")
    log.note('GET /a\n{"who": "root"}\x1b[2J\ud800' + "x" * 100_000, who="é")
    (line,) = (tmp_path / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(line) < 1000
    assert json.loads(line)["who"] == "é"


def test_unwritable_audit_log_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Audit(tmp_path / "none" / "audit.jsonl")
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            log.note("try")
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "cannot be noted" in caplog.text


def test_request_rate_is_limited_per_name_in_bounded_memory() -> None:
    now_s = [0.0]
    rate = TokenBucket(3, 2.0, lambda: now_s[0])
    assert [rate.wait_s("a") for _ in range(4)] == [0, 0, 0, 2.0]
    assert rate.wait_s("b") == 0
    now_s[0] = 2.0
    assert [rate.wait_s("a") for _ in range(2)] == [0, 2.0]
    now_s[0] = 1000.0
    assert [rate.wait_s("a") for _ in range(4)] == [0, 0, 0, 2.0]
    for n in range(2 * MAX_REMEMBERED):
        rate.wait_s(str(n))
    assert len(rate._left) == MAX_REMEMBERED  # noqa: SLF001 (memory is what this is about)
