"""Nimbus, for a service that may have stopped to lead without knowing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stormwright.controller.move import Nimbus
from stormwright.model import Supervisor


class Fenced:
    """Changes nothing unless this service leads.

    Parameters
    ----------
    nimbus
        Is called.
    require
        Raises `NotLeadingError` where another service may lead.
    """

    def __init__(self, nimbus: Nimbus, require: Callable[[], object]) -> None:
        self._nimbus, self._require = nimbus, require

    def cluster(self) -> Mapping[str, Any]:
        """See `Nimbus`."""
        return self._nimbus.cluster()

    def activate(self, name: str) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.activate(name)

    def deactivate(self, name: str) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.deactivate(name)

    def rebalance(self, name: str, wait_s: int, num_workers: int | None = None) -> None:
        """See `Nimbus`."""
        self._require()
        self._nimbus.rebalance(name, wait_s, num_workers)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """See `Nimbus`."""
        self._require()
        return self._nimbus.release(topology_id, supervisor)
