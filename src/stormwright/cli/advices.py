"""Advice as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from stormwright.cli.lines import say
from stormwright.cli.output import numbers_table, print_table
from stormwright.cli.predictions import say_problem
from stormwright.model.humanize import counted, in_utc

if TYPE_CHECKING:
    from stormwright.advise.commands import RebalanceOrder
    from stormwright.advise.search.advice import Advice, TopologyAdvice
    from stormwright.advise.season import Saturation
    from stormwright.model import Problem

_MAX_ROWS = 40

#: Places of a bar, each for as much of what is full.
_BAR = 20


def print_advice(
    problem: Problem, advice: Advice, orders: Sequence[RebalanceOrder], warnings: Sequence[Saturation], *, priced: bool
) -> None:
    """Print what is advised, why, what else there is, and what carries it out.

    Parameters
    ----------
    problem
        What runs now.
    advice, orders, warnings
        What is advised, what carries it out, and what is to come.
    priced
        Whether prices were told; else they are cores.
    """
    say_problem(problem)
    for topology in advice.topologies:
        for line in _topology(topology):
            say(line)
    _print_components(advice)
    _print_nodes(advice, priced=priced)
    for line in _numbered(advice.steps):
        say(line)
    _print_alternatives(advice, priced=priced)
    for warning in warnings:
        say(_warned(warning))
    if orders:
        say("carry it out with:")
    for order in orders:
        say(f"  {order.command}")
    if not orders:
        say("nothing has to be rebalanced")


def _topology(one: TopologyAdvice) -> Iterator[str]:
    now = {True: "; what runs is enough for that", False: "; what runs is not enough for that", None: ""}
    yield f"{one.name}: {one.rate_tps:,.0f} trees/s asked for, {one.measured_tps:,.0f} measured{now[one.enough_now]}"
    most = f"{one.highest_tps:,.0f} trees/s" if isfinite(one.highest_tps) else "any rate"
    yield (
        f"{one.name}: as advised it sustains {most}, then limited by {one.bottleneck}; at the rate asked for "
        f"{one.mean_ms:,.1f} ms on average, 95 % of trees within {one.p95_ms:,.1f} ms; "
        f"{counted(one.workers, 'worker')}, now {one.workers_now}"
    )
    if one.needs_pending is not None:
        yield f"{one.name}: needs topology.max.spout.pending of {one.needs_pending:,}; what it has would hold it back"


def _numbered(steps: Sequence[str]) -> Iterator[str]:
    """The first and the last steps, of which the last ones say most."""
    left = max(len(steps) - _MAX_ROWS, 0)
    for number, step in enumerate(steps, 1):
        if left and number == _MAX_ROWS // 2 + 1:
            yield f"and {counted(left, 'step')} in between; --json has all"
        if not _MAX_ROWS // 2 < number <= _MAX_ROWS // 2 + left:
            yield f"{number}. {step}"


def _bar(use: float) -> str:
    return "█" * round(_BAR * min(max(use, 0.0), 1.0))


def _print_components(advice: Advice) -> None:
    table = numbers_table(
        "component", "executors now", "advised", "of tasks", "tuples/s each", "busiest", "", texts=(0, -1)
    )
    for each in advice.components[:_MAX_ROWS]:
        table.add_row(
            f"{each.topology}/{each.component}",
            each.executors_now,
            each.executors,
            each.tasks,
            f"{each.handled_tps / each.executors:,.0f}",
            f"{each.use:.0%}",
            _bar(each.use),
        )
    print_table(table)
    if len(advice.components) > _MAX_ROWS:
        say(f"and {counted(len(advice.components) - _MAX_ROWS, 'component')} more; --json has all")


def _print_nodes(advice: Advice, *, priced: bool) -> None:
    table = numbers_table("node", "kind", "", "executors", "CPU", "", texts=(0, 1, 2, -1))
    for each in advice.nodes[:_MAX_ROWS]:
        there = "there" if each.there else "new"
        table.add_row(each.node, each.kind, there, each.executors, f"{each.cpu:.0%}", _bar(each.cpu))
    print_table(table)
    if len(advice.nodes) > _MAX_ROWS:
        say(f"and {counted(len(advice.nodes) - _MAX_ROWS, 'node')} more; --json has all")
    price = _price(advice.price, priced=priced)
    say(f"{advice.mix}: {price}; {advice.headroom:.0%} of the fullest thread, node or link stays free")


def _price(price: float, *, priced: bool) -> str:
    return f"{price:,.2f} an hour" if priced else f"{price:g} cores"


def _print_alternatives(advice: Advice, *, priced: bool) -> None:
    if len(advice.alternatives) < 2:
        return
    table = numbers_table("instead", "price", "executors", "stays free", "95 % within")
    for each in advice.alternatives:
        price = _price(each.price, priced=priced)
        table.add_row(each.nodes, price, each.executors, f"{each.headroom:.0%}", f"{each.p95_ms:,.1f} ms")
    print_table(table)


def _warned(one: Saturation) -> str:
    when = in_utc(one.at_ms)
    far = f"forecasts of the last {one.season}s were up to {one.error:.0%} too low"
    how = "is expected to come" if one.certain else "may come"
    return (
        f"warning: {one.topology} {how} to its limit at {when}: {one.expected_tps:,.0f} trees/s as a {one.season} "
        f"before ({far}), and what runs sustains {one.highest_tps:,.0f}; then {one.limit} is full"
    )
