"""Arrays that loops on a layout write to in passing."""

from __future__ import annotations

from typing import Any

import numpy as np

from stormwright.optimize.kernel import records as arrays

#: Topologies that are taken out at once, at most.
_MOST_RUINED = 3


def scratch(executors: int, workers: int, nodes: int, racks: int) -> dict[str, Any]:
    """Those of a layout, by their names in it.

    Parameters
    ----------
    executors, workers, nodes, racks
        How many there are.
    """
    return {
        "node_scopes": np.zeros(nodes, arrays.SCOPE),
        "rack_scopes": np.zeros(racks, arrays.SCOPE),
        "around": np.zeros(executors),
        "near": np.zeros(executors),
        "close": np.zeros(executors),
        "rack_room": np.zeros(racks),
        "waiting": np.zeros(executors, np.int64),
        "kept_worker": np.zeros(executors, np.int64),
        "kept_node": np.zeros(workers, np.int64),
        "ruined": np.zeros(_MOST_RUINED, np.int64),
    }
