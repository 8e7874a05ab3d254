"""``stormwright status``: show the health of a running service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.journal import evaluations_of
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import cut_short, print_json
from stormwright.cli.plans import next_lines, progress_line, shortened
from stormwright.model.humanize import counted, duration, in_utc, listed, readable
from stormwright.plans.states import HALTED_STATES

if TYPE_CHECKING:
    from stormwright.client.shapes import Overview
    from stormwright.plans.plan import PlanSummary

#: Exit code if something needs attention; it is 2 for an unreachable service, as for every verb.
_UNHEALTHY = 1

#: Maximum number of findings, and of plans of one kind, without ``--all``.
_MAX_FINDINGS, _MAX_PLANS = 3, 1

#: Label of a finding by its level.
_CALLED = {"bad": "fault", "warn": "warning", "note": "note"}


@click.command()
@options.service_address
@options.token
@options.everything
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
    yield from cut_short([f"{_CALLED[each.level]}: {_brief(each.text)}" for each in now.findings], _MAX_FINDINGS)
    nimbus = (
        "no call from Nimbus yet" if now.nimbus_age_s is None else f"last call from Nimbus {_ago(now.nimbus_age_s)}"
    )
    load = "no load measured yet" if now.load_age_s is None else f"load measured {_ago(now.load_age_s)}"
    automation = f"mode {now.mode}{', frozen' if now.frozen else ''}"
    yield f"service: {now.service} at {address}, {automation}, scheduler {now.scheduler}; {nimbus}, {load}"
    if now.topologies is not None and now.executors is not None and now.nodes is not None:
        sizes = zip((now.topologies, now.executors, now.nodes), ("topology", "executor", "node"), strict=True)
        rate = f"; measured {readable(now.rate_tps)} trees/s" if now.rate_tps is not None else ""
        standby = f"; {counted(now.standbys, 'standby worker')}" if now.standbys is not None else ""
        memory = f", {now.standby_mb:.0f} MB each" if now.standbys is not None and now.standby_mb is not None else ""
        yield f"runs: {', '.join(counted(count, noun) for count, noun in sizes)}{rate}{standby}{memory}"
    yield from _decision(now)
    # A plan that waits for a person is a finding.
    halted = [each for each in now.active if each.state in HALTED_STATES]
    active = [each for each in now.active if each not in halted]
    yield from cut_short([f"in progress: plan {each.id}: {progress_line(each)}" for each in active], _MAX_PLANS)
    fitting = [each for each in now.pending if not each.outdated]
    yield from cut_short(
        [f"waits for approval: {_waiting(each)}" for each in fitting], _MAX_PLANS, "; `stormwright plan --list` has all"
    )
    if outdated := [each.id for each in now.pending if each.outdated]:
        have = "has" if len(outdated) == 1 else "have"
        yield f"{counted(len(outdated), 'plan')} ({listed(outdated)}) {have} been overtaken by changes: make a new plan"
    if not fitting:
        yield "waits for approval: nothing"
    for last in now.changes[:1]:
        kind = f"plan {last.plan}" if last.plan else last.kind
        made = f"entry {last.n}, {kind}, by {last.who}, {in_utc(last.at_ms)}"
        yield f"last change: {_brief(f'{made}: {last.reason}; outcome: {evaluations_of(last)}', 200)}"
    if not now.changes:
        yield "last change: none"
    for plan in [*halted, *active, *fitting][:1]:
        yield from next_lines(plan)


def _decision(now: Overview) -> Iterator[str]:
    """Yield the next change and the topologies that wait, each reason once."""
    findings = [each.text for each in now.findings]
    waits = [each for each in now.waits if not any(each in text for text in findings)]
    decision = now.decision or "no decision yet; `stormwright plan` creates a plan"
    if not any(now.decision and now.decision in text for text in findings):
        yield f"next change: {_brief(decision)}"
    waits = [each for each in waits if each not in decision]
    if waits:
        yield f"waits: {_brief('; '.join(waits if shows_all() else waits[:2]))}"


def _brief(text: str, most: int = 160) -> str:
    return text if shows_all() else shortened(text, most)


def _waiting(plan: PlanSummary) -> str:
    moves = f"{counted(plan.topologies, 'topology')} in {counted(plan.step_count, 'step')}"
    gain = f"; {plan.gain}" if plan.gain else ""
    return f"plan {plan.id} ({plan.state} {_ago(plan.age_s)} by {plan.by}): {_brief(moves + gain, 120)}"


def _ago(seconds: float) -> str:
    """Return the age as text; small clock differences count as zero."""
    return f"{duration(seconds)} ago"
