"""``stormwright demo``: the main job on a real local cluster, from end to end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.progress import shown
from stormwright.defaults import DECIDING
from stormwright.errors import Fault, InputError
from stormwright.escaping import printable
from stormwright.workbench.demo.settings import CORES, LINK, LINK_OF_SHARED_CORES, DemoSettings

if TYPE_CHECKING:
    from stormwright.schedulers import Scheduler
    from stormwright.service.composition import Service
    from stormwright.workbench.demo.result import DemoResult


@click.command()
@options.scheduler
@options.parameters
@options.anew("anew; keep for those that move by themselves what runs: n_version, online and optimizer")
@click.option(
    "--topology",
    "specs",
    multiple=True,
    metavar="KIND[:KEY=VALUE,…]",
    help="A topology to run, as often as wanted: word-count, exclamation, rolling-top-words, reference, linear, "
    "diamond, star, page-load, processing, advertising, sol. [default: two word counts]",
)
@options.nodes
@click.option("--slots", default=6, show_default=True, help="Worker slots of each node.")
@click.option(
    "--link", help=f"Limit of the link of each node. [default: {LINK}; {LINK_OF_SHARED_CORES} where nodes share cores]"
)
@click.option(
    "--cores-per-node",
    type=float,
    help="Cores that each node is held to, and declares; 0 for no limit. "
    f"[default: up to {CORES:g}, as the service and Spark need some; no limit where this machine allows none]",
)
@click.option(
    "--warm-up",
    "warm_up_s",
    default=30.0,
    show_default=True,
    help="Seconds before the first measurement; before the second, until the workers are as warm.",
)
@click.option("--measure", "measure_s", default=30.0, show_default=True, help="Seconds of each measurement.")
@click.option(
    "--look-back/--no-look-back",
    default=None,
    help="Roll back a placement that is not better than Storm's own, and decide again. "
    f"[default: --look-back with {DECIDING}, otherwise the placement is shown as it is]",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 5),
    default=2,
    show_default=True,
    help="Times at most that both placements are measured in turn, as long as neither is certainly better.",
)
@click.option(
    "--decisions",
    type=click.IntRange(1, 5),
    default=2,
    show_default=True,
    help="Decisions at most, as long as each is rolled back.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-output"),
    show_default=True,
    help="Where report.html and result.json go.",
)
@click.option(
    "--simulated",
    is_flag=True,
    help="On a virtual cluster in virtual time: needs no Storm, and measures nothing of it. Topologies: word-count and "
    "exclamation.",
)
@click.option("--keep", is_flag=True, help="Then let cluster and service go on, with the dashboard, until Ctrl-C.")
@options.as_json("Print the result as JSON; progress goes to standard error.")
@click.pass_context
def command(
    ctx: click.Context,
    scheduler_name: str,
    assignments: tuple[str, ...],
    anew: bool | None,
    specs: tuple[str, ...],
    nodes: int,
    slots: int,
    link: str | None,
    cores_per_node: float | None,
    warm_up_s: float,
    measure_s: float,
    look_back: bool | None,
    rounds: int,
    decisions: int,
    output: Path,
    simulated: bool,
    keep: bool,
    as_json: bool,
) -> None:
    """Boot a real Storm cluster, run topologies under Even, decide, move them safely, and show what was gained.

    Nodes have CPU of their own where this machine allows it. What a placement will come to is predicted, and shown
    beside what is measured. A placement that turns out to be worse is rolled back, costs are corrected by what was
    measured, and there is a second decision. Exits with 1 when tuples were lost, or a move improved nothing and
    was not rolled back.
    """
    # Imported here: `stormwright demo --help` needs neither Spark nor a web server.
    from stormwright.schedulers.toolkit.from_scratch import why_nothing_moves
    from stormwright.workbench.demo import result as demo_table
    from stormwright.workbench.demo.run import fair_cluster, run_demo
    from stormwright.workbench.demo.settings import parse_submissions
    from stormwright.workbench.simulated.demo import run_simulated, virtual_cluster

    if keep and simulated:
        raise InputError("demo", [Fault("a virtual cluster ends with its demonstration", "--keep")])
    progress = Console(stderr=as_json, highlight=False)
    begin = time.monotonic()

    def tell(line: str) -> None:
        progress.print(f"[dim]{time.monotonic() - begin:6.1f} s[/dim]  {escape(printable(line))}", soft_wrap=True)

    scheduler = _deciding(scheduler_name, assignments, anew)
    with shown(tell=tell):
        if why := why_nothing_moves(scheduler_name, scheduler):
            tell(why)
        settings = DemoSettings(
            cluster=(virtual_cluster if simulated else fair_cluster)(nodes, slots, link, cores_per_node),
            submissions=parse_submissions(list(specs or ("word-count", "word-count"))),
            scheduler=scheduler,
            scheduler_name=scheduler_name,
            warm_up_s=warm_up_s,
            measure_s=measure_s,
            look_back=scheduler_name == DECIDING if look_back is None else look_back,
            rounds=rounds,
            decisions=decisions,
        )
        tell(demo_table.network_line(settings))
        tell_all = partial(_tell, settings, output, progress, as_json)
        then = partial(_go_on, tell_all) if keep else None
        result = run_simulated(settings) if simulated else run_demo(settings, then)
    if not keep:
        tell_all(result)
    if not result.succeeded:
        progress.print("tuples were lost" if result.lost else "nothing improved")
        ctx.exit(1)


def _deciding(name: str, assignments: tuple[str, ...], anew: bool | None) -> Scheduler:
    from stormwright.controller.objectives.outlook import THROUGHPUT
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.toolkit.from_scratch import asked, unless_it_moves

    return asked(name, make_scheduler(name, assignments, objective=THROUGHPUT), anew, unless_it_moves)


def _tell(settings: DemoSettings, output: Path, progress: Console, as_json: bool, result: DemoResult) -> None:
    """Write what was found, and print it."""
    from stormwright.formats.files.json_files import write_bytes
    from stormwright.workbench.demo import result as demo_table
    from stormwright.workbench.demo.report import write_html

    output.mkdir(parents=True, exist_ok=True)
    document = demo_table.as_dict(result)
    write_bytes(output / "result.json", f"{json.dumps(document, indent=1)}\n".encode())
    write_html(result, settings, output / "report.html")
    if as_json:
        click.echo(json.dumps(document))
    else:
        _print(result, progress)
        progress.print(escape(printable(f"report: {output / 'report.html'}")), soft_wrap=True)


def _go_on(tell: Callable[[DemoResult], None], result: DemoResult, service: Service) -> None:
    """Tell what was found, resume what was paused to count its tuples, and serve until a signal comes."""
    from stormwright.cli.serve import end_at_signals

    tell(result)
    stop = threading.Event()
    end_at_signals(stop)
    for topology in result.topologies:
        service.nimbus.activate(topology.name)
    address = f"http://{service.settings.host}:{service.settings.port}"
    say(f"all goes on: the dashboard is at {address}; Ctrl-C ends cluster and service", err=True)
    service.run(stop)


def _print(result: DemoResult, progress: Console) -> None:
    from stormwright.workbench.demo import result as demo_table

    figures = (f"under {result.before.scheduler}", f"under {result.after.scheduler}", "after / before")
    table = Table("", *(Column(figure, justify="right") for figure in figures))
    for row in demo_table.table(result):
        ratio = f"[green]{row.ratio}[/green]" if row.better else row.ratio
        table.add_row(escape(printable(row.label)), row.before, row.after, ratio)
    progress.print(table)
    simulated = [result.simulated] if result.simulated else []
    for line in (*demo_table.limits(result), *demo_table.counts(result), *simulated):
        progress.print(escape(printable(line)), soft_wrap=True)
    for line in demo_table.verdicts(result):
        progress.print(f"[bold]{escape(printable(line))}[/bold]", soft_wrap=True)
