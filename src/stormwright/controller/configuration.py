"""Changes of a running topology's configuration, and the reasons why some are refused.

Nimbus takes any value for any key of a running topology, and validates none (``Nimbus.updateTopologyConf`` of Storm
2.8.3). A wrong one ends every worker at its start, for ever, or lets the topology stand still. So only keys are changed
whose effect is known, to values in a range, after what Storm's code does with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from stormwright.controller.objectives.placements import measured_rates
from stormwright.errors import Fault, InputError, suggestion_for
from stormwright.formats.storm.config_rules import refused_values
from stormwright.model import Problem, Topology
from stormwright.model.arrays import is_amount
from stormwright.model.batches import FLUSH_MS, MAX_SPOUT_PENDING, PRODUCER_BATCH, TRANSFER_BATCH, batch_faults
from stormwright.model.constraints.constraint import PlacedExecutors
from stormwright.model.constraints.heaps import (
    TOPOLOGY_GC_OPTIONS,
    TOPOLOGY_OPTIONS,
    WORKER_GC_OPTIONS,
    WORKER_OPTIONS,
    WorkerHeaps,
)
from stormwright.model.topology_config import PINNED_KEYS, conf_misfits

#: Origin of faults in messages.
SOURCE: Final = "configuration"

MESSAGE_TIMEOUT_S: Final = "topology.message.timeout.secs"

#: Prefix of keys that only schedulers of stormwright read.
_OURS: Final = "stormwright."

_WAITS: Final = ("spout", "bolt", "backpressure")

#: Strategies that Storm has (org.apache.storm.policy): a class that is not there ends workers.
_STRATEGIES: Final = frozenset(f"org.apache.storm.policy.WaitStrategy{name}" for name in ("Park", "Progressive"))


class _Between(NamedTuple):
    """A number from `least` to `most`."""

    least: float
    most: float

    def fault(self, value: object) -> str:
        if is_amount(value) and self.least <= value <= self.most:
            return ""
        return f"should be a number from {self.least:g} to {self.most:g}"


class _Whole(NamedTuple):
    """An integer from `least` to `most`: ``ObjectReader.getInt`` of Storm takes no other number, not even 1.0."""

    least: int
    most: int

    def fault(self, value: object) -> str:
        if is_amount(value) and isinstance(value, int) and self.least <= value <= self.most:
            return ""
        return f"should be an integer from {self.least} to {self.most}"


class _OneOf(NamedTuple):
    """One of some values."""

    values: frozenset[Any]

    def fault(self, value: object) -> str:
        if isinstance(value, str | bool) and value in self.values:
            return ""
        return f"should be one of {', '.join(sorted(map(str, self.values)))}"


_FLAG: Final = _OneOf(frozenset({True, False}))

#: Keys that workers read at their start, and values with which they run. A batch has a buffer of its own limits
#: (`stormwright.model.batches`), and options of a JVM those of `_options_faults`.
CHANGEABLE: Final[Mapping[str, _Between | _Whole | _OneOf]] = {
    MAX_SPOUT_PENDING: _Whole(1, 10**7),
    PRODUCER_BATCH: _Whole(1, 10**6),
    "topology.executor.receive.buffer.size": _Whole(64, 2**20),
    "topology.transfer.buffer.size": _Whole(64, 2**20),
    "topology.executor.overflow.limit": _Whole(0, 10**7),
    FLUSH_MS: _Whole(0, 10_000),
    MESSAGE_TIMEOUT_S: _Whole(2, 86_400),
    "topology.enable.message.timeouts": _FLAG,
    **{f"topology.{each}.wait.strategy": _OneOf(_STRATEGIES) for each in _WAITS},
    **{f"topology.{each}.wait.park.microsec": _Whole(0, 10**6) for each in _WAITS},
    **{f"topology.{each}.wait.progressive.level{n}.count": _Whole(0, 10**6) for each in _WAITS for n in (1, 2)},
    **{f"topology.{each}.wait.progressive.level3.sleep.millis": _Whole(0, 1000) for each in _WAITS},
    "topology.backpressure.check.millis": _Whole(1, 10_000),
    "topology.spout.recvq.skips": _Whole(0, 1000),
    "topology.disable.loadaware.messaging": _FLAG,
    "topology.localityaware.higher.bound": _Between(0.01, 1),
    "topology.localityaware.lower.bound": _Between(0.01, 1),
    "topology.stats.sample.rate": _Between(0.001, 1),
    "topology.debug": _FLAG,
    "topology.worker.max.heap.size.mb": _Whole(64, 2**20),
    "topology.component.resources.onheap.memory.mb": _Between(0, 2**20),
    "topology.component.resources.offheap.memory.mb": _Between(0, 2**20),
    "topology.component.cpu.pcore.percent": _Between(0, 100_000),
    "topology.acker.resources.onheap.memory.mb": _Between(0, 2**20),
    "topology.acker.cpu.pcore.percent": _Between(0, 100_000),
    "topology.state.checkpoint.interval.ms": _Whole(10, 3_600_000),
    "topology.trident.batch.emit.interval.millis": _Whole(1, 3_600_000),
    "topology.shellbolt.max.pending": _Whole(1, 10**6),
    "topology.priority": _Whole(0, 2**31 - 1),
}

#: Keys that no rebalance may change, and what does.
_OTHERWISE: Final = {
    "topology.workers": "the number of workers is that of its placement",
    "topology.acker.executors": "it would shift the ids of all tasks: change the executors of __acker",
    "topology.ras.acker.executors.per.worker": "it would shift the ids of all tasks: change the executors of __acker",
    "topology.eventlogger.executors": "it would shift the ids of all tasks",
    "topology.metrics.consumer.register": "it would shift the ids of all tasks",
    TRANSFER_BATCH: "tuples that wait in batches between workers keep a topology from being drained for its next move",
    "topology.tasks": "tasks are as submitted: change executors",
    "topology.max.task.parallelism": "tasks are as submitted: change executors",
}

#: Options of a JVM that are changed: its heap, its collector and its compiler.
_SIZE, _BYTES = re.compile(r"-Xm([xs])(\d+)([kKmMgG])"), {"k": 2**10, "m": 2**20, "g": 2**30}
_COLLECTOR = re.compile(r"-XX:\+Use(Serial|Parallel|G1)GC")
_COMPILER = re.compile(r"-XX:TieredStopAtLevel=1")
_ANY_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")

#: Keys that determine the heaps of workers.
_HEAP_KEYS: Final = (TOPOLOGY_OPTIONS, TOPOLOGY_GC_OPTIONS, "topology.component.resources.onheap.memory.mb")

#: How many times the time that trees need, as measured, a timeout has to be.
MIN_TIMEOUT = 3.0


def other_conf(problem: Problem, wanted: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the values that differ from those with which topologies run, by topology (id) and key.

    Parameters
    ----------
    problem
        Problem with the current configurations.
    wanted
        Topology (id) → key → value.

    Raises
    ------
    InputError
        There is no such topology.
    """
    if unknown := [each for each in wanted if each not in problem.topology_index]:
        known = problem.topology_index
        raise InputError(SOURCE, [Fault(f"no such topology{suggestion_for(each, known)}", each) for each in unknown])
    found = dict[str, dict[str, Any]]()
    for topology, values in wanted.items():
        now = problem.topologies[problem.topology_index[topology]].conf
        if other := {key: value for key, value in values.items() if now.get(key) != value}:
            found[topology] = other
    return found


def require_sound_conf(problem: Problem, conf: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise if a change of a configuration could do harm.

    Parameters
    ----------
    problem
        Problem with the current configurations, and the load for limits of heaps and timeouts.
    conf
        Topology (id) → key → value that differs.

    Raises
    ------
    InputError
        A key is not changed while a topology runs, or is pinned by its owner; or workers would end with a value, or
        stand still.
    """
    faults = [
        Fault(text, f"{topology}/{key}")
        for topology, values in conf.items()
        for key, text in _faults(problem, problem.topology_index[topology], values)
    ]
    if faults:
        raise InputError(SOURCE, faults)


def with_conf(problem: Problem, conf: Mapping[str, Mapping[str, Any]]) -> Problem:
    """Return the problem with other values of configurations, by topology (id) and key."""
    topologies = (
        replace(each, conf={**each.conf, **conf[each.id]}) if each.id in conf else each for each in problem.topologies
    )
    return replace(problem, topologies=tuple(topologies)) if conf else problem


def _faults(problem: Problem, index: int, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of values that are refused, and why."""
    topology = problem.topologies[index]
    pinned = topology.conf.get(PINNED_KEYS)
    sound = True
    for key, value in values.items():
        if isinstance(pinned, list) and key in pinned:
            text = f"its owner has pinned it ({PINNED_KEYS})"
        else:
            text = _fault_of_value(key, value, topology)
        if text:
            sound = False
            yield key, text
    if not sound:
        return
    then = replace(topology, conf={**topology.conf, **values})
    yield from _options_faults(problem, topology, values)
    # Only what the change brings about: the owner may have had reasons for the rest.
    before = {each.text for each in batch_faults(topology, problem.conf)}
    for each in batch_faults(then, problem.conf):
        if each.text not in before:
            yield next(iter(values)), each.text
    yield from _heap_faults(problem, index, values)
    yield from _timeout_faults(problem, index, then, values)


def _fault_of_value(key: str, value: object, topology: Topology) -> str:
    if key in _OTHERWISE:
        return _OTHERWISE[key]
    if value is None:
        # It would lie over the default of the cluster.
        return "should have a value: null is none that a worker can start with"
    for _, text in refused_values({key: value}):
        return text
    if key.startswith(_OURS):
        for misfit in conf_misfits({key: value}):
            return misfit.message
        return "" if key in topology.conf else "is set where the topology is submitted"
    if key in (TOPOLOGY_OPTIONS, TOPOLOGY_GC_OPTIONS):
        return ""
    if key in CHANGEABLE:
        return CHANGEABLE[key].fault(value)
    return f"is not changed while the topology runs: submit it again{suggestion_for(key, CHANGEABLE)}"


def _options_faults(problem: Problem, topology: Topology, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield faults of the options of JVMs: a JVM ends at its start by unknown ones, and by some together."""
    changed = [key for key in (TOPOLOGY_OPTIONS, TOPOLOGY_GC_OPTIONS) if key in values]
    for key in changed:
        known = {*_words(topology.conf.get(key)), *_words(problem.conf.get(key))}
        for word in _words(values[key]):
            if word not in known and not any(each.fullmatch(word) for each in (_SIZE, _COLLECTOR, _COMPILER)):
                yield key, f"{word} is not changed while the topology runs: heap, collector and compiler are"
    if not changed:
        return
    then = {**topology.conf, **values}
    gc_options = then.get(TOPOLOGY_GC_OPTIONS)
    gc_options = problem.conf.get(WORKER_GC_OPTIONS) if gc_options is None else gc_options
    every = [*_words(problem.conf.get(WORKER_OPTIONS)), *_words(then.get(TOPOLOGY_OPTIONS)), *_words(gc_options)]
    collectors = {word for word in every if _ANY_COLLECTOR.fullmatch(word)}
    if len(collectors) > 1:
        yield changed[0], f"a JVM has one collector, not {' and '.join(sorted(collectors))}"
    sizes = {kind: int(number) * _BYTES[unit.lower()] for kind, number, unit in _sizes(every)}
    if sizes.get("s", 0) > sizes.get("x", 2**62):
        yield changed[0], "-Xms is above -Xmx"


def _words(options: object) -> list[str]:
    texts = options if isinstance(options, list) else [options]
    return [word for text in texts if isinstance(text, str) for word in text.split()]


def _sizes(words: list[str]) -> Iterator[tuple[str, str, str]]:
    for word in words:
        if found := _SIZE.fullmatch(word):
            kind, number, unit = found.groups()
            yield kind, number, unit


def _heap_faults(problem: Problem, index: int, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a fault if a changed heap is too small for its live objects, as measured (`WorkerHeaps`)."""
    keys = [key for key in _HEAP_KEYS if key in values]
    if not keys:
        return
    then = with_conf(problem, {problem.topologies[index].id: values})
    heaps = WorkerHeaps.of(PlacedExecutors(then, then.current_slot))
    small = np.flatnonzero((heaps.workers.topology == index) & heaps.is_too_small)
    if len(small):
        worker = small[np.argmax(heaps.fill[small])]
        live, needed, size = (float(each[worker]) for each in (heaps.live_mb, heaps.needed_mb, heaps.size_mb))
        yield keys[0], f"{live:,.0f} MB are alive: a heap needs {needed:,.0f} MB for that, and has {size:,.0f} MB"


def _timeout_faults(
    problem: Problem, index: int, then: Topology, values: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Trees that take longer than the timeout fail, and are replayed for ever.

    By Little's law (doi:10.1287/opre.9.3.383) a tree takes the pending ones over their rate.
    """
    load, timeout_s = problem.demand.measured[index], then.conf.get(MESSAGE_TIMEOUT_S)
    keys = [key for key in (MESSAGE_TIMEOUT_S, MAX_SPOUT_PENDING) if key in values]
    if load is None or load.pending_trees is None or not keys or not is_amount(timeout_s):
        return
    rate_tps = measured_rates(problem).get(then.id)
    most = load.pending_trees.sum()
    before, after = (each.conf.get(MAX_SPOUT_PENDING) for each in (problem.topologies[index], then))
    if is_amount(before) and is_amount(after) and before > 0:
        most *= max(after / before, 1.0)
    if rate_tps and most / rate_tps * MIN_TIMEOUT > timeout_s:
        text = f"trees would take {most / rate_tps:,.1f} s, and fail after {timeout_s:g} s ({MESSAGE_TIMEOUT_S})"
        yield keys[0], text
