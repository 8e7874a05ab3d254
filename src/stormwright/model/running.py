"""What runs now, by slot of every executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.model.arrays import IntArray, frozen
from stormwright.model.assignment import UNPLACED, TopologyAssignment
from stormwright.model.cluster import Cluster
from stormwright.model.workload import Workload


@dataclass(frozen=True, eq=False)
class Running:
    """The current assignment of a problem and what follows from it, the cluster's slots and the workload.

    Parameters
    ----------
    cluster
        Whose slots these are.
    workload
        Whose executors these are.
    current
        Topology id → what runs now.
    """

    cluster: Cluster
    workload: Workload
    current: Mapping[str, TopologyAssignment]

    def is_of(self, cluster: Cluster, workload: Workload, current: Mapping[str, TopologyAssignment]) -> bool:
        """Whether it is made of these very objects."""
        return self.cluster is cluster and self.workload is workload and self.current is current

    @cached_property
    def current_slot(self) -> IntArray:
        """Slot index of every executor now, -1 where it has none that still exists, shape (E,)."""
        current = np.full(self.workload.num_executors, UNPLACED, dtype=np.int32)
        for topology_id, assignment in self.current.items():
            index = self.workload.topology_index.get(topology_id)
            if index is None:
                continue
            slots = [self.cluster.slot_index.get(slot, UNPLACED) for slot in assignment.slots]
            known = np.array([*slots, UNPLACED], np.int32)
            current[self.workload.executors_of(index)] = known[np.array(assignment.slot_of_executor, np.int32)]
        return frozen(current, np.int32)
