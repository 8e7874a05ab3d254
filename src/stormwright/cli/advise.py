"""``stormwright advise``: how many executors, workers and nodes a rate or an objective needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.cli import options
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import cut_short, numbers_table, prepare_output, print_json, print_table
from stormwright.cli.predictions import say_problem
from stormwright.cli.progress import shown
from stormwright.errors import Fault, InputError, collected
from stormwright.formats import write_json
from stormwright.model.humanize import counted, in_utc, listed, readable
from stormwright.workbench.ready_problems import read_problem

if TYPE_CHECKING:
    from stormwright.advise.commands import RebalanceOrder
    from stormwright.advise.search.advice import Advice, TopologyAdvice
    from stormwright.advise.search.goals import AdviceGoals
    from stormwright.advise.search.kinds import NodeKind
    from stormwright.advise.season import Saturation
    from stormwright.model import Problem

#: Maximum number of rows of a table, of lines about topologies, and of commands and warnings, without ``--all``.
_MAX_ROWS, _MAX_TOPOLOGIES, _MAX_ORDERS = 3, 2, 3

#: Number of characters of a bar.
_BAR = 20

_NAMED = re.compile(r"(?:(?P<name>.+)=)?[x×*]?(?P<value>\d+(?:\.\d+)?)", re.ASCII)


def print_advice(
    problem: Problem,
    advice: Advice,
    orders: Sequence[RebalanceOrder],
    warnings: Sequence[Saturation],
    *,
    priced: bool,
    applies: bool = False,
) -> None:
    """Print the advice, its reasons, alternatives, and the commands that carry it out.

    Parameters
    ----------
    problem
        Problem of the advice, with the running placement.
    advice, orders, warnings
        Advice, the rebalances that apply it, and expected saturations.
    priced
        Whether prices are given; else they are cores.
    applies
        Whether it is applied by a plan: the commands that would do it are not printed then.
    """
    say_problem(problem)
    say(_verdict(advice, orders, priced=priced))
    lines = [line for topology in advice.topologies for line in _topology(topology)]
    for line in cut_short(lines, _MAX_TOPOLOGIES):
        say(line)
    for line in cut_short([f"next: {order.command}" for order in orders if not applies], _MAX_ORDERS):
        say(line)
    for line in cut_short([_warned(warning) for warning in warnings], _MAX_ORDERS):
        say(line)
    if moved := _moved_without_order(problem, advice, orders):
        are = "has" if len(moved) == 1 else "have"
        say(f"{listed(moved)} {are} as many executors as before, on other nodes: `stormwright plan` moves them")
    _print_components(advice, orders)
    _print_nodes(advice)
    _print_alternatives(advice, priced=priced)
    if shows_all():
        for number, step in enumerate(advice.steps, 1):
            say(f"{number:,}. {step}")


def _verdict(advice: Advice, orders: Sequence[RebalanceOrder], *, priced: bool) -> str:
    """Return the needed nodes and the changes, as one sentence."""
    new = sum(not node.exists for node in advice.nodes)
    more = f", {new:,} of them new" if new else ""
    changes = f"{counted(len(orders), 'topology')} to rebalance" if orders else "nothing has to be rebalanced"
    nodes = f"{counted(len(advice.nodes), 'node')} ({advice.mix}{more}) for {_price(advice.price, priced=priced)}"
    return f"Needed: {nodes}; {advice.headroom:.0%} of the fullest thread, node or link stays free; {changes}."


def _moved_without_order(problem: Problem, advice: Advice, orders: Sequence[RebalanceOrder]) -> list[str]:
    """Return topologies (names) that no order concerns, and that run on other nodes in the advised placement."""
    rebalanced = {order.name for order in orders}
    advised = advice.assignment.by_topology(advice.problem)
    found = []
    for topology in problem.topologies:
        now, then = problem.current.get(topology.id), advised.get(topology.id)
        if topology.name not in rebalanced and now is not None and then is not None:
            nodes = ({slot.supervisor for slot in placement.slots} for placement in (now, then))
            if len(set(map(frozenset, nodes))) > 1:
                found.append(topology.name)
    return found


def _topology(one: TopologyAdvice) -> Iterator[str]:
    rates = f"{readable(one.rate_tps)} trees/s requested, {readable(one.measured_tps)} measured"
    now = ""
    if one.free_now is not None:
        if one.enough_now:
            now = f"; what runs is enough for that, with {one.free_now:.0%} free"
        elif one.free_now:
            now = f"; what runs sustains that, but with {one.free_now:.0%} free only"
        else:
            now = "; what runs is not enough for that"
    yield f"{one.name}: {rates}{now}"
    most = f"{readable(one.highest_tps)} trees/s" if isfinite(one.highest_tps) else "any rate"
    yield (
        f"{one.name}: as advised it sustains {most}, limited by {one.bottleneck}; at the requested rate "
        f"{readable(one.mean_ms)} ms on average, 95 % of trees within {readable(one.p95_ms)} ms; "
        f"{counted(one.workers, 'worker')}, now {one.workers_now}"
    )
    if one.needs_pending is not None:
        yield f"{one.name}: needs topology.max.spout.pending of {one.needs_pending:,}; what it has would hold it back"


def _bar(use: float) -> str:
    return "█" * round(_BAR * min(max(use, 0.0), 1.0))


def _print_components(advice: Advice, orders: Sequence[RebalanceOrder]) -> None:
    """Print the components whose number of executors changes; with ``--all`` every component."""
    changing = [each for each in advice.components if each.executors != each.executors_now]
    components = advice.components if shows_all() or not orders or not changing else changing
    table = numbers_table(
        "component", "executors now", "advised", "of tasks", "tuples/s each", "busiest", "", texts=(0, -1)
    )
    for each in components:
        table.add_row(
            f"{each.topology}/{each.component}",
            each.executors_now,
            each.executors,
            each.tasks,
            readable(each.handled_tps / each.executors),
            f"{each.use:.0%}",
            _bar(each.use),
        )
    print_table(table, _MAX_ROWS, "component")


def _print_nodes(advice: Advice) -> None:
    table = numbers_table("node", "kind", "", "executors", "CPU", "", texts=(0, 1, 2, -1))
    for each in advice.nodes:
        state = "exists" if each.exists else "new"
        table.add_row(each.node, each.kind, state, each.executors, f"{each.cpu:.0%}", _bar(each.cpu))
    print_table(table, _MAX_ROWS, "node")


def _price(price: float, *, priced: bool) -> str:
    return f"{price:,.2f} an hour" if priced else f"{price:g} cores"


def _print_alternatives(advice: Advice, *, priced: bool) -> None:
    if len(advice.alternatives) < 2 or not shows_all():
        return
    table = numbers_table("instead", "price", "executors", "stays free", "95 % within")
    for each in advice.alternatives:
        price = _price(each.price, priced=priced)
        table.add_row(each.nodes, price, each.executors, f"{each.headroom:.0%}", f"{readable(each.p95_ms)} ms")
    print_table(table)


def _warned(one: Saturation) -> str:
    when = in_utc(one.at_ms)
    far = f"forecasts of the last {one.season}s were up to {one.error:.0%} too low"
    how = "is expected to come" if one.certain else "may come"
    return (
        f"warning: {one.topology} {how} to its limit at {when}: {readable(one.expected_tps)} trees/s as a {one.season} "
        f"before ({far}), and what runs sustains {readable(one.highest_tps)}; then {one.limit} is full"
    )


@dataclass(frozen=True)
class _Change:
    """Address of a service, and author and reason of a change."""

    address: str
    by: str
    reason: str


@dataclass(frozen=True)
class _HistorySource:
    """Location of the history, and the excluded days."""

    state_dir: Path | None
    left_out: tuple[str, ...]


@click.command()
@options.problem_file
@click.option(
    "--rate", "rates", multiple=True, metavar="[TOPOLOGY=]R", help="Target rate, in trees/s.  [default: as measured]"
)
@click.option(
    "--times", "times", multiple=True, metavar="[TOPOLOGY=]×F", help="Target rate as a multiple of the measured one."
)
@click.option(
    "--p95-ms", type=options.FiniteRange(0, min_open=True), help="Maximum 95th percentile of complete latency, in ms."
)
@click.option(
    "--headroom",
    "headroom_percent",
    default=20.0,
    show_default=True,
    type=options.FiniteRange(0, 95),
    help="Percent of every thread, node and link to keep free.",
)
@click.option(
    "--node-kind",
    "kinds",
    multiple=True,
    metavar="NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE",
    help="Available node type and its price per hour.  [default: more of the present ones, at a price of 1 per core]",
)
@click.option("--node-kinds", "kinds_file", type=options.PATH, help="TOML or JSON file with the available node types.")
@click.option("--max-nodes", type=options.WholeRange(1, 1000), default=1000, help="Maximum number of nodes.")
@click.option(
    "--max-executors",
    type=options.WholeRange(1, 100_000),
    default=100_000,
    help="Maximum number of executors of a topology.",
)
@click.option(
    "--ui",
    "ui_files",
    multiple=True,
    type=options.PATH,
    help="Response of Storm's UI to GET /api/v1/topology/ID?window=600: for topologies without a probe, and to "
    "find out how long bolts wait for external systems.",
)
@click.option(
    "--state",
    "state_dir",
    type=options.PATH,
    help="State directory of a service; its history is used to warn about seasonal peaks.",
)
@click.option(
    "--leave-out", "left_out", multiple=True, metavar="RANGE", help="Exclude a day, or FROM..TO, of the history."
)
@click.option(
    "--alternatives/--no-alternatives",
    default=True,
    help="Show what other headrooms cost, with --all, --json or --output.",
)
@options.costs
@options.output("Write what is printed with --json here.")
@options.everything
@click.option("--apply", "applies", is_flag=True, help="Have the service make and apply a plan of it, and follow it.")
@options.service
@options.reason("advised")
@options.as_json("Print it as JSON.")
@click.pass_context
def command(
    ctx: click.Context,
    file: Path,
    rates: tuple[str, ...],
    times: tuple[str, ...],
    p95_ms: float | None,
    headroom_percent: float,
    kinds: tuple[str, ...],
    kinds_file: Path | None,
    max_nodes: int,
    max_executors: int,
    ui_files: tuple[Path, ...],
    state_dir: Path | None,
    left_out: tuple[str, ...],
    alternatives: bool,
    costs_file: Path | None,
    output: Path | None,
    applies: bool,
    address: str,
    by: str,
    reason: str,
    as_json: bool,
) -> None:
    """The result is the cheapest that sustains the requested rates.

    FILE is a problem with running topologies and a measured load: from `GET /v1/problem` of a service, or from
    `stormwright import nimbus` together with `--ui`. Executors stay within the number of tasks, which Storm fixes when
    a topology is submitted. Without a target, what runs is sized for the measured rates, which may be fewer executors
    and nodes. Lines that begin with `next:` are the `storm rebalance` commands; `--apply` makes a plan of the service
    instead, which pauses spouts, loses no tuple, is evaluated, and can be rolled back.
    """
    from stormwright.advise.commands import orders_of
    from stormwright.advise.search.advise import advised
    from stormwright.advise.search.goals import AdviceGoals
    from stormwright.advise.ui import with_measured

    faults = options.idle({} if applies else dict.fromkeys(("address", "by", "reason"), "it needs --apply"))
    faults += options.idle({} if state_dir else {"left_out": "it needs --state"})
    wanted = [_texts(texts, name, faults) for texts, name in ((rates, "--rate"), (times, "--times"))]
    made = _kinds(kinds, kinds_file, faults)
    goals: AdviceGoals | None = None
    with collected(faults, "advice"):
        goals = AdviceGoals(wanted[0], wanted[1], p95_ms, headroom_percent / 100, max_nodes, max_executors)
    if faults or goals is None:
        raise InputError("advise", faults)
    problem = read_problem(file)
    prepare_output(output, *filter(None, (file, kinds_file, costs_file)), *ui_files)
    problem, held = with_measured(problem, ui_files, costs_file)
    with shown(err=True):
        # Each is another search, which is not shown otherwise.
        alternatives = alternatives and (shows_all() or as_json or output is not None)
        advice = advised(problem, goals, made, held, alternatives)
    orders, warnings = orders_of(advice), _warnings(problem, _HistorySource(state_dir, left_out))
    document = _document(problem, advice, orders, warnings)
    if output:
        write_json(output, document)
    if not as_json:
        print_advice(problem, advice, orders, warnings, priced=bool(made), applies=applies)
        if applies and not orders:
            say("nothing to apply: every topology has the advised executors and workers")
    if applies and orders:
        _apply(ctx, advice, orders, _Change(address, by, reason), document if as_json else None)
    elif as_json:
        print_json(document)


def _texts(texts: Sequence[str], option: str, faults: list[Fault]) -> dict[str, float]:
    """Return the numbers by topology, empty for all; invalid ones are added to `faults`."""
    rates: dict[str, float] = {}
    for text in texts:
        match = _NAMED.fullmatch(text)
        if match is None:
            example = "9000, of one topology as in NAME=9000" if option == "--rate" else "×1.5, of one as in NAME=×1.5"
            faults.append(Fault(f"should be a number above 0 as in {example}; got {text}", option))
        elif (match["name"] or "") in rates:
            faults.append(Fault(f"{match['name'] or 'the rate without a topology'} is given twice", option))
        else:
            rates[match["name"] or ""] = float(match["value"])
    return rates


def _kinds(texts: Sequence[str], file: Path | None, faults: list[Fault]) -> tuple[NodeKind, ...]:
    if not texts and file is None:
        return ()
    from stormwright.advise.search.kinds import duplicate_faults, parse_kind, read_kinds

    found = [kind for text in texts if (kind := parse_kind(text, faults))]
    if file is not None:
        with collected(faults, "--node-kinds"):
            found += read_kinds(file)
    faults += duplicate_faults(found)
    return tuple(found)


def _warnings(problem: Problem, past: _HistorySource) -> tuple[Saturation, ...]:
    """Return the expected times of saturation, from the history."""
    if past.state_dir is None:
        return ()
    from stormwright.advise.season import expected_saturations
    from stormwright.cli.history_location import HistoryLocation, opened
    from stormwright.cli.moments import parse_stretch
    from stormwright.history.reports import hourly_trees
    from stormwright.pipeline.streaming.backfill import TimeStretch

    left_out = [parse_stretch(text, "--leave-out") for text in past.left_out]
    with opened(HistoryLocation(past.state_dir, None, "parquet", None, ())) as (_, store):
        series = hourly_trees(store, TimeStretch(), left_out)
    return expected_saturations(problem, series)


def _document(
    problem: Problem, advice: Advice, orders: Sequence[RebalanceOrder], warnings: Sequence[Saturation]
) -> dict[str, object]:
    from dataclasses import asdict

    commands = [
        {"topology": o.name, "executors": dict(o.executors), "workers": o.workers, "command": o.command} for o in orders
    ]
    return {
        "problem": problem.name,
        **advice.as_dict(),
        "orders": commands,
        "warnings": [asdict(each) for each in warnings],
    }


def _apply(
    ctx: click.Context,
    advice: Advice,
    orders: Sequence[RebalanceOrder],
    change: _Change,
    document: Mapping[str, object] | None,
) -> None:
    """Have the service plan and apply the advice, and follow it; with a document, print all as JSON."""
    from stormwright.cli.apply import follow
    from stormwright.cli.asking import client_of

    new = [node.node for node in advice.nodes if not node.exists]
    if new:
        message = f"the cluster has not these nodes yet: {', '.join(new[:5])}{', …' if new[5:] else ''}; add them first"
        raise InputError("--apply", [Fault(message, "nodes")])
    client, placed = client_of(change.address, change.by), advice.assignment.by_topology(advice.problem)
    requested = client.plan(
        change.reason,
        placements={order.topology: placed[order.topology] for order in orders},
        executors={order.topology: order.executors for order in orders},
    )
    plan = client.wait_until_planned(requested.id)
    client.apply(plan.id, change.reason)
    follow(ctx, client.address, change.by, plan.id, no_wait=False, as_json=document is not None, beside=document)
