"""Modes, plans and what was done as metrics."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from prometheus_client.core import Metric

from stormwright.client.shapes import Mode, Modes
from stormwright.controller.plans.modes import mode_of
from stormwright.service.http.figures.families import gauge
from stormwright.service.operating.state import State

log = logging.getLogger(__name__)

#: Name of a metric → what it says, its labels, and the rows that it is counted from.
_COUNTED: dict[str, tuple[str, Sequence[str], str]] = {
    "plans": (
        "Plans that are kept, by where they stand.",
        ("kind", "state"),
        "SELECT kind, state, count(*) FROM plans GROUP BY 1, 2",
    ),
    "done": ("Entries of the history that are kept.", ("kind",), "SELECT kind, count(*) FROM decisions GROUP BY 1"),
    "done_moves": (
        "Moves of topologies in the history, by what they were part of.",
        ("kind", "result"),
        "SELECT kind, iif(failure = '', 'done', 'failed'), count(*) FROM moves JOIN decisions USING (n) GROUP BY 1, 2",
    ),
}


def of_modes(modes: Modes, topologies: Iterable[tuple[str, str]]) -> Iterator[Metric]:
    """What the service may do by itself.

    Parameters
    ----------
    modes
        Those that hold now.
    topologies
        Ids and names.
    """
    by_default = {(mode,): float(mode == modes.default) for mode in get_args(Mode)}
    yield gauge("mode", "1 for what the service does by itself unless told otherwise.", ("mode",), by_default)
    yield gauge("frozen", "1 while nothing may be moved, whoever asks.", (), {(): float(bool(modes.frozen))})
    own = {(topology, mode_of(modes, topology, name)): 1.0 for topology, name in topologies}
    yield gauge("topology_mode", "1 for what the service does by itself with a topology.", ("topology", "mode"), own)


def of_state(state: State) -> Iterator[Metric]:
    """Plans and history, as far as they are kept; nothing where they cannot be read now."""
    for name, (text, labels, statement) in _COUNTED.items():
        try:
            samples = {tuple(row)[:-1]: tuple(row)[-1] for row in state.read(statement)}
        except sqlite3.Error as error:
            log.warning("%s cannot be counted for /metrics: %s", name, error)
        else:
            yield gauge(name, text, tuple(labels), samples)
