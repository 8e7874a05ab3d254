"""Keys that an object of a JSON text has twice: parsers take the last one and say nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

from stormwright.errors import Fault
from stormwright.formats.document.faults import join_path

_MOST_TOLD = 10


def keys_given_twice(data: bytes, document: object) -> list[Fault]:
    """A fault for each key that the text `data`, of which `document` was parsed, has twice in one object."""
    # A text has a colon for every key, besides those in strings, and whatever was dropped takes its own along. Texts
    # are parsed with all keys, which takes ten times as long, only where some are missing.
    try:
        if data.count(b":") <= orjson.dumps(document).count(b":"):
            return []
    except orjson.JSONEncodeError:
        pass  # nested deeper than it writes
    try:
        whole = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Object, parse_int=float)
    except RecursionError:
        return [Fault("is nested too deeply", "$")]
    faults = []
    for fault in _faults(whole, "$"):
        faults.append(fault)
        if len(faults) == _MOST_TOLD:
            break
    return faults


class _Object(dict[str, Any]):
    """An object that knows which of its keys were given more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        times = Counter(key for key, _ in pairs) if len(pairs) > len(self) else {}
        self.twice = [key for key, count in times.items() if count > 1]


def _faults(value: object, path: str) -> Iterator[Fault]:
    if isinstance(value, _Object):
        yield from (Fault("is there twice", join_path(path, key)) for key in value.twice)
        for key, item in value.items():
            yield from _faults(item, join_path(path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _faults(item, join_path(path, position))
