"""The decision that takes back a move after which a topology does measurably worse."""

from __future__ import annotations

from stormwright.controller.aims.refused import FIRST_S, Refusal, crowds
from stormwright.controller.planning.plan import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.policy import Decision, planned_slots
from stormwright.history.judged.evaluation import Worse, predicted_ratios
from stormwright.history.judged.promise import Promise
from stormwright.model import Assignment, Problem, cost_of


def way_back(problem: Problem, worse: Worse) -> Decision:
    """Back to where the topology was before its move; where there is no room any more it stays, and it is said why.

    It is more urgent than any trigger, and no gain is asked for: what is gained was measured.
    """
    topology, before = worse.moved.topology, worse.moved.before
    index = problem.topology_index[topology]
    name = problem.topologies[index].name
    reason = f"{name} goes back to where it was: since its move {worse.why}"
    now = cost_of(problem, problem.current_slot)
    known = problem.slot_index
    if before is None or any(slot not in known for slot in before.slots):
        return Decision(True, f"{reason}; but it stays, as a node that it was on is gone", before=now)
    wanted = problem.current_slot.copy()
    wanted[problem.executors_of(index)] = [known[before.slots[slot]] for slot in before.slot_of_executor]
    # There it did better, whatever CPU it seems to take.
    budget = MoveBudget(max_topologies=1, max_executors=len(wanted))
    had = len(before.slots)
    workers = {topology: had} if had != problem.topologies[index].num_workers else {}
    plan = plan_moves(problem, Assignment(wanted, num_workers=workers), budget, cpu_limits=False)
    if not plan.moves:
        return Decision(True, f"{reason}; but it stays, {plan.left.get(topology, 'as it is there')}", plan, now)
    promise = Promise(predicted_ratios(problem, [index], planned_slots(problem, plan.moves))[0])
    after = cost_of(problem, wanted)
    return Decision(True, reason, plan, now, after, promises={topology: promise}, takes_back=frozenset([topology]))


def refusal(problem: Problem, worse: Worse, now_ms: float) -> Refusal:
    """What is remembered of a placement that is taken back; it is the current one.

    Parameters
    ----------
    problem
        What runs.
    worse
        Why it is taken back.
    now_ms
        The time of day.
    """
    index, promise = problem.topology_index[worse.moved.topology], worse.moved.promise
    where = crowds(problem, index, problem.current_slot)
    return Refusal(where, promise.worth, promise.rate_tps, now_ms + FIRST_S * 1000, FIRST_S, worse.why)
