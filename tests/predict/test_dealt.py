"""What many send to many in the same parts is known as two vectors: it says what the pairs say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.predict.flow.fields_grouping import Distributions
from stormwright.predict.flow.layout import StreamRates
from stormwright.predict.flow.profile import Profile
from stormwright.testing.strategies import problems
from stormwright.testing.word_counts import ACKERS, WordCount


def written_out(distributions: Distributions, pairs: StreamRates, executors: int) -> tuple[np.ndarray, np.ndarray]:
    """Tuples and bytes from each executor to each."""
    found = np.zeros((2, executors, executors))
    one = pairs.at(distributions.single)
    for amounts, each in zip(found, (one.tuples, one.tuples * one.size), strict=True):
        np.add.at(amounts, (one.source, one.target), each)
    senders, receivers = distributions.senders, distributions.receivers
    for hand, deal in enumerate(senders.deal.tolist()):
        for at in np.flatnonzero(receivers.deal == deal).tolist():
            source, target = senders.source[hand], receivers.executor[at]
            found[0, source, target] += senders.tuples[hand] * receivers.part[at]
            found[1, source, target] += senders.bytes[hand] * receivers.part_of_bytes[at]
    return found[0], found[1]


def assert_says_the_pairs(pairs: StreamRates, distributions: Distributions, executors: int) -> None:
    expected = np.zeros((2, executors, executors))
    for amounts, each in zip(expected, (pairs.tuples, pairs.tuples * pairs.size), strict=True):
        np.add.at(amounts, (pairs.source, pairs.target), each)
    for found, of in zip(written_out(distributions, pairs, executors), expected, strict=True):
        assert found == pytest.approx(of, rel=1e-9, abs=1e-12)


@pytest.mark.long
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_distributions_and_remaining_pairs_cover_all_pairs(data):
    problem = data.draw(problems())
    profile = Profile.of(problem)
    worth = data.draw(st.sampled_from([0.0, 1.0, 2.0]))
    distributions = Distributions.of(profile.pairs, profile.layout.executor_component, worth)
    assert_says_the_pairs(profile.pairs, distributions, problem.num_executors)


def test_acker_traffic_forms_a_distribution_despite_uneven_shares():
    profile = Profile.of(WordCount().problem())
    component, pairs = profile.layout.executor_component, profile.pairs
    to_acker = np.isin(pairs.target, list(ACKERS))
    part = np.where(pairs.target == ACKERS[0], 1.4, 0.6)
    size = np.where(pairs.target == ACKERS[0], 20.0, 30.0)
    uneven = pairs._replace(
        tuples=np.where(to_acker, pairs.tuples * part, pairs.tuples), size=np.where(to_acker, size, pairs.size)
    )
    for each in (pairs, uneven):
        distributions = Distributions.of(each, component, 1.0)
        assert not np.isin(each.target[distributions.single], list(ACKERS)).any()
        assert_says_the_pairs(each, distributions, 12)
    # One that sends otherwise than the others is no hand of theirs.
    one = uneven._replace(tuples=np.where((uneven.source == 5) & (uneven.target == 0), 0.1, uneven.tuples))
    distributions = Distributions.of(one, component, 1.0)
    assert set(one.source[distributions.single][np.isin(one.target[distributions.single], list(ACKERS))].tolist()) == {
        5
    }
    assert_says_the_pairs(one, distributions, 12)
