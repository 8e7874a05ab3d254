"""What executors send each other, added up in arrays, beside a dictionary."""

from __future__ import annotations

from collections import Counter

import numpy as np

from stormwright.simulator.cluster.meters import Transfers


def test_each_sent_tuple_is_counted_once_despite_changing_pairs():
    rng = np.random.default_rng(1)
    sent, left, reported = Transfers(20), Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    pairs = rng.integers(0, 20, (2, 60))
    for turn in range(40):
        if turn % 7 == 6:
            pairs = rng.integers(0, 20, (2, 60))
        tuples = rng.integers(0, 4, 60)
        sent.add(pairs[0], pairs[1], tuples)
        for source, target, many in zip(*pairs.tolist(), tuples.tolist(), strict=True):
            left[source, target] += many
        if turn % 3 == 2:
            own = rng.permutation(20)[:7].astype(np.int32)
            found = sent.take(own)
            assert np.all(found.tuples > 0)
            for source, target, many in zip(*(each.tolist() for each in found), strict=True):
                assert source in own
                reported[source, target] += many
            assert not len(sent.take(own).tuples)
            gone = {pair: many for pair, many in left.items() if pair[0] in own}
            assert {pair: many for pair, many in gone.items() if many} == {
                pair: many for pair, many in reported.items() if many
            }
            reported.clear()
            for pair in gone:
                del left[pair]
