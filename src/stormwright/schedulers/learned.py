"""Learned choice: of many rules' answers the one that, by what others like it came to, will perform best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np

from stormwright.model import Assignment, Problem
from stormwright.model.arrays import FloatArray, IntArray, frozen_ints
from stormwright.model.humanize import counted
from stormwright.schedulers.portfolio.evaluation import PlacementJudge
from stormwright.schedulers.portfolio.features import FeatureExtractor
from stormwright.schedulers.portfolio.members import Portfolio, Variants, best_of
from stormwright.schedulers.portfolio.model import OURS, Model, read_model
from stormwright.schedulers.toolkit.params import MOST_SEED, Params, param
from stormwright.schedulers.toolkit.registry import SCHEDULERS, scheduler_type, traits_of
from stormwright.schedulers.toolkit.resolve import keeping_what_runs
from stormwright.schedulers.toolkit.triggers import ONLINE

_NAME = "learned"

#: Steps that are drawn at once; the best of them is taken, if it is better.
_AT_ONCE = 16

#: Executors of all placements a step away together, at most: of large problems only the rules' answers count.
_MOST_JUDGED = 200_000

#: A score that is better by no more is the same.
_SAME = 1e-4


@dataclass(frozen=True, kw_only=True)
class LearnedParams(Params):
    """Parameters of the scheduler."""

    model: str = param("", "file of `stormwright learn` to go by; empty: the one that comes with the package")
    variants: int = param(256, "placements a step away that are looked at", low=0, high=1_000_000)
    seed: int = param(0, "of the random numbers that steps are drawn with", low=0, high=MOST_SEED)


class LearnedScheduler:
    """Asks cheap rules, and takes the answer, or one a few steps away, that is best by what it has learned.

    Own; after A. Mao et al., "Learning Scheduling Algorithms for Data Processing Clusters", SIGCOMM 2019,
    https://doi.org/10.1145/3341302.3342080, and T. Li et al., "Model-Free Control for Distributed Stream Data
    Processing using Deep Reinforcement Learning", VLDB 2018, https://doi.org/10.48550/arXiv.1803.01016, of which it has
    the aim and none of the method: what is learned here is to rank finished placements, as L. Xu, F. Hutter, H. Hoos,
    K. Leyton-Brown choose algorithms by their features in "SATzilla: Portfolio-based Algorithm Selection for SAT",
    Journal of Artificial Intelligence Research 32, 2008, https://doi.org/10.1613/jair.2490.

    1. Every rule that draws no random numbers, keeps limits and is quick for so many executors is asked for what waits.
    2. Each answer is described by figures that are parts or ratios: how full the fullest node, link and thread are
       beside the ideal, what of the traffic crosses what, how executors are spread, and what kind of problem it is.
    3. A line through what limits the rate, and regression trees for what it leaves, boosted (J. H. Friedman, "Greedy
       Function Approximation: A Gradient Boosting Machine", Annals of Statistics 29, 2001,
       https://doi.org/10.1214/aos/1013203451), say from these how its throughput compares with that of other placements
       of the problem, as a logarithm. They are data in a file, made by ``stormwright learn`` from problems
       drawn by chance whose placements are judged by `stormwright.predict`, and from placements that were measured on
       real clusters; how well they do on problems that they have not seen is published, in
       ``docs/results/learned-choice.md``.
    4. From the best, `variants` steps are drawn, some at once: an executor to another worker of its topology, two for
       each other, a worker to a free slot. The best of them is taken while it is better and keeps all limits.
    5. Limits broken and executors left out count before what is learned. CPU is no limit where a service measured the
       load, as rates come from it.

    A file of another version, a damaged one, or one learned from other figures is refused. The answer says whose it is
    and why (`told`).

    Deterministic: the same problem, seed and file give the same answer. Ties go to the rule that comes first in the
    list of schedulers, and to the step drawn first.

    When to use
    -----------
    Throughput counts, and rates are not to be predicted anew for every placement, which takes some ten times as long.
    Where there are some seconds, `n_version` and `optimizer` are better: they ask the prediction itself, which chooses
    better among placements that were measured. On some benchmark topologies it is worse than `even`.

    Ignores
    -------
    How many trees may be pending, and how long tuples wait; prices, tags, speeds of processors and forecasts, other
    than that rules which go by them are among those it asks.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks

    Raises
    ------
    InputError
        The file cannot be read, or is no model that it can go by.
    """

    params_type = LearnedParams
    asks_others = True
    adapts = ONLINE

    def __init__(self, params: LearnedParams | None = None) -> None:
        self.params = params or LearnedParams()
        self._model = read_model(Path(self.params.model) if self.params.model else OURS)

    def schedule(self, problem: Problem) -> Assignment:
        """Place what has no slot."""
        judge = LearnedJudge(problem, self._model)
        asking = Portfolio(problem, judge)
        asking.note_what_runs()
        for name in cheap_rules(problem.num_executors):
            asking.ask(name, keeping_what_runs(name), keep_running=True)
        ranked = best_of(asking.answers)
        if not ranked:
            found, why = asking.none_usable(_NAME, self.params)
            return replace(found, parameters={**asdict(self.params), "told": why})
        best = ranked[0]
        slots, steps = self._climbed(problem, judge, best.slots, best.rank[0])
        told = f"{best.name} is the best of {counted(len(ranked), 'answer')} by what was learned"
        told += f", and {counted(steps, 'step')} away is a better one" if steps else ""
        told += f": {judge.beside(slots, [each.slots for each in ranked])}"
        return replace(
            best.answer,
            slot_of_executor=frozen_ints(slots),
            scheduler=_NAME,
            parameters={
                **asdict(self.params),
                "chosen": best.name,
                "steps": steps,
                "left_out": asking.left_out,
                "told": told,
            },
            seconds=0.0,
        )

    def _climbed(self, problem: Problem, judge: LearnedJudge, slots: IntArray, broken: int) -> tuple[IntArray, int]:
        """A better placement by steps, and how many."""
        variants = Variants(problem, np.random.default_rng(self.params.seed))
        left = min(self.params.variants, _MOST_JUDGED // max(problem.num_executors, 1))
        score, steps = judge.badness(slots), 0
        while left > 0:
            near = [each for each in variants.of(slots, min(left, _AT_ONCE)) if len(judge.broken(each)) <= broken]
            left -= _AT_ONCE
            if near:
                badness = judge.of_all(near)
                best = int(np.argmin(badness))
                if badness[best] < score - _SAME:
                    slots, score, steps = near[best], float(badness[best]), steps + 1
        return slots, steps


class LearnedJudge(PlacementJudge):
    """Judges placements by what was learned of others.

    Parameters
    ----------
    problem
        What they are of.
    model
        What was learned.
    """

    def __init__(self, problem: Problem, model: Model) -> None:
        super().__init__(problem, "traffic")
        load = problem.load
        self.objective, self.soft_cpu = "throughput", load is not None and load.end_ms > load.start_ms
        self._describing, self._trees = FeatureExtractor(problem), model.trees

    def badness(self, slots: IntArray) -> float:
        """How much lower its throughput is than that of others, as a logarithm."""
        return float(self.of_all([slots])[0])

    def of_all(self, placements: list[IntArray]) -> FloatArray:
        """The same of several, shape (n,)."""
        features = np.array([self._describing.features(slots) for slots in placements])
        badness: FloatArray = -self._trees.score(features)
        return badness

    def beside(self, slots: IntArray, others: list[IntArray]) -> str:
        """What is learned of a placement beside the answers, in a few words."""
        different = [each for each in others if not np.array_equal(each, slots)]
        if not different:
            return "all answers are the same"
        more = np.expm1(float(self.of_all(different).min()) - self.badness(slots))
        return f"{more:+.0%} throughput beside the next"


def cheap_rules(executors: int) -> Iterator[str]:
    """Names of schedulers whose answers are looked at, of a problem of so many executors."""
    for name in SCHEDULERS:
        traits = traits_of(name)
        if traits.asks_others or not traits.heeds_limits or traits.quick_up_to < executors:
            continue
        known = {field.name for field in fields(scheduler_type(name).params_type)}
        if "seed" not in known and (not traits.moves_running or "keep_running" in known):
            yield name
