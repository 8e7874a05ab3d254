"""Results of placements are found by their inputs, and no longer than they hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stormwright.predict.costs import Costs
from stormwright.predict.placement_cache import CacheKey, PlacementCache, RecentResults


def test_keys_are_equal_if_all_inputs_are_the_same_objects():
    costs, corrections = Costs(), {}
    key = CacheKey("claims", costs, corrections, near=0.5)
    assert key == CacheKey("claims", costs, corrections, near=0.5)
    assert hash(key) == hash(CacheKey("claims", costs, corrections, near=0.5))
    others = [
        CacheKey("demand", costs, corrections, near=0.5),
        CacheKey("claims", replace(costs), corrections, near=0.5),
        CacheKey("claims", costs, {}, near=0.5),
        CacheKey("claims", costs, corrections, routes=object(), near=0.5),
        CacheKey("claims", costs, corrections, near=1.0),
        CacheKey("claims", costs, corrections, near=0.5, name="begins"),
    ]
    assert all(key != other for other in others)


def test_cached_result_belongs_to_current_or_previous_placement():
    key = CacheKey("routes", near=1.0)
    first = PlacementCache()
    assert first.moved is None
    assert first.put(key, "first") == first.get(key) == "first"
    second = first.after(np.array([True]))
    assert (second.get(key), second.previous(key)) == (None, "first")
    third = second.after(np.array([True]))
    assert third.previous(key) is None, "the second placement did not ask for it"


def test_taken_previous_result_is_removed_from_one_placement_only():
    key = CacheKey("routes", near=1.0)
    first = PlacementCache()
    first.put(key, "first")
    second, other = first.after(np.array([True])), first.after(np.array([True]))
    assert [second.take_previous(key), second.take_previous(key)] == ["first", None]
    assert (first.get(key), other.previous(key)) == ("first", "first")


def test_cached_topology_result_is_valid_until_the_topology_moves():
    key = CacheKey("fair rates", Costs(), {})
    first = PlacementCache()
    first.by_topology(key).update({0: "a", 1: "b"})
    second = first.after(np.array([True, False]))
    third = second.after(np.array([False, False]))
    assert (second.by_topology(key), third.by_topology(key)) == ({1: "b"}, {1: "b"})
    third.by_topology(key)[0] = "c"
    assert (first.by_topology(key), second.by_topology(key)) == ({0: "a", 1: "b"}, {1: "b"})


def test_recent_result_is_computed_once_even_if_none():
    recent, computed = RecentResults(), []
    key = CacheKey("mix", corrections={})
    for _ in range(2):
        assert recent.get_or_compute(key, lambda: computed.append(1)) is None
    assert computed == [1]
