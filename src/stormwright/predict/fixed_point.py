"""The placement that runs is the fixed point of predictions: where model and measurement disagree, the latter is right.

The spouts of a topology that may have K trees pending had a fraction o of them pending on average, and completed m
trees/s. Its highest rate under this placement is then

- at least m, and m / u where the fullest thing that it uses was in use for a fraction u: what a tuple costs falls with
  the rate, as threads poll less and messages are sent together (J. C. Mogul, K. K. Ramakrishnan, Eliminating Receive
  Livelock in an Interrupt-Driven Kernel, ACM Transactions on Computer Systems 15(3), 1997,
  https://doi.org/10.1145/263326.263335);
- m if its spouts waited for pending trees, whatever the model says: the system was closed, and this is its throughput;
- by the model otherwise.

Whether spouts waited follows from o by Bayes' rule, without a threshold. Where they do, 1 - o is exponential with a
mean of 0.03: of 69 recorded placements at their highest rates o was 0.94 to 1.00. Elsewhere o may be anything but 1,
with a density of 2 (1 - o): at 70 % of these rates it was 0.04 to 0.86. The logarithm of the rate is averaged by these
probabilities. The ratio of the model's rate to it scales all CPU of the topology's trees (`Correction.scale`), as far
as the measured CPU of nodes has room for it; the rest are waits for whatever is no resource (`Correction.wait_s`). Both
hold for every placement: the model says what changes, the measurement says where we are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import log

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import FloatArray
from stormwright.predict.calibration.document import StoredCosts, costs_of
from stormwright.predict.costs import Correction, Costs, LearnedScale
from stormwright.predict.evaluate import steady_states
from stormwright.predict.fairness import weights_of
from stormwright.predict.flow.profile import Factors, Profile
from stormwright.predict.placement_cache import CacheKey
from stormwright.predict.reach import reachable
from stormwright.predict.steady import PlacedLoad
from stormwright.predict.sums import ratio, sums

#: Standard deviation of the logarithm of a rate by the model alone, and of a measured rate: within a minute it drifts.
_MODEL_SD, _MEASURED_SD = 0.3, 0.08

#: Mean part of the trees that are not pending where spouts wait for pending trees.
_NOT_PENDING = 0.03

#: Standard deviation by which the logarithm of a scale changes from one fit of costs to the next, a minute later.
_DRIFT_SD = 0.02

#: Limits of the scale: more than that is no error of costs, and costs of lone tuples are up to twenty times too high.
MIN_SCALE, MAX_SCALE = 0.05, 5.0

#: Relative error of the running placement's rate at which the iteration for the scale ends, and its most rounds.
_SETTLED, _MAX_ROUNDS = 0.005, 12

#: Least use of what a topology uses: rates are not followed further than to a hundred times the measured ones.
_MIN_USE = 0.01

#: Rate below which nothing is compared.
_TINY_TPS = 1e-9

#: Part of a reduction of its CPU by which the rate of a topology has to grow for the next one to be tried.
_ANSWERS = 0.5


def fixed_costs(profile: Profile, known: StoredCosts | None = None) -> StoredCosts:
    """Return costs, by default those of the load, with which the measured placement has its measured rates."""
    costs, corrections = known or costs_of(profile.problem)
    return StoredCosts(costs, fixed(profile, costs, corrections))


def fixed(profile: Profile, costs: Costs, corrections: Mapping[str, Correction]) -> Mapping[str, Correction]:
    """Return the corrections with which the measured placement has its measured rates.

    Parameters
    ----------
    profile
        Profile of a load with pending trees; topologies without them keep their correction.
    costs, corrections
        Costs of messages and workers, and corrections of single topologies, by id.
    """
    key: CacheKey[Mapping[str, Correction]] = CacheKey("fixed point", costs, corrections)
    return profile.recent.get_or_compute(
        key, lambda: _fixed(profile, costs, corrections, waiting(_pending_part(profile)))
    )


def learn_scales(
    profile: Profile,
    costs: Costs,
    corrections: Mapping[str, Correction],
    known: Mapping[str, LearnedScale],
    topologies: Collection[str] | None = None,
) -> dict[str, LearnedScale]:
    """Return the scales of topologies, learned from a load as well: a Kalman filter of their logarithms.

    A rate says the more of the scale the more probably spouts waited, as while they work off the backlog of a pause.

    Parameters
    ----------
    profile
        Profile of the load.
    costs, corrections
        Costs of messages and workers, and corrections of single topologies, by id; their scales do not count.
    known
        Scales learned before, by topology id.
    topologies
        Ids of those whose workers are warm; all by default.
    """
    unscaled = {name: replace(one, scale=1.0) for name, one in corrections.items()}
    pending = _pending_part(profile)
    # How sure it is that spouts waited is part of the error of what is observed, not of its value.
    waited, found = waiting(pending), _fixed(profile, costs, unscaled, np.isfinite(pending).astype(np.float64))
    learned = dict(known)
    for topology, probability in zip(profile.problem.topologies, waited.tolist(), strict=True):
        if probability <= 0 or (topologies is not None and topology.id not in topologies):
            continue
        before = known.get(topology.id, LearnedScale(0.0, _MODEL_SD**2))
        variance = before.variance + _DRIFT_SD**2
        unsure = _MODEL_SD * (1 - probability) / probability
        gain = variance / (variance + _MEASURED_SD**2 + unsure**2)
        moved = before.log + gain * (log(found.get(topology.id, Correction()).scale) - before.log)
        learned[topology.id] = LearnedScale(moved, (1 - gain) * variance)
    return learned


def _fixed(
    profile: Profile, costs: Costs, corrections: Mapping[str, Correction], waited: FloatArray
) -> Mapping[str, Correction]:
    """Return the corrections, by the probability that spouts waited for pending trees, 0 if unknown, shape (T,)."""
    known = np.isfinite(_pending_part(profile))
    if not known.any():
        return corrections
    model, limit = _Model(profile, costs), profile.layout.pending
    start = {topology.id: corrections.get(topology.id, Correction()) for topology in profile.problem.topologies}
    reach, (most, use) = model.reach_tps(corrections), model.limits(corrections)
    known &= (reach > 0) & np.isfinite(reach)
    least = np.log(np.maximum(profile.rate_tps, _TINY_TPS))
    by_model = np.maximum(np.log(np.maximum(reach, _TINY_TPS)), least)
    wanted = np.exp(np.maximum(waited * least + (1 - waited) * by_model, least - (1 - waited) * np.log(use)))
    wanted = np.where(known, wanted, reach)
    factors = Factors.of(profile.problem, start)
    scale, wait_s, found = factors.scale, factors.wait_s, corrections
    most, by_cpu = np.minimum(scale * most, MAX_SCALE), known.copy()
    for _ in range(_MAX_ROUNDS):
        off = np.where(known, _log(reach, wanted), 0.0)
        if np.abs(off).max(initial=0.0) < _SETTLED:
            break
        now = np.where(known & by_cpu, np.clip(scale * np.exp(off), MIN_SCALE, most), scale)
        # What CPU does not explain are waits: by Little's law K trees at the rate X have a cycle of K / X.
        left = known & (off - np.log(now / scale) > _SETTLED)
        waits = wait_s + np.where(left, ratio(limit, wanted) - ratio(limit, reach * scale / now), 0.0)
        tried = _with(start, now, waits)
        new = model.reach_tps(tried)
        # Where its CPU changes nothing something else limits a topology: a wait, or what nothing here can mend.
        by = np.abs(np.log(now / scale))
        vain = known & (by > 0) & (np.abs(_log(new, reach)) < _ANSWERS * by)
        if vain.any():
            by_cpu &= ~vain
            known &= ~(vain & (now < scale))
            now = np.where(vain, scale, now)
            tried = _with(start, now, waits)
            new = model.reach_tps(tried)
        scale, wait_s, found, reach = now, waits, tried, new
    return found


def _log(one_tps: FloatArray, other_tps: FloatArray) -> FloatArray:
    """Return the logarithm of the ratio of rates, 0 where one of them is 0."""
    both = (one_tps > 0) & (other_tps > 0)
    found: FloatArray = np.log(np.divide(one_tps, other_tps, out=np.ones(len(one_tps)), where=both))
    return found


def _with(start: Mapping[str, Correction], scale: FloatArray, wait_s: FloatArray) -> Mapping[str, Correction]:
    """Return corrections with other scales and waits, shape (T,) each."""
    both = zip(start.items(), scale.tolist(), wait_s.tolist(), strict=True)
    return {name: replace(one, scale=by, wait_s=waits) for (name, one), by, waits in both}


def _pending_part(profile: Profile) -> FloatArray:
    """Return the mean part of the trees that may be pending that were, NaN if unknown or not limited; shape (T,)."""
    limit, problem = profile.layout.pending, profile.problem
    each = [np.nan if load.pending_trees is None else float(load.pending_trees.sum()) for load in problem.loads]
    runs = sums(problem.executor_topology, problem.measured_slot == UNPLACED, len(limit)) == 0
    measured = runs & (profile.rate_tps > 0) & np.isfinite(limit)
    return np.where(measured, np.minimum(ratio(np.array(each, np.float64), limit), 1.0), np.nan)


def waiting(pending: FloatArray) -> FloatArray:
    """Return the probability that spouts waited for pending trees.

    Parameters
    ----------
    pending
        Mean part of the trees that may be pending that were; NaN if unknown, which gives 0. Any shape.
    """
    rest = 1 - np.clip(np.nan_to_num(pending), 0.0, 1.0)
    density = np.exp(-rest / _NOT_PENDING) / _NOT_PENDING
    probability: FloatArray = np.where(np.isfinite(pending), density / (density + 2 * rest), 0.0)
    return probability


class _Model:
    """Rates of the measured placement by the model."""

    def __init__(self, profile: Profile, costs: Costs) -> None:
        self._profile, self._costs = profile, costs
        self._weights = weights_of(profile.problem) * profile.rate_tps
        self._placed = PlacedLoad.under(profile, profile.problem, profile.problem.measured_slot)

    def limits(self, corrections: Mapping[str, Correction]) -> tuple[FloatArray, FloatArray]:
        """Return the largest factor of CPU that nodes have room for, and the use of the fullest thing, shape (T,) each.

        Of the CPU that a node did not use, the part counts as used for which threads that could run waited for a core:
        other work of the machine took it. Links are as modelled.
        """
        profile, problem = self._profile, self._profile.problem
        rate_tps = np.where(self._placed.standing.workers.running, profile.rate_tps, 0.0)
        measured, count = problem.load.node_cpu_hz if problem.load else {}, len(problem.supervisors)
        (state,) = steady_states(self._placed, profile.rate_tps, self._weights, [(self._costs, corrections)])[1]
        demand, at = state.demand, state.demand.places
        used_hz = np.array([measured.get(node.id, np.nan) for node in problem.supervisors], dtype=np.float64)
        used = np.minimum(used_hz / (demand.nodes.cores * demand.nodes.core_hz), 1.0)
        used += (1.0 - used) * profile.contention()
        modelled = (demand.shared @ rate_tps)[:count]
        # Polls are no work: neither those that were measured, nor those of a full node in the model's base.
        node, polling_hz = demand.executor_node, profile.polling_hz(self._costs)
        polls = sums(node[node != UNPLACED], polling_hz[node != UNPLACED], count) / demand.nodes.core_hz
        polls -= (np.bincount(demand.worker_node, minlength=count) > 0) * self._costs.polling_cores
        for_trees = used - (1 - demand.free[:count]) - ratio(polls, demand.nodes.cores)
        explained = np.divide(for_trees, modelled, out=np.zeros(count), where=modelled > 0)
        most, use = np.full(len(rate_tps), 1.0), np.zeros(len(rate_tps))
        np.maximum.at(most, at.topology, np.nan_to_num(explained, nan=MAX_SCALE)[at.node])
        # An unmeasured node may be full.
        np.maximum.at(use, at.topology, np.nan_to_num(used, nan=1.0)[at.node])
        np.maximum.at(use, at.topology, np.max(demand.link_use(rate_tps).reshape(2, -1), axis=0)[at.node])
        np.maximum.at(use, problem.executor_topology, problem.executor_cpu_hz / problem.core_hz)
        return most, np.clip(use, _MIN_USE, 1.0)

    def reach_tps(self, corrections: Mapping[str, Correction]) -> FloatArray:
        """Return the reachable rate of every topology, shape (T,)."""
        known = [(self._costs, corrections)]
        _, (state,) = steady_states(self._placed, self._profile.rate_tps, self._weights, known)
        return reachable(self._profile, state)
