"""A scheduler in twenty lines, beside published ones: a topology's executors go to one node after the other.

Run it: ``python examples/own_scheduler.py``. As a package with a contract suite: ``stormwright new-scheduler NAME``.
"""

import numpy as np

import stormwright as sw


class OneNodeEach:
    """Topology number i goes to node i, in as many workers as it asks for, however much that is for the node."""

    def schedule(self, problem: sw.Problem) -> sw.Assignment:
        slots = np.full(problem.num_executors, -1, dtype=np.int32)
        for index, topology in enumerate(problem.topologies):
            of_node = np.flatnonzero(problem.slot_node == index % len(problem.supervisors))
            workers = of_node[: topology.num_workers]
            slots[problem.executors_of(index)] = workers[np.arange(topology.num_executors) % len(workers)]
        return sw.Assignment(slots, scheduler="one node each")


problem = sw.sketch({f"words-{n}": "lines 2 -> split 4 -> count 4 fields" for n in range(3)}, nodes=3)
even = sw.place(problem, "even")
own = sw.place(problem, OneNodeEach())
print(even.summary(), own.summary(), sep="\n\n")
print(f"\n{1 - own.cost.total / even.cost.total:.0%} cheaper than Storm's EvenScheduler")
