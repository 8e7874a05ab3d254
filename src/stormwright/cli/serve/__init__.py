"""``stormwright serve``: run beside a Storm cluster and keep its placement good."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from stormwright.cli import options
from stormwright.cli.progress import shown
from stormwright.cli.responses import on_anomaly
from stormwright.cli.serve.config import Configured, given
from stormwright.cli.serve.event_log import SHAPES, beginning
from stormwright.cli.serve.pair import pair_options, paired
from stormwright.cli.serve.prepare import Prepared, prepared
from stormwright.cli.serve.simulated import UnlessSimulated, simulated, somewhere
from stormwright.defaults import STORMS_OWN
from stormwright.file_lock import alone

log = logging.getLogger(__name__)

#: Of a service in its state directory: two would take each other's records, and both move topologies.
LOCK = "service.lock"

#: As far as triggers take them.
_SECONDS = options.FiniteRange(0, 1e6)


@click.command(cls=Configured)
@options.address("Nimbus and the probes", port=7070)
@options.scheduler
@options.parameters
@options.anew("anew for those that are adaptive by their source and do not move what runs by themselves, else keep")
@click.option(
    "--initial",
    default=STORMS_OWN,
    show_default=True,
    help="Scheduler for topologies without a slot; even leaves them to the class in stormwright.fallback, if any.",
    shell_complete=options.scheduler_names,
)
@click.option(
    "--state",
    "state_dir",
    cls=UnlessSimulated,
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for the performance log, checkpoints and profiles.  [required; with --simulated one that is "
    "removed at the end]",
)
@options.storm_home("Storm installation whose client and storm.yaml reach Nimbus.  [required]", kind=UnlessSimulated)
@simulated
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
    type=click.Choice(["throughput", "latency", "nodes", "balanced", "traffic"]),
    help="What a move has to gain, by prediction: a higher rate, shorter latency, fewer nodes, less CPU for each tuple "
    "tree (balanced), or less traffic between nodes, whatever comes of that.  [default: throughput; for those that "
    "place anew as their source does, what that looks at]",
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
@on_anomaly
@click.option(
    "--moves-only",
    "windows",
    multiple=True,
    metavar="WINDOW",
    help="When it moves things by itself, as in 01:00-05:00 or Mon-Fri 01:00-05:00.  [default: what it was told last, "
    "at first at any time]",
)
@click.option(
    "--time-zone",
    metavar="ZONE",
    help="That of the windows, as in Europe/Berlin.  [default: what it was told last, at first UTC]",
)
@click.option(
    "--notify",
    multiple=True,
    metavar="EVENTS=FORMAT:WHERE",
    help="Who is told of events: all=slack:URL, hold,plan=teams:URL, slow-node=alertmanager:URL, all=json:@FILE with "
    "the URL in a file, all=program:PATH, all=python:MODULE:FUNCTION.",
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
    "--most-missing",
    "most_missing_percent",
    default=40.0,
    show_default=True,
    type=options.FiniteRange(0, 100),
    metavar="PERCENT",
    help="Nothing moves while more of the nodes that were there in the last half hour are missing.",
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
@click.option(
    "--tokens",
    "tokens_file",
    type=options.PATH,
    metavar="FILE",
    help="Who may ask: a file that `stormwright token` keeps.  [default: tokens.json below --state, where it is]",
)
@click.option(
    "--without-authentication",
    is_flag=True,
    help="Ask nobody who he is. Everybody who reaches --host may then move topologies.",
)
@click.option("--tls-cert", type=options.PATH, metavar="FILE", help="Certificate, in PEM: HTTPS is spoken.")
@click.option("--tls-key", type=options.PATH, metavar="FILE", help="Its key, in PEM.")
@click.option(
    "--tls-client-ca",
    type=options.PATH,
    metavar="FILE",
    help="Nimbus and probes show certificates of this authority, in PEM; tokens are not enough for them then.",
)
@pair_options
@options.log_format
@click.option(
    "--config",
    "config_file",
    type=options.PATH,
    metavar="FILE",
    help="Options as keys of a TOML file; what the command line or a variable says goes before.",
)
@click.option("--check", is_flag=True, help="Try everything, say what of it is right, and leave with 0 or 2.")
def command(check: bool, log_format: str, **told: Any) -> None:
    """Answer Nimbus, collect the performance log, and move topologies when it pays.

    Storm needs `storm.scheduler: stormwright.PlacementScheduler` and `stormwright.service.url` in storm.yaml, and
    topologies the probe in `topology.auto.task.hooks`.

    With --simulated it does all of that for a virtual cluster, as large as the problem in FILE says: to look at, and to
    try things on.

    Every option is a variable, too (--storm-home is STORMWRIGHT_SERVE_STORM_HOME), and a key of the file that --config
    names, which is read again at SIGHUP.
    """
    if check:
        from stormwright.cli.serve.check import tried

        with somewhere(told["state_dir"]) as state_dir:
            click.get_current_context().exit(tried(told | {"state_dir": state_dir}, LOCK, log_format))
    with somewhere(told["state_dir"]) as state_dir:
        told["state_dir"] = state_dir
        what = beginning(told)
        with shown(err=True, shape=SHAPES[log_format]):  # as faults, which may follow: what comes next takes seconds
            log.info("stormwright %s", ", ".join(f"{name} {text}" for name, text in what.items()), extra={"told": what})
        made = prepared(told)
        with (
            alone(state_dir, f"{state_dir}: another service uses it: stop that, or name another --state", LOCK),
            shown(shape=SHAPES[log_format]),
        ):
            _serve(made, what["address"])


def _serve(made: Prepared, address: str) -> None:
    """Until a signal ends it."""
    from stormwright.cli.serve.access import warnings_of
    from stormwright.cli.serve.reload import Reloading
    from stormwright.schedulers.toolkit.from_scratch import why_nothing_moves
    from stormwright.service.composition import Service
    from stormwright.workbench.live_trials import LiveTrials

    stop, again, context = threading.Event(), threading.Event(), click.get_current_context()
    # A terminal that is closed ends what runs in it, unless there is a file to read again.
    if context.params["config_file"] or not sys.stdin.isatty():
        signal.signal(signal.SIGHUP, lambda *_: again.set())
    end_at_signals(stop)
    cluster = made.cluster
    gateway, loads = (cluster.storm.gateway(), cluster.loads) if cluster else (made.gateway, None)
    with ExitStack() as running:
        settings = running.enter_context(paired(made.pair, made.settings, stop))
        if settings is None:
            return
        service = running.enter_context(
            Service(settings, made.scheduler, made.name, gateway, made.deciders, LiveTrials(), loads)
        )
        end_at_signals(stop)
        if cluster:
            cluster.begin(service)
        else:
            Reloading(context.command, given(), context.params, service).start(again)
        log.info("serving at %s", address)
        for warning in warnings_of(context.params, made.settings.access):
            log.warning("%s", warning)
        if why := why_nothing_moves(made.name, made.scheduler):
            log.warning("%s", why)
        service.run(stop)


def end_at_signals(stop: threading.Event) -> None:
    """To be called once more when Spark has started, which sets a handler of its own."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
