"""The end of the service does not wait for a plan that is being made."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

PROGRAM = """
import threading, time
from types import SimpleNamespace
from stormwright.service.plans.plan_service import PlanQueue

begun = threading.Event()
def search():
    begun.set()
    time.sleep(120)
making = PlanQueue(SimpleNamespace(), SimpleNamespace(), lambda: None)
making.submit(search)
begun.wait()
making.close()
print("over", flush=True)
"""


@pytest.mark.slow
def test_running_search_does_not_block_service_shutdown() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")
    assert time.monotonic() - began < 60
