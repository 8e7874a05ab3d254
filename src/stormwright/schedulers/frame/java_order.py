"""The order in which Java's `HashMap` goes through its keys, which Storm's answers depend on.

Checked against JDK 17. Left out: buckets that turn into trees, which takes eight colliding ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MAX_LOAD = 0.75
_DEFAULT_CAPACITY = 16


def java_string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned 32-bit number; over UTF-16 code units, as Java counts characters."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFF_FFFF
    return value


def topologies_order(ids: Sequence[str], among: Iterable[int] | None = None) -> list[int]:
    """Positions of `ids`, or those `among` them, in the order in which Storm's `Topologies` goes through them.

    `Topologies` copies a map that grew entry by entry, so ids that share a bucket of the copy come in the order of the
    map they were copied from.
    """
    grown, copied = _grown_capacity(len(ids)), _copied_capacity(len(ids))

    def place(position: int) -> tuple[int, int, int]:
        value = java_string_hash(ids[position])
        spread = value ^ value >> 16
        return spread & copied - 1, spread & grown - 1, position

    return sorted(range(len(ids)) if among is None else among, key=place)


def _grown_capacity(size: int) -> int:
    """Buckets of a map that doubled whenever it held more than three quarters of its capacity."""
    capacity = _DEFAULT_CAPACITY
    while size > _MAX_LOAD * capacity:
        capacity *= 2
    return capacity


def _copied_capacity(size: int) -> int:
    """Buckets of a map made from another one of `size` entries: the next power of two of size / 0.75 + 1."""
    wanted = int(size / _MAX_LOAD + 1.0)
    return 1 << (wanted - 1).bit_length()
