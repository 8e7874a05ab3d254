"""Who may grow a worker, of those that limits beside CPU, memory, ports and places leave."""

from __future__ import annotations

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.rules import Rules, put_in, take_from


@inner
def may_join(rules: Rules, topology: int, executor: int, worker: int, node: int) -> bool:
    """Whether further limits allow that an executor of no worker joins one.

    Parameters
    ----------
    rules
        As before afterwards.
    topology, executor, worker, node
        Which; the worker is on the node.
    """
    rise = put_in(rules, topology, executor, worker, node)
    take_from(rules, topology, executor, worker, node)
    return bool(rise <= 0)
