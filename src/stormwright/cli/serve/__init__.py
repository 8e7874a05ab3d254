"""``stormwright serve``: run beside a Storm cluster and keep its placement good."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import ExitStack
from typing import Any

import click

from stormwright.base.file_lock import exclusive_lock
from stormwright.cli import options
from stormwright.cli.kafka import kafka_options
from stormwright.cli.progress import shown
from stormwright.cli.responses import on_anomaly
from stormwright.cli.serve.config import ConfigurableCommand, given
from stormwright.cli.serve.event_log import SHAPES, beginning
from stormwright.cli.serve.pair import pair_options, paired
from stormwright.cli.serve.prepare import ServiceParts, prepared
from stormwright.cli.serve.simulated import RealClusterOption, simulated, somewhere
from stormwright.defaults import BASELINE, TRIGGER_COOL_DOWN_S, TRIGGER_OVERLOAD_S, TRIGGER_PERIOD_S

log = logging.getLogger(__name__)

#: Of a service in its state directory: two would read each other's records, and both move topologies.
LOCK = "service.lock"

#: As far as triggers take them.
_SECONDS = options.FiniteRange(0, 1e6)


@click.command(cls=ConfigurableCommand)
@options.address("Nimbus and the probes", port=7070)
@options.scheduler
@options.parameters
@options.from_scratch("from scratch for published adaptive schedulers that do not move what runs, else keep")
@click.option(
    "--initial",
    default=BASELINE,
    show_default=True,
    help="Scheduler of topologies without slots; even delegates to the class in stormwright.fallback, if there is one.",
    shell_complete=options.scheduler_names,
)
@click.option(
    "--state",
    "state_dir",
    cls=RealClusterOption,
    type=options.LOCAL_DIRECTORY,
    help="Directory of the performance log, checkpoints, and all state.  [required; temporary with --simulated]",
)
@options.storm_home("Storm installation whose client and storm.yaml reach Nimbus.  [required]", kind=RealClusterOption)
@simulated
@click.option(
    "--overload",
    "overload_s",
    default=TRIGGER_OVERLOAD_S,
    show_default=True,
    type=_SECONDS,
    help="Seconds at or over CPU capacity after which a node's overload justifies a move that gains 5 %.",
)
@click.option(
    "--alarm-after",
    "alarm_after_s",
    type=options.FiniteRange(0, min_open=True),
    help="Seconds of overload after which an alarm is raised; no alarms by default.",
)
@click.option(
    "--period",
    "period_s",
    default=TRIGGER_PERIOD_S,
    show_default=True,
    type=_SECONDS,
    help="Seconds between two searches for a better placement.",
)
@click.option(
    "--objective",
    type=click.Choice(["throughput", "latency", "nodes", "balanced", "traffic"]),
    help="Objective of moves: a higher rate (throughput), shorter latency, fewer "
    "nodes, less CPU per tuple tree (balanced), or less traffic between nodes.  [default: throughput; for "
    "published schedulers what their source uses]",
)
@click.option(
    "--gain",
    "min_gain_percent",
    type=options.FiniteRange(0, 100),
    help="Minimum predicted improvement, in percent.  [default: 20 for traffic, otherwise 10]",
)
@click.option(
    "--least-measured",
    "least_measured_s",
    default=30.0,
    show_default=True,
    type=_SECONDS,
    help="Minimum measurement time of a topology before it is moved, in seconds after its workers have warmed up.",
)
@click.option(
    "--trials",
    "trials_per_day",
    default=2,
    show_default=True,
    type=options.WholeRange(0),
    help="In mode auto with objective throughput: trials of a topology within a day. A trial is a move that is "
    "expected to gain much, but not surely; it is undone unless the topology is measurably better. 0 for none.",
)
@click.option(
    "--cool-down",
    "cool_down_s",
    default=TRIGGER_COOL_DOWN_S,
    show_default=True,
    type=_SECONDS,
    help="Seconds after a change during which nothing moves.",
)
@click.option(
    "--mode",
    type=click.Choice(["observe", "suggest", "auto"]),
    help="Automation mode: observe (report only), suggest (make plans that a person applies), or auto.  "
    "[default: the last one, initially observe]",
)
@on_anomaly
@click.option(
    "--moves-only",
    "windows",
    multiple=True,
    metavar="WINDOW",
    help="Maintenance window of automatic moves, as in 01:00-05:00 or Mon-Fri 01:00-05:00.  [default: the last "
    "ones, initially none]",
)
@click.option(
    "--time-zone",
    metavar="ZONE",
    help="Time zone of the windows, as in Europe/Berlin.  [default: the last one, initially UTC]",
)
@click.option(
    "--notify",
    multiple=True,
    metavar="EVENTS=FORMAT:WHERE",
    help="Notification target: all=slack:URL, hold,plan=teams:URL, slow-node=alertmanager:URL, all=json:@FILE "
    "with the URL in a file, all=program:PATH, all=python:MODULE:FUNCTION.",
)
@click.option(
    "--forecast",
    "forecast_min",
    default=10,
    show_default=True,
    type=options.WholeRange(1, 1440),
    help="Forecast horizon in minutes, for schedulers that use forecasts (predictive).",
)
@click.option(
    "--on-failure",
    metavar="MODULE:FUNCTION|PROGRAM",
    help="Python function or program to call for each topology that cannot be placed.",
)
@click.option(
    "--keep-raw",
    "keep_raw_h",
    default=0.0,
    show_default=True,
    type=options.FiniteRange(0),
    metavar="HOURS",
    help="Retention of processed records, for `stormwright pipeline backfill`.",
)
@click.option(
    "--max-topologies",
    default=1,
    show_default=True,
    type=options.WholeRange(0),
    help="Maximum number of topologies that one automatic decision may move.",
)
@click.option(
    "--max-executors",
    default=10_000,
    show_default=True,
    type=options.WholeRange(0),
    help="Maximum number of executors that one automatic decision may move.",
)
@click.option(
    "--most-missing",
    "most_missing_percent",
    default=40.0,
    show_default=True,
    type=options.FiniteRange(0, 100),
    metavar="PERCENT",
    help="Suspend moves while more than this share of the nodes of the last half hour is missing.",
)
@click.option(
    "--history",
    "history_uri",
    metavar="URI",
    help="Directory of the history's tables, on any Hadoop file system.  [default: below --state]",
)
@click.option("--history-format", default="parquet", show_default=True, help="Format of the tables.")
@click.option(
    "--history-conf",
    type=options.LINES,
    multiple=True,
    metavar="KEY=VALUE",
    help="Spark setting for the tables, such as spark.hadoop.fs.s3a.endpoint=URL; in a variable, one a line. "
    "Other users can see a command line: write secrets in the file of --config, or in the variable.",
)
@click.option(
    "--keep-history-days", default=90, show_default=True, type=options.DAYS, help="Retention of the history, in days."
)
@click.option(
    "--tokens",
    "tokens_file",
    type=options.PATH,
    metavar="FILE",
    help="Token file, managed by `stormwright token`.  [default: tokens.json below --state, if it exists]",
)
@click.option(
    "--without-authentication",
    is_flag=True,
    help="Disable authentication. Anyone who reaches --host can then move topologies.",
)
@click.option("--tls-cert", type=options.PATH, metavar="FILE", help="TLS certificate (PEM); enables HTTPS.")
@click.option("--tls-key", type=options.PATH, metavar="FILE", help="Private key of the certificate (PEM).")
@click.option(
    "--tls-client-ca",
    type=options.PATH,
    metavar="FILE",
    help="Certificate authority (PEM) of the client certificates that Nimbus and probes must present; tokens are "
    "then not enough for them.",
)
@kafka_options
@pair_options
@options.log_format
@click.option(
    "--config",
    "config_file",
    type=options.PATH,
    metavar="FILE",
    help="TOML file with options as keys; the command line and environment variables take precedence.",
)
@click.option("--check", is_flag=True, help="Check the configuration without starting; exit with 0 or 2.")
def command(check: bool, log_format: str, **values: Any) -> None:
    """It answers Nimbus, collects the performance log, and moves topologies when it pays.

    Storm needs `storm.scheduler: stormwright.PlacementScheduler` and `stormwright.service.url` in storm.yaml, and
    topologies the probe in `topology.auto.task.hooks`.

    With --simulated it runs against a virtual cluster of the size of the problem in FILE, to try things out.

    Every option is also an environment variable (--storm-home is STORMWRIGHT_SERVE_STORM_HOME), and a key of the file
    given by --config, which is reloaded on SIGHUP.
    """
    if check:
        from stormwright.cli.serve.check import tried

        with somewhere(values["state_dir"]) as state_dir:
            click.get_current_context().exit(tried(values | {"state_dir": state_dir}, LOCK, log_format))
    with somewhere(values["state_dir"]) as state_dir:
        values["state_dir"] = state_dir
        what = beginning(values)
        parts = prepared(values)  # refuses faults first, before anything is logged
        with shown(err=True, shape=SHAPES[log_format]):  # to standard error like faults; the next steps take seconds
            log.info(
                "stormwright %s", ", ".join(f"{name} {text}" for name, text in what.items()), extra={"fields": what}
            )
        with (
            exclusive_lock(
                state_dir, f"{state_dir}: another service uses it: stop that, or name another --state", LOCK
            ),
            shown(shape=SHAPES[log_format]),
        ):
            _serve(parts, what["address"])


class _EndedAtStart(BaseException):
    """A signal has ended the service before it served; the machine code of the search may take a minute."""


def _serve(parts: ServiceParts, address: str) -> None:
    """Run the service until a signal ends it; one that comes during its start ends it at once."""
    try:
        _run(parts, address)
    except _EndedAtStart as error:
        log.info("ended by %s before it served", error)


def _run(parts: ServiceParts, address: str) -> None:
    from stormwright.cli.serve.access import warnings_of
    from stormwright.cli.serve.reload import ConfigReloader
    from stormwright.schedulers.toolkit.from_scratch import why_nothing_moves
    from stormwright.service.composition import Service
    from stormwright.workbench.live_trials import LiveTrials

    stop, again, context = threading.Event(), threading.Event(), click.get_current_context()
    # SIGHUP of a closed terminal ends the service, unless there is a file to reload.
    if context.params["config_file"] or not sys.stdin.isatty():
        signal.signal(signal.SIGHUP, lambda *_: again.set())
    end_at_signals(stop)
    cluster = parts.cluster
    with ExitStack() as running:
        settings = running.enter_context(paired(parts.pair, parts.settings, stop))
        if settings is None:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end_at_once)
        if cluster:
            how = cluster.engine.description
            log.info("simulated by %s", how, extra={"fields": {"simulated_by": how}})
        gateway, loads = (cluster.storm.gateway(), cluster.loads) if cluster else (parts.gateway, None)
        service = running.enter_context(
            Service(settings, parts.scheduler, parts.name, gateway, parts.deciders, LiveTrials(), loads)
        )
        end_at_signals(stop)
        if cluster:
            cluster.begin(service)
        else:
            ConfigReloader(context.command, given(), context.params, service).start(again)
        log.info("serving at %s", address)
        for warning in warnings_of(context.params, parts.settings.access):
            log.warning("%s", warning)
        if why := why_nothing_moves(parts.name, parts.scheduler):
            log.warning("%s", why)
        service.run(stop)


def _end_at_once(number: int, _: object) -> None:
    raise _EndedAtStart(signal.Signals(number).name)


def end_at_signals(stop: threading.Event) -> None:
    """Set `stop` at SIGINT and SIGTERM; call it again after the start of Spark, which sets its own handler."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
