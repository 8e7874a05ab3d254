"""Plans as tables and sentences, for the verbs that print them."""

from __future__ import annotations

from collections.abc import Iterator

from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, numbers_table, print_table, text_table
from stormwright.model.humanize import counted, readable
from stormwright.plan import Plan, PlanSummary, Range, Side, TopologySide

_MOST, _MAX_KINDS, _MAX_HEAPS = 20, 5, 10


def print_plan(plan: Plan) -> None:
    """Print the moves of a plan, their gain, and the expected pauses."""
    printed = f"plan {plan.id}" if plan.id else "plan"
    age = f", {plan.age_s:,.0f} s old" if plan.id else ""
    say(f"{printed}: {plan.state}{age}, for {plan.goal}" + (f", by {plan.by}: {plan.reason}" if plan.id else ""))
    if not plan.step_count:
        say(f"no changes: {plan.why or 'nothing is to move'}")
    else:
        steps, stages = counted(plan.step_count, "step"), counted(plan.stages, "stage")
        say(f"{counted(plan.topologies, 'topology')} in {steps} and {stages}; {plan.gain}")
        if plan.why:
            say(plan.why)
    if plan.before and plan.after:
        _print_sides({"before": plan.before, "after": plan.after} if plan.step_count else {"now": plan.before})
    if plan.proof:
        say(f"{'then' if plan.step_count else 'now'} {plan.proof}")
    for line in cut_short([f"worse: {each}" for each in plan.worse], 5):
        say(line)
    _print_moves(plan)
    for line in cut_short([f"{name} stays: {why}" for name, why in plan.blocked.items()], _MOST):
        say(line)
    if plan.step_count:
        measured = "" if plan.origin == "rollback" else ": each stage is measured before the next begins"
        say(f"all of it takes about {_lasts(plan.duration_s)}{measured}")


def _lasts(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


def print_steps(plan: Plan) -> None:
    """Print each step with stopped and started workers, and the outcome for topologies."""
    table = text_table("stage", "step", "state", "topology", "executors", "stops", "starts")
    for step in plan.steps:
        for move in step.moves:
            on_the_way = "" if move.arrives else " (makes room)"
            cells = (move.topology + on_the_way, move.executors, ", ".join(move.stops), ", ".join(move.starts))
            table.add_row(step.stage + 1, step.number + 1, step.state, *cells)
    if plan.steps:
        print_table(table)
    for line in outcome_lines(plan):
        say(line)


def outcome_lines(plan: Plan) -> Iterator[str]:
    """Yield the measured outcome for topologies beside the prediction."""
    for each in plan.evaluations:
        measured = "unknown" if each.measured is None else f"×{each.measured:.2f}"
        yield f"{each.topology}: {each.quantity} {measured} (predicted ×{each.predicted:.2f}): {each.verdict}"


def progress_line(plan: PlanSummary) -> str:
    """Return the progress of a plan as text."""
    stage = f"stage {min(plan.stage + 1, plan.stages)} of {plan.stages}" if plan.stages else ""
    step = f"step {plan.steps_completed} of {plan.step_count}" if plan.step_count else ""
    return ": ".join(filter(None, [plan.state.replace("_", " "), ", ".join(filter(None, [step, stage, plan.why]))]))


def _print_sides(sides: dict[str, Side]) -> None:
    table = numbers_table("", *sides)
    for label, name, unit in (
        ("reachable throughput, trees/s", "reachable_tps", ""),
        ("latency", "latency_ms", " ms"),
    ):
        table.add_row(label, *(_shown(getattr(side, name), unit) for side in sides.values()))
    table.add_row("between nodes, tuples/s", *(f"{side.traffic_tps:,.0f}" for side in sides.values()))
    table.add_row("nodes", *(side.nodes for side in sides.values()))
    table.add_row("workers", *(side.workers for side in sides.values()))
    table.add_row("violations", *(len(side.violations) for side in sides.values()))
    table.add_row("score of 100", *(f"{side.score:.0f}" for side in sides.values()))
    print_table(table)
    for name, side in sides.items():
        say(f"{name}: limited by {side.bottleneck}")
        for line in cut_short(side.violations, 5):
            say(f"{name}: {line}")


def _print_moves(plan: Plan) -> None:
    if not plan.moved:
        return
    table = text_table(
        "topology", "executors", "workers stop/start/run on", "kind", "pauses", "reachable", "latency", "limit"
    )
    for each in plan.moved[:_MOST]:
        table.add_row(
            each.name,
            each.executors,
            f"{each.workers_stopped}/{each.workers_started}/{each.workers_unchanged}",
            each.kind.kind if each.kind else "",
            f"{_shown(each.pause_s, ' s')}",
            _both(each.before, each.after, "reachable_tps", ""),
            _both(each.before, each.after, "latency_ms", " ms"),
            each.after.bottleneck if each.after else "",
        )
    print_table(table)
    for each in plan.moved[:_MAX_KINDS]:
        if each.kind:
            say(f"{each.name}: {each.kind.kind}: {each.kind.reason}")
    if len(plan.moved) > _MAX_KINDS:
        say(f"and the kinds of {counted(len(plan.moved) - _MAX_KINDS, 'more move')}; --json has all")
    heaps = [f"{each.name}: {heap}" for each in plan.moved for heap in each.heaps]
    for line in cut_short(heaps, _MAX_HEAPS):
        say(line)
    for known in dict.fromkeys(each.pause_from for each in plan.moved):
        say(f"pauses: {known}")
    if len(plan.moved) > _MOST:
        say(f"and {counted(len(plan.moved) - _MOST, 'topology')} more; --json has all")


def _both(before: TopologySide | None, after: TopologySide | None, name: str, unit: str) -> str:
    if before is None or after is None:
        return "not measured"
    one, other = getattr(before, name), getattr(after, name)
    return f"{_value(one, unit)} → {_value(other, unit)}"


def _value(figure: Range | None, unit: str) -> str:
    if figure is None:
        return "unknown"
    return "unlimited" if figure.value is None else f"{readable(figure.value)}{unit}"


def _shown(figure: Range | None, unit: str) -> str:
    if figure is None or figure.value is None or figure.low == figure.high:
        return _value(figure, unit)
    high = "and more" if figure.high is None else f"to {readable(figure.high)}"
    return f"{_value(figure, unit)} ({readable(figure.low or 0)} {high})"
