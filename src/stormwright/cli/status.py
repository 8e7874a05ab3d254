"""``stormwright status``: show the health of a running service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.history import evaluations_of
from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, print_json
from stormwright.cli.plans import progress_line
from stormwright.model.humanize import counted, in_utc

if TYPE_CHECKING:
    from stormwright.client.shapes import Overview
    from stormwright.plan import PlanSummary

#: Exit code if something needs attention; it is 2 for an unreachable service, as for every verb.
_UNHEALTHY = 1

#: Maximum number of lines of one kind.
_MOST = 5

#: Label of a finding by its level.
_CALLED = {"bad": "fault", "warn": "warning", "note": "note"}


@click.command()
@options.service_address
@options.token
@options.as_json("Print all of it as JSON.")
@click.pass_context
def command(ctx: click.Context, address: str, as_json: bool) -> None:
    """The status is the first page of the dashboard as text, with the last change.

    Exits with 0 if nothing is wrong, 1 if something needs attention or nothing is known yet, 2 if the service cannot be
    reached.
    """
    client = client_of(address, options.user())
    now = client.overview()
    if as_json:
        print_json(now.model_dump(mode="json"))
    else:
        for line in _lines(now, client.address):
            say(line)
    if not now.healthy:
        ctx.exit(_UNHEALTHY)


def _lines(now: Overview, address: str) -> Iterator[str]:
    yield now.verdict
    for each in now.findings:
        yield f"{_CALLED[each.level]}: {each.text}"
    nimbus = (
        "no call from Nimbus yet" if now.nimbus_age_s is None else f"last call from Nimbus {_ago(now.nimbus_age_s)}"
    )
    load = "no load measured yet" if now.load_age_s is None else f"load measured {_ago(now.load_age_s)}"
    automation = f"mode {now.mode}{', frozen' if now.frozen else ''}"
    yield f"service: {now.service} at {address}, {automation}, scheduler {now.scheduler}; {nimbus}, {load}"
    if now.topologies is not None and now.executors is not None and now.nodes is not None:
        sizes = zip((now.topologies, now.executors, now.nodes), ("topology", "executor", "node"), strict=True)
        rate = f"; measured {now.rate_tps:,.0f} trees/s" if now.rate_tps is not None else ""
        yield f"runs: {', '.join(counted(count, noun) for count, noun in sizes)}{rate}"
    if now.standbys is not None:
        memory = f", {now.standby_mb:.0f} MB each" if now.standby_mb is not None else ""
        yield f"standby workers: {now.standbys}{memory}"
    yield f"next change: {now.decision or 'no decision yet; `stormwright plan` creates a plan'}"
    yield from cut_short([f"waits: {each}" for each in now.waits], _MOST)
    yield from cut_short([f"in progress: plan {each.id}: {progress_line(each)}" for each in now.active], _MOST)
    yield from cut_short([_waiting(each) for each in now.pending], _MOST, "; `stormwright plan --list` has all")
    if not now.pending:
        yield "waits for approval: nothing"
    for last in now.changes[:1]:
        what = f"plan {last.plan}" if last.plan else last.kind
        yield f"last change: entry {last.n}, {what}, by {last.who}, {in_utc(last.at_ms)}: {last.reason}"
        yield f"outcome: {evaluations_of(last)}"
    if not now.changes:
        yield "last change: none"


def _waiting(plan: PlanSummary) -> str:
    moves = f"{counted(plan.topologies, 'topology')} in {counted(plan.step_count, 'step')}"
    gain = f"; {plan.gain}" if plan.gain else ""
    lines = f"plan {plan.id} ({plan.state} {_ago(plan.age_s)} by {plan.by}): {moves}{gain}"
    return f"waits for approval: {lines}; `stormwright apply {plan.id}`"


def _ago(seconds: float) -> str:
    """Return the age as text; small clock differences count as zero."""
    known = max(seconds, 0.0)
    return f"{known:.0f} s ago" if known < 600 else f"{known / 60:,.0f} min ago"
