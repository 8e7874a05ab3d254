"""N-version choice: all schedulers are asked, and the answer counts that is predicted to be best."""

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
from stormwright.schedulers.portfolio.evaluation import OBJECTIVES, TRAFFIC, PlacementJudge
from stormwright.schedulers.portfolio.members import (
    QUICK,
    WHAT_RUNS,
    MemberAnswer,
    Members,
    Portfolio,
    best_of,
    is_of_others,
    told_left_out,
)
from stormwright.schedulers.portfolio.scheduler_process import Member, ProcessScheduler, SchedulerProcess
from stormwright.schedulers.templates.by_rates import quietest
from stormwright.schedulers.toolkit.params import MOST_SECONDS, MOST_SEED, Params, param
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.traits import ANY_NUMBER
from stormwright.schedulers.toolkit.triggers import ONLINE

_NAME = "n_version"

#: Of a time budget, the part in which schedulers that keep none may begin; what is left is for those that do.
_BEGINNING = 0.5

#: Of the time that is left, the part that one gets which keeps a budget: its answer has to be judged, too.
_OF_THE_REST = 0.8

#: What is decided upon again until it stays has at most so many executors.
_SMALL = 64

#: Of reachable throughput, what is as good, as for `optimizer`.
_SAME = 1e-3


@dataclass(frozen=True, kw_only=True)
class NVersionParams(Params):
    """Parameters of the scheduler."""

    schedulers: str = param(
        QUICK,
        "who is asked: names separated by commas, all, or quick: all that usually answer a problem of the size at hand "
        "within a second or two",
    )
    settings: str = param("", "parameters of theirs: NAME.KEY=VALUE, several separated by semicolons")
    objective: str = param(
        "auto",
        "what answers are judged by; auto: throughput where a service measured the load, else traffic",
        choices=OBJECTIVES,
    )
    headroom_percent: float = param(
        20.0, "what is to stay free of all nodes and links, for objective nodes", low=0, high=99
    )
    member_limit_s: float = param(
        60.0,
        "seconds that one of another package has for all its answers, with the start of a process for them",
        low=0.01,
        high=MOST_SECONDS,
    )
    time_budget_s: float = param(0.0, "seconds for all of them together; 0: no clock", low=0, high=MOST_SECONDS)
    seed: int = param(0, "for those that draw random numbers", low=0, high=MOST_SEED)
    keep_running: bool = param(False, "true: only place what has no slot, around what runs")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.members.check()

    @property
    def members(self) -> Members:
        """Who is asked."""
        return Members(self.schedulers, self.settings, self.seed, self.objective, _NAME)


class NVersionScheduler:
    """Asks several schedulers, judges every answer by what is predicted of it, and takes the best.

    Own; after the algorithm selection of J. R. Rice, "The Algorithm Selection Problem", Advances in Computers 15, 1976,
    https://doi.org/10.1016/S0065-2458(08)60520-3, in its simplest form: all are run, as versions of a program are in A.
    Avizienis, "The N-Version Approach to Fault-Tolerant Software", IEEE Transactions on Software Engineering 11, 1985,
    https://doi.org/10.1109/TSE.1985.231893.

    1. Each scheduler is asked as it is, for what waits; and where something runs, unless it moves of that what pays by
       itself, as if nothing ran, in such slots that as little as can be moves. With `keep_running` it is not.
    2. An answer counts that breaks no more limits than what runs does, places no topology in part and stops nothing.
       One that fails, or does not count, is left out, and named with the reason. One of another package answers in a
       process of its own: where all that it is asked takes longer than `member_limit_s`, this is ended with what was
       started in it. Who fails there is not asked again. Java classes have a limit of their own.
    3. Of these, the best by fewest limits broken, fewest executors without a slot, then the objective as `optimizer`
       knows it: reachable throughput of the topology that comes off worst, mean latency, nodes used
       (`stormwright.predict`), or cost of traffic. Where no load was measured there is nothing to predict from: then it
       is traffic, and the answer says so. CPU is no limit where rates are predicted, as they come from it: who leaves
       something out for it is asked again as if there were enough.
    4. What runs is an answer, too, and is left alone for less than half a percent of what is predicted.
    5. Where nothing runs and there are up to 64 executors, the answer by traffic is decided upon again as if it ran,
       until it stays: given back as what runs, it needs no change.

    The answer says who was chosen and why (`told`), what it promises, and the runner-up; `answers` has all of them.

    Where all are ours there is no clock unless a time budget is given: the same problem and seed give the same answer.
    With `quick`, who is asked hangs on the number of executors alone: of 100,000, those that answer within some seconds
    each, which takes less than a minute of one core. With a time budget, no scheduler begins once half of it is over
    (none of ours is ended that has begun), and those that search for as long as they are told share the rest. Ties go
    to what runs, then among placements of equal throughput to least traffic between nodes, then to the scheduler that
    was asked first, in the order of their list.

    When to use
    -----------
    It is not known which rule suits a cluster, and some seconds are there to find out; or a Java scheduler of one's own
    shall only count where it is better (``--set schedulers=quick,java:CLASS``).

    Ignores
    -------
    What those who are asked ignore; and of what they go by, all that the objective does not know: prices, tags, speeds
    of processors and forecasts.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks

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
        self.near_what_runs = self.params.keep_running
        self._members = self.params.members
        self.uses_forecast = any(traits_of(name).uses_forecast for name in self._members.for_size(0))

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        end_s = time.perf_counter() + (self.params.time_budget_s or np.inf)
        with SchedulerProcess(end_s) as apart:
            found = self._decided(problem, end_s, apart)
            small = problem.num_executors <= _SMALL and found.parameters["objective"] == TRAFFIC
            if not small or np.any(problem.current_slot != UNPLACED):
                return found
            seen = {found.slot_of_executor.tobytes()}
            while True:  # rule 5; where some find no room, two placements may take turns
                again = self._decided(problem.with_current(found.by_topology(problem)), end_s, apart)
                if again.slot_of_executor.tobytes() in seen:
                    return found
                seen.add(again.slot_of_executor.tobytes())
                found = again

    def _decided(self, problem: Problem, end_s: float, apart: SchedulerProcess) -> Assignment:
        judge = PlacementJudge(problem, self.params.objective, self.params.headroom_percent / 100)
        asking = Portfolio(problem, judge)
        asking.note_what_runs()
        for name, budget_s in self._turns(problem, end_s):
            if budget_s < 0:
                asking.left_out[name] = "the time was over before it could begin"
                continue
            scheduler = self._made(name, budget_s, apart)
            if isinstance(scheduler, Exception):
                asking.left_out[name] = f"failed: {' '.join(str(scheduler).split())}"
                continue
            asking.ask(name, scheduler, self.params.keep_running)
        return self._answer(problem, judge, asking)

    def _made(self, name: str, budget_s: float, apart: SchedulerProcess) -> Scheduler | StormwrightError:
        """A member, or why there is none; one of another package is made where it is asked."""
        if not is_of_others(name):
            return self._members.made(name, budget_s)
        try:
            return ProcessScheduler(apart, Member(self._members, name, budget_s), self.params.member_limit_s)
        except SchedulerError as error:
            return error

    def _turns(self, problem: Problem, end_s: float) -> Iterator[tuple[str, float]]:
        """Who is asked, and for how many seconds where that can be told; below 0 who is not."""
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

    def _answer(self, problem: Problem, judge: PlacementJudge, asking: Portfolio) -> Assignment:
        ranked = _ranked(problem, judge, asking)
        told = {
            "objective": judge.objective,
            "answers": [_figures(each) for each in ranked],
            "left_out": asking.left_out,
        }
        if not ranked:
            found, told["told"] = asking.none_usable(_NAME, self.params)
            told["chosen"] = WHAT_RUNS
        else:
            found, told["chosen"], told["told"] = ranked[0].answer, ranked[0].name, _told(judge, asking, ranked)
        return replace(
            found,
            slot_of_executor=frozen_ints(found.slot_of_executor),
            scheduler=_NAME,
            parameters={**asdict(self.params), **told},
            seconds=0.0,
        )


def _ranked(problem: Problem, judge: PlacementJudge, asking: Portfolio) -> list[MemberAnswer]:
    """The answers, the one to take first: rules 3 and 4, and who comes first among equals."""
    ranked = best_of(asking.answers)
    if not ranked:
        return ranked
    first = ranked[0]
    if judge.objective == "throughput":
        alike = [each for each in ranked if each.rank[:2] == first.rank[:2]]
        chosen = quietest(problem, [each.slots for each in alike], [each.rank[2] for each in alike], _SAME)
        first = alike[chosen]
    stays = next((each for each in ranked if not each.moves), None)
    if first.moves and stays and stays.rank[:2] == first.rank[:2] and not judge.pays(first.rank[2], stays.rank[2]):
        first = stays
    return [first, *(each for each in ranked if each is not first)]


def _told(judge: PlacementJudge, asking: Portfolio, ranked: list[MemberAnswer]) -> str:
    """Who won and why, in a sentence."""
    best, asked = ranked[0], len(ranked) + len(asking.left_out)
    parts = [
        f"{best.name} is the best of {counted(asked, 'answer')}, by {judge.objective}: {judge.promise(best.slots)}"
    ]
    other = next((each for each in ranked if not np.array_equal(each.slots, best.slots)), None)
    if other is not None:
        lacks = f", {counted(other.rank[1], 'executor')} left out" if other.rank[1] > best.rank[1] else ""
        parts.append(f"next {other.name}: {judge.promise(other.slots)}{lacks}")
    else:
        parts.append("all that can be used are the same")
    if judge.note:
        parts.append(judge.note)
    if asking.left_out:
        parts.append(f"left out: {told_left_out(asking.left_out)}")
    return "; ".join(parts)


def _figures(each: MemberAnswer) -> dict[str, Any]:
    """An answer for programs."""
    broken, left, badness = each.rank
    found = {"scheduler": each.name, "limits_broken": broken, "unplaced": left, "badness": badness}
    return {**found, "moves": each.moves}
