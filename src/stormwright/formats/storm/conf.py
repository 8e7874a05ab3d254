"""Storm configuration in layers, read with Storm's own checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from stormwright.errors import Fault
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.model.arrays import AMOUNT_WANTED, is_amount
from stormwright.model.requests import NORMALISED

#: Keys and prefixes of a cluster's configuration that the schedulers, Storm's and ours, read; the rest is left out.
CLUSTER_KEYS = (
    "isolation.scheduler.",
    "multitenant.scheduler.",
    "resource.aware.scheduler.",
    "storm.scheduler",
    "storm.worker.min.cpu.pcore.percent",
    "stormwright.",
    "topology.",
)

#: Prefixes of a topology's configuration in its document.
TOPOLOGY_KEYS = ("stormwright.", "topology.")


@dataclass(frozen=True)
class Layer:
    """Keys and values of one file; `path` is their position in it, `faults` are those of that file."""

    values: Mapping[str, Any]
    faults: FaultList
    path: str = "$"


@dataclass
class StormConf:
    """Configuration of which the first layer that has a key gives the value.

    A value that Storm would refuse is a fault of its layer, recorded once; reading goes on with the default.
    """

    layers: Sequence[Layer]

    def over(self, *layers: Layer) -> StormConf:
        """Return this with more layers on top, the topmost first."""
        return StormConf([*layers, *self.layers])

    def __contains__(self, key: str) -> bool:
        return any(key in layer.values for layer in self.layers)

    def get(self, key: str) -> Any:
        """Return the value of `key`, or None."""
        return next((layer.values[key] for layer in self.layers if key in layer.values), None)

    def selected(self, prefixes: tuple[str, ...]) -> dict[str, Any]:
        """Return all keys with one of these prefixes, and their values; values without a JSON form are faults."""
        values = {key: value for layer in reversed(self.layers) for key, value in layer.values.items()}
        found = {key: values[key] for key in sorted(values) if key.startswith(prefixes)}
        for key, value in found.items():
            for steps in _endless_numbers(value):
                self.refuse(key, "should be a number that one can count to", *steps)
        return found

    def refuse(self, key: str, message: str, *steps: str | int) -> None:
        """Add a fault of the value of `key`, or of the item at `steps` in it."""
        layer = next(layer for layer in self.layers if key in layer.values)
        whole, path = join_path(layer.path, key), join_path(layer.path, key, *steps)
        if all(fault.path != whole and fault != Fault(message, path) for fault in layer.faults.faults):
            layer.faults.add(message, path)

    def is_refused(self, key: str) -> bool:
        """Return whether the value of `key`, or an item in it, has a fault already."""
        layer = next(layer for layer in self.layers if key in layer.values)
        path = join_path(layer.path, key)
        return any(fault.path.startswith(path) for fault in layer.faults.faults)

    def count(self, key: str, default: int, least: int = 0) -> int:
        """Return an integer of at least `least`; `default` if there is none, or null."""
        value = self.get(key)
        if value is None:
            return default
        if type(value) is not int or not least <= value < 2**31:
            self.refuse(key, f"should be an integer of at least {least}, got {shown(value)}")
            return default
        return value

    def amount(self, key: str, default: float = 0.0) -> float:
        """Return a number from 0 to `MAX_AMOUNT`; `default` if there is none, or null."""
        value = self.get(key)
        if value is None:
            return default
        if not is_amount(value):
            self.refuse(key, f"{AMOUNT_WANTED}, got {shown(value)}")
            return default
        return float(value)

    def amounts(self, key: str) -> dict[str, float]:
        """Return an object of numbers under normalised resource names; empty if there is none, or null."""
        value = self.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(key, f"should be an object, got {shown(value)}")
            return {}
        for name, amount in value.items():
            if not is_amount(amount):
                self.refuse(key, f"{AMOUNT_WANTED}, got {shown(amount)}", name)
        return {str(NORMALISED.get(name, name)): float(n) for name, n in value.items() if is_amount(n)}


def _endless_numbers(value: object) -> Iterator[tuple[str | int, ...]]:
    """Yield the positions of infinite numbers and NaN in `value`."""
    if isinstance(value, float) and not isfinite(value):
        yield ()
    elif isinstance(value, (Mapping, list)):
        for step, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from ((step, *steps) for steps in _endless_numbers(item))
