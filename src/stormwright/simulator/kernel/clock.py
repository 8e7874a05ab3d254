"""When each of many next does something, and who is first.

Everyone has one time at most: what is to happen to them next. So there is no list of events that grows, but a tree of
winners over fixed arrays, as in a tournament: the first of all is at its root, and a new time for one of n plays
log₂ n matches again, fewer where its outcome is the same (D. E. Knuth, The Art of Computer Programming 3, 5.4.1,
without a DOI). Of several with the same time the one with the lowest number is first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.compiling.compiled import inner
from stormwright.simulator.kernel.arrays import NEVER


class Clock(NamedTuple):
    """Times of some, and the tree of who is first of which.

    Parameters
    ----------
    when
        Of everyone, infinite for nothing; as many as a power of two.
    first
        Who is first: of all at 1, of the two halves at 2 and 3, and so on; those themselves at the end.
    least
        The time of whom that is, but for the end.
    """

    when: NDArray[np.float64]
    first: NDArray[np.int64]
    least: NDArray[np.float64]

    @classmethod
    def of(cls, times: NDArray[np.float64]) -> Clock:
        """With these times of everyone."""
        size = 1 << max(len(times) - 1, 1).bit_length()
        when, first, least = np.full(size, NEVER), np.zeros(2 * size, np.int64), np.full(size, NEVER)
        when[: len(times)], first[size:] = times, np.arange(size)
        below = size
        while below > 1:  # a round of the tournament
            one, other = first[below : 2 * below : 2], first[below + 1 : 2 * below : 2]
            below //= 2
            first[below : 2 * below] = np.where(when[other] < when[one], other, one)
            least[below : 2 * below] = when[first[below : 2 * below]]
        return cls(when, first, least)


@inner
def set_time(clock: Clock, who: int, time: float) -> None:
    """From now on something is next to happen to `who` at a time.

    Nobody can foresee who of two is first, and a processor that guesses wrong loses more time than all else here takes:
    so there is no branch for it.
    """
    when, first, least = clock.when, clock.first, clock.least
    when[who] = time
    place, wins = who + len(when), who
    other, others = who ^ 1, when[who ^ 1]
    while place > 1:
        before = (others < time) | ((others == time) & ((place & 1) == 1))
        wins += (other - wins) * before
        time = others if others < time else time
        place >>= 1
        if (first[place] == wins) & (least[place] == time):
            return
        first[place], least[place] = wins, time
        other, others = first[place ^ 1], least[place ^ 1]
