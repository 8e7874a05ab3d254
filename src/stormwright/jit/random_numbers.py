"""Random numbers of compiled searches.

The whole state is one number of 64 bits in an array of the placement: the owner of the array owns the sequence, threads
have separate arrays, and a copy of the array repeats the same sequence. Numba's own generator would have one
state for each thread, which Python neither sees nor sets.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import inner

_STEP, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

_SHIFT_1, _SHIFT_2, _SHIFT_3, _TOP_53 = (np.uint64(n) for n in (30, 27, 31, 11))

_UNIT = 1.0 / (1 << 53)


class Random(Protocol):
    """Something with the state of random numbers, one number."""

    @property
    def random(self) -> NDArray[np.uint64]:
        """State, changed by every drawing."""


@inner
def draw(layout: Random) -> float:
    """Return a random number in [0, 1), a multiple of 2⁻⁵³."""
    return draw_at(layout.random, 0)


@inner
def draw_at(random: NDArray[np.uint64], place: int) -> float:
    """Return the same from one of several sequences: that with its state at a place of an array.

    SplitMix64 of G. L. Steele, D. Lea, C. H. Flood, https://doi.org/10.1145/2660193.2660195: any seed is valid, 0
    included, and seeds that are close to each other do not give similar sequences.
    """
    random[place] += _STEP
    mixed = random[place]
    mixed = (mixed ^ (mixed >> _SHIFT_1)) * _MIX_1
    mixed = (mixed ^ (mixed >> _SHIFT_2)) * _MIX_2
    mixed ^= mixed >> _SHIFT_3
    return float(mixed >> _TOP_53) * _UNIT


@inner
def draw_below(layout: Random, count: int) -> int:
    """Return a random whole number from 0 to `count` - 1; 0 for a `count` of 0.

    Some numbers are more probable than others by a fraction of `count` × 2⁻⁵³ at most, which is irrelevant to searches.
    """
    return int(draw(layout) * count)
