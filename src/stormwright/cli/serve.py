"""``stormwright serve``: run beside a Storm cluster and keep its placement good."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.alone import alone
from stormwright.cli import options
from stormwright.cli.deciding import Deciding, decided_by
from stormwright.cli.lines import say
from stormwright.cli.progress import shown
from stormwright.cli.triggers import by_goal, told_triggers
from stormwright.defaults import STORMS_OWN
from stormwright.errors import Fault, InputError, collected

if TYPE_CHECKING:
    from stormwright.client.shapes import Mode
    from stormwright.model import Scheduler
    from stormwright.service.hooks.hook_program import Hook

#: Of a service in its state directory: two would take each other's records, and both move topologies.
LOCK = "service.lock"

#: As far as triggers take them.
_SECONDS = options.FiniteRange(0, 1e6)


@click.command(cls=options.AllAtOnce)
@options.address("Nimbus and the probes", port=7070)
@options.scheduler
@options.parameters
@options.anew("anew for those that are adaptive by their source and do not move what runs by themselves, else keep")
@click.option(
    "--initial",
    default=STORMS_OWN,
    show_default=True,
    help="Scheduler for topologies without a slot; even leaves them to the class in stormwright.fallback, if any.",
)
@click.option(
    "--state",
    "state_dir",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Directory for the performance log, checkpoints and profiles.",
)
@options.storm_home("Storm installation whose client and storm.yaml reach Nimbus.", required=True)
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
@click.option(
    "--mode",
    type=click.Choice(["observe", "suggest", "auto"]),
    help="What it does by itself: tell what would move, make plans that a person applies, or move.  [default: what it "
    "was told last, at first observe]",
)
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
    mode: Mode | None,
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
    from stormwright.experiments.live_trials import LiveTrials
    from stormwright.pipeline.settings import StreamSettings
    from stormwright.schedulers.kit.resolve import rules_in
    from stormwright.service.kept.history import HistorySettings
    from stormwright.service.settings import ServiceSettings
    from stormwright.service.wiring import Service

    (scheduler, objective, adapts), hook, gateway = _checked(
        (scheduler_name, assignments, objective, anew), initial, on_failure, history_format, storm_home
    )
    settings = ServiceSettings(
        state_dir=state_dir,
        host=host,
        port=port,
        initial=initial,
        mode=mode,
        rules=rules_in(assignments),
        on_failure=hook,
        triggers=told_triggers(scheduler, assignments, objective, **triggers),
        objective=objective,
        adapts=adapts,
        least_measured_s=least_measured_s,
        budget=MoveBudget(max_topologies, max_executors),
        history=HistorySettings(history_uri, history_format, keep_history_days),
        forecast_min=forecast_min,
        stream=StreamSettings(keep_raw_s=round(keep_raw_h * 3600), alarm_after_s=alarm_after_s),
    )
    stop, deciders = threading.Event(), by_goal(scheduler_name, assignments, anew)
    with (
        alone(state_dir, f"{state_dir}: another service uses it: stop that, or name another --state", LOCK),
        shown(),
        Service(settings, scheduler, scheduler_name, gateway, deciders, LiveTrials()) as service,
    ):
        _end_at_signals(stop)
        _tell(f"http://{host}:{port}", scheduler_name, scheduler, service.guard.modes.default)
        service.run(stop)


def _end_at_signals(stop: threading.Event) -> None:
    """Once Spark has started, which sets a handler of its own."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())


def _checked(
    decides: tuple[str, Sequence[str], str | None, bool | None],
    initial: str,
    on_failure: str | None,
    history_format: str,
    storm_home: Path,
) -> tuple[Deciding, Hook | None, list[str]]:
    """Who decides (by name, parameters, objective and whether anew), who is told of failures, how Nimbus is reached.

    Raises
    ------
    InputError
        What of the settings cannot be; all faults at once.
    """
    from stormwright.history.tables.store import check_format
    from stormwright.schedulers.kit.registry import scheduler_type
    from stormwright.schedulers.kit.resolve import keeping_what_runs
    from stormwright.service.hooks.hook_program import load_hook
    from stormwright.storm.gateway import gateway_command

    name = decides[0]
    faults: list[Fault] = []
    with collected(faults, "--scheduler"):
        scheduler_type(name)
        with collected(faults, "--set"):
            deciding = decided_by(*decides, faults)
    with collected(faults, "--initial"):
        keeping_what_runs(initial)
    with collected(faults, "--on-failure"):
        hook = load_hook(on_failure) if on_failure else None
    with collected(faults, "--history-format"):
        check_format(history_format)
    with collected(faults, "--storm-home"):
        gateway = gateway_command(storm_home)
    if faults:
        raise InputError("serve", faults)
    return deciding, hook, gateway


def _tell(address: str, name: str, scheduler: Scheduler, mode: str) -> None:
    """Say where the service is and what it does.

    Parameters
    ----------
    address, name, scheduler, mode
        Where it listens, who decides, and what it does by itself.
    """
    from stormwright.schedulers.anew.anew import why_nothing_moves

    say(f"serving at {address}, deciding with {name}, mode {mode}")
    if why := why_nothing_moves(name, scheduler):
        say(why)
