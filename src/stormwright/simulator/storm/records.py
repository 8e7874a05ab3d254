"""State of a virtual Storm cluster, as arrays of records.

Everything is identified by number. Threads are the executors (E), then a sending and a receiving thread of each worker
(W of each, whether that worker exists or not). Actors in the clock: threads, then cores, links out of nodes, links into
nodes, spouts (timeouts), quotas, and finally the load check. A list has its first and its last number, and each
element's `next`; -1 is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Records
from stormwright.simulator.kernel.clock import ActorTimes
from stormwright.simulator.kernel.shares import Shares

NONE = -1

#: Kinds of threads. A bolt without input that sends periodically counts as a spout.
BOLT, ACKER, SPOUT, SENDER, RECEIVER = range(5)

#: States of a thread: its worker is down; idle; working; blocked by a full queue.
GONE, ASLEEP, WORKS, BLOCKED = range(4)

#: Kinds of tuples: of a stream, or between executors and ackers: tree begun, tuple acked, tree complete.
DATA, BEGUN, ACK, DONE = range(4)

#: Kinds of routes: shuffle, fields with weights, all, the tree's acker, the tree's spout.
SHUFFLE, FIELDS, ALL, TO_ACKER, TO_SPOUT = range(5)

#: Scopes of a shuffle, from near to far.
IN_WORKER, IN_NODE, IN_RACK, EVERYWHERE = range(4)

#: Choices per round of a shuffle, and maximum weight of targets.
ROUND, MAX_WEIGHT = 1_000, 100

#: Latency buckets: 16 for each doubling from 1 ms on, 4 of which form one of the performance log.
BY_OCTAVE, BUCKETS = 16, 16 * 16 + 2

#: A thread: `work_s` of a tuple on a core of its node, varying by `varies`; `message_factor` scales the cost of
#: messages on its node; `debt_s` is serialisation not yet charged; `cpu_s` the CPU time used. Idle since `idle_since`
#: it spins for `parks_s`, then polls every `sleeps_s`; if waking takes CPU, `wakes_s`, threads that `polls` wake in any
#: case, every `park_s` at first. It runs on `core`, all of those of its node or one of them; on a core of its own it
#: works `alone`, and `begins` at a time. Its queue is `first` to `last`, `count` tuples of `limit`; `waiting` and
#: `last_waiting` are threads that wait for space in it. `tuple` is in process, still to be sent along `route`, `left`
#: times, to `pair` next.
THREAD = np.dtype(
    [
        *((name, np.float64) for name in ("work_s", "varies", "message_factor", "debt_s", "cpu_s")),
        *((name, np.float64) for name in ("parks_s", "park_s", "sleeps_s", "wakes_s", "idle_since", "begins")),
        *((name, np.int64) for name in ("kind", "state", "topology", "worker", "node", "core", "spout")),
        *((name, np.int64) for name in ("first", "last", "count", "limit", "waiting", "last_waiting", "next")),
        *((name, np.int64) for name in ("first_route", "last_route", "route", "left", "pair", "tuple")),
        *((name, np.int64) for name in ("received", "emitted", "acked", "failed")),
        *((name, np.bool_) for name in ("polls", "alone")),
    ],
    align=True,
)

#: A spout: mean time between offered trees, 0 for no limit; arrival of the next one; the longest time whose offered
#: trees wait; the last check for timeouts; offered trees not yet begun; trees to replay; pending trees, their limit,
#: and their list, oldest first.
SPOUT_STATE = np.dtype(
    [
        *((name, np.float64) for name in ("apart_s", "varies", "comes", "backlog_s", "looked")),
        *((name, np.int64) for name in ("thread", "offered", "again", "pending", "most", "first", "last")),
        *((name, np.bool_) for name in ("acked", "reliable")),
    ],
    align=True,
)

#: A route from an executor to a component: `whole` tuples for each handled one, and one more with probability `part`,
#: with `bytes` in each; its `count` pairs from `first` on. Of a shuffle: the position in `choices`, the next one,
#: whether it only distinguishes the worker, whether it is load aware, and its scope.
ROUTE = np.dtype(
    [
        *((name, np.float64) for name in ("part", "bytes")),
        *((name, np.int64) for name in ("kind", "source", "whole", "first", "count", "choices", "at", "scope")),
        *((name, np.bool_) for name in ("local", "aware")),
    ],
    align=True,
)

#: A target executor: tuples so far; cumulative probability of fields; weight of a shuffle.
PAIR = np.dtype([("below", np.float64), *((name, np.int64) for name in ("target", "tuples", "weight"))])

#: A tuple: time from which it is visible in its queue; its tree, and the use number of that record.
TUPLE = np.dtype(
    [
        *((name, np.float64) for name in ("ready", "bytes")),
        *((name, np.int32) for name in ("next", "tree", "use", "pair", "kind")),
    ],
    align=True,
)

#: A tree: when it was begun, when its acker first heard of it (its latency once complete); tuples and messages that its
#: acker still expects; its neighbours in its spout's list.
TREE = np.dtype(
    [
        *((name, np.float64) for name in ("begun", "heard")),
        *((name, np.int32) for name in ("use", "spout", "acker", "alive", "next", "before")),
        ("lost", np.bool_),
    ],
    align=True,
)

#: A worker: when its executors start; whether its port is open, whether they run, and whether those of all workers of
#: its topology have since: its spouts begin after that.
WORKER = np.dtype(
    [
        ("comes_up", np.float64),
        *((name, np.int64) for name in ("topology", "node", "slot")),
        *((name, np.bool_) for name in ("port_open", "up", "ready")),
    ],
    align=True,
)

#: A topology: its timeout, and the bounds by which its shuffles change their scope; its first
#: spout; starting workers; outcomes of its trees.
TOPOLOGY = np.dtype(
    [
        *((name, np.float64) for name in ("timeout_s", "latency_s", "higher", "lower")),
        *(
            (name, np.int64)
            for name in ("first_spout", "starting", "completed", "timed_out", "replayed", "lost", "begun")
        ),
        ("active", np.bool_),
    ],
    align=True,
)

#: A link in one direction: 0 bytes/s for no limit; bytes in its buffer, of `limit`; `tokens` as of `since`, bytes that
#: may pass at once, `burst` at most; it is `free` from a time on, except for waiting ones; otherwise like a thread's
#: queue.
LINK = np.dtype(
    [
        *((name, np.float64) for name in ("bytes_per_s", "bytes", "limit", "sent_bytes", "busy_s")),
        *((name, np.float64) for name in ("burst", "tokens", "since", "free")),
        *((name, np.int64) for name in ("first", "last", "count", "most", "waiting", "last_waiting")),
    ],
    align=True,
)

#: Loads of executors as known in their own worker and as reported to others.
QUEUE_LOADS = np.dtype([("current", np.float64), ("reported", np.float64), ("most", np.int64)])

#: Global parameters and counters; an idle core is available within `wait_s`.
RUN = np.dtype(
    [
        *((name, np.float64) for name in ("now", "local_hop_s", "remote_hop_s", "overhead_bytes", "wait_s")),
        *((name, np.float64) for name in ("serialise_s", "serialise_byte_s", "send_s", "send_byte_s")),
        *((name, np.float64) for name in ("receive_s", "receive_byte_s")),
        *((name, np.int64) for name in ("executors", "workers", "threads", "hops", "looks")),
        *((name, np.int64) for name in ("cores", "nodes", "first_link", "first_spouts", "first_quota")),
        *((name, np.int64) for name in ("free_tuple", "tuples_left", "free_tree", "trees_left", "most_sent")),
        *((name, np.bool_) for name in ("full", "paused")),
    ],
    align=True,
)


class ClusterState(NamedTuple):
    """State of a virtual Storm cluster.

    Parameters
    ----------
    threads, spouts, routes, pairs, tuples, trees, workers, topologies, links, queue_loads, run, quotas
        Record arrays of the kinds above, and of `QUOTA`. Links are those out of nodes, then those into them.
    choices
        Choices of all shuffles, as numbers of targets in their routes.
    racks
        Rack of every node.
    latency
        Trees by topology and latency bucket.
    shares
        Shared cores: those of a node together, or one by one if the node has a quota.
    clock
        Time of the next event of each thread, link, spout and quota.
    random
        Random state, one number.
    """

    threads: Records
    spouts: Records
    routes: Records
    pairs: Records
    tuples: Records
    trees: Records
    workers: Records
    topologies: Records
    links: Records
    queue_loads: Records
    run: Records
    quotas: Records
    choices: NDArray[np.int32]
    racks: NDArray[np.int64]
    latency: NDArray[np.int64]
    shares: Shares
    clock: ActorTimes
    random: NDArray[np.uint64]
