"""Whatever the API's own description allows, and much that it does not, is answered; never with a status of 500 on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stormwright.service.auth.middleware import TokenBucket
from tests.service.auth.guarded import guarded


@pytest.mark.slow
def test_everything_is_answered(tmp_path: Path) -> None:
    with guarded(tmp_path) as service:
        service.door.failures = service.door.costly = TokenBucket(10**9, 1e-9)
        # In a process of its own: it changes what Hypothesis says of all that fails in the same one.
        program = Path(sys.executable).with_name("schemathesis")
        done = subprocess.run(
            [
                *(program, "run", f"http://{service.host}:{service.port}/v1/openapi.json", "--no-color"),
                *("--header", f"Authorization: Bearer {service.secrets['operator']}"),
                *("--checks", "not_a_server_error,status_code_conformance", "--mode", "all", "--max-examples", "10"),
                *("--generation-database", "none"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9]\d* generated", done.stdout), done.stdout
