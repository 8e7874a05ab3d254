"""Tuple trees: begun, acked, complete, timed out."""

from __future__ import annotations

from math import ceil, log2

from stormwright.jit.compiled import Record, inner
from stormwright.jit.random_numbers import draw_below
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import set_time
from stormwright.simulator.storm.records import (
    ASLEEP,
    BUCKETS,
    BY_OCTAVE,
    DATA,
    DONE,
    NONE,
    ClusterState,
)

#: Range of random integers that modulo the number of ackers are about uniform.
_MANY = 1 << 30


@inner
def begin_tree(cluster: ClusterState, who: int, now: float) -> int:
    """Begin a tree."""
    run, spout = cluster.run[0], cluster.spouts[cluster.threads[who].spout]
    number = run.free_tree
    tree = cluster.trees[number]
    run.free_tree = tree.next
    run.trees_left -= 1
    tree.begun, tree.heard, tree.spout, tree.alive, tree.lost = now, NEVER, who, 1, False
    tree.acker = draw_below(cluster, _MANY)
    tree.next, tree.before = NONE, spout.last
    if spout.last == NONE:
        spout.first = number
    else:
        cluster.trees[spout.last].next = number
    spout.last = number
    spout.pending += 1
    return int(number)


@inner
def hear(cluster: ClusterState, who: int, now: float) -> None:
    """Process a message of an acker; if the tree is complete it becomes one to its spout."""
    message = cluster.tuples[cluster.threads[who].tuple]
    tree = cluster.trees[message.tree]
    if tree.use == message.use:
        if tree.heard == NEVER:
            tree.heard = now
        tree.alive -= 1
        if tree.alive == 0:
            tree.heard = now - tree.heard
            message.kind = DONE
            return
    message.kind = DATA


@inner
def complete(cluster: ClusterState, who: int, number: int, use: int) -> None:
    """Report to spout `who` of `cluster` that tree `number` is complete, unless its record was reused since `use`."""
    tree, thread = cluster.trees[number], cluster.threads[who]
    if tree.use != use:
        return
    topology, bucket = cluster.topologies[thread.topology], 0
    if tree.heard > 1e-3:
        bucket = min(ceil(BY_OCTAVE * log2(1e3 * tree.heard)), BUCKETS - 1)
    cluster.latency[thread.topology, bucket] += 1
    topology.latency_s += tree.heard
    topology.completed += 1
    thread.acked += 1
    end_tree(cluster, number)


@inner
def end_tree(cluster: ClusterState, number: int) -> None:
    """Free a tree; its remaining tuples belong to none."""
    tree, run = cluster.trees[number], cluster.run[0]
    spout = cluster.spouts[cluster.threads[tree.spout].spout]
    if tree.before == NONE:
        spout.first = tree.next
    else:
        cluster.trees[tree.before].next = tree.next
    if tree.next == NONE:
        spout.last = tree.before
    else:
        cluster.trees[tree.next].before = tree.before
    spout.pending -= 1
    tree.use += 1
    tree.next = run.free_tree
    run.free_tree = number
    run.trees_left += 1


@inner
def time_out(cluster: ClusterState, number: int, now: float) -> None:
    """Fail all trees of a spout that existed at its previous check, the one `timeout_s` ago."""
    spout = cluster.spouts[number]
    thread = cluster.threads[spout.thread]
    if spout.first != NONE:
        _fail_old(cluster, spout, thread, cluster.topologies[thread.topology])
        if thread.state == ASLEEP:
            set_time(cluster.clock, spout.thread, now)
    spout.looked = now


@inner
def _fail_old(cluster: ClusterState, spout: Record, thread: Record, here: Record) -> None:
    while spout.first != NONE and cluster.trees[spout.first].begun < spout.looked:
        end_tree(cluster, spout.first)
        thread.failed += 1
        here.timed_out += 1
        if spout.reliable:
            spout.again += 1
