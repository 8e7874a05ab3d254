"""``stormwright drain``: cordon a node and move its workers elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import print_json, print_table, text_table
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from stormwright.client import Client


#: Maximum number of listed nodes without ``--all``.
_MAX_NODES = 15


@click.command()
@click.argument("node", required=False)
@options.service
@options.reason("drained by hand")
@click.option("--only-cordon", is_flag=True, help="Only cordon the node; its workers stay.")
@click.option("--plan-only", is_flag=True, help="Only make the plan; `stormwright apply` carries it out.")
@click.option("--no-wait", is_flag=True, help="Return immediately instead of following the plan.")
@options.steps
@options.everything
@options.as_json("Print it as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    node: str | None,
    address: str,
    by: str,
    reason: str,
    only_cordon: bool,
    plan_only: bool,
    no_wait: bool,
    steps: bool,
    as_json: bool,
) -> None:
    """NODE is a host, or the id of a supervisor; without NODE, drained nodes are listed.

    The moves are a plan like any other, applied in evaluated stages, and can be rolled back by `stormwright revert`.
    Draining a drained node again moves what is left there. `stormwright uncordon` makes it schedulable again.

    Exits with 0 if the node is empty or its plan is done, 1 if something stays.
    """
    client = client_of(address, by)
    if node is None:
        _list(client, as_json)
        return
    begun = client.drain(node, reason, only_cordon=only_cordon, wait=plan_only)
    plan = begun.plan
    if plan is None or plan_only:
        if not as_json:
            stay = f"; {counted(begun.drained.workers or 0, 'worker')} still there" if begun.drained.workers else ""
            say(f"{begun.drained.host} is cordoned{stay}")
        if plan is not None:
            plan = client.wait_until_planned(plan.id)
        if as_json:
            print_json(begun.model_copy(update={"plan": plan}).model_dump(mode="json"))
            return
        if plan is not None:
            from stormwright.cli.plans import next_lines, print_plan

            print_plan(plan, steps=steps or shows_all())
            for line in list(next_lines(plan))[:1]:
                say(line)
        return
    from stormwright.cli.apply import follow

    if not as_json:
        say(f"{begun.drained.host} is cordoned; plan {plan.id} moves its workers")
    drained = begun.drained.model_dump(mode="json")
    follow(ctx, client.address, by, plan.id, no_wait, as_json, beside={"drained": drained}, steps=steps)


def _list(client: Client, as_json: bool) -> None:
    rows = client.drains()
    if as_json:
        print_json(rows.model_dump(mode="json"))
        return
    if not rows.drained:
        say("no node is drained")
        return
    table = text_table("node", "workers", "since", "by", "reason", "plan")
    for each in rows.drained:
        since = f"{datetime.fromtimestamp(each.since_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
        workers = "unknown" if each.workers is None else f"{each.workers:,}"
        table.add_row(each.host, workers, since, each.by, each.reason, each.plan)
    print_table(table, _MAX_NODES, "node")
