"""Values for schedulers in the configuration of topologies and in the metadata of nodes."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.topology_config import value_misfits


def topology_values(problem: Problem, key: str, otherwise: Any) -> list[Any]:
    """Return the value of `key` in every topology's configuration, `otherwise` if it has none.

    Files are validated on reading, but a problem may come from elsewhere.

    Raises
    ------
    InputError
        Invalid values; all faults at once.
    """
    values = [topology.conf.get(key, otherwise) for topology in problem.topologies]
    faults = [
        Fault(f"{message}, got {value!r}", f"$.topologies[{index}].conf" + "".join(f'["{step}"]' for step in steps))
        for index, values_of_node in enumerate(values)
        for message, value, steps in value_misfits(key, values_of_node)
    ]
    if faults:
        raise InputError("configuration of topologies", faults)
    return values


def node_values(problem: Problem, keys: Collection[str]) -> list[dict[str, float]]:
    """Return the numbers under `keys` in every node's `supervisor.scheduler.meta`, if present.

    Raises
    ------
    InputError
        Texts that are not finite numbers, or numbers below 0; all faults at once.
    """
    numbers: list[dict[str, float]] = []
    faults: list[Fault] = []
    for index, node in enumerate(problem.supervisors):
        meta = node.scheduler_meta or {}
        values_of_node = {key: _number(meta[key]) for key in keys if key in meta}
        for key, number in values_of_node.items():
            if not 0 <= number < math.inf:  # NaN is a fault, too
                path = f'$.supervisors[{index}].scheduler_meta["{key}"]'
                faults.append(Fault(f"should be a number, at least 0, got {meta[key]!r}", path))
        numbers.append(values_of_node)
    if faults:
        raise InputError("supervisor.scheduler.meta of nodes", faults)
    return numbers


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
