"""When each of many next does something, and who is first.

Everyone has one time at most: what is to happen to them next. So there is no list of events that grows, but a tree of
winners over fixed arrays, as in a tournament: the first of all is at its root, and a new time for one of n plays
log₂ n matches again (D. E. Knuth, The Art of Computer Programming 3, 5.4.1, without a DOI). Of several with the same
time the one with the lowest number is first.

No time is negative, so times are in the same order as their bits read as whole numbers (IEEE 754), which a processor
compares in one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import inner
from stormwright.simulator.kernel.arrays import NEVER


class Clock(NamedTuple):
    """Times of some, and the tree of who is first of which.

    Parameters
    ----------
    when
        Of everyone, infinite for nothing; as many as a power of two.
    bits
        The same memory as whole numbers.
    tree
        Two numbers each, the bits of a time and whose that is: of who is first of all at 2 and 3, of the two halves
        from 4 and from 6 on, and so on; those themselves at the end.
    """

    when: NDArray[np.float64]
    bits: NDArray[np.int64]
    tree: NDArray[np.int64]

    @classmethod
    def of(cls, times: NDArray[np.float64]) -> Clock:
        """With these times of everyone."""
        size = 1 << max(len(times) - 1, 1).bit_length()
        when, first = np.full(size, NEVER), np.zeros(2 * size, np.int64)
        when[: len(times)], first[size:] = times, np.arange(size)
        below = size
        while below > 1:  # a round of the tournament
            one, other = first[below : 2 * below : 2], first[below + 1 : 2 * below : 2]
            below //= 2
            first[below : 2 * below] = np.where(when[other] < when[one], other, one)
        bits = when.view(np.int64)
        return cls(when, bits, np.stack([bits[first], first], axis=1).ravel())


@inner
def first_of(clock: Clock) -> int:
    """Who is first of all."""
    return int(clock.tree[3])


@inner
def set_time(clock: Clock, who: int, time: float) -> None:
    """From now on something is next to happen to `who` at a time.

    Nobody can foresee who of two is first, and a processor that guesses wrong loses more time than all else here takes:
    so there is no branch for it. What others have is read a step ahead, as compilers make a branch of what is read for
    one outcome only. Nor is there one for whether others are first as before.
    """
    tree = clock.tree
    clock.when[who] = time
    at, wins, place = clock.bits[who], who, 2 * (who + len(clock.when))
    tree[place] = at
    others, whose = tree[place ^ 2], tree[(place ^ 2) + 1]
    while place > 2:
        before = others < at + ((place >> 1) & 1)  # that at the odd place is not before one with the same time
        wins += (whose - wins) * before
        at = min(at, others)
        place = (place >> 2) << 1
        tree[place], tree[place + 1] = at, wins
        others, whose = tree[place ^ 2], tree[(place ^ 2) + 1]
