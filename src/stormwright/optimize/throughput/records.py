"""Demand of topologies for threads, nodes and links under a placement, as arrays of records.

As in `stormwright.optimize.kernel.records`, items are identified by number and items that belong together form a range:
executors of a topology, its workers, its components in the order in which tuples pass them, and the input of each
component. A place is a node with a topology: a topology has at most as many as executors, so its places are stored at
the numbers of these.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import IndexArray
from stormwright.optimize.kernel.records import Records, Rules


def _record(floats: str, counts: str, flags: str = "") -> np.dtype[np.void]:
    kinds = ((floats, np.float64), (counts, np.int64), (flags, np.bool_))
    return np.dtype([(name, kind) for names, kind in kinds for name in names.split()], align=True)


#: `work_s` of a tuple at a core of the reference speed; `begins` of a tree.
EXECUTOR = _record("work_s begins memory_mb handled busy_s", "topology worker")
COMPONENT = _record("", "first last first_flow last_flow first_pair last_pair first_deal last_deal")
#: Input of a component (shuffled), and of an executor: `tuples` for each that the source handles, bytes of one. `more`
#: is the relative work of one beyond the mean `work_s`; `holds` its weight if it delays a tree sequentially.
FLOW = _record("tuples size more holds", "source", "local")
PAIR = _record("tuples size more holds", "source target")
#: Distributions of several sources in the same proportions (`stormwright.predict.flow.fields_grouping`).
DEAL = _record("", "component first_hand last_hand first_taker last_taker")
HAND = _record("tuples bytes more holds", "source")
TAKER = _record("part part_of_bytes", "executor")
#: `rate` in trees/s is the basis of the score, 0 of a topology that begins none; `dearer` a factor of message costs;
#: `rounds` is 1 without cycles; `last_filled` is the end of the topology's workers with executors, see
#: `PlacementState.filled`.
TOPOLOGY = _record(
    "rate dearer busiest_s messages tried_busiest_s tried_messages",
    "first last first_component last_component first_worker last_worker last_filled most rounds places tried_places",
    "movable may_be_empty",
)
WORKER = _record("near send_s receive_s part part_of_bytes from_tuples from_bytes", "topology node size count")
#: `base` in cores that depend on no rate; `link_s` of a byte, 0 if its speed is unknown.
NODE = _record(
    "cores speed link_s memory_left base cpu out into term cpu_by out_by into_by tuples bytes from_tuples from_bytes",
    "rack ports used workers count place workers_by",
    "touched",
)
RACK = _record("tuples bytes", "count")
#: Of 1 tree/s: cores, and parts of the link in either direction.
PLACE = _record("cpu out into", "node workers")
#: Seconds at a core of the reference speed, of a message and of each byte of it.
COST = _record(
    "serialise_s serialise_byte_s send_s send_byte_s receive_s receive_byte_s overhead worker_cores polling_cores "
    "hop_s",
    "",
)
SCORING = _record("score rise short scale limit", "kind touched logged")
#: Change by a step: an executor and its previous worker, or a worker (as -1 - its number) and the node.
CHANGE = _record("", "changed before")


#: Memory by which a missing port counts; so does 1 of violation of `rules`, a power of two.
PORT_MB, BROKEN_MB = 1e9, 2.0**30


class PlacementState(NamedTuple):
    """A placement, and the demand of its topologies.

    Parameters
    ----------
    executors, components, flows, pairs, deals, senders, receivers, topologies, workers, nodes, racks
        Records of each; flows, pairs and deals are by target component, senders and receivers by deal.
    members
        Executors by component, shape (E,).
    places, tried
        Places of the placement, and of a topology after the current step, shape (E,).
    filled
        Workers that have executors, from the number of their topology's first executor on, shape (E,).
    touched
        Nodes that a step touches, shape (N,).
    changes
        Changes of the current step, shape (2 E + W,).
    free
        Executors that may move.
    cost, scoring
        Costs of messages and workers, and the objective with its score; shape (1,).
    random
        State of the random numbers, shape (1,).
    rules
        Limits of topologies beside memory, ports and executors in a worker.
    """

    executors: Records
    components: Records
    flows: Records
    pairs: Records
    deals: Records
    senders: Records
    receivers: Records
    topologies: Records
    workers: Records
    nodes: Records
    racks: Records
    members: IndexArray
    places: Records
    tried: Records
    filled: IndexArray
    touched: IndexArray
    changes: Records
    free: IndexArray
    cost: Records
    scoring: Records
    random: NDArray[np.uint64]
    rules: Rules
