"""Topologies as stored by Nimbus, ``stormcode.ser`` and ``stormconf.ser``, read by Storm's classes in a JVM."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stormwright.errors import ClusterError, Fault, InputError

READER = "stormwright.TopologyReader"

#: Seconds that the JVM has for all files: it starts in one or two, and reads in milliseconds.
LIMIT_S = 300.0


def read_serialized(
    command: Sequence[str], files: Sequence[tuple[Path, Path]]
) -> tuple[list[dict[str, Any]], list[InputError]]:
    """Return topology documents of `files`, pairs of code and conf, and an error for each file with faults.

    Parameters
    ----------
    command
        Argument vector that starts `READER`.

    Raises
    ------
    ClusterError
        The JVM ended without an answer.
    """
    paths = [str(path) for pair in files for path in pair]
    try:
        done = subprocess.run(
            [*command, *paths], capture_output=True, check=False, timeout=LIMIT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"reading {len(paths)} serialized files took more than {LIMIT_S:g} s") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ClusterError(f"the reader of serialized topologies has ended: {lines[0] if lines else done.returncode}")
    answer = json.loads(done.stdout)
    faults: dict[str, list[Fault]] = defaultdict(list)
    for fault in answer["faults"]:
        faults[fault["file"]].append(Fault(fault["message"], fault["path"]))
    return list(answer["topologies"]), [InputError(file, found) for file, found in faults.items()]
