"""Malformed requests end nothing, and nothing of them stays. A benchmark, `malformed_requests`, sends 10,000."""

from __future__ import annotations

import gc
import logging
import random
import threading
from pathlib import Path

import pytest

from stormwright.service.auth.middleware import TokenBucket
from tests.service.auth.guarded import guarded, until
from tests.service.auth.malformed import malformed, send


def held() -> tuple[int, int]:
    """Open files and threads of this process."""
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


@pytest.mark.slow
@pytest.mark.parametrize("asks", [True, False])
def test_malformed_requests_end_nothing(asks: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(7)  # noqa: S311 (no secret)
    host = "127.0.0.2" if asks else "127.0.0.1"
    with guarded(tmp_path, host, asks=asks) as service:
        service.door.failures = service.door.costly = TokenBucket(10**9, 1e-9)
        secrets = [*service.secrets.values(), "none"]
        for _ in range(50):  # threads and caches that are made once
            send((host, service.port), malformed(rng, secrets), 0.2)
        files, threads = held()
        found = {send((host, service.port), malformed(rng, secrets), 0.2) for _ in range(400)}
        assert not {status for status in found if status >= 500}, found
        assert 400 in found
        until(lambda: held()[0] <= files + 5)
        assert held()[1] <= threads + 5
        status, _, _ = service.ask("GET", "/v1/health", host="localhost")
        assert status == 200
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []
