"""A placement under way as arrays of records.

One record holds all that a step reads of an executor, worker or node, so that a random one costs one cache line and
not one for each field. Things are known by number: executors by topology as in a problem, workers by topology, nodes as
in a problem. What belongs together is a range of numbers (`first` to before `last`), so there are no lists to keep.
Executors of a worker form a ring, since it changes with every step::

    worker.any ─▶ e ⇄ e ⇄ e ─┐        e.next, e.previous; any one of them may be the head
                  └──────────┘

Tables of a topology with n executors and W workers lie in `table` one after the other: n rows of executors, then W
rows of workers, then W rows of distances, W numbers each. A row is known by where it begins (`row`); that of a worker's
distances is W rows behind its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray

if TYPE_CHECKING:
    pass


#: Of a topology: its first worker, how many components it has, and what they share; where its tables are in `counts`,
#: `NOWHERE` for none: workers × components, nodes × components, components × components, components.
RULED = np.dtype(
    [
        *((name, np.int64) for name in ("first_worker", "components", "first_region", "last_region")),
        *((name, np.int64) for name in ("held", "on", "apart", "most")),
        ("limited", np.bool_),
    ],
    align=True,
)

#: Memory that components share, in MB: heap of a worker, all memory of a worker, and memory of a node; and where
#: `counts` says which components.
REGION = np.dtype([("heap", np.float64), ("memory", np.float64), ("on_node", np.float64), ("users", np.int64)])

#: How many resources there are, and which of them shared memory takes, `NOWHERE` for none; where tables are in
#: `amounts`, and the components of executors in `counts`.
SHELF = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("resources", "memory", "component", "first_held", "end_held"),
            *("demand", "unit", "room", "left", "heap_room", "heap_left", "used", "end"),
        )
    ]
)


class Rules(NamedTuple):
    """What limits topologies further, and what of it a placement takes.

    All tables are in two arrays, as each array more makes every call dearer that is handed them.

    Parameters
    ----------
    topologies, regions
        Of `RULED` and of `REGION`.
    shelf
        Of `SHELF`, one record.
    counts
        Which component of its topology every executor is of. Of topologies where that counts: whether executors of two
        components may not share a worker, how many of each a node may have, and which components share memory; then how
        many of each component every worker and every node has.
    amounts
        What executors ask for, E × (K + 1), of K resources of nodes and of the heap of workers; the units in which a
        lack of these is counted, K + 1; what nodes have, N × K, and what of it is left; heap of workers, W, and what of
        it is left; what workers take of the resources, W × K.
    asked
        Scratch of construction: what is still to be placed asks for, shape (K,).
    """

    topologies: Records
    regions: Records
    shelf: Records
    counts: IndexArray
    amounts: FloatArray
    asked: FloatArray


NOWHERE = -1

EXECUTOR = np.dtype(
    [
        *((name, np.float64) for name in ("cpu_hz", "memory_mb", "tps")),
        ("row", np.int64),
        *((name, np.int32) for name in ("first", "last", "topology", "worker", "next", "previous", "home", "places")),
    ],
    align=True,
)
LINK = np.dtype([("executor", np.int64), ("tps", np.float64)])
WORKER = np.dtype(
    [
        *((name, np.float64) for name in ("cpu_hz", "memory_mb")),
        ("row", np.int64),
        *((name, np.int32) for name in ("node", "rack", "topology", "size", "most", "any")),
        *((name, np.int32) for name in ("home_node", "home_size", "at_home")),
        ("at", np.uint16),  # there are no more ports; so a record fits a cache line
        ("movable", np.bool_),
    ],
    align=True,
)
NODE = np.dtype(
    [
        *((name, np.float64) for name in ("cpu_hz", "cpu_hz_left", "memory_mb_left")),
        *((name, np.int32) for name in ("rack", "first", "used", "ports")),
    ],
    align=True,
)
TOPOLOGY = np.dtype(
    [
        *((name, np.int64) for name in ("first", "last", "first_worker", "last_worker", "most")),
        *((name, np.int64) for name in ("first_sink", "last_sink")),
        *((name, np.bool_) for name in ("tabled", "whole", "limited")),
    ],
    align=True,
)
#: Apart from `EXECUTOR`, which so fits a cache line.
FLOWING = np.dtype([(name, np.int32) for name in ("first_flow", "last_flow", "first_sink", "last_sink")])
FLOW = np.dtype([("sink", np.int64), ("tps", np.float64)])
SINK = np.dtype([("row", np.int64), ("local", np.int64), ("limit", np.float64), ("cost", np.float64)])
SCOPE = np.dtype([("tps", np.float64), ("members", np.int64)])
SPAN = np.dtype([("first", np.int64), ("last", np.int64)])
TOTALS = np.dtype(
    [
        *((name, np.float64) for name in ("cost", "use_cost", "broken")),
        *((name, np.int64) for name in ("moved", "restarted", "steps")),
    ]
)

Records = NDArray[np.void]


class Layout(NamedTuple):
    """A placement under way.

    Parameters
    ----------
    executors
        Of `EXECUTOR`: demand; all that it exchanges; its row in `table`; where its `links` are; its worker; the two
        executors beside it in the ring of that worker; the worker that it runs in now and could keep, or -1; the places
        in a worker that it takes, more than one if it is several that are joined
        (`stormwright.optimize.layout.coarsen`).
    links
        Of `LINK`: what an executor exchanges with which other whatever the placement, by number of the other.
    pull
        Beside each link what the two exchange, or would if flows were spread evenly: 0 is no reason to be close.
    flowing, flows, sinks
        Of `FLOWING`, by executor: where its `flows` are, and the `sinks` that it belongs to. Of `FLOW`: what it sends
        to which sink. Of `SINK`, sorted by topology: its row in `sent` and `members`, whether its grouping knows only
        the worker, what one of its executors can take, and what its flows cost.
    sent, members
        Sinks × workers of their topology: what executors in each send to the sink, and how many belong to it.
    workers
        Of `WORKER`: load; its row in `table`; node and rack; how many places are taken and how many it has; any one of
        its executors; the node it runs on now, how many executors run in it now, and how many of these are in it; its
        position among its node's workers. Workers of a topology have consecutive numbers.
    nodes
        Of `NODE`: its CPU, 0 where it does not count how much of it is used; what is left; its rack; where its workers
        are in `workers_on`, how many, and how many it may get.
    topologies
        Of `TOPOLOGY`: where its executors, workers and sinks are; executors that a worker may have; whether it is in
        `table`; whether it may be moved as a whole; whether `rules` limit it.
    workers_on
        Workers of every node, as many places as it has ports.
    racks, rack_nodes
        Of `SPAN`: where the nodes of each rack are in the second array.
    table
        Executors × workers, then workers × workers of each topology: what they exchange, in tuples/s; then workers ×
        workers: what a tuple between two costs, 0 for one and the same.
    free_executors, free_workers, free_topologies
        What is placed and may be moved; of topologies those that may be as a whole.
    rules
        What limits topologies beside CPU, memory, ports and places.
    totals
        Of `TOTALS`, one record: cost of traffic, that of how nodes are used, what is broken of `rules`, executors away
        from home, workers that restart where that counts, steps made.
    random
        State of the random numbers, one number.
    node_scopes, rack_scopes
        Scratch of flows, of `SCOPE`, all 0 in between.
    around, near, close, rack_room, waiting, kept_worker, kept_node, ruined, reach
        Scratch of construction and of ruin.
    inter_worker, inter_node, inter_rack
        Cost of a tuple by how far it goes, beyond that within a worker.
    move_price, max_moves, restart_price, max_restarts
        What an executor away from home costs, and how many may be; the same of workers that restart.
    node_price, imbalance_price
        What a node with a worker costs, and the square of what is used of a node's CPU over what it has, in Hz.
    """

    executors: Records
    links: Records
    pull: FloatArray
    flowing: Records
    flows: Records
    sinks: Records
    sent: FloatArray
    members: IndexArray
    workers: Records
    nodes: Records
    topologies: Records
    workers_on: IndexArray
    racks: Records
    rack_nodes: IndexArray
    table: FloatArray
    free_executors: IndexArray
    free_workers: IndexArray
    free_topologies: IndexArray
    rules: Rules
    totals: Records
    random: NDArray[np.uint64]
    node_scopes: Records
    rack_scopes: Records
    around: FloatArray
    near: FloatArray
    close: FloatArray
    rack_room: FloatArray
    waiting: IndexArray
    kept_worker: IndexArray
    kept_node: IndexArray
    ruined: IndexArray
    reach: FloatArray
    inter_worker: float
    inter_node: float
    inter_rack: float
    move_price: float
    max_moves: int
    restart_price: float
    max_restarts: int
    node_price: float
    imbalance_price: float
