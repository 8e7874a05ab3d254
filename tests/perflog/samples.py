"""A record with all fields, and ways to change it."""

from __future__ import annotations

import copy
import json
from typing import Any

from stormwright.perflog.schema import sample_record

RECORD = sample_record()


def edited(record: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with one part set, or left out where the value is ``...``."""
    record = copy.deepcopy(record)
    part: Any = record
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in parents:
        part = part[step]
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return record


def encoded(record: dict[str, Any]) -> bytes:
    """One line, by another JSON writer than the package's."""
    return json.dumps(record).encode()
