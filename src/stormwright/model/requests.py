"""Resource requests of executors: of the component, else of the topology, else Storm's default.

After ``NormalizedResourceRequest`` of Storm 2.8.3. In a topology, the keys for ackers and metrics consumers take
precedence over ``topology.component.resources.map``, and that over the single keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stormwright.model.arrays import AMOUNT_WANTED, is_amount
from stormwright.model.faults import ConfigFault

CPU = "cpu.pcore.percent"
ON_HEAP = "onheap.memory.mb"
OFF_HEAP = "offheap.memory.mb"
MEMORY = "memory.mb"

#: Older names of resources → Storm's normalised ones (its class ResourceNameNormalizer).
NORMALISED = {
    "topology.component.cpu.pcore.percent": CPU,
    "supervisor.cpu.capacity": CPU,
    "topology.component.resources.onheap.memory.mb": ON_HEAP,
    "topology.component.resources.offheap.memory.mb": OFF_HEAP,
    "supervisor.memory.capacity.mb": MEMORY,
}

#: Amounts by resource, of a component or a topology.
RESOURCES = "topology.component.resources.map"

#: Resource → its single key, of a component or a topology.
SINGLE = {
    CPU: "topology.component.cpu.pcore.percent",
    ON_HEAP: "topology.component.resources.onheap.memory.mb",
    OFF_HEAP: "topology.component.resources.offheap.memory.mb",
}

#: Default requests (defaults.yaml of 2.8.3).
_DEFAULTS = {CPU: 10.0, ON_HEAP: 128.0, OFF_HEAP: 0.0}

ACKER = "__acker"
METRICS_CONSUMER = "__metrics_"

#: The spout that Storm adds to a topology with a stateful bolt: it begins the steps of checkpoints.
CHECKPOINT_SPOUT = "$checkpointspout"

#: How the ids of Storm's own components begin → how the keys for them do.
_SYSTEM = {ACKER: "topology.acker.", METRICS_CONSUMER: "topology.metrics.consumer."}
_SYSTEM_KEYS = {
    CPU: "cpu.pcore.percent",
    ON_HEAP: "resources.onheap.memory.mb",
    OFF_HEAP: "resources.offheap.memory.mb",
}

#: All keys that say something here.
_KEYS = frozenset(
    [RESOURCES, *SINGLE.values(), *(start + key for start in _SYSTEM.values() for key in _SYSTEM_KEYS.values())]
)

#: What `Problem` knows by other names: the rest are generic resources, such as GPUs.
_NOT_GENERIC = {CPU, ON_HEAP, OFF_HEAP, MEMORY}


def normalised(resources: Mapping[str, float]) -> dict[str, float]:
    """Return amounts under Storm's normalised resource names.

    Parameters
    ----------
    resources
        Amounts under any name that a resource has had; generic ones keep theirs.
    """
    return {NORMALISED.get(name, name): amount for name, amount in resources.items()}


def is_default(requests: Mapping[str, float], resources: Collection[str]) -> bool:
    """Return whether a component requests exactly Storm's defaults of some resources, as if none were declared.

    Parameters
    ----------
    requests
        Its requests, resource → amount; Nimbus fills in the defaults.
    resources
        Normalised names, with defaults.
    """
    return all(requests.get(name) == _DEFAULTS[name] for name in resources)


def generic_names(requests: Iterable[Mapping[str, float]]) -> list[str]:
    """Return the names of requested resources other than CPU and memory, sorted.

    Parameters
    ----------
    requests
        Requests of components, resource → amount.
    """
    return sorted({name for amounts in requests for name, amount in amounts.items() if amount > 0} - _NOT_GENERIC)


@dataclass(frozen=True)
class DefaultRequests:
    """Requests of components without their own, from a topology's configuration.

    Parameters
    ----------
    every
        Resource → amount for each executor.
    system
        Prefix of the id of one of Storm's own components → amounts that take precedence.
    """

    every: Mapping[str, float]
    system: Mapping[str, Mapping[str, float]]

    def of(self, component: str, own: Mapping[str, float]) -> dict[str, float]:
        """Return resource → amount for each executor of a component (by id) whose own request is `own`."""
        for beginning, amounts in self.system.items():
            if component.startswith(beginning):
                return {**self.every, **amounts, **own}
        return {**self.every, **own}


_NO_REQUESTS = DefaultRequests(_DEFAULTS, {component: {} for component in _SYSTEM})


def read_requests(conf: Mapping[str, Any]) -> tuple[DefaultRequests, tuple[ConfigFault, ...]]:
    """Return the requests in a topology's configuration, merged over the cluster's, and its faults.

    Faulty values are ignored.
    """
    if _KEYS.isdisjoint(conf):
        return _NO_REQUESTS, ()
    misfits: list[ConfigFault] = []

    def amounts(keys: Mapping[str, str]) -> Iterator[tuple[str, float]]:
        for resource, key in keys.items():
            value = conf.get(key)
            if is_amount(value):
                yield resource, float(value)
            elif value is None and key in conf:  # a null stands for nothing, not for the default
                yield resource, 0.0
            elif value is not None:
                misfits.append(ConfigFault(AMOUNT_WANTED, value, (key,)))

    single = dict(amounts(SINGLE))
    by_name = conf.get(RESOURCES)
    if isinstance(by_name, Mapping):
        misfits += [
            ConfigFault(AMOUNT_WANTED, n, (RESOURCES, str(name))) for name, n in by_name.items() if not is_amount(n)
        ]
        named = {str(NORMALISED.get(name, name)): float(n) for name, n in by_name.items() if is_amount(n)}
    else:
        named = {}
        if by_name is not None:
            misfits.append(ConfigFault("should be an object", by_name, (RESOURCES,)))
    system = {
        component: dict(amounts({name: beginning + key for name, key in _SYSTEM_KEYS.items()}))
        for component, beginning in _SYSTEM.items()
    }
    return DefaultRequests({**_DEFAULTS, **single, **named}, system), tuple(misfits)
