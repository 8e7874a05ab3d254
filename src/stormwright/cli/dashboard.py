"""``stormwright dashboard``: the pages of a service over a problem file."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json
from stormwright.cli.triggers import by_goal
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.workbench.ready_problems import read_problem


@click.command()
@options.problem_file
@options.address("browsers", port=7071)
@click.option(
    "--scheduler",
    "scheduler_name",
    default=DEFAULT_SCHEDULER,
    show_default=True,
    help="Scheduler that makes plans.",
    shell_complete=options.scheduler_names,
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Scheduler parameter.")
@options.as_json("Say as JSON where it is.")
def command(file: Path, host: str, port: int, scheduler_name: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Nothing can be moved. A running service has the same pages at its own address, live. Ctrl-C stops it."""
    from stormwright.defaults import REPAIR_SCHEDULER
    from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
    from stormwright.service.dashboard.over_file import serve, site_over
    from stormwright.service.plans.plan_service import PlanMakers
    from stormwright.workbench.live_trials import LiveTrials

    problem = read_problem(file)
    scheduler_for = by_goal(scheduler_name, settings, None)
    scheduler_for("throughput")  # reports a wrong name or parameter before serving
    makers = PlanMakers("throughput", scheduler_for, scheduler_keeping_running(REPAIR_SCHEDULER))
    with site_over(problem, makers, LiveTrials()) as site:
        if as_json:
            print_json({"problem": str(file), "address": f"http://{host}:{port}/"})
        else:
            say(f"the dashboard of {file} is at http://{host}:{port}/ (Ctrl-C ends it)")
        serve(site, host, port)
