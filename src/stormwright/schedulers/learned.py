"""Learned choice: the answer of several rules, or a variant of it, with the best score of a trained model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray, IntArray, frozen_ints
from stormwright.model.humanize import counted
from stormwright.schedulers.portfolio.evaluation import PlacementEvaluator
from stormwright.schedulers.portfolio.features import FeatureExtractor
from stormwright.schedulers.portfolio.members import Portfolio, best_of
from stormwright.schedulers.portfolio.model import OURS, Model, read_model
from stormwright.schedulers.portfolio.variants import Variants
from stormwright.schedulers.toolkit.params import MAX_SEED, Params, param
from stormwright.schedulers.toolkit.registry import SCHEDULERS, scheduler_type, traits_of
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.schedulers.toolkit.triggers import ONLINE

_NAME = "learned"

#: Steps per batch; the best of them is taken if it is better.
_AT_ONCE = 16

#: Maximum executors of all variants together: for large problems only the rules' answers count.
_MAX_EVALUATED = 200_000

#: Scores that differ by less are equal.
_SAME = 1e-4


@dataclass(frozen=True, kw_only=True)
class LearnedParams(Params):
    """Parameters of the scheduler."""

    model: str = param("", "model file of `stormwright learn`; empty: the one in the package")
    variants: int = param(256, "number of variants to evaluate", low=0, high=1_000_000)
    seed: int = param(0, "seed of the random steps", low=0, high=MAX_SEED)


class LearnedScheduler:
    """Runs quick rules, and takes the answer, or a variant a few steps away, with the best learned score.

    Own; after A. Mao et al., "Learning Scheduling Algorithms for Data Processing Clusters", SIGCOMM 2019,
    https://doi.org/10.1145/3341302.3342080, and T. Li et al., "Model-Free Control for Distributed Stream Data
    Processing using Deep Reinforcement Learning", VLDB 2018, https://doi.org/10.48550/arXiv.1803.01016, of which it has
    the aim but not the method: here a model learns to rank complete placements, as L. Xu, F. Hutter, H. Hoos, K.
    Leyton-Brown choose algorithms by their features in "SATzilla: Portfolio-based Algorithm Selection for SAT", Journal
    of Artificial Intelligence Research 32, 2008, https://doi.org/10.1613/jair.2490.

    1. Every rule that uses no random numbers, satisfies constraints and is quick for this number of executors places
       the executors without a slot.
    2. Each answer is described by features that are fractions or ratios: the utilisation of the fullest node, link and
       thread relative to the ideal, the fractions of traffic by distance, the spread of executors, and the kind of
       problem.
    3. A linear model of what limits the rate, and boosted regression trees for its residuals (J. H. Friedman, "Greedy
       Function Approximation: A Gradient Boosting Machine", Annals of Statistics 29, 2001,
       https://doi.org/10.1214/aos/1013203451), predict from these how its throughput compares with that of other
       placements of the problem, as a logarithm. They are data in a file, made by ``stormwright learn`` from random
       problems whose placements are evaluated by `stormwright.predict`, and from placements measured on real clusters;
       their accuracy on unseen problems is published in ``docs/results/learned-choice.md``.
    4. From the best answer, `variants` random steps are generated in batches: an executor moves to another worker of
       its topology, two are swapped, a worker moves to a free slot. The best of a batch is taken as long as it is
       better and violates no constraint.
    5. Violations and unplaced executors count before the learned score. CPU is no constraint if a service measured the
       load, as it follows from rates.

    A file that is of another version, damaged, or trained on other features is refused. The answer names its rule and
    the reason (`reason`).

    Deterministic: the same problem, seed and file give the same answer. Ties go to the rule that comes first in the
    list of schedulers, and to the step generated first.

    When to use
    -----------
    Throughput matters, and predicting the rates of every placement, which takes about ten times as long, is too slow.
    If some seconds are available, `n_version` and `optimizer` are better: they use the prediction itself, which chooses
    better among measured placements. On some benchmark topologies it is worse than `even`.

    Ignores
    -------
    The limit of pending trees, and waiting times; prices, tags, speeds of processors and forecasts, except through the
    rules that use them.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks

    Raises
    ------
    InputError
        The file cannot be read, or is not a usable model.
    """

    params_type = LearnedParams
    asks_others = True
    adapts = ONLINE

    def __init__(self, params: LearnedParams | None = None) -> None:
        self.params = params or LearnedParams()
        self._model = read_model(Path(self.params.model) if self.params.model else OURS)

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        evaluator = LearnedEvaluator(problem, self._model)
        asking = Portfolio(problem, evaluator)
        asking.note_current()
        for name in cheap_rules(problem.num_executors):
            asking.ask(name, scheduler_keeping_running(name), keep_running=True)
        ranked = best_of(asking.answers)
        if not ranked:
            found, why = asking.none_usable(_NAME, self.params)
            return replace(found, parameters={**asdict(self.params), "reason": why})
        best = ranked[0]
        slots, steps = self._climbed(problem, evaluator, best.slots, best.rank[0])
        reason = f"{best.name} is the best of {counted(len(ranked), 'answer')} by what was learned"
        reason += f", and {counted(steps, 'step')} away is a better one" if steps else ""
        reason += f": {evaluator.comparison(slots, [each.slots for each in ranked])}"
        return replace(
            best.answer,
            slot_of_executor=frozen_ints(slots),
            scheduler=_NAME,
            parameters={
                **asdict(self.params),
                "chosen": best.name,
                "steps": steps,
                "left_out": asking.left_out,
                "reason": reason,
            },
            seconds=0.0,
        )

    def _climbed(
        self, problem: Problem, evaluator: LearnedEvaluator, slots: IntArray, broken: int
    ) -> tuple[IntArray, int]:
        """Return a placement improved by steps, and their number."""
        variants = Variants(problem, np.random.default_rng(self.params.seed))
        left = min(self.params.variants, _MAX_EVALUATED // max(problem.num_executors, 1))
        score, steps = evaluator.badness(slots), 0
        while left > 0:
            near = [each for each in variants.of(slots, min(left, _AT_ONCE)) if len(evaluator.broken(each)) <= broken]
            left -= _AT_ONCE
            if near:
                badness = evaluator.of_all(near)
                best = int(np.argmin(badness))
                if badness[best] < score - _SAME:
                    slots, score, steps = near[best], float(badness[best]), steps + 1
        return slots, steps


class LearnedEvaluator(PlacementEvaluator):
    """Evaluates placements by a trained model.

    Parameters
    ----------
    problem
        Problem of the placements.
    model
        Trained model, whose trees score the features of a placement.
    """

    def __init__(self, problem: Problem, model: Model) -> None:
        super().__init__(problem, "traffic")
        load = problem.load
        self.objective, self.soft_cpu = "throughput", load is not None and load.end_ms > load.start_ms
        self._describing, self._trees = FeatureExtractor(problem), model.trees

    def badness(self, slots: IntArray) -> float:
        """Return how much lower the throughput is than that of other placements, as a logarithm."""
        return float(self.of_all([slots])[0])

    def of_all(self, placements: list[IntArray]) -> FloatArray:
        """Return the badness of several placements, shape (n,)."""
        features = np.array([self._describing.features(slots) for slots in placements])
        badness: FloatArray = -self._trees.score(features)
        return badness

    def comparison(self, slots: IntArray, others: list[IntArray]) -> str:
        """Return a short text comparing a placement's learned score with those of the answers."""
        different = [each for each in others if not np.array_equal(each, slots)]
        if not different:
            return "all answers are the same"
        more = np.expm1(float(self.of_all(different).min()) - self.badness(slots))
        return f"{more:+.0%} throughput beside the next"


def cheap_rules(executors: int) -> Iterator[str]:
    """Yield the names of rules that are quick for `executors` executors."""
    for name in SCHEDULERS:
        traits = traits_of(name)
        if traits.asks_others or not traits.heeds_limits or traits.quick_up_to < executors:
            continue
        known = {field.name for field in fields(scheduler_type(name).params_type)}
        if "seed" not in known and (not traits.moves_running or "keep_running" in known):
            yield name
