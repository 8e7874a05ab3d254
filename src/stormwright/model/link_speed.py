"""Link speeds in the notation of ``tc``: ``40mbit``, ``512kbit``, ``1gbit``."""

from __future__ import annotations

import re

_SPEED = re.compile(r"(\d+(?:\.\d+)?)([kmg]?)bit", re.ASCII | re.IGNORECASE)
_BITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}

#: Upper limit of a speed; numbers beyond are typing errors.
_MAX = 1e15


def link_bits_per_s(text: str) -> float:
    """Return bits per second of a speed such as ``40mbit``, in any case of letters; 0 for anything invalid."""
    match = _SPEED.fullmatch(text)
    speed = float(match[1]) * _BITS[match[2].lower()] if match else 0.0
    return speed if speed <= _MAX else 0.0
