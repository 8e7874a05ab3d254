"""Nimbus's treatment of a submitted topology: system components, task numbers, executors, resources.

After Storm 2.8.3: ``StormCommon`` (system components, tasks), ``ServerUtils`` (tasks of a component, ackers under the
ResourceAwareScheduler), ``Nimbus.computeExecutors`` and ``Utils.partitionFixed`` (executors),
``NormalizedResourceRequest``; the checkpoint spout of stateful topologies after ``TopologyBuilder``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stormwright.formats.document.faults import shown
from stormwright.formats.storm.conf import TOPOLOGY_KEYS, StormConf
from stormwright.formats.storm.config_rules import refused_values
from stormwright.model.constraints.users import SUBMITTER
from stormwright.model.fallback import FALLBACK, STORM_SCHEDULER, is_resource_aware
from stormwright.model.requests import (
    ACKER,
    CHECKPOINT_SPOUT,
    METRICS_CONSUMER,
    OFF_HEAP,
    ON_HEAP,
    RESOURCES,
    SINGLE,
    read_requests,
)
from stormwright.model.topology import Component, ExecutorRun, Grouping, Topology

EVENT_LOGGER = "__eventlogger"

TASKS = "topology.tasks"
WORKERS = "topology.workers"
ACKERS = "topology.acker.executors"
_EVENT_LOGGERS = "topology.eventlogger.executors"
_CONSUMERS = "topology.metrics.consumer.register"
_MAX_TASKS = "topology.max.task.parallelism"

_MAX_HEAP = "topology.worker.max.heap.size.mb"

_RESOURCE_AWARE = "org.apache.storm.scheduler.resource.ResourceAwareScheduler"

_TREE_ID = ("id",)

#: The stream of checkpoints.
_CHECKPOINTS = "$checkpoint"

#: How the keys begin that concern stateful topologies alone.
STATE_KEYS = "topology.state."


#: Prefixes of keys of a component that decide how its topology can be moved, as in the Java class ``ComponentCode``.
MOVE_KEYS = ("topology.bolts.", "topology.max.spout.pending", "topology.state.provider")


@dataclass(frozen=True)
class UserComponent:
    """A spout or bolt as it was written: `parallelism` is executors, `conf` its own configuration."""

    id: str
    type: str
    parallelism: int
    conf: StormConf
    inputs: tuple[Grouping, ...] = ()


@dataclass(frozen=True)
class _SizedComponent:
    """A component with its executors and tasks."""

    component: Component
    tasks: int


def check_submitted(conf: StormConf) -> None:
    """Add a fault for each value of a topology's own configuration that Storm refuses at its submission."""
    for key, wanted in refused_values(conf.selected(("topology.",))):
        if not conf.is_refused(key):
            conf.refuse(key, f"{wanted}, got {shown(conf.get(key))}")


def with_checkpoints(components: Sequence[UserComponent]) -> list[UserComponent]:
    """Return the components of a topology with stateful bolts as Storm's TopologyBuilder completes them.

    A bolt gets checkpoints from the checkpoint spout in place of the spouts before it, and from the bolts before it.

    Parameters
    ----------
    components
        Spouts and bolts as they were written.
    """
    spouts = {each.id for each in components if each.type == "spout"}
    completed = [UserComponent(CHECKPOINT_SPOUT, "spout", 1, StormConf([]))]
    for each in components:
        before = dict.fromkeys(CHECKPOINT_SPOUT if of.source in spouts else of.source for of in each.inputs)
        checkpoints = (Grouping(source, _CHECKPOINTS, "all") for source in before)
        completed.append(replace(each, inputs=(*each.inputs, *checkpoints)))
    return completed


def submitted(
    name: str, components: Sequence[UserComponent], conf: StormConf, cluster: StormConf, number: int
) -> Topology:
    """Return the topology as a scheduler sees it; components without an executor are left out.

    Parameters
    ----------
    name
        Name of the submitted topology.
    components
        Its spouts and bolts.
    conf
        Its configuration over that of the cluster. A value that Storm would refuse becomes a fault of its layer, and
        the default is taken.
    cluster
        Configuration of the cluster alone: its scheduler decides how many ackers there are.
    number
        Number of topologies submitted to a new cluster including this one; a part of the id.
    """
    workers = conf.count(WORKERS, default=1, least=1)
    users = [_sized(component, conf) for component in components]
    resource_aware = cluster.get(STORM_SCHEDULER) == _RESOURCE_AWARE
    by_heap = is_resource_aware(cluster.selected((STORM_SCHEDULER, FALLBACK)))
    estimated = _estimated_workers(users, conf, workers) if by_heap else workers
    ackers = _ackers(conf, workers, estimated, resource_aware)
    usual = estimated if resource_aware else workers
    loggers = conf.count(_EVENT_LOGGERS, default=usual if _EVENT_LOGGERS in conf else 0)
    consumers = _consumers(conf)
    alive = {sized.component.id for sized in users if sized.tasks}
    system = [
        _system(ACKER, ackers, conf, tuple(_acker_inputs(users))),
        _system(EVENT_LOGGER, loggers, conf),
        *(_system(METRICS_CONSUMER + class_name, count, conf) for class_name, count in consumers.items()),
    ]
    # Java compares texts by UTF-16 code units.
    everything = sorted(
        (sized for sized in [*users, *system] if sized.tasks and sized.component.parallelism),
        key=lambda sized: sized.component.id.encode("utf-16-be", "surrogatepass"),
    )
    topology_conf = conf.selected(TOPOLOGY_KEYS)
    if by_heap:  # that scheduler does not honour the key: its users leave it out, and heaps come first
        workers = max(workers if WORKERS in conf else estimated, _workers_by_heap(everything, conf))
    if resource_aware:
        topology_conf[ACKERS] = ackers
    return Topology(
        id=f"{name}-{number}-0",
        name=name,
        num_workers=workers,
        components=tuple(_runnable(sized, alive) for sized in everything),
        executor_runs=tuple(_runs(everything)),
        conf=topology_conf,
        owner=owner if isinstance(owner := conf.get(SUBMITTER), str) else "",
    )


def _runnable(sized: _SizedComponent, alive: set[str]) -> Component:
    """Return the component with at most as many executors as tasks, without inputs from absent components."""
    component = sized.component
    return Component(
        id=component.id,
        type=component.type,
        parallelism=min(component.parallelism, sized.tasks),
        inputs=tuple(grouping for grouping in component.inputs if grouping.source in alive),
        resources=component.resources,
        tags=component.tags,
        conf=component.conf,
    )


def _runs(components: Sequence[_SizedComponent]) -> Iterator[ExecutorRun]:
    """Yield tasks from 1 in the order of components; the first executors of a component have the excess tasks."""
    task = 1
    for index, sized in enumerate(components):
        executors = min(sized.component.parallelism, sized.tasks)
        each, larger = divmod(sized.tasks, executors)
        for count, tasks in ((larger, each + 1), (executors - larger, each)):
            if count:
                yield ExecutorRun(index, task, count, tasks)
                task += count * tasks


def _sized(user: UserComponent, conf: StormConf) -> _SizedComponent:
    merged = conf.over(*user.conf.layers)
    tasks = merged.count(TASKS, default=user.parallelism)
    tasks = min(tasks, merged.count(_MAX_TASKS, default=tasks))
    component = Component(
        id=user.id,
        type=user.type,
        parallelism=user.parallelism,
        inputs=tuple(sorted(user.inputs, key=lambda grouping: (grouping.source, grouping.stream))),
        resources=_resources(user.id, conf, user.conf),
        tags=_tags(user.conf),
        conf=user.conf.selected(MOVE_KEYS),
    )
    return _SizedComponent(component, tasks)


def _system(name: str, executors: int, conf: StormConf, inputs: tuple[Grouping, ...] = ()) -> _SizedComponent:
    component = Component(name, "system", executors, inputs, _resources(name, conf, StormConf([])))
    return _SizedComponent(component, executors)


def _ackers(conf: StormConf, workers: int, estimated: int, resource_aware: bool) -> int:
    """Return the number of ackers: that of workers by default; the ResourceAwareScheduler has no fixed workers."""
    each = conf.count("topology.ras.acker.executors.per.worker", default=1) if resource_aware else 1
    return conf.count(ACKERS, default=(estimated if resource_aware else workers) * each)


def _estimated_workers(users: Sequence[_SizedComponent], conf: StormConf, workers: int) -> int:
    """Return ServerUtils.getEstimatedWorkerCountForRasTopo: the workers whose heaps hold the executors' requests."""
    heap = sum(sized.component.resources[ON_HEAP] * sized.tasks for sized in users)
    acker = _resources(ACKER, conf, StormConf([]))
    ackers = conf.count(ACKERS, default=workers)
    ackers = min(ackers, conf.count(_MAX_TASKS, default=ackers))
    heap += (acker[ON_HEAP] + acker[OFF_HEAP]) * ackers
    largest = conf.amount(_MAX_HEAP, default=768.0)
    return math.ceil(heap / largest) if largest else 0


def _workers_by_heap(components: Sequence[_SizedComponent], conf: StormConf) -> int:
    """Return the workers that hold all executors, each as many as the largest request leaves room for."""
    largest = max((sized.component.resources[ON_HEAP] for sized in components), default=0.0)
    held = int(conf.amount(_MAX_HEAP, default=768.0) // largest) if largest else 0
    executors = sum(min(sized.component.parallelism, sized.tasks) for sized in components)
    return math.ceil(executors / held) if held else 1


def _acker_inputs(users: Sequence[_SizedComponent]) -> Iterator[Grouping]:
    """Yield an acker's inputs: every tree and every ack; its other inputs are silent in the ordinary run."""
    for sized in sorted(users, key=lambda sized: sized.component.id):
        stream = "__ack_init" if sized.component.type == "spout" else "__ack_ack"
        yield Grouping(sized.component.id, stream, "fields", _TREE_ID)


def _consumers(conf: StormConf) -> dict[str, int]:
    """Return the name of each metrics consumer → executors; a repeated class is numbered from ``#2``."""
    entries = conf.get(_CONSUMERS)
    if entries is None:
        return {}
    if not isinstance(entries, list):
        conf.refuse(_CONSUMERS, f"should be a list, got {shown(entries)}")
        return {}
    occurrences = Counter[str]()
    consumers = {}
    for position, entry in enumerate(entries):
        name = entry.get("class") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(name, str):
            conf.refuse(_CONSUMERS, f"should be an object with a class, got {shown(entry)}", position)
            continue
        hint = entry.get("parallelism.hint")
        if hint is not None and (type(hint) is not int or hint < 0):
            conf.refuse(
                _CONSUMERS, f"should be an integer of at least 0, got {shown(hint)}", position, "parallelism.hint"
            )
            continue
        occurrences[name] += 1
        consumers[name if occurrences[name] == 1 else f"{name}#{occurrences[name]}"] = 1 if hint is None else hint
    return consumers


def _resources(component: str, conf: StormConf, own: StormConf) -> dict[str, float]:
    """Return each executor's requests: own keys before those of the topology, the map before single ones."""
    requests, misfits = read_requests(conf.selected(TOPOLOGY_KEYS))
    for message, value, (key, *steps) in misfits:
        conf.refuse(str(key), f"{message}, got {shown(value)}", *steps)
    single_own = {name: own.amount(key) for name, key in SINGLE.items() if own.get(key) is not None}
    return requests.of(component, {**single_own, **own.amounts(RESOURCES)})


def _tags(own: StormConf) -> tuple[str, ...]:
    """Return the tags, which may be given as a list or as one text with commas."""
    tags = own.get("tags")
    if tags is None:
        return ()
    if isinstance(tags, list):
        return tuple(str(tag) for tag in tags)
    return tuple(tag.strip() for tag in str(tags).split(",") if tag.strip())
