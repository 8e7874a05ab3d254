"""Tools that check the files of deploy/: from `make deploy-tools`, or on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "build" / "tools"

_PATH = f"{TOOLS / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"

#: JSON Schemas of Kubernetes and of the Prometheus operator, for kubeconform.
SCHEMAS = TOOLS / "schemas"

needs_schemas = pytest.mark.skipif(not SCHEMAS.is_dir(), reason="Kubernetes' schemas are missing: make deploy-tools")


def needs(name: str, remedy: str = "make deploy-tools") -> pytest.MarkDecorator:
    """Skip a test where a tool is missing.

    Parameters
    ----------
    name
        Its command.
    remedy
        How to get it.
    """
    return pytest.mark.skipif(shutil.which(name, path=_PATH) is None, reason=f"{name} is missing: {remedy}")


def run(name: str, *arguments: Any, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool; its exit code is for the test.

    Parameters
    ----------
    name
        Its command.
    *arguments
        Its arguments.
    given
        Its standard input.
    """
    program = shutil.which(name, path=_PATH)
    assert program
    command = [program, *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=120)
