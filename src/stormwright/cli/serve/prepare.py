"""Build the parts of a service from the parameters of ``stormwright serve``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stormwright.cli.deciding import Deciding, decided_by
from stormwright.cli.kafka import topic_of
from stormwright.cli.serve.access import access_of
from stormwright.cli.serve.config import key_values, source_of
from stormwright.cli.serve.pair import Pair, pair_of
from stormwright.cli.serve.simulated import cluster_of, without_effect
from stormwright.cli.triggers import by_goal, triggers_from_options
from stormwright.errors import Fault, InputError, collected

if TYPE_CHECKING:
    from stormwright.model import Scheduler
    from stormwright.service.notifications.hook_program import Hook
    from stormwright.service.settings import ServiceSettings
    from stormwright.workbench.simulated.served_cluster import ServedCluster

#: Options that are triggers of moves, by the names of their parameters.
TRIGGERS = ("overload_s", "period_s", "min_gain_percent", "cool_down_s")


@dataclass(frozen=True)
class ServiceParts:
    """Parts of a service.

    Parameters
    ----------
    settings
        Settings of the service.
    scheduler, name
        The scheduler, and its name.
    gateway
        Argument vector that starts the Nimbus gateway; empty for a virtual cluster.
    deciders
        Goal of a plan → its scheduler.
    pair
        Settings of leader election; None for a single service.
    cluster
        The virtual cluster; None for a real one.
    """

    settings: ServiceSettings
    scheduler: Scheduler
    name: str
    gateway: list[str]
    deciders: Callable[[str], Scheduler]
    pair: Pair | None = None
    cluster: ServedCluster | None = None


def prepared(values: Mapping[str, Any]) -> ServiceParts:
    """Build the parts of a service from the verb's parameters.

    Raises
    ------
    InputError
        Settings are invalid; all faults at once.
    """
    from stormwright.base.clock import WALL
    from stormwright.controller.planning.order import MoveBudget
    from stormwright.pipeline.settings import StreamSettings
    from stormwright.schedulers.toolkit.resolve import rules_in
    from stormwright.service.notifications.webhook import places
    from stormwright.service.settings import ServiceSettings
    from stormwright.service.storage.history import HistorySettings

    name, assignments, from_scratch = values["scheduler_name"], values["assignments"], values["from_scratch"]
    faults = without_effect(values)
    access, pair, topic = access_of(values, faults), pair_of(values, faults), topic_of(values, faults)
    history_conf = _history_conf(values["history_conf"], faults)
    (scheduler, objective, adapts), hook, gateway = _checked(
        (name, assignments, values["objective"], from_scratch),
        values["initial"],
        values["on_failure"],
        values["history_format"],
        values["storm_home"],
        faults,
    )
    modes, targets, cluster = _modes(values), places(values["notify"]), cluster_of(values)
    settings = ServiceSettings(
        state_dir=values["state_dir"],
        host=values["host"],
        port=values["port"],
        access=access,
        initial=values["initial"],
        mode=values["mode"],
        modes=modes,
        notify=targets,
        rules=rules_in(assignments),
        on_failure=hook,
        triggers=triggers_from_options(scheduler, assignments, objective, **{each: values[each] for each in TRIGGERS}),
        objective=objective,
        adapts=adapts,
        least_measured_s=values["least_measured_s"],
        trials_per_day=values["trials_per_day"],
        most_missing=values["most_missing_percent"] / 100,
        budget=MoveBudget(values["max_topologies"], values["max_executors"]),
        budget_adapts=True,
        history=HistorySettings(
            values["history_uri"],
            values["history_format"],
            values["keep_history_days"],
            tables=cluster is None,
            conf=history_conf,
        ),
        forecast_min=values["forecast_min"],
        clock=cluster.clock if cluster else WALL,
        changes_executors=cluster is None,
        stream=StreamSettings(
            keep_raw_s=round(values["keep_raw_h"] * 3600), alarm_after_s=values["alarm_after_s"], kafka=topic
        ),
    )
    return ServiceParts(settings, scheduler, name, gateway, by_goal(name, assignments, from_scratch), pair, cluster)


def _history_conf(texts: Sequence[str], faults: list[Fault]) -> dict[str, str]:
    """Return the settings of Spark for the tables, collecting faults without values, which may be secrets."""
    from stormwright.pipeline.spark.target import SparkTarget

    conf = key_values(texts, "--history-conf", faults)
    try:
        SparkTarget(conf=conf)
    except InputError as error:
        faults += [Fault(fault.message, source_of("--history-conf")) for fault in error.faults]
    return conf


def _modes(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return further parts of the modes; raises InputError for an invalid window or time zone."""
    from stormwright.plans.modes import Modes, windows_of

    given = {name: values[name] for name in ("responses", "windows", "time_zone") if values[name]}
    windows_of(Modes(**given))
    return given


def _checked(
    decides: tuple[str, Sequence[str], str | None, bool | None],
    initial: str,
    on_failure: str | None,
    history_format: str,
    storm_home: Path | None,
    faults: list[Fault],
) -> tuple[Deciding, Hook | None, list[str]]:
    """Return scheduler, failure hook and gateway, collecting faults.

    Parameters
    ----------
    decides, initial, on_failure, history_format, storm_home
        Values of the options.
    faults
        Faults of other options.

    Raises
    ------
    InputError
        Settings are invalid; all faults at once.
    """
    from stormwright.history.tables.store import check_format
    from stormwright.schedulers.toolkit.registry import scheduler_type
    from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
    from stormwright.service.notifications.hook_program import load_hook
    from stormwright.storm.gateway import gateway_command

    name = decides[0]
    with collected(faults, source_of("--scheduler")):
        scheduler_type(name)
        with collected(faults, source_of("--set")):
            deciding = decided_by(*decides, faults)
    with collected(faults, source_of("--initial")):
        scheduler_keeping_running(initial)
    with collected(faults, source_of("--on-failure")):
        hook = load_hook(on_failure) if on_failure else None
    with collected(faults, source_of("--history-format")):
        check_format(history_format)
    with collected(faults, source_of("--storm-home")):
        gateway = gateway_command(storm_home) if storm_home else []
    if faults:
        raise InputError("serve", faults)
    return deciding, hook, gateway
