"""Values that Storm accepts for the keys of its configuration.

``config_kinds.json`` has the keys of Storm 2.8.3 by the annotations of ``org.apache.storm.Config`` and ``DaemonConfig``
(``tools/config_kinds.py``), after which Nimbus and StormSubmitter validate a topology's configuration
(``ConfigValidation.validateTopoConf``) and daemons theirs (``ConfigUtils.readStormConfig``). Keys whose values only
classes of Storm can validate are left out, and other keys may have any value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

_WANTED: Final = {
    "text": "should be a text",
    "flag": "should be true or false",
    "integer": "should be an integer",
    "count": "should be an integer of at least 0",
    "positive count": "should be an integer of at least 1",
    "number": "should be a number",
    "amount": "should be a number of at least 0",
    "positive number": "should be a number above 0",
    "texts": "should be a list of texts",
    "text or texts": "should be a text or a list of texts",
    "texts by name": "should be an object of texts",
    "numbers by name": "should be an object of numbers",
    "object": "should be an object",
}

#: Not a kind: keys that have a value if they are given at all.
_NOT_NULL: Final = "not null"


@cache
def _kinds() -> tuple[Mapping[str, str], frozenset[str]]:
    """Return the kind of value by key, and the keys that have a value if they are given at all."""
    path = Path(__file__).with_name("config_kinds.json")
    keys = json.loads(path.read_text(encoding="utf-8"))
    not_null = frozenset(keys.pop(_NOT_NULL))
    return {key: kind for kind, of in keys.items() for key in of}, not_null


def refused_values(conf: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of a configuration with a value that Storm refuses, and the kind that it accepts.

    Parameters
    ----------
    conf
        Configuration of a topology as it is submitted, without that of the cluster, or a ``storm.yaml``.
    """
    kinds, not_null = _kinds()
    for key, value in conf.items():
        kind = kinds.get(key)
        if value is None and key in not_null:
            yield key, "should have a value"
        elif kind is not None and value is not None and not _fits(kind, value):
            yield key, _WANTED[kind]


def _fits(kind: str, value: object) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "flag":
            return isinstance(value, bool)
        case "integer" | "count" | "positive count":
            least = {"integer": -(2**31), "count": 0, "positive count": 1}[kind]
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                return False
            return value == int(value) and least <= value < 2**31
        case "number" | "amount" | "positive number":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return False
            return kind == "number" or value > 0 or (kind == "amount" and value == 0)
        case "texts":
            return _are_texts(value)
        case "text or texts":
            return isinstance(value, str) or _are_texts(value)
        case "texts by name":
            return isinstance(value, Mapping) and _are_texts(list(value.values()))
        case "object":
            return isinstance(value, Mapping)
        case _:
            return isinstance(value, Mapping) and all(_fits("number", each) for each in value.values())


def _are_texts(value: object) -> bool:
    # Storm does not look at nulls.
    return isinstance(value, list) and all(each is None or isinstance(each, str) for each in value)
