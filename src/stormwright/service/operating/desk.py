"""What people ask a service for: plans, what becomes of them, and the history. Every answer is a shape of the API."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from stormwright.client import shapes
from stormwright.client.guarding import DrainAsked
from stormwright.client.shapes import PlanState
from stormwright.controller.objectives.objective import InOrder
from stormwright.controller.planning.plan import MovePlan
from stormwright.controller.plans.draft import FewestMoves, PlanDraft, PlanWish, drafted, measured_rates, restored
from stormwright.controller.plans.modes import fitting_nothing
from stormwright.controller.plans.preconditions import changes
from stormwright.controller.policy import Decision, planned_slots
from stormwright.controller.safety.evacuation import emptied
from stormwright.errors import ConflictError, StormwrightError
from stormwright.model import Problem, Scheduler
from stormwright.service.guarding.nodes import NodeDesk
from stormwright.service.operating.guard import Guard
from stormwright.service.operating.ledger import Ledger
from stormwright.service.operating.making import PlanMaking
from stormwright.service.operating.plans import BEGINS, HALTED, OPEN, KeptPlans, PlanRow
from stormwright.service.operating.reading import Reading
from stormwright.service.operating.why import explained

log = logging.getLogger(__name__)

#: Who asks for plans that the service makes by itself.
ITSELF = "stormwright"


@dataclass(frozen=True)
class Makers:
    """Who places, for a plan.

    Parameters
    ----------
    goal
        What the service itself goes by.
    scheduler
        Goal → who decides.
    keeping
        Places what has no slot and leaves alone what runs.
    """

    goal: str
    scheduler: Callable[[str], Scheduler]
    keeping: Scheduler


class Desk(Reading):
    """Answers what people ask; safe to use from several threads. Plans are made one at a time, in a thread of its own.

    Parameters
    ----------
    plans, ledger, guard
        Keep plans, what was done, and modes.
    problem
        What runs now, under the load measured last.
    makers
        Who places.
    """

    def __init__(
        self, plans: KeptPlans, ledger: Ledger, guard: Guard, problem: Callable[[], Problem | None], makers: Makers
    ) -> None:
        super().__init__(plans, ledger, self._modes_told)
        self._guard, self._makers, self._problem = guard, makers, problem
        self._making = PlanMaking(plans, ledger, problem)
        self._starting = threading.Lock()
        self.nodes = NodeDesk(guard.drains, ledger, self._making.now, self.empty, self._leave)
        for row in plans.rows(["planning", "planned"], most=2**31):
            if row.state == "planning" or row.begins:
                plans.change(row.id, [row.state], "failed", "the service ended before it was made")

    def close(self) -> None:
        """Make no more plans."""
        self._making.close()

    # Plans ------------------------------------------------------------------------------------------------------------

    def ask(self, asked: shapes.PlanAsked) -> shapes.Plan:
        """Begin to make a plan; the answer has its id.

        Raises
        ------
        ConflictError
            `MOST_WAITING` plans wait to be made.
        """
        self._making.require_room()
        goals = tuple(dict.fromkeys(asked.goals)) or (self._makers.goal,)
        plan = self._plans.add("plan", ",".join(goals), asked.by, asked.reason, asked.model_dump())
        wish = PlanWish(goals, asked.topologies, asked.nodes, asked.least_gain_percent, asked.only is not None)
        scheduler = FewestMoves(self._makers.keeping) if wish.repairs else InOrder(goals, self._makers.scheduler)
        self._making.submit(lambda: self._making.make(plan, lambda problem: drafted(problem, scheduler, wish)))
        return self.plan(plan)

    def empty(self, host: str, asked: DrainAsked) -> shapes.Plan:
        """Begin to plan what brings everything away from a host; it begins by itself unless it is to wait."""
        self._making.require_room()
        goal, keeping = self._makers.goal, self._makers.keeping
        reason, told = f"{host} is drained: {asked.reason}", {"host": host, BEGINS: not asked.wait}
        plan = self._plans.add("plan", goal, asked.by, reason, told)
        self._submit(plan, lambda problem: emptied(problem, keeping, frozenset([host]), goal), "planned")
        return self.plan(plan)

    def _leave(self, host: str, told: shapes.Told) -> None:
        """Give up the plans that would bring everything away from a host, as far as they were not begun."""
        states = ("planning", *OPEN)
        for row in self._plans.lines(states, most=2**31):
            if orjson.loads(row.asked).get("host") == host:
                self._plans.change(row.id, states, "discarded", f"{told.by} uncordoned {host}: {told.reason}")

    def revert(self, n: int, told: shapes.Told) -> shapes.Plan:
        """Begin to restore the placement as it was before an entry of the history.

        Raises
        ------
        NotThereError, ConflictError
            There is no such entry, it has moved nothing, a plan is under way, everything is frozen, or too many wait.
        """
        before, name = self._ledger.before(n), self._guard.holds.names.of_slot
        self._require_free()
        self._making.require_room()
        reason = f"entry {n} of the history: {told.reason}"
        plan = self._plans.add("revert", self._makers.goal, told.by, reason, {"n": n, BEGINS: True})
        self._submit(plan, lambda problem: restored(problem, before, self._makers.goal, name), "failed")
        return self.plan(plan)

    def propose(self, problem: Problem, decision: Decision) -> str | None:
        """Keep a decision of the service itself as a plan that waits for a person; its id, None where it is kept."""
        steps = decision.plan.steps
        if not steps:
            return None
        plan = self._plans.add("plan", self._makers.goal, ITSELF, decision.reason, {})
        slots = planned_slots(problem, decision.plan.moves)
        moves = MovePlan(steps, decision.plan.left)
        self._making.keep(plan, PlanDraft(problem, moves, slots, decision.reason, "", decision.promises), "proposed")
        return plan

    def explain(self, topology: str | None, executor: int | None) -> shapes.Explained:
        """Why executors are where they are; it raises what `explained` raises, or that nothing is known yet."""
        return explained(self._making.now(), topology, executor)

    def apply(self, plan: str, told: shapes.Told) -> shapes.Plan:
        """Begin to apply a plan.

        Raises
        ------
        NotThereError, ConflictError
            There is none; it is not to be applied any more; the cluster has changed since it was made; another one is
            under way; everything is frozen; or somebody else has to apply it than who asked for it.
        """
        row = self._plans.row(plan)
        if row.state not in OPEN:
            raise ConflictError(f"plan {plan} is {row.state}: only one that is planned or proposed is applied")
        if self._guard.modes.two_people and told.by == row.who:
            raise ConflictError(f"plan {plan} was asked for by {row.who}: somebody else has to apply it")
        self._start(row, told.by, f"{row.reason}; {told.reason}")
        return self.plan(plan)

    def stop(self, plan: str, told: shapes.Told) -> shapes.Plan:
        """Stop a plan as soon as nobody is half way."""
        row = self._plans.row(plan)
        if row.state not in ("applying", "judging"):
            raise ConflictError(f"plan {plan} is {row.state}: there is nothing to stop")
        self._plans.ask_to_stop(plan)
        log.info("plan %s is to stop, says %s: %s", plan, told.by, told.reason)
        return self.plan(plan)

    def resume(self, plan: str, told: shapes.Told) -> shapes.Plan:
        """Go on with a plan that was stopped or waits; a stage that has moved is taken as good."""
        row = self._plans.row(plan)
        if row.state not in HALTED:
            raise ConflictError(f"plan {plan} is {row.state}: only one that was stopped or waits is resumed")
        steps = self._plans.steps(plan)
        stage_made = all(each.state == "moved" for each in steps if each.stage == row.stage)
        last = max((each.stage for each in steps), default=0)
        stage = row.stage + stage_made
        self._require_no_hold()
        with self._starting:
            self._require_free()
            self._plans.change(plan, HALTED, "applying" if stage <= last else "done", stage=stage, stop=0)
        log.info("plan %s goes on, says %s: %s", plan, told.by, told.reason)
        return self.plan(plan)

    def discard(self, plan: str, told: shapes.Told) -> shapes.Plan:
        """Give up a plan, or that it is made; what it has moved stays where it is."""
        row = self._plans.row(plan)
        if not self._plans.change(plan, ["planning", *OPEN, *HALTED], "discarded", f"{told.by}: {told.reason}"):
            raise ConflictError(f"plan {plan} is {row.state}: it cannot be discarded")
        return self.plan(plan)

    # Modes ------------------------------------------------------------------------------------------------------------

    def change_modes(self, wanted: shapes.ModesChange) -> shapes.Modes:
        """Let other modes hold; to freeze stops a plan under way. It raises what `Guard.change` raises."""
        with self._starting:  # no plan begins between the two
            modes = self._guard.change(wanted)
            under_way = self._plans.under_way()
        if modes.frozen and under_way:
            self._plans.ask_to_stop(under_way.id)
        return self.modes()

    def _modes_told(self) -> shapes.Modes:
        """Those that hold, with what may not be meant so."""
        modes, problem = self._guard.modes, self._problem()
        there = [] if problem is None else [(each.id, each.name) for each in problem.topologies]
        return modes.model_copy(update={"warnings": () if problem is None else fitting_nothing(modes, there)})

    # ------------------------------------------------------------------------------------------------------------------

    def _require_free(self) -> None:
        if self._guard.modes.frozen:
            raise ConflictError(f"everything is frozen: {self._guard.modes.frozen}")
        if other := self._plans.under_way():
            raise ConflictError(f"plan {other.id} is {other.state}: one is applied at a time")

    def _require_no_hold(self) -> None:
        """Nimbus is asked, which may take long: nobody who wants to freeze everything may wait for that."""
        self._require_free()
        if hold := self._guard.holds.before_moving():
            raise ConflictError(hold.why)

    def _submit(self, plan: str, make: Callable[[Problem], PlanDraft], otherwise: PlanState) -> None:
        """Have a plan made, which then begins in the name of who asked for it; it is `otherwise` if it may not."""

        def work() -> None:
            self._making.make(plan, make)
            row = self._plans.row(plan)
            if row.state != "planned" or not row.begins:
                return
            if self._guard.modes.two_people:
                self._plans.waits(plan, "planned", f"{row.who} has asked for it: somebody else has to apply it")
                return
            try:
                self._start(row, row.who, row.reason)
            except StormwrightError as error:
                self._plans.waits(plan, otherwise, str(error))

        self._making.submit(work)

    def _start(self, row: PlanRow, by: str, reason: str) -> None:
        self._require_no_hold()
        with self._starting:
            self._require_free()
            problem = self._making.now()
            rates = measured_rates(problem) if row.kind == "plan" else None
            if found := changes(orjson.loads(row.relied), problem, {}, rates):
                raise ConflictError(
                    f"plan {row.id} cannot be applied, as the cluster has changed since: {'; '.join(found)}; plan anew"
                )
            if not self._plans.steps(row.id):
                self._plans.change(row.id, OPEN, "done", "nothing was to move")
                return
            with self._plans.together():
                n = self._ledger.begin(row.kind, by, reason, orjson.loads(row.document).get("gain", ""), row.id)
                if not self._plans.begin(row.id, n, by):
                    state = self._plans.row(row.id).state
                    raise ConflictError(f"plan {row.id} is {state} meanwhile: nothing was begun")
