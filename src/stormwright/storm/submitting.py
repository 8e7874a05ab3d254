"""Submission of a topology: its ``main`` runs as a client of Storm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from stormwright.errors import ClusterError

#: A topology's main builds it, uploads the jar and returns; this long even on a machine that is very busy.
SUBMIT_S = 120.0


def submission_properties(jar: Path, conf: Mapping[str, Any]) -> dict[str, object]:
    """Return the system properties of such a client.

    Parameters
    ----------
    jar
        Jar with the topology class, which the client uploads to Nimbus.
    conf
        Topology configuration that wins over the topology's own.
    """
    options = ",".join(quote(f"{key}={json.dumps(value)}", safe="") for key, value in conf.items())
    return {"storm.jar": jar, "storm.options": options}


def submit(command: Sequence[str], name: str, env: Mapping[str, str] | None = None, limit_s: float = SUBMIT_S) -> None:
    """Run the client until Nimbus has the topology.

    Parameters
    ----------
    command
        Program and arguments of the client, run without a shell.
    name
        Name in error messages.
    env
        Environment variables that are added to those of this process.
    limit_s
        Seconds that the client may take; one that watches its topology takes longer.

    Raises
    ------
    ClusterError
        If it fails, with Java's message.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
            env={**os.environ, **(env or {})},
        )
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{name}: not submitted within {limit_s:.0f} s") from None
    if done.returncode != 0:
        raise ClusterError(f"{name}: not submitted: {_java_message(done.stdout + done.stderr)}")


def _java_message(output: str) -> str:
    """Return the line of a Java program's output that states why it failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith(("Caused by:", "Exception in thread"))]
    return (causes or lines or ["it printed nothing"])[-1]
