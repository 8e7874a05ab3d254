"""What the running service does when a part of it has ended."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stormwright.errors import StormwrightError
from stormwright.schedulers import make_scheduler
from stormwright.service.runtime import Runtime, RuntimeSettings


class EndedQuery:
    running = False
    error = "Spark has ended: connection refused"


def test_the_service_ends_when_spark_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could only look on while records pile up; what supervises it starts it again."""
    runtime = Runtime(RuntimeSettings(tmp_path, "127.0.0.1", 0), make_scheduler("online"), "online", [], print)
    monkeypatch.setattr(runtime._stream, "_query", EndedQuery())  # noqa: SLF001
    with pytest.raises(StormwrightError, match=r"Spark has ended: connection refused; start the service again"):
        runtime.run(threading.Event(), every_s=0)
