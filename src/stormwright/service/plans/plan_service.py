"""What people ask a service for: plans, what becomes of them, and the history. Every answer is a shape of the API."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue

import orjson

from stormwright.client import shapes
from stormwright.client.shapes import DrainRequest, PlanState
from stormwright.controller.objectives.objective import LexicographicObjective
from stormwright.controller.planning.plan import MovePlan
from stormwright.controller.plans.description import Pause, expected_pause, plan_document
from stormwright.controller.plans.document import step_to_dict
from stormwright.controller.plans.draft import FewestMoves, PlanDraft, PlanWish, drafted, measured_rates, restored
from stormwright.controller.plans.modes import fitting_nothing
from stormwright.controller.plans.preconditions import changes, relied_on
from stormwright.controller.plans.stages import staged
from stormwright.controller.policy import Decision, planned_slots
from stormwright.controller.safety.evacuation import emptied
from stormwright.errors import ConflictError, StormwrightError
from stormwright.explain.explain import explanations
from stormwright.explain.explanation import BEST, ComponentExplanation
from stormwright.model import Assignment, Problem, Scheduler
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plans import BEGINS, HALTED, OPEN, PlanRow, PlanStore
from stormwright.service.plans.queries import PlanQueries
from stormwright.service.safety.nodes import NodeService

# Making plans -------------------------------------------------------------------------------------
# Makes plans, one at a time, in a thread of its own.

#: Plans that wait to be made, at most: more are somebody's loop.
MOST_WAITING = 20


class PlanMaking:
    """Makes plans of what people ask for, in the order in which they do.

    Parameters
    ----------
    plans, ledger
        Keep plans, and tell how long topologies paused.
    problem
        What runs now, under the load measured last.
    """

    def __init__(self, plans: PlanStore, ledger: Journal, problem: Callable[[], Problem | None]) -> None:
        self._plans, self._ledger, self._problem = plans, ledger, problem
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._closed = False
        # A daemon: a search may take minutes, and whoever ends the service does not wait for it.
        threading.Thread(target=self._run, name="stormwright-plans", daemon=True).start()

    def close(self) -> None:
        """Make no more plans; one that is being made is left, and has failed for the next service."""
        self._closed = True
        self._work.put(lambda: None)

    def require_room(self) -> None:
        """Raise ConflictError where `MOST_WAITING` plans wait to be made."""
        if len(self._plans.rows(["planning"], MOST_WAITING)) == MOST_WAITING:
            raise ConflictError(f"{MOST_WAITING} plans wait to be made: try again when some of them are")

    def submit(self, work: Callable[[], None]) -> None:
        """Have something done after all that was submitted before."""
        self._work.put(work)

    def make(self, plan: str, make: Callable[[Problem], PlanDraft]) -> None:
        """Make a plan (by id) of what runs now, on this thread; where that cannot be it has failed, and says why."""
        try:
            if self._plans.row(plan).state != "planning":
                return  # discarded while others were made
            self.keep(plan, make(self.now()), "planned")
        except StormwrightError as error:
            self._plans.change(plan, ["planning"], "failed", error.line)
        except Exception as error:  # a bug of a scheduler: who waits for the plan is told
            if self._closed:
                return
            log.exception("plan %s could not be made", plan)
            self._plans.change(plan, ["planning"], "failed", f"{type(error).__name__}: {error}")

    def now(self) -> Problem:
        """What runs now; ConflictError before Nimbus has asked."""
        problem = self._problem()
        if problem is None:
            raise ConflictError("Nimbus has not asked yet: try again in 10 s")
        return problem

    def keep(self, plan: str, draft: PlanDraft, state: str) -> None:
        """Keep what a plan is made of; it is in another state from then on."""
        steps = draft.plan.steps
        relied = relied_on(draft.problem, steps, measured_rates(draft.problem, draft.placements))
        stages = None if self._plans.row(plan).kind == "revert" else staged(steps)
        document = plan_document(draft, self._pause, stages)
        told = [step_to_dict(step, draft.problem) for step in steps]
        by_stage = list(zip(stages or [0] * len(steps), told, strict=True))
        self._plans.made(plan, state, draft.why, document, relied, draft.promises, by_stage)

    def _pause(self, name: str) -> Pause:
        return expected_pause(self._ledger.pauses(name), self._ledger.pauses())

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if self._closed:
                return
            try:
                work()
            except Exception:  # a full disk, say: the plan then fails at the next start
                if not self._closed:
                    log.exception("a plan could not be kept")


# Explanations -------------------------------------------------------------------------------------
# Why an executor is where it is now, or others have no slot.

#: Explanations of one answer at most: each looks at all nodes.
_MOST = 20


def explained(problem: Problem, topology: str | None, executor: int | None) -> shapes.Explained:
    """Explain what runs: one executor, or those of a topology, or all, that have no slot.

    Parameters
    ----------
    problem
        What runs now.
    topology, executor
        As `stormwright.explain.explain.explain` has them.

    Raises
    ------
    InputError
        There is no such topology or executor.
    """
    runs = Assignment(problem.current_slot, scheduler="stormwright")
    each = explanations(problem, runs, topology, executor, only_unplaced=executor is None)
    found = list(islice(each, _MOST + 1))
    return shapes.Explained(explanations=tuple(map(_shaped, found[:_MOST])), more=len(found) > _MOST)


def _shaped(of: ComponentExplanation) -> shapes.Explanation:
    best = of.open_nodes[:BEST] if of.slot else []
    return shapes.Explanation(
        topology=of.topology,
        component=of.component,
        executors=of.executors,
        slot=of.slot,
        text=of.histogram if of.slot else of.status_text,
        shortages=of.shortages,
        ruled_out=tuple(shapes.RuledOut(nodes=each.nodes, kind=each.kind, text=str(each)) for each in of.counts),
        best=tuple(
            shapes.OtherNode(
                node=each.node,
                supervisor=each.supervisor,
                host=each.host,
                cost_change=each.cost_change or 0.0,
                joins=each.worker,
            )
            for each in best
        ),
    )


log = logging.getLogger(__name__)

# Plan service -------------------------------------------------------------------------------------

#: Who asks for plans that the service makes by itself.
ITSELF = "stormwright"


@dataclass(frozen=True)
class PlanMakers:
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


class PlanService(PlanQueries):
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
        self, plans: PlanStore, ledger: Journal, guard: Guard, problem: Callable[[], Problem | None], makers: PlanMakers
    ) -> None:
        super().__init__(plans, ledger, self._modes_told)
        self._guard, self._makers, self._problem = guard, makers, problem
        self._making = PlanMaking(plans, ledger, problem)
        self._starting = threading.Lock()
        self.nodes = NodeService(guard.drains, ledger, self._making.now, self.empty, self._leave)
        for row in plans.rows(["planning", "planned"], most=2**31):
            if row.state == "planning" or row.begins:
                plans.change(row.id, [row.state], "failed", "the service ended before it was made")

    def close(self) -> None:
        """Make no more plans."""
        self._making.close()

    # Plans ------------------------------------------------------------------------------------------------------------

    def ask(self, asked: shapes.PlanRequest) -> shapes.Plan:
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
        scheduler = (
            FewestMoves(self._makers.keeping) if wish.repairs else LexicographicObjective(goals, self._makers.scheduler)
        )
        self._making.submit(lambda: self._making.make(plan, lambda problem: drafted(problem, scheduler, wish)))
        return self.plan(plan)

    def empty(self, host: str, asked: DrainRequest) -> shapes.Plan:
        """Begin to plan what brings everything away from a host; it begins by itself unless it is to wait."""
        self._making.require_room()
        goal, keeping = self._makers.goal, self._makers.keeping
        reason, told = f"{host} is drained: {asked.reason}", {"host": host, BEGINS: not asked.wait}
        plan = self._plans.add("plan", goal, asked.by, reason, told)
        self._submit(plan, lambda problem: emptied(problem, keeping, frozenset([host]), goal), "planned")
        return self.plan(plan)

    def _leave(self, host: str, told: shapes.ChangeRequest) -> None:
        """Give up the plans that would bring everything away from a host, as far as they were not begun."""
        states = ("planning", *OPEN)
        for row in self._plans.lines(states, most=2**31):
            if orjson.loads(row.asked).get("host") == host:
                self._plans.change(row.id, states, "discarded", f"{told.by} uncordoned {host}: {told.reason}")

    def revert(self, n: int, told: shapes.ChangeRequest) -> shapes.Plan:
        """Begin to restore the placement as it was before an entry of the history.

        Raises
        ------
        NotFoundError, ConflictError
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

    def apply(self, plan: str, told: shapes.ChangeRequest) -> shapes.Plan:
        """Begin to apply a plan.

        Raises
        ------
        NotFoundError, ConflictError
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

    def stop(self, plan: str, told: shapes.ChangeRequest) -> shapes.Plan:
        """Stop a plan as soon as nobody is half way."""
        row = self._plans.row(plan)
        if row.state not in ("applying", "judging"):
            raise ConflictError(f"plan {plan} is {row.state}: there is nothing to stop")
        self._plans.ask_to_stop(plan)
        log.info("plan %s is to stop, says %s: %s", plan, told.by, told.reason)
        return self.plan(plan)

    def resume(self, plan: str, told: shapes.ChangeRequest) -> shapes.Plan:
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

    def discard(self, plan: str, told: shapes.ChangeRequest) -> shapes.Plan:
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
