"""Compressed pairs: several executors that distribute tuples in the same proportions among the same targets.

This is so for tuples that are distributed by a hash, like those to ackers: the traffic of a pair is the product of the
source's amount and the target's fraction. Two vectors replace a matrix of pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.flow.layout import StreamRates
from stormwright.predict.sums import ratio, sums

#: Parts that differ by less are equal up to rounding.
_ROUNDING = 1e-10

#: Resolution at which sums of parts are compared.
_MARKS = 1e8

#: Least ratio of pairs to sources plus targets for which compression pays.
WORTH = 2.0


class Senders(NamedTuple):
    """Sources of distributions: distribution, and tuples and bytes for each tuple that it handles; shape (H,)."""

    source: IndexArray
    deal: IndexArray
    tuples: FloatArray
    bytes: FloatArray


class Receivers(NamedTuple):
    """Targets of distributions, with their fractions of the tuples and bytes; shape (M,)."""

    executor: IndexArray
    deal: IndexArray
    part: FloatArray
    part_of_bytes: FloatArray


class Distributions(NamedTuple):
    """Pairs as distributions, each to executors of one component, and the numbers of the remaining pairs."""

    senders: Senders
    receivers: Receivers
    single: IndexArray

    @classmethod
    def of(cls, pairs: StreamRates, component: IndexArray, worth: float = WORTH) -> Distributions:
        """Return the distributions of pairs.

        Parameters
        ----------
        pairs
            Pairs of a profile.
        component
            Component of every executor, shape (E,).
        worth
            Minimum ratio of pairs to sources plus targets for which a distribution is used.
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
        compressed = (whole > 0) & (sums(hand, ~((to == to[at]) & near[0] & near[1]), len(first)) == 0)
        hands = np.bincount(deal[compressed], minlength=len(first))[deal]
        compressed &= hands * count > worth * (hands + count)
        number = np.full(len(first), -1)
        local, number_of = np.unique(like[compressed], return_inverse=True)
        number[local] = np.arange(len(local))
        taken = np.flatnonzero(number[hand] >= 0)
        return cls(
            Senders(source[first][compressed], number_of, whole[compressed], whole_bytes[compressed]),
            Receivers(to[taken], number[hand[taken]], part[taken], part_of_bytes[taken]),
            np.sort(order[~compressed[hand]]),
        )


def _alike(
    hand: IndexArray, to: IndexArray, parts: tuple[FloatArray, FloatArray], count: IndexArray
) -> tuple[IndexArray, IndexArray]:
    """Return the candidate distribution of each source, and the first source of the same candidate.

    Candidates are sources whose sums of fractions with random weights agree; others hardly ever do.
    """
    weight = 1.0 + np.random.default_rng(0).random(int(to.max(initial=0)) + 1)
    marks = [np.round(sums(hand, each * weight[to], len(count)) * _MARKS) for each in parts]
    _, first, deal = np.unique(np.stack([count, *marks]), axis=1, return_index=True, return_inverse=True)
    deal = deal.ravel()
    return deal, first[deal]
