"""Reload the configuration file of a running service; settings that cannot change are reported."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import click

from stormwright.cli.serve.prepare import TRIGGERS, ServiceParts, prepared
from stormwright.errors import StormwrightError

if TYPE_CHECKING:
    from stormwright.service.notifications.notifier import Target
    from stormwright.service.settings import ServiceSettings

log = logging.getLogger(__name__)

#: Parameters of the verb that a service takes over while it runs.
CHANGEABLE = frozenset(
    {
        *TRIGGERS,
        *("least_measured_s", "max_topologies", "max_executors", "most_missing_percent", "on_failure", "notify"),
        *("mode", "responses", "windows", "time_zone"),
    }
)

#: Reloadable options that are parts of `stormwright.client.shapes.Modes` → name there.
MODES = {"mode": "default", "responses": "responses", "windows": "windows", "time_zone": "time_zone"}

#: Options whose values are not logged.
SECRET = frozenset({"notify", "kafka_conf", "history_conf"})


class ReloadableSettings(Protocol):
    """The part of a service whose settings can change while it runs."""

    def change(self, settings: ServiceSettings, modes: Mapping[str, Any], notify: Sequence[Target] | None) -> None:
        """Replace triggers, budget, hook and parts of the modes from the next look on.

        `notify` are the receivers of events; None leaves them unchanged.
        """

    def renew(self) -> None:
        """Reload the certificate from its files."""


class ConfigReloader:
    """Reloads the configuration file on request, in its own thread.

    Parameters
    ----------
    command, given
        The verb and its command line.
    values
        Parameters at start by name.
    service
        Running service, which applies the changed settings.
    """

    def __init__(
        self, command: click.Command, given: tuple[str, ...], values: Mapping[str, Any], service: ReloadableSettings
    ) -> None:
        self._command, self._given, self._values, self._service = command, given, dict(values), service

    def start(self, requested: threading.Event) -> None:
        """Reload whenever `requested` is set, and clear it."""
        # A daemon: it does not keep the service from ending.
        threading.Thread(target=self._run, args=(requested,), name="stormwright-reload", daemon=True).start()

    def once(self) -> None:
        """Reload the configuration and apply changed settings; on any fault nothing changes."""
        try:
            values, made = self._read()
        except click.ClickException as error:
            log.error("configuration not reloaded: %s", error.format_message())
            return
        except StormwrightError as error:
            log.error("configuration not reloaded: %s", error)
            return
        differing = {name for name, value in values.items() if value != self._values.get(name)}
        changed, waiting = differing & CHANGEABLE, differing - CHANGEABLE
        if changed:
            # Removed settings keep their values, as at a start.
            modes = {part: values[name] for name, part in MODES.items() if name in changed and values[name]}
            self._service.change(made.settings, modes, made.settings.notify if "notify" in changed else None)
        self._service.renew()
        for name in changed:
            self._values[name] = values[name]
        log.info(
            "read again: %s", "; ".join(self._shown(name, values) for name in sorted(changed)) or "nothing changes"
        )
        for name in sorted(waiting):
            log.warning("%s changes only at a restart of the service", self._shown(name, values))

    def _read(self) -> tuple[dict[str, Any], ServiceParts]:
        with self._command.make_context("serve", list(self._given)) as context:
            values = dict(context.params)
            return values, prepared(values)

    def _shown(self, name: str, values: Mapping[str, Any]) -> str:
        option = next(each.opts[0] for each in self._command.params if each.name == name)
        if name in SECRET:
            return option.lstrip("-")
        value = "as by default" if values[name] is None else values[name]
        return f"{option.lstrip('-')} {value}"

    def _run(self, requested: threading.Event) -> None:
        while requested.wait():
            requested.clear()
            try:
                self.once()
            except Exception as error:  # a bug: the service goes on, and the next signal is another try
                log.error("configuration not reloaded: %s: %s", type(error).__name__, error)
