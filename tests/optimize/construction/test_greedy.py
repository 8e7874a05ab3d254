"""The greedy rule of both phases: case by case, against a recount, and against the same rule in plain code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.optimize.construction.greedy import Bins, Greedy, Items, Pairs
from stormwright.optimize.kernel.records import NOWHERE
from tests.optimize.construction.plain_greedy import PlainGreedy


def items(cpu_hz, pairs):
    count = len(cpu_hz)
    return Items(np.array(cpu_hz), np.zeros(count), listed(pairs, count).exchange(), np.zeros(count, int))


def listed(pairs, count=9):
    source, target, tps = zip(*pairs, strict=True) if pairs else ((), (), ())
    return Pairs(np.array(source, int), np.array(target, int), np.array(tps, float), count)


def order(pairs):
    """Pairs of items in the order in which they are to be placed."""
    return listed([(i, j, 1.0) for i, j in pairs])


def bins(count, most_items=9, cpu_hz=9.0, zone=None):
    return Bins(np.full(count, most_items), np.full(count, cpu_hz), np.full(count, 9.0), np.array(zone or [0] * count))


def test_unplaced_pair_goes_to_least_loaded_bin_with_capacity_for_both():
    greedy = Greedy(items([1.0] * 5, [(1, 2, 5)]), bins(3, most_items=2))
    greedy.put(0, 0)
    greedy.put(3, 1)
    greedy.put(4, 1)
    greedy.place_pairs(order([(1, 2)]))
    assert greedy.bin_of[1] == greedy.bin_of[2] == 2


def test_pair_too_large_for_any_bin_is_split():
    greedy = Greedy(items([3.0, 3.0], [(0, 1, 5)]), bins(2, cpu_hz=4.0))
    greedy.place_pairs(order([(0, 1)]))
    assert greedy.bin_of.tolist() == [0, 1]


def test_second_item_of_a_pair_joins_the_first():
    greedy = Greedy(items([1.0] * 3, [(0, 1, 5), (1, 2, 4)]), bins(3))
    greedy.place_pairs(order([(0, 1), (1, 2)]))
    assert greedy.bin_of.tolist() == [0, 0, 0]


def test_placed_items_move_if_traffic_decreases():
    greedy = Greedy(items([1.0] * 4, [(0, 1, 5), (2, 3, 4), (1, 2, 9)]), bins(3))
    greedy.place_pairs(order([(0, 1), (2, 3)]))
    assert (greedy.bin_of.tolist(), greedy.cost()) == ([0, 0, 1, 1], 9)
    assert greedy.place_pairs(order([(1, 2)]))
    assert (greedy.bin_of.tolist(), greedy.cost()) == ([0, 0, 0, 1], 4)
    assert greedy.place_pairs(order([(2, 3)]))
    assert greedy.cost() == 0
    assert not greedy.place_pairs(order([(1, 2), (0, 1), (2, 3)]))


def test_fixed_item_stays_and_attracts_its_partner():
    greedy = Greedy(items([1.0] * 2, [(0, 1, 5)]), bins(3))
    greedy.fix(1, 2)
    greedy.place_pairs(order([(0, 1)]))
    assert greedy.bin_of.tolist() == [2, 2]


def test_zone_counts_where_the_bin_is_full():
    """The partner's bin is full; of the others, the one in its zone costs less."""
    greedy = Greedy(items([1.0] * 2, [(0, 1, 5)]), bins(3, most_items=1, zone=[0, 1, 0]), zone_weight=1.0)
    greedy.put(0, 0)
    greedy.place_pairs(order([(0, 1)]), near=True)
    assert greedy.bin_of.tolist() == [0, 2]
    assert greedy.cost() == 5
    greedy.put(1, 1)
    assert greedy.cost() == 10


def test_spread_keeps_a_group_on_few_bins_until_relaxed():
    greedy = Greedy(items([1.0] * 3, []), bins(3, most_items=1), spread={0: 2})
    assert greedy.place_rest().tolist() == [2]
    greedy.relax(bins(3, most_items=1))
    assert greedy.place_rest().tolist() == []


def test_a_bin_takes_few_of_a_group_until_relaxed():
    """All pull into one bin, and only two may be there; an item of another group may join them."""
    of = replace(items([1.0] * 4, [(0, 1, 9), (0, 2, 8), (0, 3, 7)]), group=np.array([0, 0, 0, 1]))
    greedy = Greedy(of, bins(3, most_items=4), in_bin={0: 2})
    greedy.place_pairs(order([(0, 1), (0, 2), (0, 3)]))
    assert greedy.bin_of.tolist() == [0, 0, 1, 0]
    greedy.relax(bins(3, most_items=4))
    assert greedy.place_pairs(order([(0, 2)]))
    assert greedy.bin_of[2] == 0


def test_a_group_at_its_limit_may_change_its_only_bin():
    """2 pulls 0 to bin 1, where 1 holds the only place; 0 and 1 change bins, and either group uses one as before."""
    of = replace(items([1.0] * 3, [(0, 1, 1), (0, 2, 5)]), group=np.array([0, 1, 2]))
    greedy = Greedy(of, bins(2, most_items=2), spread={0: 1, 1: 1})
    for item, to in ((0, 0), (1, 1), (2, 1)):
        greedy.put(item, to)
    assert greedy.place_pairs(order([(0, 1)]))
    assert greedy.bin_of.tolist() == [1, 0, 1]


def test_rounding_of_a_heavy_pair_does_not_hide_gain_of_a_light_pair():
    """1e16 tuples/s between two items, and 3 more to gain for two others."""
    pairs = [(0, 1, 1e16), (2, 3, 1), (2, 4, 4)]
    greedy = Greedy(items([1.0] * 5, pairs), bins(3, most_items=2))
    for item, to in ((0, 0), (1, 0), (2, 1), (3, 1), (4, 2)):
        greedy.put(item, to)
    greedy.place_pairs(order([(2, 4)]))
    assert greedy.bin_of[2] == greedy.bin_of[4]


def test_remaining_items_go_largest_first_to_least_loaded_bin():
    greedy = Greedy(items([1.0, 3.0, 2.0], []), bins(2))
    assert greedy.place_rest().tolist() == []
    assert greedy.bin_of.tolist() == [1, 0, 1]


@st.composite
def runs(draw):
    count, number = draw(st.integers(2, 8)), draw(st.integers(1, 4))
    an_item = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(an_item, an_item, st.integers(1, 50)), max_size=15))
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    cpu_hz = [float(c) for c in draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))]
    limits = Bins(
        np.array([draw(st.integers(0, 4)) for _ in range(number)]),
        np.array([float(draw(st.integers(0, 9))) for _ in range(number)]),
        np.full(number, 9.0),
        np.array([draw(st.integers(0, 1)) for _ in range(number)]),
    )
    return cpu_hz, pairs, limits


@pytest.mark.long
@given(runs(), st.booleans())
def test_greedy_accounting_is_exact_and_respects_limits(run, near):
    cpu_hz, pairs, limits = run
    greedy = Greedy(items(cpu_hz, pairs), limits, zone_weight=1.0)
    falling = listed(sorted(pairs, key=lambda pair: -pair[2]))
    greedy.place_pairs(falling, near=near)
    greedy.place_rest()
    before = greedy.cost() if NOWHERE not in greedy.bin_of else None
    while greedy.place_pairs(falling, near=near):
        assert before is None or greedy.cost() < before
        before = greedy.cost() if NOWHERE not in greedy.bin_of else None
    bin_of = np.array(greedy.bin_of)
    placed = bin_of != NOWHERE
    number = len(limits.items)
    assert greedy.count.tolist() == np.bincount(bin_of[placed], minlength=number).tolist()
    assert greedy.cpu_hz == pytest.approx(np.bincount(bin_of[placed], np.array(cpu_hz)[placed], number))
    assert all(count <= most for count, most in zip(greedy.count, limits.items, strict=True))
    assert all(used <= most * (1 + 1e-9) for used, most in zip(greedy.cpu_hz, limits.cpu_hz, strict=True))
    if placed.all():
        several_zones = len(set(limits.zone)) > 1
        cost = sum(
            rate * (int(a != b) + int(several_zones and limits.zone[a] != limits.zone[b]))
            for i, j, rate in pairs
            for a, b in [(bin_of[i], bin_of[j])]
        )
        assert greedy.cost() == pytest.approx(cost)


@st.composite
def plain_problems(draw):
    """A plain placement of few items, some fixed, and its pairs, heaviest first."""
    count, number = draw(st.integers(1, 8)), draw(st.integers(1, 6))

    def each(values, length=count):
        return draw(st.lists(st.sampled_from(values), min_size=length, max_size=length))

    exchange = np.zeros((count, count))
    pairs = []
    for i, j, tps in draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1), st.sampled_from([1, 2, 3, 9, 1000])),
            max_size=2 * count,
            unique_by=lambda pair: pair[:2],
        )
    ):
        if i != j:
            exchange[i, j] += tps
            exchange[j, i] += tps
            pairs.append((i, j, float(tps)))
    _, zone = np.unique(each([0, 1, 2], number), return_inverse=True)
    limits = Bins(
        items=np.array(each([0, 1, 2, 3, 9], number), float),
        cpu_hz=np.array(each([0, 2, 5, 10, np.inf], number), float),
        memory_mb=np.array(each([2, 6, np.inf], number), float),
        zone=zone,
    )
    plain = PlainGreedy(
        cpu_hz=[float(c) for c in each([0, 1, 2, 5])],
        memory_mb=[float(m) for m in each([0, 1, 3])],
        exchange=exchange.tolist(),
        group=each([0, 1, 2]),
        bins=limits,
        zone_weight=draw(st.sampled_from([0.0, 0.5, 1.0])) if zone.max() > 0 else 0.0,
        most_bins=draw(st.dictionaries(st.integers(0, 2), st.integers(1, 3))),
        most_in_bin=draw(st.dictionaries(st.integers(0, 2), st.integers(1, 3))),
    )
    for item, to in draw(st.dictionaries(st.integers(0, count - 1), st.integers(0, number - 1), max_size=2)).items():
        plain.bin_of[item] = to
        plain.fixed.add(item)
    return plain, sorted(pairs, key=lambda pair: -pair[2])


@pytest.mark.slow
@given(plain_problems(), st.lists(st.booleans(), min_size=1, max_size=3))
def test_greedy_choices_equal_plain_reference_rule(of, passes):
    plain, pairs = of
    listed_pairs = listed(pairs, len(plain.cpu_hz))
    greedy = Greedy(
        Items(np.array(plain.cpu_hz), np.array(plain.memory_mb), listed_pairs.exchange(), np.array(plain.group)),
        plain.bins,
        plain.zone_weight,
        plain.most_bins,
        plain.most_in_bin,
    )
    for item in plain.fixed:
        greedy.fix(item, plain.bin_of[item])
    for near in passes:
        assert greedy.place_pairs(listed_pairs, near=near) == plain.place_pairs([pair[:2] for pair in pairs], near)
        assert greedy.bin_of.tolist() == plain.bin_of
        assert greedy.place_rest().tolist() == plain.place_rest()
        assert greedy.bin_of.tolist() == plain.bin_of
    unlimited = np.full(len(plain.bins.items), np.inf)
    plain.bins = replace(plain.bins, cpu_hz=unlimited, memory_mb=unlimited)
    plain.most_bins, plain.most_in_bin = {}, {}
    greedy.relax(plain.bins)
    assert greedy.place_rest().tolist() == plain.place_rest()
    if not plain.fixed and not plain.zone_weight:  # as in phase 1, which alone fills empty bins
        greedy.fill_empty()
        plain.fill_empty()
    assert greedy.bin_of.tolist() == plain.bin_of
    if NOWHERE not in plain.bin_of:
        assert greedy.cost() == pytest.approx(plain.cost())
