"""Compilation of all code of a kind at once: before a clock runs, and when the package is set up.

Nothing is searched here: loops are called on minimal inputs, with arrays of the usual types.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.sparse import csr_array

from stormwright.model import CostWeights, Problem
from stormwright.optimize.construction.greedy import Bins, Greedy, Items, Pairs
from stormwright.optimize.construction.topologies import construct
from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.layout.coarsen import coarsen, find_large
from stormwright.optimize.layout.links import Links
from stormwright.optimize.layout.regions import cut_into_regions
from stormwright.optimize.layout.start import Workers, make_layout
from stormwright.optimize.search.dense import DensePlacement
from stormwright.optimize.search.refine import refine, relieve
from stormwright.optimize.search.tabu import end_round, search, settle_workers
from stormwright.optimize.throughput.score import THROUGHPUT, add_up, headroom
from stormwright.optimize.throughput.search import keep
from stormwright.optimize.throughput.search import search as search_rates
from stormwright.optimize.throughput.start import Aim, MeasuredLoad, Seats, make_placement_state
from stormwright.predict.flow.profile import Profile


def _nothing() -> Layout:
    none, no_bool = np.empty(0, np.int64), np.empty(0, np.bool_)
    workers = Workers(none, none, none, no_bool, no_bool)
    nothing = Problem((), ())
    return make_layout(nothing, Links.following(nothing), workers, no_bool, none, CostWeights(), 0)


@cache
def ready_search() -> None:
    """Compile construction and search of all but small problems.

    The seeds and sizes do not matter: nothing is searched, and the code is the same for all of them. Compiled once a
    process.
    """
    layout = _nothing()
    construct(layout, np.empty(0, np.int64))
    relieve(layout, np.empty(0, np.int64))
    refine(layout, 0, 0.0)
    coarsen(layout, find_large(layout), 0, np.random.default_rng())
    with cut_into_regions(layout, 1, np.random.default_rng()):
        pass


@cache
def ready_small() -> None:
    """Compile the search of small problems."""
    dense = DensePlacement.of(_nothing())
    search(dense, 0)
    end_round(dense)
    settle_workers(dense)


@cache
def ready_rates() -> None:
    """Compile the search by rates."""
    nothing, none, no_bool = Problem((), ()), np.empty(0, np.int64), np.empty(0, np.bool_)
    aim = Aim(THROUGHPUT, np.empty(0))
    load = MeasuredLoad(Profile.of(nothing))
    state = make_placement_state(nothing, load, Seats(none, none, none, none, no_bool, no_bool, none), aim)
    add_up(state)
    headroom(state)
    search_rates(state, 0, 0.0, 1.0)
    keep(state, none, none)


@cache
def ready_greedy() -> None:
    """Compile the greedy packing. One item, one bin and no pair are enough for every loop to be compiled."""
    one, number = np.ones(1), np.zeros(1, np.int64)
    greedy = Greedy(Items(one, one, csr_array((1, 1)), number), Bins(one, one, one, number), spread={0: 1})
    greedy.put(0, 0)
    greedy.place_pairs(Pairs(number[:0], number[:0], one[:0], 1))
    greedy.place_rest()
    greedy.fill_empty()
    greedy.cost()
