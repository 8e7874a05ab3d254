"""Both twins: compiled functions, and the same as plain Python in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def plainly(module: str, function: str, *arguments: object) -> object:
    """What a function of a test's module returns, everything being plain Python."""
    code = (
        f"import json, sys, numpy; numpy.seterr(over='ignore'); from {module} import {function}\n"
        f"print(json.dumps({function}(*json.loads(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(arguments)],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
