"""How many of a topology's trees each executor of its spouts begins at highest rates.

With a limit on pending trees each has as many of its own under way as it may, all the time: executors of spouts are the
classes of a closed network. With many trees pending its rates X are proportionally fair: they maximise Σ K log X, K
being what each may have pending, within what there is of every resource. N. S. Walton, Proportional fairness and its
relationship with multi-class queueing networks, Annals of Applied Probability 19(6), 2009,
https://doi.org/10.1214/09-AAP612. Executors whose trees wait in the same places come to the same rate; those whose
trees find more room elsewhere begin more of them.

The prices p of the resources, which are the parts of all trees that wait for each, maximise Σ K log Σ p U, U being what
a tree of each class takes: the likelihood of a mixture, whose known steps lead up without fail. T. M. Cover, An
algorithm for maximizing expected log investment return, IEEE Transactions on Information Theory 30(2), 1984,
https://doi.org/10.1109/TIT.1984.1056869. That is so where who needs little waits little, as threads do for cores. At a
link each message waits behind all others, however small: there p is by the message. The same steps find those prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs
from stormwright.predict.demand import Demand
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Routes
from stormwright.predict.steady import Placed
from stormwright.predict.sums import ratio, sums

#: More executors of a topology's spouts share evenly: what the trees of each take costs as much as a prediction.
MOST_SPOUTS = 32

#: Resources are filled up to this part too much, or after so many steps.
_SETTLED, _MOST_STEPS = 1e-4, 5_000


def with_shares(
    placed: Placed,
    slot_of_executor: IntArray,
    costs: Costs,
    corrections: Mapping[str, Correction] = NO_CORRECTIONS,
) -> Placed:
    """The placement with routes at highest rates: executors of spouts begin as many trees as theirs find room for.

    Each topology counts as if it were alone.

    Parameters
    ----------
    placed
        The load under the placement; one in which shuffled tuples spill over stays as it is.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    costs, corrections
        What messages and workers cost, and what is known of single topologies, by id.
    """
    if placed.full_routes is not None:
        return placed
    profile, problem, begins = placed.profile, placed.problem, placed.profile.begins.copy()

    def under(begun: FloatArray) -> Routes:
        return Routes.under(_begun(profile, begun), placed.graph, problem, slot_of_executor)

    for spouts in _spouts(placed):
        demands = [
            Demand.of(profile, under(each), problem, costs, corrections) for each in _alone(profile.begins, spouts)
        ]
        topology = int(profile.layout.executor_topology[spouts[0]])
        if demands[0].running[topology]:
            rates = fair_rates(*np.stack([_use(demand, topology) for demand in demands], axis=2))
            begins[spouts] = rates / rates.sum() * profile.begins[spouts].sum()
    return placed if np.array_equal(begins, profile.begins) else replace(placed, full_routes=under(begins))


def fair_rates(use: FloatArray, waits: FloatArray) -> FloatArray:
    """Proportionally fair rates of classes that have equally many trees pending, up to a factor; shape (S,).

    Parameters
    ----------
    use
        Part of every resource that one tree/s of each class takes, shape (R, S); every class uses something.
    waits
        How often a tree of each class waits at it, by any unit of each resource, shape (R, S).
    """
    used = (use.max(axis=1) > 0) & (waits.max(axis=1) > 0)
    use, waits = use[used], waits[used] / waits[used].max(axis=1, keepdims=True) * use[used].max(axis=1, keepdims=True)
    price = np.full(len(use), 1 / len(use))
    rates = np.ones(use.shape[1])
    for _ in range(_MOST_STEPS):
        rates = 1 / (price @ waits) / use.shape[1]
        filled = use @ rates
        if filled.max() <= 1 + _SETTLED:
            break
        price = price * filled
    return rates


def _spouts(placed: Placed) -> list[IndexArray]:
    """Executors of the spouts of each topology that has several of them, and a limit of pending trees."""
    layout, begins = placed.profile.layout, placed.profile.begins
    begin = np.flatnonzero(layout.is_spout[layout.executor_component] & (begins > 0))
    limited = begin[np.isfinite(layout.pending)[layout.executor_topology[begin]]]
    counts = np.bincount(layout.executor_topology[limited], minlength=len(layout.pending))
    several = np.flatnonzero((counts > 1) & (counts <= MOST_SPOUTS))
    return [limited[layout.executor_topology[limited] == topology] for topology in several]


def _begun(profile: Profile, begins: FloatArray) -> Profile:
    """A profile whose executors begin other trees than before; each is answered as often as it begins one."""
    layout, pairs = profile.layout, profile.pairs
    answers = layout.is_spout[layout.executor_component[pairs.target]]
    factor = np.where(answers, ratio(begins, profile.begins)[pairs.target], 1.0)
    return replace(profile, begins=begins, pairs=pairs._replace(tuples=pairs.tuples * factor))


def _alone(begins: FloatArray, spouts: IndexArray) -> list[FloatArray]:
    """What executors begin for each tree if one spout executor begins all of them; for each of these executors."""
    found = np.repeat(begins[np.newaxis], len(spouts), axis=0)
    found[:, spouts] = np.diag(np.full(len(spouts), begins[spouts].sum()))
    return list(found)


def _use(demand: Demand, topology: int) -> tuple[FloatArray, FloatArray]:
    """Part of what is there of shared resources and threads that 1 tree/s takes, and waits; shape (3 N + …,) each."""
    shared = demand.shared[:, [topology]].toarray().ravel()
    part = np.divide(shared, demand.free, out=np.where(shared > 0, np.inf, 0.0), where=demand.free > 0)
    threads = np.where(demand.thread_topology == topology, demand.thread_s, 0.0)
    nodes, own = len(demand.nodes.cores), demand.worker_topology == topology
    messages = [sums(demand.worker_node[own], each[own], nodes) for each in demand.link_messages]
    return np.concatenate([part, threads]), np.concatenate([part[:nodes], *messages, threads])
