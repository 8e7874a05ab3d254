"""``stormwright demo``: a complete demonstration on a real local cluster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from stormwright.base.escaping import printable
from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.progress import shown
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.errors import Fault, InputError
from stormwright.workbench.demo.settings import CORES, LINK, LINK_OF_SHARED_CORES, DemoSettings

if TYPE_CHECKING:
    from stormwright.schedulers import Scheduler
    from stormwright.service.composition import Service
    from stormwright.workbench.demo.result import DemoResult


#: Topologies of the demonstration's scenes, one after the other: a lone one, and two that share the nodes.
SCENES = {"alone": ("word-count",), "together": ("word-count", "word-count")}


@click.command()
@options.scheduler
@options.parameters
@options.from_scratch("from scratch; keep for n_version, online and optimizer, which move what runs")
@click.option(
    "--topology",
    "specs",
    multiple=True,
    metavar="KIND[:KEY=VALUE,…]",
    help="Topology to run; repeat for several: word-count, exclamation, rolling-top-words, reference, linear, "
    "diamond, star, page-load, processing, advertising, sol.  [default: a word count alone, then two together]",
)
@options.nodes
@click.option("--slots", default=6, type=options.WholeRange(), show_default=True, help="Worker slots per node.")
@click.option(
    "--link",
    type=options.PerNode(str),
    help=f"Bandwidth limit of every node's link, or of each (60mbit,20mbit,60mbit).  [default: {LINK}; "
    f"{LINK_OF_SHARED_CORES} where nodes share cores]",
)
@click.option(
    "--cores-per-node",
    type=options.PerNode(float),
    help=f"CPU limit of every node, in cores, or of each (0.7,0.4,0.25); 0 for no limit.  [default: {CORES:g} in the "
    "mean, three nodes being unlike; no limit where this machine does not support one]",
)
@click.option(
    "--warm-up",
    "warm_up_s",
    default=30.0,
    show_default=True,
    help="Seconds before the first measurement; the second one starts when the workers are equally warm.",
)
@click.option(
    "--measure", "measure_s", default=30.0, show_default=True, help="Duration of each measurement, in seconds."
)
@click.option(
    "--look-back/--no-look-back",
    default=None,
    help=f"Roll back a placement that is not better than Storm's own, and decide again.  [default: --look-back "
    f"with {DEFAULT_SCHEDULER}]",
)
@click.option(
    "--rounds",
    type=options.WholeRange(1, 5),
    default=2,
    show_default=True,
    help="Maximum number of times that both placements are measured in turn; stops when one is significantly better.",
)
@click.option(
    "--decisions",
    type=options.WholeRange(1, 5),
    default=2,
    show_default=True,
    help="Maximum number of decisions; another one is made after each rollback.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-output"),
    show_default=True,
    help="Directory of report.html and result.json, by default one for each scene.",
)
@click.option(
    "--simulated",
    is_flag=True,
    help="Run on a virtual cluster in virtual time, without Storm. Topologies: word-count and exclamation.",
)
@click.option("--keep", is_flag=True, help="Keep the cluster and the service with its dashboard running until Ctrl-C.")
@options.as_json("Print the result as JSON; progress goes to standard error.")
@click.pass_context
def command(
    ctx: click.Context,
    scheduler_name: str,
    assignments: tuple[str, ...],
    from_scratch: bool | None,
    specs: tuple[str, ...],
    nodes: int,
    slots: int,
    link: str | tuple[str, ...] | None,
    cores_per_node: float | tuple[float, ...] | None,
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
    """Topologies run on a real Storm cluster, are moved safely to where a scheduler places them, and measured before
    and after: by default one alone, then two that share the nodes.

    Nodes have CPU limits of their own, and are unlike, where this machine supports it. The prediction for each
    placement is shown beside the measurement. A placement that turns out to be worse is rolled back, costs are
    corrected by the measurement, and a second decision is made. Exits with 1 if tuples were lost, or a move improved
    nothing and was not rolled back.
    """
    # Imported here: `stormwright demo --help` needs neither Spark nor a web server.
    from stormwright.schedulers.toolkit.from_scratch import why_nothing_moves
    from stormwright.workbench.demo import result as demo_table
    from stormwright.workbench.demo.run import fair_cluster, run_demo
    from stormwright.workbench.demo.submissions import parse_submissions
    from stormwright.workbench.simulated.cluster import run_simulated, virtual_cluster

    if keep and simulated:
        raise InputError("demo", [Fault("a virtual cluster ends with the demonstration", "--keep")])
    progress = Console(stderr=as_json, highlight=False)
    begin = time.monotonic()

    def report_to(line: str) -> None:
        progress.print(f"[dim]{time.monotonic() - begin:6.1f} s[/dim]  {escape(printable(line))}", soft_wrap=True)

    with shown(write=report_to):
        cluster = (virtual_cluster if simulated else fair_cluster)(nodes, slots, link, cores_per_node)
    scenes = {"": specs} if specs else SCENES
    last, succeeded = [*scenes][-1], True
    documents: dict[str, Any] = {}

    def report(scene: str, settings: DemoSettings, result: DemoResult) -> None:
        documents[scene] = _write_result(settings, output / scene, result)
        if not as_json:
            _print(result, progress)
            progress.print(escape(printable(f"report: {output / scene / 'report.html'}")), soft_wrap=True)
        elif scene == last:
            click.echo(json.dumps(documents.get("", documents)))

    for scene, topologies in scenes.items():
        scheduler = _deciding(scheduler_name, assignments, from_scratch)
        with shown(write=report_to):
            if why := why_nothing_moves(scheduler_name, scheduler):
                report_to(why)
            settings = DemoSettings(
                cluster=cluster,
                submissions=parse_submissions(list(topologies)),
                scheduler=scheduler,
                scheduler_name=scheduler_name,
                warm_up_s=warm_up_s,
                measure_s=measure_s,
                look_back=scheduler_name == DEFAULT_SCHEDULER if look_back is None else look_back,
                rounds=rounds,
                decisions=decisions,
            )
            report_to(f"{scene}: {demo_table.network_line(settings)}" if scene else demo_table.network_line(settings))
            then = partial(_go_on, partial(report, scene, settings)) if keep and scene == last else None
            result = run_simulated(settings) if simulated else run_demo(settings, then)
        if then is None:
            report(scene, settings, result)
        if not result.succeeded:
            progress.print("tuples were lost" if result.lost else "nothing improved")
            succeeded = False
    if not succeeded:
        ctx.exit(1)


def _deciding(name: str, assignments: tuple[str, ...], from_scratch: bool | None) -> Scheduler:
    from stormwright.controller.objectives.outlook import THROUGHPUT
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.toolkit.from_scratch import apply_from_scratch, unless_moving

    return apply_from_scratch(
        name, make_scheduler(name, assignments, objective=THROUGHPUT), from_scratch, unless_moving
    )


def _write_result(settings: DemoSettings, directory: Path, result: DemoResult) -> dict[str, Any]:
    """Write the result and its report; return it as JSON."""
    from stormwright.formats.files.json_files import write_bytes
    from stormwright.workbench.demo import result as demo_table
    from stormwright.workbench.demo.report import write_html

    directory.mkdir(parents=True, exist_ok=True)
    document = demo_table.as_dict(result)
    write_bytes(directory / "result.json", f"{json.dumps(document, indent=1)}\n".encode())
    write_html(result, settings, directory / "report.html")
    return document


def _go_on(report_to: Callable[[DemoResult], None], result: DemoResult, service: Service) -> None:
    """Print the result, resume paused topologies, and serve until a signal arrives."""
    from stormwright.cli.serve import end_at_signals

    report_to(result)
    stop = threading.Event()
    end_at_signals(stop)
    for topology in result.topologies:
        service.nimbus.activate(topology.name)
    address = f"http://{service.settings.host}:{service.settings.port}"
    say(f"still running: the dashboard is at {address}; Ctrl-C stops cluster and service", err=True)
    service.run(stop)


def _print(result: DemoResult, progress: Console) -> None:
    from stormwright.workbench.demo import result as demo_table

    figures = (f"under {result.before.scheduler}", f"under {result.after.scheduler}", demo_table.ratio_name(result))
    table = Table("", *(Column(figure, justify="right") for figure in figures))
    for row in demo_table.table(result):
        ratio = f"[green]{row.ratio}[/green]" if row.better else row.ratio
        table.add_row(escape(printable(row.label)), row.before, row.after, ratio)
    progress.print(table)
    simulated = [result.simulated] if result.simulated else []
    for line in (*demo_table.limits(result), *demo_table.outcomes(result), *demo_table.counts(result), *simulated):
        progress.print(escape(printable(line)), soft_wrap=True)
    for line in demo_table.verdicts(result):
        progress.print(f"[bold]{escape(printable(line))}[/bold]", soft_wrap=True)
