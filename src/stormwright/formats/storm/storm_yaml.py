"""``storm.yaml`` files: the nodes that their supervisors would register, and the cluster's configuration.

Not read: ``supervisor.numa.meta``, with which one machine registers several supervisors, and where racks come from,
which is a program of the cluster's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stormwright.errors import Fault, InputError
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.formats.files.yaml_files import read_yaml
from stormwright.formats.storm.conf import Layer, StormConf
from stormwright.formats.storm.config_rules import refused_values
from stormwright.model.cluster import DEFAULT_CORE_HZ, Supervisor
from stormwright.model.requests import CPU, MEMORY, NORMALISED

#: Storm's defaults.
_PORTS = (6700, 6701, 6702, 6703)
_CPU_PERCENT = 400.0
_MEMORY_MB = 4096.0

_LAST_PORT = 65535

#: Keys of a supervisor's capacities.
_CPU_CAPACITY, _MEMORY_CAPACITY = "supervisor.cpu.capacity", "supervisor.memory.capacity.mb"
_RESOURCES = "supervisor.resources.map"

#: Keys of which each item is checked as nodes are read.
_OF_NODES = frozenset(
    {
        *(_CPU_CAPACITY, _MEMORY_CAPACITY, _RESOURCES),
        *("storm.local.hostname", "supervisor.scheduler.meta", "supervisor.slots.ports"),
    }
)


@dataclass(frozen=True)
class StormYaml:
    """A ``storm.yaml``; faults of its values are found as they are read."""

    source: str
    layer: Layer

    @property
    def conf(self) -> StormConf:
        """Configuration of this file alone."""
        return StormConf([self.layer])


#: Storm's defaults alone.
DEFAULTS = StormYaml("Storm's defaults", Layer({}, FaultList()))


def read_storm_yaml(path: Path) -> StormYaml:
    """Read the file at `path`.

    Raises
    ------
    InputError
        It cannot be read, or is not YAML, or not an object.
    """
    values = read_yaml(path)
    if values is None:  # comments only
        values = {}
    if not isinstance(values, Mapping):
        raise InputError(str(path), [Fault(f"should be an object, got {shown(values)}", "$")])
    faults = FaultList()
    others = {key: value for key, value in values.items() if key not in _OF_NODES}
    for key, wanted in refused_values(others):
        faults.add(f"{wanted}, got {shown(values[key])}", join_path("$", key))
    return StormYaml(str(path), Layer(values, faults))


def read_nimbus_yaml(path: Path) -> list[StormYaml]:
    """Read the ``storm.yaml`` of Nimbus at `path`, and the files of pools beside it, which precede it as in Storm.

    Raises
    ------
    InputError
        As for `read_storm_yaml`.
    """
    beside = (path.parent / name for name in ("user-resource-pools.yaml", "multitenant-scheduler.yaml"))
    return [read_storm_yaml(each) for each in (*(each for each in beside if each.is_file()), path)]


def cluster_conf(files: Sequence[StormYaml]) -> StormConf:
    """Return the configuration of the cluster; if files differ, the first one that has a key takes precedence."""
    return StormConf([file.layer for file in files])


def supervisors_of(files: Sequence[StormYaml], copies: int = 1) -> tuple[Supervisor, ...]:
    """Return a supervisor for each file, `copies` times; the same file makes the same nodes.

    A node is named by its ``storm.local.hostname``, or ``supervisor-1`` and so on; copies are numbered.
    """
    names = list(_names(files, copies))
    hosts = Counter[str]()
    supervisors = []
    for (file, name), host in zip(names, [name for _, name in names], strict=True):
        hosts[host] += 1
        # Several supervisors may share a machine, but no id.
        own_id = name if hosts[host] == 1 else f"{name}-{hosts[host]}"
        supervisors.append(_supervisor(file.conf, own_id, host))
    return tuple(supervisors)


def _names(files: Sequence[StormYaml], copies: int) -> Iterator[tuple[StormYaml, str]]:
    width = len(str(copies * len(files)))
    number = 0
    for file in files:
        hostname = file.conf.get("storm.local.hostname")
        if hostname is not None and (not isinstance(hostname, str) or not hostname):
            file.conf.refuse("storm.local.hostname", f"should be a name, got {shown(hostname)}")
            hostname = None
        for copy in range(copies):
            number += 1
            if hostname is None:
                yield file, f"supervisor-{number:0{width}d}"
            else:
                yield file, hostname if copies == 1 else f"{hostname}-{copy + 1:0{width}d}"


def _supervisor(conf: StormConf, own_id: str, host: str) -> Supervisor:
    # As SupervisorHeartbeat.mkSupervisorCapacities: an entry of the map under one of the two older keys wins over it.
    resources = {
        CPU: conf.amount(_CPU_CAPACITY, _CPU_PERCENT),
        MEMORY: conf.amount(_MEMORY_CAPACITY, _MEMORY_MB),
        **conf.amounts(_RESOURCES),
    }
    _refuse_second_names(conf)
    for name, key in ((CPU, _CPU_CAPACITY), (MEMORY, _MEMORY_CAPACITY)):
        if resources[name] == 0 or conf.get(key) == 0:
            key = key if conf.get(key) == 0 else _RESOURCES
            conf.refuse(key, f"should be more than 0 for {name}: Storm does not register such a supervisor")
    return Supervisor(
        id=own_id,
        host=host,
        ports=_ports(conf),
        cpu_hz=resources[CPU] / 100 * DEFAULT_CORE_HZ,
        scheduler_meta=_scheduler_meta(conf),
        resources=resources,
    )


def _refuse_second_names(conf: StormConf) -> None:
    """Refuse a resource under two names: NormalizedResources ends such a supervisor at its first heartbeat."""
    given = conf.get(_RESOURCES)
    if given is None and _RESOURCES in conf:
        conf.refuse(_RESOURCES, "should be an object, got null")
    names = {CPU: _CPU_CAPACITY, MEMORY: _MEMORY_CAPACITY}
    for name in given if isinstance(given, Mapping) else ():
        other = names.setdefault(str(NORMALISED.get(name, name)), name)
        if other != name:
            conf.refuse(
                _RESOURCES, f"should be called {other} here: Storm refuses the same resource under two names", name
            )


def _ports(conf: StormConf) -> tuple[int, ...]:
    key = "supervisor.slots.ports"
    values = conf.get(key)
    if values is None and key not in conf:
        return _PORTS
    if not isinstance(values, list):
        conf.refuse(key, f"should be a list, got {shown(values)}")
        return _PORTS
    ports: list[int] = []
    for position, port in enumerate(values):
        if type(port) is not int or not 0 <= port <= _LAST_PORT:
            conf.refuse(key, f"should be a port, got {shown(port)}", position)
        elif port in ports:
            conf.refuse(key, f"port {port} is there twice", position)
        else:
            ports.append(port)
    return tuple(ports)


def _scheduler_meta(conf: StormConf) -> dict[str, str] | None:
    key = "supervisor.scheduler.meta"
    meta = conf.get(key)
    if meta is None:
        return None
    if not isinstance(meta, Mapping):
        conf.refuse(key, f"should be an object, got {shown(meta)}")
        return None
    texts = {}
    for name, value in meta.items():
        if isinstance(value, str):
            texts[name] = value
        else:
            conf.refuse(key, f"should be a text in quotes, got {shown(value)}", name)
    return texts
