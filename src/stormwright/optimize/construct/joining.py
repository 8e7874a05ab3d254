"""Who may grow a worker, of those that limits beside CPU, memory, ports and places leave."""

from __future__ import annotations

from stormwright.optimize.kernel.compiled import inner
from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.kernel.rules import put_in, take_from


@inner
def may_join(layout: Layout, executor: int, worker: int) -> bool:
    """Whether further limits allow that an executor of no worker joins one."""
    topology, node = layout.executors[executor].topology, layout.workers[worker].node
    if not layout.topologies[topology].limited:
        return True
    rise = put_in(layout.rules, topology, executor, worker, node)
    take_from(layout.rules, topology, executor, worker, node)
    return bool(rise <= 0)
