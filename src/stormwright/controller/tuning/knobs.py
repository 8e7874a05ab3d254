"""Changes of a topology's executors and configuration that a tuning tries, one knob at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from stormwright.model import Problem, Topology
from stormwright.model.arrays import is_amount
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.model.requests import ACKER
from stormwright.predict.changes import tasks_of
from stormwright.predict.polling import Waits

#: Threads that find nothing to do sleep at once, instead of a thousand of the shortest parks before.
ASLEEP: Final[Mapping[str, int]] = {
    f"topology.{each}.wait.progressive.level{n}.count": 0 for each in ("bolt", "backpressure") for n in (1, 2)
}

#: Key of the number of such parks of a bolt.
PARKS_KEY: Final = "topology.bolt.wait.progressive.level2.count"

#: Multiples of executors of one component, of all bolts, and of pending trees that are tried.
_OF_ONE, _OF_ALL, _OF_PENDING = (0.5, 2.0), (0.7, 0.5), (0.5, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class ConfigChange:
    """A change of one topology.

    Parameters
    ----------
    executors, conf
        Executors by component (id), and values by key of its configuration.
    placed
        Whether it is placed again; else executors stay where most of their tasks are.
    """

    executors: Mapping[str, int] = field(default_factory=dict)
    conf: Mapping[str, Any] = field(default_factory=dict)
    placed: bool = False

    def __and__(self, other: ConfigChange) -> ConfigChange:
        both = {**self.executors, **other.executors}, {**self.conf, **other.conf}
        return ConfigChange(*both, self.placed or other.placed)

    def overlaps(self, other: ConfigChange) -> bool:
        """Return whether they are not tried together: they change the same, or one is another placement.

        Of placements the model is less sure than of the rest, so that they would hide the effect of others.
        """
        same = self.executors.keys() & other.executors.keys() or self.conf.keys() & other.conf.keys()
        return bool(same) or self.placed or other.placed

    def of(self, topology: Topology) -> ConfigChange:
        """Return the part of it that differs from the topology."""
        counts = topology.executor_counts
        executors = {each: n for each, n in self.executors.items() if counts.get(each) != n}
        conf = {key: value for key, value in self.conf.items() if topology.conf.get(key) != value}
        return ConfigChange(executors, conf, self.placed)


def changes_of(problem: Problem, index: int) -> list[ConfigChange]:
    """Return changes of one knob each of a topology (by index), none of which is none."""
    topology = problem.topologies[index]
    conf = {**problem.conf, **topology.conf}
    found = [ConfigChange(placed=True), *_executors(topology), *_pending(conf), *_waits(conf)]
    return [change for each in found if (change := each.of(topology)) != ConfigChange()]


def _executors(topology: Topology) -> Iterator[ConfigChange]:
    counts = topology.executor_counts
    tasks = dict(zip((each.id for each in topology.components), tasks_of(topology).tolist(), strict=True))
    bolts = [each.id for each in topology.components if each.type == "bolt" and not each.id.startswith("__")]
    spouts = [each.id for each in topology.components if each.type == "spout" and not each.id.startswith("__")]
    for name in (*bolts, *spouts, *([ACKER] if ACKER in counts else [])):
        now = counts[name]
        wanted = {now - 1, now + 1, *(ceil(factor * now) for factor in _OF_ONE)}
        for count in sorted(wanted):
            if 1 <= count <= tasks[name]:
                yield ConfigChange({name: count})
    if counts.get(ACKER, 0) > 1:
        yield ConfigChange({ACKER: 1})
    for factor in _OF_ALL:
        yield ConfigChange({name: max(round(factor * counts[name]), 1) for name in bolts})


def _pending(conf: Mapping[str, Any]) -> Iterator[ConfigChange]:
    now = conf.get(MAX_SPOUT_PENDING)
    if is_amount(now) and now > 0:
        for factor in _OF_PENDING:
            yield ConfigChange(conf={MAX_SPOUT_PENDING: max(round(factor * now), 1)})


def _waits(conf: Mapping[str, Any]) -> Iterator[ConfigChange]:
    if Waits.of(conf, spout=False).parks > 0:
        yield ConfigChange(conf=ASLEEP)
