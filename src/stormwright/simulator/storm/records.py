"""A virtual Storm cluster under way, as arrays of records.

Things are known by number. Threads are the executors (E), then one of each worker that sends and one that receives
(W of each, whether that worker is there or not). Who has a time in the clock: threads, then cores, links out of nodes,
links into nodes, topologies (timeouts), quotas, and last of all who looks at loads. A list is a number of its first and
of its last, and each one's `next`; -1 is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Records
from stormwright.simulator.kernel.clock import Clock
from stormwright.simulator.kernel.shares import Shares

NONE = -1

#: Kinds of threads. A bolt that gets nothing and sends by the clock counts as a spout.
BOLT, ACKER, SPOUT, SENDER, RECEIVER = range(5)

#: What a thread is at: its worker is not up; it has nothing to do yet; it works; it waits for room for what it sends.
GONE, ASLEEP, WORKS, BLOCKED = range(4)

#: What a tuple is: of a stream, or between executors and ackers: a tree was begun, a tuple acked, a tree is complete.
DATA, BEGUN, ACK, DONE = range(4)

#: How a route chooses: shuffled, by fields with weights, a copy to all, the tree's acker, the tree's spout.
SHUFFLE, FIELDS, ALL, TO_ACKER, TO_SPOUT = range(5)

#: Scopes of a shuffle, from near to far.
IN_WORKER, IN_NODE, IN_RACK, EVERYWHERE = range(4)

#: Choices of a shuffle until it begins anew, and the weights that targets have at most.
ROUND, MOST_WEIGHT = 1_000, 100

#: Latencies are counted in buckets: 16 for each doubling from 1 ms on, which are those of the performance log in 4.
BY_OCTAVE, BUCKETS = 16, 16 * 16 + 2

#: `work_s` of a tuple on a core of its node, varying by `varies`; `message_factor` is by how much longer its node takes
#: for messages; `debt_s` is what it has serialised and not yet taken the time for; `cpu_s` what it took. With nothing
#: to do since `idle_since` it looks all the time for `parks_s`, then every `sleeps_s`; if waking takes CPU, `wakes_s`,
#: what `polls` wakes whether there is something or not, every `park_s` at first. It runs on `core`, all of those of its
#: node or one of them; where each thread has one it works `alone`, and `begins` to at an instant. Its queue is `first`
#: to `last`, `count` tuples of `limit`; in `waiting` and `last_waiting` are threads that wait for room in it. `tuple`
#: is at work, as yet to be sent along `route`, `left` times, to `pair` next.
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

#: Of a spout: mean time between trees that it is offered, 0 for as many as go; when the next one comes; how many have
#: come and were not begun; trees to begin again; pending trees, how many there may be, and the list of them, the oldest
#: first.
SPOUT_STATE = np.dtype(
    [
        *((name, np.float64) for name in ("apart_s", "varies", "comes")),
        *((name, np.int64) for name in ("thread", "offered", "again", "pending", "most", "first", "last")),
        *((name, np.bool_) for name in ("acked", "reliable")),
    ],
    align=True,
)

#: What an executor sends to a component: `whole` tuples for each that it handles, and one more as often as `part` says,
#: with `bytes` in each; its `count` pairs from `first` on. Of a shuffle: where its choices are in `choices`, which is
#: next, whether it knows only the worker and all, whether it looks at loads, and its scope.
ROUTE = np.dtype(
    [
        *((name, np.float64) for name in ("part", "bytes")),
        *((name, np.int64) for name in ("kind", "source", "whole", "first", "count", "choices", "at", "scope")),
        *((name, np.bool_) for name in ("local", "aware")),
    ],
    align=True,
)

#: An executor that is sent to: tuples so far; of fields, the part that goes to this or one before; weight of a shuffle.
PAIR = np.dtype([("below", np.float64), *((name, np.int64) for name in ("target", "tuples", "weight"))])

#: A tuple: from when on it can be seen in its queue; its tree, and which use of that record is meant.
TUPLE = np.dtype(
    [
        *((name, np.float64) for name in ("ready", "bytes")),
        *((name, np.int32) for name in ("next", "tree", "use", "pair", "what")),
    ],
    align=True,
)

#: A tree: when it was begun, when its acker heard of it first (once it is complete: its latency); tuples and messages
#: that its acker is yet to hear of; its neighbours in its spout's list.
TREE = np.dtype(
    [
        *((name, np.float64) for name in ("begun", "heard")),
        *((name, np.int32) for name in ("use", "spout", "acker", "alive", "next", "before")),
        ("lost", np.bool_),
    ],
    align=True,
)

#: Whether it is up, and whether all workers of its topology have been since: before that its spouts do not begin.
WORKER = np.dtype(
    [*((name, np.int64) for name in ("topology", "node", "slot")), *((name, np.bool_) for name in ("up", "ready"))],
    align=True,
)

#: Its timeout, when that was last looked at, and the bounds by which its shuffles change their scope; its first spout;
#: workers that are starting; what became of its trees.
TOPOLOGY = np.dtype(
    [
        *((name, np.float64) for name in ("timeout_s", "looked", "latency_s", "higher", "lower")),
        *(
            (name, np.int64)
            for name in ("first_spout", "starting", "completed", "timed_out", "replayed", "lost", "begun")
        ),
        ("active", np.bool_),
    ],
    align=True,
)

#: A link in one direction: 0 bytes/s for no limit; bytes in its buffer, of `limit`; `tokens` as of `since`, bytes that
#: may go at once, `burst` at most; it is `free` from an instant on, but for what waits; otherwise as a thread's queue.
LINK = np.dtype(
    [
        *((name, np.float64) for name in ("bytes_per_s", "bytes", "limit", "sent_bytes", "busy_s")),
        *((name, np.float64) for name in ("burst", "tokens", "since", "free")),
        *((name, np.int64) for name in ("first", "last", "count", "most", "waiting", "last_waiting")),
    ],
    align=True,
)

#: Loads of executors as their own worker knows them and as others were told.
SEEN = np.dtype([("here", np.float64), ("told", np.float64), ("most", np.int64)])

#: One record of what holds for all, and of what was done so far; a core that was idle is had within `wait_s`.
RUN = np.dtype(
    [
        *((name, np.float64) for name in ("now", "local_hop_s", "remote_hop_s", "overhead_bytes", "wait_s")),
        *((name, np.float64) for name in ("serialise_s", "serialise_byte_s", "send_s", "send_byte_s")),
        *((name, np.float64) for name in ("receive_s", "receive_byte_s")),
        *((name, np.int64) for name in ("executors", "workers", "threads", "hops", "looks")),
        *((name, np.int64) for name in ("cores", "nodes", "first_link", "first_topology", "first_quota")),
        *((name, np.int64) for name in ("free_tuple", "tuples_left", "free_tree", "trees_left", "most_sent")),
        ("full", np.bool_),
    ],
    align=True,
)


class Cluster(NamedTuple):
    """A virtual Storm cluster under way.

    Parameters
    ----------
    threads, spouts, routes, pairs, tuples, trees, workers, topologies, links, seen, run, quotas
        Of the kinds above, and of `QUOTA`. Links are those out of nodes, then those into them.
    choices
        Of all shuffles, the number of a target among those of its route.
    racks
        Of every node.
    latency
        Trees by topology and bucket.
    shares
        Cores that threads share: those of a node together, or one by one where the node has a quota.
    clock
        When each next does something.
    random
        State of the random numbers, one number.
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
    seen: Records
    run: Records
    quotas: Records
    choices: NDArray[np.int32]
    racks: NDArray[np.int64]
    latency: NDArray[np.int64]
    shares: Shares
    clock: Clock
    random: NDArray[np.uint64]
