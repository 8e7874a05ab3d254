"""A placement under way as arrays of records.

One record holds all that a step reads of an executor, worker or node, so that a random one costs one cache line and
not one for each field. Items are identified by number: executors by topology as in a problem, workers by topology,
nodes as in a problem. Items that belong together form a range of numbers (`first` to before `last`), so there are no
lists to maintain. Executors of a worker form a ring, since it changes with every step::

    worker.any ─▶ e ⇄ e ⇄ e ─┐        e.next, e.previous; any one of them may be the head
                  └──────────┘

Tables of a topology with n executors and W workers lie in `table` one after the other: n rows of executors, then W
rows of workers, then W rows of distances, W numbers each. A row is identified by its start (`row`); that of a worker's
distances is W rows behind its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import FloatArray, IndexArray

#: Of a topology: its first worker, number of components, and shared memory; start of its tables in `counts`, `NOWHERE`
#: for none: workers × components, nodes × components, components × components, components.
RULED = np.dtype(
    [
        *((name, np.int64) for name in ("first_worker", "components", "first_region", "last_region")),
        *((name, np.int64) for name in ("held", "on", "apart", "most")),
        ("limited", np.bool_),
    ],
    align=True,
)

#: Memory shared by components, in MB: heap of a worker, all memory of a worker, and memory of a node; and the start of
#: its components in `counts`.
REGION = np.dtype([("heap", np.float64), ("memory", np.float64), ("on_node", np.float64), ("users", np.int64)])

#: Number of resources, and those of shared memory, `NOWHERE` for none; start of tables in `amounts`, and of the
#: components of executors in `counts`.
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
    """Further limits of topologies, and their current use.

    All tables are in two arrays, as each additional array makes every call with them more expensive.

    Parameters
    ----------
    topologies, regions
        Of `RULED` and of `REGION`.
    shelf
        Of `SHELF`, one record.
    counts
        Component of every executor within its topology. For topologies where that counts: whether executors of two
        components may not share a worker, how many of each a node may have, and which components share memory; then how
        many of each component every worker and every node has.
    amounts
        Demand of executors, E × (K + 1), for K resources of nodes and for the heap of workers; the units in which a
        lack of these is counted, K + 1; capacity of nodes, N × K, and what is left of it; heap of workers, W, and what
        is left of it; demand of workers for the resources, W × K.
    requested
        Scratch of construction: demand of the executors still to be placed, shape (K,).
    """

    topologies: Records
    regions: Records
    shelf: Records
    counts: IndexArray
    amounts: FloatArray
    requested: FloatArray


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
        Of `EXECUTOR`: demand; all of its traffic; its row in `table`; range of its `links`; its worker; the two
        executors beside it in the ring of that worker; the worker that it runs in now and could keep, or -1; the places
        in a worker that it takes, more than one if it is several that are joined
        (`stormwright.optimize.layout.coarsen`).
    links
        Of `LINK`: traffic of an executor with another one whatever the placement, by number of the other.
    pull
        For each link the traffic of the two, including flows as if they were spread evenly: 0 is no attraction.
    flowing, flows, sinks
        Of `FLOWING`, by executor: ranges of its `flows`, and of the `sinks` that it belongs to. Of `FLOW`: rate
        to a sink. Of `SINK`, sorted by topology: its row in `sent` and `members`, whether its grouping knows only
        the worker, the limit of one of its executors, and the cost of its flows.
    sent, members
        Sinks × workers of their topology: rate from the executors in each to the sink, and number of members.
    workers
        Of `WORKER`: load; its row in `table`; node and rack; how many places are taken and how many it has; any one of
        its executors; the node it runs on now, how many executors run in it now, and how many of these are in it; its
        position among its node's workers. Workers of a topology have consecutive numbers.
    nodes
        Of `NODE`: its CPU, 0 if its utilisation does not count; what is left; its rack; range of its workers
        in `workers_on`, how many, and how many it may get.
    topologies
        Of `TOPOLOGY`: ranges of its executors, workers and sinks; executors that a worker may have; whether it is in
        `table`; whether it may be moved as a whole; whether `rules` limit it.
    workers_on
        Workers of every node, as many places as it has ports.
    racks, rack_nodes
        Of `SPAN`: range of the nodes of each rack in the second array.
    table
        Executors × workers, then workers × workers of each topology: their traffic, in tuples/s; then workers ×
        workers: cost of a tuple between two, 0 for one and the same.
    free_executors, free_workers, free_topologies
        Placed items that may be moved; of topologies those that may be as a whole.
    rules
        Limits of topologies beside CPU, memory, ports and places.
    totals
        Of `TOTALS`, one record: cost of traffic, that of the use of nodes, violation of `rules`, executors away
        from home, workers that restart where that counts, steps made.
    random
        State of the random numbers, one number.
    node_scopes, rack_scopes
        Scratch of flows, of `SCOPE`, all 0 in between.
    around, near, close, rack_room, waiting, saved_worker, saved_node, ruined, reach
        Scratch of construction and of ruin.
    inter_worker, inter_node, inter_rack
        Cost of a tuple by distance, beyond that within a worker.
    move_price, max_moves, restart_price, max_restarts
        Price of an executor away from home, and how many may be; the same of workers that restart.
    node_price, imbalance_price
        Price of a node with a worker, and of the square of the used CPU of a node over its capacity, in Hz.
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
    saved_worker: IndexArray
    saved_node: IndexArray
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
