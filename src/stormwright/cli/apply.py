"""``stormwright apply``: apply a plan and follow it, stop it, or go on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.errors import ClusterError

if TYPE_CHECKING:
    from stormwright.plans.plan import Plan

#: Exit code if a plan did not end as done.
_NOT_DONE = 1

#: Maximum number of outcomes without ``--steps``.
_MAX_OUTCOMES = 5

#: Seconds between polls of a plan.
POLL_S = 1.0


@click.command()
@click.argument("plan")
@options.service
@options.reason("applied by hand")
@click.option(
    "--stop", "change", flag_value="stop", help="Stop the plan as soon as no topology is in the middle of a move."
)
@click.option(
    "--resume", "change", flag_value="resume", help="Resume a waiting plan and accept the stage that it waits for."
)
@click.option("--no-wait", is_flag=True, help="Return immediately instead of following the plan.")
@options.steps
@options.as_json("Print how it ended as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    plan: str,
    address: str,
    by: str,
    reason: str,
    change: str | None,
    no_wait: bool,
    steps: bool,
    as_json: bool,
) -> None:
    """PLAN is the id of a plan of a running service. It is followed until it is done or waits for a person.

    One topology moves first, then a few, then the rest. A topology that gets worse is rolled back automatically. If the
    result is unclear, the plan waits: `--resume` accepts it, `stormwright revert` rolls it back. A plan is refused if
    the cluster has changed since it was made. Ctrl-C stops following, not the plan.

    Exits with 0 if the plan is done, 1 if it was stopped, waits, or was rolled back.
    """
    client = client_of(address, by)
    getattr(client, change or "apply")(plan, reason)
    follow(ctx, client.address, by, plan, no_wait, as_json, steps=steps, stops=change == "stop")


def follow(
    ctx: click.Context,
    address: str,
    by: str,
    plan: str,
    no_wait: bool,
    as_json: bool,
    beside: Mapping[str, Any] | None = None,
    steps: bool = False,
    stops: bool = False,
) -> None:
    """Print the progress of a plan until it is done or waits, across short outages of the service.

    Parameters
    ----------
    ctx
        Context of the verb, which gets the exit code.
    address, by
        Address of the service, and the user's name.
    plan
        Id of the plan.
    no_wait
        Whether to print the present state only.
    as_json
        Whether to print the result as JSON.
    beside
        Further values of that JSON object; None for the plan alone.
    steps
        Whether to print every move and step at the end, too.
    stops
        Whether the plan is being stopped: only the end is printed.
    """
    from stormwright.cli.output import cut_short
    from stormwright.cli.plans import next_lines, outcome_lines, print_plan, progress_line
    from stormwright.plans.states import IN_PROGRESS_STATES

    client, reported = client_of(address, by), ""
    found: Plan | None
    while True:
        try:
            found = client.show(plan)
            line = progress_line(found)
        except ClusterError as error:
            found, line = None, f"{error}; the plan goes on once it is back"
        if line != reported and not as_json and not stops:
            say(line)
        reported = line
        begins = found is not None and found.auto_apply
        if no_wait or (found is not None and found.state not in IN_PROGRESS_STATES and not begins):
            break
        time.sleep(POLL_S)
    if found is None:
        if as_json:
            print_json(_with({"id": plan, "error": reported}, beside))
        ctx.exit(_NOT_DONE)
    if as_json:
        print_json(_with(found.model_dump(mode="json"), beside))
    else:
        if steps:
            print_plan(found, steps=True)
        elif stops:
            say(reported)
        else:
            for line in cut_short(list(outcome_lines(found)), _MAX_OUTCOMES, "; --steps shows them"):
                say(line)
        for line in next_lines(found):
            say(line)
    if not no_wait and found.state != "done":
        ctx.exit(_NOT_DONE)


def _with(plan: dict[str, Any], beside: Mapping[str, Any] | None) -> dict[str, Any]:
    return plan if beside is None else {**beside, "plan": plan}
