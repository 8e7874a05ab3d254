"""What topologies and nodes tell a scheduler in their own configuration, checked where it is read."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.topology_config import value_misfits


def topologies_tell(problem: Problem, key: str, otherwise: Any) -> list[Any]:
    """The value of `key` in the configuration of every topology, `otherwise` where it has none.

    Files are checked when they are read; a problem may come from elsewhere.

    Raises
    ------
    InputError
        Values that are not what the key stands for; all faults at once.
    """
    values = [topology.conf.get(key, otherwise) for topology in problem.topologies]
    faults = [
        Fault(f"{message}, got {value!r}", f"$.topologies[{index}].conf" + "".join(f'["{step}"]' for step in steps))
        for index, told in enumerate(values)
        for message, value, steps in value_misfits(key, told)
    ]
    if faults:
        raise InputError("configuration of topologies", faults)
    return values


def nodes_tell(problem: Problem, keys: Collection[str]) -> list[dict[str, float]]:
    """The numbers that every node tells under `keys` in its `supervisor.scheduler.meta`, as far as it does.

    Raises
    ------
    InputError
        Texts that are no finite numbers, or numbers below 0; all faults at once.
    """
    numbers: list[dict[str, float]] = []
    faults: list[Fault] = []
    for index, node in enumerate(problem.supervisors):
        meta = node.scheduler_meta or {}
        told = {key: _number(meta[key]) for key in keys if key in meta}
        for key, number in told.items():
            if not 0 <= number < math.inf:  # so written that NaN is a fault
                path = f'$.supervisors[{index}].scheduler_meta["{key}"]'
                faults.append(Fault(f"should be a number, at least 0, got {meta[key]!r}", path))
        numbers.append(told)
    if faults:
        raise InputError("supervisor.scheduler.meta of nodes", faults)
    return numbers


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
