"""From a draft to a layout that machine code searches, and back."""

from __future__ import annotations

import numpy as np

from stormwright.model import UNPLACED, CostWeights
from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.layout.links import Links
from stormwright.optimize.layout.objective import Prices
from stormwright.optimize.layout.start import Workers, make_layout
from stormwright.optimize.search.anneal import Placed
from stormwright.optimize.search.tabu import is_small
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.kit.limits import max_executors_per_worker


def layout_of(
    draft: Draft, links: Links, held: list[bool], weights: CostWeights, prices: Prices, seed: int
) -> tuple[Layout, IndexArray]:
    """A layout in which workers that are `held` stay, and for each of its workers the number in `draft`.

    Parameters
    ----------
    draft
        What is placed so far; read only.
    links
        What executors exchange.
    held
        Of every worker of the draft.
    weights
        Cost of a tuple by distance.
    prices
        What counts beside the cost of traffic.
    seed
        Of the random numbers, from 0 to 2⁶⁴ - 1.
    """
    topology, node = np.array(draft.topology, int), np.array(draft.node, int)
    order = np.argsort(topology, kind="stable")
    number = np.full(len(order) + 1, UNPLACED)
    number[order] = np.arange(len(order))
    runs, stays = np.array(draft.fixed, bool), np.array(held, bool)
    workers = Workers(number[draft.worker], topology[order], node[order], runs[order], stays[order])
    most = np.array([max_executors_per_worker(each) for each in draft.problem.topologies], int)
    return make_layout(draft.problem, links, workers, draft.usable, most, weights, seed, prices), order


def take_over(draft: Draft, order: IndexArray, placed: Placed) -> None:
    """Write what a layout has come to into the draft that it is of.

    Parameters
    ----------
    draft
        Its workers and their nodes are written.
    order
        The draft's number of each of the layout's workers.
    placed
        Where the layout has them.
    """
    draft.worker = np.append(order, UNPLACED)[placed.worker]
    node = np.empty(len(order), int)
    node[order] = placed.node
    draft.node = node.tolist()


def mended_first(layout: Layout) -> bool:
    """Whether a layout is made valid before it is searched: with limits that most steps do not mend, only keep."""
    return bool(layout.topologies["limited"].any()) and not is_small(layout)
