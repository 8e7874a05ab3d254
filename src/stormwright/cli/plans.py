"""Plans as tables and sentences, for the verbs that print them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import cut_short, numbers_table, print_table, text_table
from stormwright.model.humanize import counted, duration, listed, readable, time_range
from stormwright.plans.figures import Range, Side, TopologySide
from stormwright.plans.plan import Plan, PlanSummary
from stormwright.plans.states import OPEN_STATES

#: Maximum number of lines of one kind, and of characters of a reason, without ``--all`` or ``--steps``.
_MAX, _LONGEST = 3, 160

#: Goal → figure of a `Side`, its description, and its unit.
_FIGURES = {
    "nodes": ("nodes", "nodes", ""),
    "traffic": ("traffic_tps", "traffic between nodes", " tuples/s"),
    "latency": ("latency_ms", "latency", " ms"),
    "throughput": ("reachable_tps", "reachable throughput", " trees/s"),
}

#: States in which a plan that moves something has moved nothing yet.
_AHEAD = ("planning", *OPEN_STATES)


def print_plan(plan: Plan, *, steps: bool = False) -> None:
    """Print the verdict of a plan, its figures and expected pauses.

    Parameters
    ----------
    plan
        Plan to print, with or without prediction.
    steps
        Whether to print every move, reason and step, too.
    """
    for line in _head(plan):
        say(line)
    for line in _changes(plan):
        say(line)
    if plan.before and plan.after:
        _print_sides({"before": plan.before, "after": plan.after} if plan.step_count else {"now": plan.before})
    if plan.proof:
        say(f"{'after it: ' if plan.step_count else ''}{plan.proof}")
    most = len(plan.worse) if steps else _MAX
    for line in cut_short([f"worse: {each}" for each in plan.worse], most, _rest(steps)):
        say(line)
    if plan.step_count:
        say(_pauses(plan))
    if steps:
        _print_moves(plan)
        for name, why in plan.blocked.items():
            say(f"{name} stays: {why}")
        _print_steps(plan)
    elif plan.blocked:
        say(_blocked(plan))
    for line in list(outcome_lines(plan)) if steps else cut_short(list(outcome_lines(plan)), _MAX, _rest(steps)):
        say(line)


def print_brief(plan: Plan) -> None:
    """Print the verdict of a plan, and its progress if it has begun."""
    for line in _head(plan):
        say(line)
    if plan.state not in _AHEAD:
        say(progress_line(plan))


def verdict(plan: PlanSummary) -> str:
    """Return the effect of a plan as one sentence."""
    if plan.state == "planning":
        return "It is being made."
    if not plan.step_count:
        why = plan.why or "nothing is to move"
        return f"No move is worth it: {why}." if plan.state in OPEN_STATES else f"{_upper(why)}."
    steps = counted(plan.step_count, "step")
    stages = f" and {counted(plan.stages, 'stage')}" if plan.stages > 1 else ""
    moves = f"Moves {counted(plan.topologies, 'topology')} in {steps}{stages}"
    gain = _gain(plan) if isinstance(plan, Plan) else plan.gain
    return f"{moves}; {gain}." if gain else f"{moves}."


def next_commands(plan: PlanSummary) -> Iterator[tuple[str, str]]:
    """Yield the commands that a person may choose from for a plan, safest first, each with its effect."""
    if plan.state in OPEN_STATES and plan.step_count and plan.outdated:
        yield "stormwright plan", "makes a new plan, as the cluster has changed since this one was made"
    elif plan.state in OPEN_STATES and plan.step_count:
        yield f"stormwright apply {plan.id}", "applies it in stages"
        yield f"stormwright plan --discard {plan.id}", "forgets it; nothing moves"
    elif plan.state in ("stopped", "waiting"):
        yield f"stormwright apply {plan.id} --resume", "goes on and accepts the moves made so far"
        if plan.decision is not None:
            yield f"stormwright revert {plan.decision}", "moves everything back to where it was before the plan"
        yield f"stormwright plan --discard {plan.id}", "ends it; moved topologies stay, which was not predicted"
    elif plan.state in ("applying", "evaluating"):
        yield f"stormwright apply {plan.id} --stop", "stops it after the current step"
    elif plan.state in ("done", "failed", "rolled_back") and plan.decision is not None:
        yield f"stormwright revert {plan.decision}", "moves everything back to where it was before the plan"


def next_lines(plan: PlanSummary) -> Iterator[str]:
    """Yield `next_commands` as lines."""
    for number, (command, effect) in enumerate(next_commands(plan)):
        yield f"{'next' if not number else 'or'}: {command}  ({effect})"


def outcome_lines(plan: Plan) -> Iterator[str]:
    """Yield the measured outcome for topologies beside the prediction."""
    names = {each.topology: each.name for each in plan.predictions}
    for each in plan.evaluations:
        measured = "unknown" if each.measured is None else f"×{each.measured:.2f}"
        name = names.get(each.topology, each.topology)
        yield f"{name}: {each.quantity} {measured} (promised ×{each.predicted:.2f}): {each.verdict_text}"


def progress_line(plan: PlanSummary) -> str:
    """Return the progress of a plan as text."""
    stage = f"stage {min(plan.stage + 1, plan.stages)} of {plan.stages}" if plan.stages else ""
    step = f"step {plan.steps_completed} of {plan.step_count}" if plan.step_count else ""
    why = plan.why if shows_all() else shortened(plan.why, 120)
    return ": ".join(filter(None, [plan.state.replace("_", " "), ", ".join(filter(None, [step, stage, why]))]))


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return at most `most` characters of a text, cut at a blank."""
    if len(text) <= most:
        return text
    return f"{text[: most - 2].rpartition(' ')[0].rstrip(' ,;:')} …"


def _head(plan: Plan) -> Iterator[str]:
    age = f", {duration(plan.age_s)} old" if plan.id else ""
    origin = f", by {plan.by}: {shortened(plan.reason, 80)}" if plan.id else ""
    yield f"plan{f' {plan.id}' if plan.id else ''}: {plan.state.replace('_', ' ')}{age}, for {plan.goal}{origin}"
    yield verdict(plan)
    if plan.step_count and plan.why and plan.state in OPEN_STATES:
        yield shortened(plan.why)
    if plan.outdated:
        yield f"It cannot be applied any more: {shortened(plan.outdated)}."


def _changes(plan: Plan) -> Iterator[str]:
    """Yield the numbers of executors and the values of configurations that change, a line for each topology."""
    for move in plan.moves:
        executors = [f"{component} {move.executors_before[component]} → {n}" for component, n in move.executors.items()]
        conf = [f"{key} {_setting(move.conf_before[key])} → {_setting(value)}" for key, value in move.conf.items()]
        parts = [f"executors: {', '.join(executors)}" if executors else "", *conf]
        if text := "; ".join(filter(None, parts)):
            yield f"{move.name}: {text}"


def _setting(value: object) -> str:
    return "unset" if value is None else json.dumps(value)


def _rest(steps: bool) -> str:
    return "" if steps else "; --steps shows them"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _gain(plan: Plan) -> str:
    """Return the change of the figure of the first goal, where it improves; else the described gain."""
    name, label, unit = _FIGURES.get(plan.goal.partition(",")[0], ("", "", ""))
    if not (name and plan.before and plan.after):
        return plan.gain
    values = []
    for side in (plan.before, plan.after):
        figure = getattr(side, name)
        values.append(figure.value if isinstance(figure, Range) else figure)
    now, then = values
    if now is None or then is None or (then <= now if name == "reachable_tps" else then >= now):
        return plan.gain
    changes = "rises" if then > now else "fall" if label == "nodes" else "falls"
    return f"{label} {changes} from {readable(now)} to {readable(then)}{unit}"


def _print_sides(sides: dict[str, Side]) -> None:
    table = numbers_table("", *sides)
    for label, name, unit in (
        ("reachable throughput, trees/s", "reachable_tps", ""),
        ("latency", "latency_ms", " ms"),
    ):
        table.add_row(label, *(_shown(getattr(side, name), unit) for side in sides.values()))
    table.add_row("between nodes, tuples/s", *(readable(side.traffic_tps) for side in sides.values()))
    table.add_row("nodes", *(f"{side.nodes:,}" for side in sides.values()))
    table.add_row("workers", *(f"{side.workers:,}" for side in sides.values()))
    broken = {name: side.violations for name, side in sides.items() if side.violations}
    if broken:
        table.add_row("broken limits", *(f"{len(side.violations):,}" for side in sides.values()))
    table.add_row("score, 0 to 100", *(f"{side.score:.0f}" for side in sides.values()))
    print_table(table)
    limits = dict.fromkeys(side.bottleneck for side in sides.values())
    say(f"limit: {', after the plan '.join(limits)}")
    for name, violations in broken.items():
        say(f"broken {name}: {listed(violations, 1)}")


def _pauses(plan: Plan) -> str:
    names = listed([each.name for each in plan.predictions], _MAX)
    pause = time_range(plan.pauses_s)
    each = f", {pause} each" if pause else ""
    last = "" if plan.origin == "rollback" else "; each stage is measured before the next begins"
    return f"pauses: {names}{each}; all of it takes about {duration(plan.duration_s)}{last}"


def _blocked(plan: Plan) -> str:
    if len(plan.blocked) == 1:
        ((name, why),) = plan.blocked.items()
        return f"{name} stays: {shortened(why)}"
    names = listed(list(plan.blocked), _MAX)
    reasons = len(dict.fromkeys(plan.blocked.values()))
    why = next(iter(plan.blocked.values()))
    return f"{names} stay: {shortened(why)}" if reasons == 1 else f"{names} stay; --steps shows why"


def _print_steps(plan: Plan) -> None:
    """Print each step with stopped and started workers."""
    table = text_table("stage", "step", "state", "topology", "executors", "stops", "starts")
    for step in plan.steps:
        for move in step.moves:
            on_the_way = "" if move.arrives else " (makes room)"
            workers = (", ".join(map(plan.slot_name, each)) for each in (move.stopped_workers, move.started_workers))
            cells = (move.name + on_the_way, move.moved_executors, *workers)
            table.add_row(step.stage + 1, step.number + 1, step.state, *cells)
    if plan.steps:
        print_table(table)


def _print_moves(plan: Plan) -> None:
    if not plan.predictions:
        return
    table = text_table(
        "topology", "executors", "workers stop/start/run on", "kind", "pauses", "reachable", "latency", "limit"
    )
    for each in plan.predictions:
        table.add_row(
            each.name,
            f"{each.executors:,}",
            f"{each.workers_stopped}/{each.workers_started}/{each.workers_unchanged}",
            each.kind.kind if each.kind else "",
            f"{_shown(each.pause_s, ' s')}",
            _both(each.before, each.after, "reachable_tps", ""),
            _both(each.before, each.after, "latency_ms", " ms"),
            each.after.bottleneck if each.after else "",
        )
    print_table(table)
    for each in plan.predictions:
        if each.kind:
            say(f"{each.name}: {each.kind.kind}: {each.kind.reason}")
        for heap in each.heaps:
            say(f"{each.name}: {heap}")
    sources: dict[str, list[str]] = {}
    for each in plan.predictions:
        sources.setdefault(each.pause_from, []).append(each.name)
    for source, names in sources.items():
        say(f"pause of {listed(names, _MAX)}: {source}")


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
