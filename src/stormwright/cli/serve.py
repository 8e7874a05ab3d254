"""``stormwright serve``: run beside a Storm cluster and keep its placement good."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.alone import alone
from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.progress import shown
from stormwright.defaults import STORMS_OWN
from stormwright.errors import Fault, InputError

if TYPE_CHECKING:
    from stormwright.model import Scheduler
    from stormwright.schedulers.kit.triggers import Adaptation, TriggerParams

#: Of a service in its state directory: two would take each other's records, and both move topologies.
LOCK = "service.lock"

#: As far as triggers take them.
_SECONDS = options.FiniteRange(0, 1e6)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address that Nimbus and the probes reach.")
@click.option("--port", default=7070, show_default=True, type=click.IntRange(1, 65535), help="Its port.")
@options.scheduler
@options.parameters
@options.anew("anew for those that are adaptive by their source and do not move what runs by themselves, else keep")
@click.option("--initial", default=STORMS_OWN, show_default=True, help="Scheduler for topologies without a slot.")
@click.option(
    "--state",
    "state_dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory for the performance log, checkpoints and profiles.",
)
@click.option(
    "--storm-home",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    required=True,
    help="Storm installation whose client and storm.yaml reach Nimbus.",
)
@click.option(
    "--overload",
    "overload_s",
    default=30.0,
    show_default=True,
    type=_SECONDS,
    help="Seconds for which a node is at or over its CPU capacity before that alone is worth a move.",
)
@click.option(
    "--alarm-after",
    "alarm_after_s",
    type=options.FiniteRange(0, min_open=True),
    help="Seconds of overload of a node after which an alarm is raised; no alarms by default.",
)
@click.option(
    "--period",
    "period_s",
    default=60.0,
    show_default=True,
    type=_SECONDS,
    help="Seconds from one look for a better placement to the next.",
)
@click.option(
    "--objective",
    type=click.Choice(["throughput", "latency", "nodes", "traffic"]),
    help="What a move has to gain, by prediction: a higher rate, shorter latency, fewer nodes, or less traffic between "
    "nodes, whatever comes of that.  [default: throughput; for those that place anew as their source does, what that "
    "looks at]",
)
@click.option(
    "--gain",
    "min_gain_percent",
    type=options.FiniteRange(0, 100),
    help="Percent of it that a move has to gain.  [default: 20 of traffic, else 10]",
)
@click.option(
    "--least-measured",
    "least_measured_s",
    default=30.0,
    show_default=True,
    type=_SECONDS,
    help="Seconds that a topology is measured before it is moved, from when its workers have started and warmed up.",
)
@click.option(
    "--cool-down",
    "cool_down_s",
    default=60.0,
    show_default=True,
    type=_SECONDS,
    help="Seconds after a change in which nothing moves.",
)
@click.option("--dry-run", is_flag=True, help="Decide and tell what would move, but move nothing.")
@click.option(
    "--forecast",
    "forecast_min",
    default=10,
    show_default=True,
    type=click.IntRange(1, 1440),
    help="Minutes ahead that the load is forecast, for schedulers that use that (predictive).",
)
@click.option(
    "--on-failure",
    metavar="MODULE:FUNCTION|PROGRAM",
    help="Python function or program that is told of every topology that finds no slots.",
)
@click.option(
    "--keep-raw",
    "keep_raw_h",
    default=0.0,
    show_default=True,
    type=options.FiniteRange(0),
    metavar="HOURS",
    help="Keep processed records so long for `stormwright pipeline backfill`.",
)
@click.option(
    "--max-topologies",
    default=1,
    show_default=True,
    type=click.IntRange(0),
    help="Topologies that one decision may move.",
)
@click.option(
    "--max-executors",
    default=10_000,
    show_default=True,
    type=click.IntRange(0),
    help="Executors that one decision may move.",
)
@click.option(
    "--history",
    "history_uri",
    metavar="URI",
    help="Directory of the history's tables, of any Hadoop file system.  [default: below --state]",
)
@click.option("--history-format", default="parquet", show_default=True, help="Format of the tables.")
@click.option(
    "--keep-history-days", default=90, show_default=True, type=options.DAYS, help="How long the history is kept."
)
def command(
    host: str,
    port: int,
    scheduler_name: str,
    assignments: tuple[str, ...],
    anew: bool | None,
    initial: str,
    state_dir: Path,
    storm_home: Path,
    alarm_after_s: float | None,
    forecast_min: int,
    objective: str | None,
    least_measured_s: float,
    dry_run: bool,
    max_topologies: int,
    max_executors: int,
    on_failure: str | None,
    history_uri: str | None,
    history_format: str,
    keep_history_days: int,
    keep_raw_h: float,
    **triggers: float | None,
) -> None:
    """Answer Nimbus, collect the performance log, and move topologies when it pays.

    Storm needs `storm.scheduler: stormwright.PlacementScheduler` and `stormwright.service.url` in storm.yaml, and
    topologies the probe in `topology.auto.task.hooks`.
    """
    from stormwright.controller.planning.plan import MoveBudget
    from stormwright.pipeline.settings import StreamSettings
    from stormwright.service.hooks.hook_program import load_hook
    from stormwright.service.kept.history import HistorySettings
    from stormwright.service.settings import ServiceSettings
    from stormwright.service.wiring import Service
    from stormwright.storm.gateway import gateway_command

    scheduler, objective, adapts = _deciding(scheduler_name, assignments, objective, anew)
    settings = ServiceSettings(
        state_dir=state_dir,
        host=host,
        port=port,
        initial=initial,
        dry_run=dry_run,
        on_failure=load_hook(on_failure) if on_failure else None,
        triggers=_triggers(objective, **triggers),
        objective=objective,
        adapts=adapts,
        least_measured_s=least_measured_s,
        budget=MoveBudget(max_topologies, max_executors),
        history=HistorySettings(history_uri, history_format, keep_history_days),
        forecast_min=forecast_min,
        stream=StreamSettings(keep_raw_s=round(keep_raw_h * 3600), alarm_after_s=alarm_after_s),
    )
    stop = threading.Event()
    with (
        alone(state_dir, f"{state_dir}: another service uses it: stop that, or name another --state", LOCK),
        shown(),
        Service(settings, scheduler, scheduler_name, gateway_command(storm_home)) as service,
    ):
        # Spark has set a handler of its own meanwhile.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        say(f"serving at http://{host}:{port}, deciding with {scheduler_name}")
        _warn(scheduler_name, scheduler)
        service.run(stop)


def _deciding(
    name: str, assignments: tuple[str, ...], objective: str | None, anew: bool | None
) -> tuple[Scheduler, str, Adaptation]:
    """Who decides, what a move has to gain, and when a better placement is looked for."""
    from stormwright.controller.aims.outlook import THROUGHPUT, TRAFFIC
    from stormwright.schedulers import make_scheduler
    from stormwright.schedulers.anew.anew import asked, if_it_adapts
    from stormwright.schedulers.kit.traits import declared
    from stormwright.schedulers.kit.triggers import ONLINE

    scheduler = make_scheduler(name, assignments, objective=objective or THROUGHPUT)
    adapts = declared(scheduler).adapts if anew is not False and if_it_adapts(scheduler) else ONLINE
    objective = objective or (THROUGHPUT if adapts == ONLINE else TRAFFIC)
    _require_one_objective(scheduler, objective)
    return asked(name, scheduler, anew, if_it_adapts), objective, adapts


def _warn(name: str, scheduler: Scheduler) -> None:
    from stormwright.schedulers.anew.anew import why_nothing_moves

    if why := why_nothing_moves(name, scheduler):
        say(why)


def _triggers(objective: str, min_gain_percent: float | None, **seconds: Any) -> TriggerParams:
    from stormwright.controller.aims.outlook import least_gain_percent
    from stormwright.schedulers.kit.triggers import TriggerParams

    gain = least_gain_percent(objective) if min_gain_percent is None else min_gain_percent
    return TriggerParams(min_gain_percent=gain, **seconds)


def _require_one_objective(scheduler: Scheduler, objective: str) -> None:
    from stormwright.controller.aims.outlook import OBJECTIVES

    searched = getattr(getattr(scheduler, "params", None), "objective", objective)
    if searched in OBJECTIVES and searched != objective:
        fault = Fault(f"says {searched}, and --objective says {objective}: name one of them", "--set objective")
        raise InputError("serve", [fault])
