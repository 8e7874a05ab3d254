"""What changes and steps of a small placement break of further limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stormwright.jit.compiled import inner
from stormwright.optimize.kernel.rules import bring, is_limited, rise_of_step

if TYPE_CHECKING:
    from stormwright.optimize.small.dense import Dense


@inner
def carry_rules(dense: Dense, worker: int, node: int, to: int) -> None:
    """Note what of `rules` is broken as a worker goes from a node to another.

    Parameters
    ----------
    dense
        Its `rules` and what is broken of them are written.
    worker, node, to
        Which.
    """
    topology = dense.topology_of[worker]
    if is_limited(dense.rules, topology):
        dense.state[0].broken += bring(dense.rules, topology, worker, node, -1)
        dense.state[0].broken += bring(dense.rules, topology, worker, to, 1)


@inner
def broken_by_worker(dense: Dense, worker: int, to: int) -> float:
    """How much more would be broken of `rules` if a worker went to a node.

    Parameters
    ----------
    dense
        As before afterwards.
    worker, to
        Which.
    """
    node, before = dense.node[worker], dense.state[0].broken
    carry_rules(dense, worker, node, to)
    rise = dense.state[0].broken - before
    carry_rules(dense, worker, to, node)
    return float(rise)


@inner
def broken_by_step(dense: Dense, executor: int, to: int, partner: int) -> float:
    """How much more would be broken of `rules` if an executor went to a worker, and a partner came from there.

    Parameters
    ----------
    dense
        As before afterwards.
    executor, to
        Of a topology that is limited; another worker of it.
    partner
        -1 for none.
    """
    own = dense.worker[executor]
    places = own, dense.node[own], to, dense.node[to]
    return rise_of_step(dense.rules, dense.topology[executor], executor, places, partner)
