"""``stormwright plan``: preview moves, their gain and their pauses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import print_json
from stormwright.cli.progress import working
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.errors import Fault, InputError

if TYPE_CHECKING:
    from stormwright.plans.modes import MoveKind
    from stormwright.plans.plan import Goal, Plan

#: Exit codes with ``--detailed-exitcode``, as Terraform has them; anything wrong is 1 then.
NOTHING, WRONG, CHANGES = 0, 1, 2

_OF_A_FILE = "a running service decides with its own scheduler; name a FILE"

#: Maximum number of plans in a list without ``--all``.
_MAX_PLANS = 15

#: Options that describe a plan.
_WISHED = ("goals", "only", "topologies", "nodes", "least_gain_percent", "allow")


class _WrongUsage(click.UsageError):
    exit_code = WRONG


class _DetailedExitCommand(click.Command):
    """Exits with `WRONG` on usage errors if detailed exit codes are requested, as 2 means changes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        detailed = "--detailed-exitcode" in args
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not detailed:
                raise
            raise _WrongUsage(error.format_message(), error.ctx) from error


@click.command(cls=_DetailedExitCommand)
@click.argument("file", type=options.PATH, required=False)
@options.service
@options.reason("preview")
@click.option(
    "--scheduler",
    "scheduler_name",
    default=DEFAULT_SCHEDULER,
    show_default=True,
    help="Scheduler to plan with (FILE only).",
    shell_complete=options.scheduler_names,
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Scheduler parameter (FILE only).")
@click.option(
    "--goal",
    "goals",
    type=options.Goals(["throughput", "latency", "nodes", "balanced", "traffic"]),
    help="Objectives, most important first; later ones never worsen earlier ones.  [default: that of the service; "
    "throughput for a FILE]",
)
@click.option(
    "--only",
    type=click.Choice(["overloaded"]),
    help="Plan only the fewest moves that resolve all constraint violations, whatever their gain.",
)
@click.option(
    "--topology", "topologies", multiple=True, metavar="PATTERN", help="Only move matching topologies (id or name)."
)
@click.option(
    "--node", "nodes", multiple=True, metavar="PATTERN", help="Only move what runs on matching nodes (id or host)."
)
@click.option(
    "--gain",
    "least_gain_percent",
    type=options.FiniteRange(0, 100),
    help="Minimum predicted improvement, in percent.  [default: 20 for traffic, otherwise 10]",
)
@click.option(
    "--allow",
    "allow",
    multiple=True,
    type=click.Choice(options.MOVE_KINDS),
    help="Allow moves of this kind, which are forbidden by default.",
)
@click.option("--show", metavar="PLAN", help="Show this plan of the service instead of making a new one.")
@click.option("--discard", metavar="PLAN", help="Discard this plan of the service.")
@click.option("--list", "listed", is_flag=True, help="List the plans of the service instead.")
@options.steps
@options.everything
@click.option(
    "--detailed-exitcode",
    "detailed",
    is_flag=True,
    help="Exit with 0 if nothing changes, 1 on error, 2 if there are changes.",
)
@options.as_json("Print it as JSON.")
def command(
    file: Path | None,
    address: str,
    by: str,
    reason: str,
    show: str | None,
    discard: str | None,
    listed: bool,
    steps: bool,
    detailed: bool,
    as_json: bool,
    **wished: object,
) -> None:
    """Plans are made by a running service, or for the problem in FILE without one. Nothing moves.

    A plan of a service is stored: `stormwright apply PLAN` applies it, as long as the cluster has not changed. FILE may
    be anything that `stormwright schedule` takes.
    """
    from stormwright.cli.plans import next_lines, print_brief, print_plan
    from stormwright.errors import StormwrightError
    from stormwright.plans.states import OPEN_STATES

    ctx = click.get_current_context()

    try:
        _check(file, ctx)
        if listed:
            _list(address, by, as_json)
            return
        plan = _of_file(file, wished) if file else _of_service(address, by, reason, show, discard, wished)
    except (StormwrightError, OSError) as error:
        if not detailed:
            raise
        from stormwright.cli.lines import say_lines

        say_lines(f"stormwright: {error}", err=True)
        ctx.exit(WRONG)
    if as_json:
        print_json(plan.model_dump(mode="json"))
    else:
        if discard is not None:
            print_brief(plan)
        else:
            print_plan(plan, steps=steps or shows_all())
        if plan.id:
            for line in list(next_lines(plan))[: 1 if plan.state in OPEN_STATES else None]:
                say(line)
    if detailed:
        ctx.exit(CHANGES if plan.step_count else NOTHING)


def _check(file: Path | None, ctx: click.Context) -> None:
    """Refuse options that have no effect."""
    if file is None:
        faults = options.idle(dict.fromkeys(("scheduler_name", "settings"), _OF_A_FILE)) + _stored_plan(ctx)
    else:
        of_service = "a plan of a FILE is not stored"
        faults = options.idle(dict.fromkeys(("address", "by", "reason", "show", "discard", "listed"), of_service))
    if ctx.params["only"] is not None:
        idle = ("least_gain_percent", "scheduler_name", "settings") if file else ("least_gain_percent",)
        faults += options.idle(dict.fromkeys(idle, "--only looks for the fewest moves, whatever they gain"))
    if faults:
        raise InputError("plan", faults)


def _stored_plan(ctx: click.Context) -> list[Fault]:
    """Return faults for options that make no sense with ``--show``, ``--discard`` and ``--list``."""
    for name, option in (("show", "--show"), ("discard", "--discard"), ("listed", "--list")):
        if ctx.params[name] not in (None, False):
            others = {"show", "discard", "listed", "reason"} - {name} - ({"reason"} if name == "discard" else set())
            return options.idle(dict.fromkeys((*sorted(others), *_WISHED), f"{option} makes no plan"))
    return []


def _of_service(
    address: str, by: str, reason: str, show: str | None, discard: str | None, wished: dict[str, object]
) -> Plan:
    client = client_of(address, by)
    if show is not None:
        return client.show(show)
    if discard is not None:
        return client.discard(discard, reason)
    request = client.plan(
        reason,
        goals=cast("tuple[Goal, ...]", wished["goals"] or ()),
        only=cast("str | None", wished["only"]),
        topologies=cast("tuple[str, ...]", wished["topologies"]),
        nodes=cast("tuple[str, ...]", wished["nodes"]),
        least_gain_percent=cast("float | None", wished["least_gain_percent"]),
        allow=cast("tuple[MoveKind, ...]", wished["allow"]),
    )
    later = f"plan {request.id} is being made …; `stormwright plan --show {request.id}` shows it later, too"
    return client.wait_until_planned(request.id, waits=lambda: say(later, err=True))


def _of_file(file: Path, wished: dict[str, object]) -> Plan:
    from stormwright.controller.description import FigureSources
    from stormwright.controller.objectives.objective import LexicographicObjective
    from stormwright.controller.objectives.placements import measured_rates
    from stormwright.controller.planning.expected_pauses import expected_pause
    from stormwright.controller.propose import propose
    from stormwright.controller.requests import Improve, NoPlan, PlanInputs, Repair
    from stormwright.controller.safety.move_permissions import Permission, forbidden_moves
    from stormwright.defaults import REPAIR_SCHEDULER
    from stormwright.plans.modes import KindRule, Modes
    from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, only_adaptive
    from stormwright.schedulers.toolkit.registry import make_scheduler
    from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
    from stormwright.workbench.ready_problems import read_problem

    with working(f"reading {file}"):
        problem = read_problem(file)
    goals = cast("tuple[str, ...]", wished["goals"] or ("throughput",))
    topologies, nodes = (cast("tuple[str, ...]", wished[name]) for name in ("topologies", "nodes"))
    name, settings = str(wished["scheduler_name"]), cast("tuple[str, ...]", wished["settings"])
    request: Improve | Repair = Repair(goals, topologies, nodes)
    if wished["only"] is None:
        request = Improve(goals, topologies, nodes, cast("float | None", wished["least_gain_percent"]))
    inputs = PlanInputs(
        scheduler=LexicographicObjective(
            goals,
            lambda goal: apply_from_scratch(name, make_scheduler(name, settings, objective=goal), None, only_adaptive),
        ),
        repair_scheduler=scheduler_keeping_running(REPAIR_SCHEDULER),
        stay=forbidden_moves(Modes(), problem, cast("tuple[MoveKind, ...]", wished["allow"]), measured_rates),
        sources=FigureSources(lambda _, modelled_s: expected_pause(modelled_s, (), ()), Permission(KindRule()).safety),
    )
    with working("searching a better placement and the moves to it, which takes a minute for hundreds of topologies"):
        found = propose(problem, request, inputs)
    return found.figures if isinstance(found, NoPlan) else found


def _list(address: str, by: str, as_json: bool) -> None:
    from stormwright.cli.output import print_table, text_table
    from stormwright.cli.plans import shortened
    from stormwright.model.humanize import duration

    found = client_of(address, by).plans()
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    if not found.plans:
        say("no plans; `stormwright plan` makes one")
        return
    table = text_table("plan", "state", "age", "by", "topologies", "score", "reason", "note")
    for each in found.plans:
        scores = [each.score_before, each.score_after]
        score = " → ".join("–" if one is None else f"{one:.0f}" for one in scores)
        table.add_row(
            each.id,
            each.state.replace("_", " "),
            duration(each.age_s),
            each.by,
            f"{each.topologies:,}",
            score,
            *((each.reason, each.why) if shows_all() else (shortened(each.reason, 40), shortened(each.why, 60))),
        )
    print_table(table, _MAX_PLANS, "plan")
