"""Pairs of which many are one: what several executors send is dealt out in the same parts among the same others.

So it is with tuples that go by a hash, as those to ackers do: what is sent to each of them is a product of what sends
and of what part it gets. Two vectors say as much as a pair for each of both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.flow.layout import StreamRates
from stormwright.predict.sums import ratio, sums

#: Parts that differ by less are the same but for rounding.
_ROUNDING = 1e-10

#: Sums of parts are told apart by so much of one.
_MARKS = 1e8

#: So many times as many pairs as senders and takers together are worth it.
WORTH = 2.0


class Hands(NamedTuple):
    """What an executor deals out: in which deal, and tuples and bytes for each tuple that it handles; shape (H,)."""

    source: IndexArray
    deal: IndexArray
    tuples: FloatArray
    bytes: FloatArray


class Takers(NamedTuple):
    """Who gets which part of the tuples, and of the bytes, of a deal; shape (M,)."""

    executor: IndexArray
    deal: IndexArray
    part: FloatArray
    part_of_bytes: FloatArray


class Dealt(NamedTuple):
    """Pairs as deals, each to executors of one component, and the numbers of those that are in none."""

    hands: Hands
    takers: Takers
    single: IndexArray

    @classmethod
    def of(cls, pairs: StreamRates, component: IndexArray, worth: float = WORTH) -> Dealt:
        """The deals that pairs are.

        Parameters
        ----------
        pairs
            As a profile has them.
        component
            Of every executor, shape (E,).
        worth
            How many times as many pairs as senders and takers together a deal has at least.
        """
        to_component = component[pairs.target]
        order = np.lexsort((pairs.target, to_component, pairs.source))
        source, to, tuples = pairs.source[order], pairs.target[order], pairs.tuples[order]
        volume = tuples * pairs.size[order]
        first = np.flatnonzero((np.diff(source, prepend=-1) != 0) | (np.diff(to_component[order], prepend=-1) != 0))
        count = np.diff(first, append=len(order))
        hand = np.repeat(np.arange(len(first)), count)
        whole, whole_bytes = (sums(hand, each, len(first)) for each in (tuples, volume))
        part, part_of_bytes = ratio(tuples, whole[hand]), ratio(volume, whole_bytes[hand])
        deal, like = _alike(hand, to, (part, part_of_bytes), count)
        at = first[like][hand] + np.arange(len(order)) - first[hand]
        near = [np.abs(each - each[at]) <= _ROUNDING * each[at] for each in (part, part_of_bytes)]
        dealt = (whole > 0) & (sums(hand, ~((to == to[at]) & near[0] & near[1]), len(first)) == 0)
        hands = np.bincount(deal[dealt], minlength=len(first))[deal]
        dealt &= hands * count > worth * (hands + count)
        number = np.full(len(first), -1)
        kept, number_of = np.unique(like[dealt], return_inverse=True)
        number[kept] = np.arange(len(kept))
        taken = np.flatnonzero(number[hand] >= 0)
        return cls(
            Hands(source[first][dealt], number_of, whole[dealt], whole_bytes[dealt]),
            Takers(to[taken], number[hand[taken]], part[taken], part_of_bytes[taken]),
            np.sort(order[~dealt[hand]]),
        )


def _alike(
    hand: IndexArray, to: IndexArray, parts: tuple[FloatArray, FloatArray], count: IndexArray
) -> tuple[IndexArray, IndexArray]:
    """Which deal each hand may be of, and the first hand that may be of the same.

    Those may be alike whose sums of parts with random weights agree; others hardly ever do.
    """
    weight = 1.0 + np.random.default_rng(0).random(int(to.max(initial=0)) + 1)
    marks = [np.round(sums(hand, each * weight[to], len(count)) * _MARKS) for each in parts]
    _, first, deal = np.unique(np.stack([count, *marks]), axis=1, return_index=True, return_inverse=True)
    deal = deal.ravel()
    return deal, first[deal]
