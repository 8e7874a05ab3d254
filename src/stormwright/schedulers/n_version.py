"""N-version choice: run all schedulers and take the answer with the best prediction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from stormwright.errors import SchedulerError, StormwrightError
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.arrays import frozen_ints
from stormwright.model.humanize import counted
from stormwright.schedulers.portfolio.evaluation import OBJECTIVES, PlacementEvaluator
from stormwright.schedulers.portfolio.members import (
    QUICK,
    WHAT_RUNS,
    MemberAnswer,
    Members,
    Portfolio,
    best_of,
    is_foreign,
    left_out_text,
)
from stormwright.schedulers.portfolio.scheduler_process import Member, ProcessScheduler, SchedulerProcess
from stormwright.schedulers.templates.by_rates import quietest
from stormwright.schedulers.toolkit.params import MAX_SECONDS, MAX_SEED, Params, param
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.traits import ANY_NUMBER
from stormwright.schedulers.toolkit.triggers import ONLINE

_NAME = "n_version"

#: Fraction of a time budget in which schedulers without a budget of their own may start; the rest is for the others.
_BEGINNING = 0.5

#: Fraction of the remaining time for a scheduler with a budget: its answer has to be evaluated, too.
_OF_THE_REST = 0.8

#: Maximum executors of problems whose answers are fed back until they are stable.
_SMALL = 64

#: Relative difference of reachable throughput that counts as equal, as for `optimizer`.
_SAME = 1e-3


@dataclass(frozen=True, kw_only=True)
class NVersionParams(Params):
    """Parameters of the scheduler."""

    schedulers: str = param(
        QUICK,
        "member schedulers: names separated by commas, all, or quick: all that usually answer a problem of this size "
        "within a second or two",
    )
    settings: str = param("", "parameters of the members: NAME.KEY=VALUE, separated by semicolons")
    objective: str = param(
        "auto",
        "objective for comparing answers; auto: throughput under the measured or assumed rates",
        choices=OBJECTIVES,
    )
    headroom_percent: float = param(
        20.0, "percentage of all nodes and links that stays free, for objective nodes", low=0, high=99
    )
    member_limit_s: float = param(
        60.0,
        "seconds for all answers of a scheduler of another package, including the start of its process",
        low=0.01,
        high=MAX_SECONDS,
    )
    time_budget_s: float = param(0.0, "seconds for all members together; 0: no limit", low=0, high=MAX_SECONDS)
    seed: int = param(0, "seed of members that use random numbers", low=0, high=MAX_SEED)
    keep_running: bool = param(False, "true: only place executors without a slot; running ones stay")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.members.check()

    @property
    def members(self) -> Members:
        """Return the member schedulers."""
        return Members(self.schedulers, self.settings, self.seed, self.objective, _NAME)


class NVersionScheduler:
    """Runs several schedulers, evaluates every answer by its prediction, and takes the best.

    Own; after the algorithm selection of J. R. Rice, "The Algorithm Selection Problem", Advances in Computers 15, 1976,
    https://doi.org/10.1016/S0065-2458(08)60520-3, in its simplest form: all are run, like the versions of a program in
    A. Avizienis, "The N-Version Approach to Fault-Tolerant Software", IEEE Transactions on Software Engineering 11,
    1985, https://doi.org/10.1109/TSE.1985.231893.

    1. Each scheduler places the executors without a slot; and if something runs, unless the scheduler itself moves
       running executors, it also places everything from scratch, with slots relabelled so that as little as possible
       moves. `keep_running` omits the latter.
    2. An answer is valid if it violates no more constraints than the running placement, places no topology in part and
       stops nothing. Failures and invalid answers are listed with the reason. A scheduler of another package runs in a
       process of its own, which is killed with its children if all its answers together take longer than
       `member_limit_s`. A scheduler that fails there is not run again. Java classes have a limit of their own.
    3. The best answer has fewest violations, then fewest executors without a slot, then the best objective, as defined
       by `optimizer`: reachable throughput of the worst topology, mean latency, nodes used (`stormwright.predict`), or
       cost of traffic. Without any traffic nothing can be predicted: then it is traffic, and the answer says so. CPU is
       no constraint if a service measured the rates, as it follows from them: a scheduler that leaves something out for
       lack of CPU is run again as if there were enough.
    4. The running placement is an answer, too, and is left unchanged for a predicted gain of less than half a percent.
    5. If nothing runs and there are up to 64 executors, the answer is fed back as if it ran, until it no longer
       changes: the result is stable.

    The answer names the chosen scheduler and the reason (`reason`), its prediction, and the runner-up; `answers` lists
    all.

    With built-in schedulers only, there is no time limit unless a time budget is given: the same problem and seed give
    the same answer. With `quick`, the members depend on the number of executors alone: for 100,000, those that answer
    within some seconds each, which takes less than a minute of one core. With a time budget, no scheduler starts once
    half of it is over (none of the built-in ones is interrupted), and those with a time budget of their own share the
    rest. Ties go to the running placement, then among placements of equal throughput to least traffic between nodes,
    then to the first scheduler in the list.

    When to use
    -----------
    It is unknown which rule suits a cluster, and some seconds are available to find out; or a custom Java scheduler
    should be used only if it is better (``--set schedulers=quick,java:CLASS``).

    Ignores
    -------
    All that its members ignore, and all that is not part of the objective: prices, tags, speeds of processors and
    forecasts.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks, weights

    Raises
    ------
    InputError
        A scheduler's name, or a parameter of one, is wrong.
    """

    params_type = NVersionParams
    moves_running = True
    asks_others = True
    adapts = ONLINE

    def __init__(self, params: NVersionParams | None = None) -> None:
        self.params = params or NVersionParams()
        self.moves_running = not self.params.keep_running
        self.stays_near = self.params.keep_running
        self._members = self.params.members
        self.uses_forecast = any(traits_of(name).uses_forecast for name in self._members.for_size(0))

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        end_s = time.perf_counter() + (self.params.time_budget_s or np.inf)
        with SchedulerProcess(end_s) as apart:
            found = self._decided(problem, end_s, apart)
            if problem.num_executors > _SMALL or np.any(problem.current_slot != UNPLACED):
                return found
            earlier = {found.slot_of_executor.tobytes()}
            while True:  # rule 5; if some find no room, two placements may alternate
                again = self._decided(problem.with_current(found.by_topology(problem)), end_s, apart)
                if again.slot_of_executor.tobytes() in earlier:
                    return found
                earlier.add(again.slot_of_executor.tobytes())
                found = again

    def _decided(self, problem: Problem, end_s: float, apart: SchedulerProcess) -> Assignment:
        evaluator = PlacementEvaluator(problem, self.params.objective, self.params.headroom_percent / 100)
        asking = Portfolio(problem, evaluator)
        asking.note_current()
        for name, budget_s in self._turns(problem, end_s):
            if budget_s < 0:
                asking.left_out[name] = "the time limit was reached before it began"
                continue
            scheduler = self._made(name, budget_s, apart)
            if isinstance(scheduler, Exception):
                asking.left_out[name] = f"failed: {' '.join(str(scheduler).split())}"
                continue
            asking.ask(name, scheduler, self.params.keep_running)
        return self._answer(evaluator, asking)

    def _made(self, name: str, budget_s: float, apart: SchedulerProcess) -> Scheduler | StormwrightError:
        """Return a member, or the error; one of another package is created in its own process."""
        if not is_foreign(name):
            return self._members.made(name, budget_s)
        try:
            return ProcessScheduler(apart, Member(self._members, name, budget_s), self.params.member_limit_s)
        except SchedulerError as error:
            return error

    def _turns(self, problem: Problem, end_s: float) -> Iterator[tuple[str, float]]:
        """Yield members and their time budgets in seconds, below 0 for those without time left."""
        members, executors = self._members, problem.num_executors
        names = members.for_size(executors)
        if not self.params.time_budget_s:
            yield from ((name, 0.0) for name in names)
            return
        begin_until_s = end_s - self.params.time_budget_s * (1 - _BEGINNING)
        searching = [name for name in names if members.keeps_budget(name)]
        rules = [name for name in names if name not in searching]
        for name in sorted(rules, key=lambda name: min(traits_of(name).quick_up_to, ANY_NUMBER), reverse=True):
            slow = traits_of(name).quick_up_to < executors
            yield name, 0.0 if not slow and time.perf_counter() < begin_until_s else -1.0
        for number, name in enumerate(searching):
            left_s = (end_s - time.perf_counter()) * _OF_THE_REST / (len(searching) - number)
            yield name, max(left_s, 0.01)

    def _answer(self, evaluator: PlacementEvaluator, asking: Portfolio) -> Assignment:
        ranked = _ranked(evaluator, asking)
        report = {
            "objective": evaluator.objective,
            "answers": [_figures(each) for each in ranked],
            "left_out": asking.left_out,
        }
        if not ranked:
            found, report["reason"] = asking.none_usable(_NAME, self.params)
            report["chosen"] = WHAT_RUNS
        else:
            found, report["chosen"], report["reason"] = (
                ranked[0].answer,
                ranked[0].name,
                _reason(evaluator, asking, ranked),
            )
        return replace(
            found,
            slot_of_executor=frozen_ints(found.slot_of_executor),
            scheduler=_NAME,
            parameters={**asdict(self.params), **report},
            seconds=0.0,
        )


def _ranked(evaluator: PlacementEvaluator, asking: Portfolio) -> list[MemberAnswer]:
    """Return the answers, best first: rules 3 and 4, and the tie-breaks."""
    ranked = best_of(asking.answers)
    if not ranked:
        return ranked
    first = ranked[0]
    if evaluator.objective == "throughput":
        alike = [each for each in ranked if each.rank[:2] == first.rank[:2]]
        chosen = quietest(evaluator.problem, [each.slots for each in alike], [each.rank[2] for each in alike], _SAME)
        first = alike[chosen]
    stays = next((each for each in ranked if not each.moves), None)
    if first.moves and stays and stays.rank[:2] == first.rank[:2] and not evaluator.pays(first.rank[2], stays.rank[2]):
        first = stays
    return [first, *(each for each in ranked if each is not first)]


def _reason(evaluator: PlacementEvaluator, asking: Portfolio, ranked: list[MemberAnswer]) -> str:
    """Return a sentence that names the winner and the reason."""
    best, answers = ranked[0], len(ranked) + len(asking.left_out)
    promise = evaluator.promise(best.slots)
    parts = [f"{best.name} is the best of {counted(answers, 'answer')}, by {evaluator.objective}: {promise}"]
    other = next((each for each in ranked if not np.array_equal(each.slots, best.slots)), None)
    if other is not None:
        lacks = f", {counted(other.rank[1], 'executor')} left out" if other.rank[1] > best.rank[1] else ""
        parts.append(f"next {other.name}: {evaluator.promise(other.slots)}{lacks}")
    else:
        parts.append("all that can be used are the same")
    if evaluator.note:
        parts.append(evaluator.note)
    if asking.left_out:
        parts.append(f"left out: {left_out_text(asking.left_out)}")
    return "; ".join(parts)


def _figures(each: MemberAnswer) -> dict[str, Any]:
    """Return an answer as a JSON object."""
    broken, left, badness = each.rank
    found = {"scheduler": each.name, "limits_broken": broken, "unplaced": left, "badness": badness}
    return {**found, "moves": each.moves}
