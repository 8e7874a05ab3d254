"""Event clock: the next time of each actor, and which actor is first.

Each actor has at most one time: that of its next event. So there is no growing list of events, but a tournament tree
over fixed arrays: the first actor is at its root, and a new time for one of n replays log₂ n matches (D. E. Knuth, The
Art of Computer Programming 3, 5.4.1, without a DOI). Of several with the same time the one with the lowest number is
first.

Times are not negative, so they are ordered like their bits read as integers (IEEE 754), which a processor compares in
one step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import inner
from stormwright.simulator.kernel.arrays import NEVER


class ActorTimes(NamedTuple):
    """Times of actors, and the tournament tree.

    Parameters
    ----------
    when
        Next time of each actor, infinite for none; the length is a power of two.
    bits
        The same memory as integers.
    tree
        Pairs of the bits of a time and its actor: that of the winner at 2 and 3, of the two halves from 4 and from 6
        on, and so on; the actors themselves at the end.
    """

    when: NDArray[np.float64]
    bits: NDArray[np.int64]
    tree: NDArray[np.int64]

    @classmethod
    def of(cls, times: NDArray[np.float64]) -> ActorTimes:
        """Create a clock with these times."""
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
def first_of(clock: ActorTimes) -> int:
    """Return the first actor."""
    return int(clock.tree[3])


@inner
def set_time(clock: ActorTimes, who: int, time: float) -> None:
    """Set the next time of `who`.

    Matches are unpredictable, and a mispredicted branch costs more than everything else here: so they are branch-free.
    Opponents are read one step ahead, as compilers create a branch for reads that only one outcome needs. Nor is there
    a branch for an unchanged winner.
    """
    tree = clock.tree
    clock.when[who] = time
    at, wins, place = clock.bits[who], who, 2 * (who + len(clock.when))
    tree[place] = at
    others, whose = tree[place ^ 2], tree[(place ^ 2) + 1]
    while place > 2:
        before = others < at + ((place >> 1) & 1)  # ties go to the even place
        wins += (whose - wins) * before
        at = min(at, others)
        place = (place >> 2) << 1
        tree[place], tree[place + 1] = at, wins
        others, whose = tree[place ^ 2], tree[(place ^ 2) + 1]
