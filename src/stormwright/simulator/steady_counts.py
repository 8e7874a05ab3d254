"""Integer counts at constant rates: of executors, pairs of them, and topologies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.perflog.schema import LATENCY_EDGES_MS
from stormwright.predict.queueing.trees import Times
from stormwright.simulator.steady_flows import Share

Whole = NDArray[np.int64]


class Stretch(NamedTuple):
    """Counts while rates were constant: by executor, by pair, and latencies by topology."""

    handled: Whole
    emitted: Whole
    cpu_ns: Whole
    source: Whole
    target: Whole
    tuples: Whole
    latency: Whole


class Counting:
    """Counts during one placement; fractions of tuples are carried over.

    Parameters
    ----------
    share
        Work of executors per tree.
    topology, acker
        Topology of every executor, and whether it is an acker, shape (E,).
    spouts
        Executors of spouts, shape (S,).
    latency
        Latency of trees, shape (T,).
    varies
        Relative variation of latency between intervals.
    """

    def __init__(
        self,
        share: Share,
        topology: IndexArray,
        acker: BoolArray,
        spouts: IndexArray,
        latency: Times,
        varies: float = 0.0,
    ) -> None:
        self._share, self._of, self._varies = share, topology, varies
        spout = np.zeros(len(topology), dtype=bool)
        spout[spouts] = True
        begins = np.flatnonzero(spout[share.source] & acker[share.target])
        self._begins = begins[np.argsort(share.source[begins], kind="stable")]
        sources = share.source[self._begins]
        first, last = np.searchsorted(sources, spouts, "left"), np.searchsorted(sources, spouts, "right")
        self._begins_of = np.stack([first, last], axis=1).tolist()
        self._spout, self._spouts = spout, spouts
        self._left, self._left_pairs = np.zeros(len(topology)), np.zeros(len(share.source))
        self._buckets = _buckets(latency)

    def count(self, done: FloatArray, begun: Whole, acked: Whole, rng: np.random.Generator) -> Stretch:
        """Return the counts since the last call.

        Parameters
        ----------
        done
            Trees processed, by topology, shape (T,).
        begun, acked
            Trees by executor of a spout, shape (S,).
        rng
            Selects ackers and latencies of trees.
        """
        share, trees = self._share, done[self._of]
        handled = share.handled * trees + self._left
        whole = np.floor(handled + 1e-9).astype(np.int64)
        self._left = handled - whole
        whole[self._spout] = 0
        sent = share.tuples * trees[share.source] + self._left_pairs
        tuples = np.floor(sent + 1e-9).astype(np.int64)
        self._left_pairs = sent - tuples
        self._deal(tuples, begun, rng)
        emitted = np.bincount(share.source, tuples, len(self._of)).astype(np.int64)
        completed = np.bincount(self._of[self._spouts], acked, len(done)).astype(np.int64)
        buckets = _later(self._buckets, rng.normal(0.0, self._varies, len(done))) if self._varies else self._buckets
        latency = np.stack([rng.multinomial(*each) for each in zip(completed, buckets, strict=True)])
        cpu_ns = (share.cpu_s * trees * 1e9).astype(np.int64)
        return Stretch(whole, emitted, cpu_ns, share.source, share.target, tuples, latency)

    def _deal(self, tuples: Whole, begun: Whole, rng: np.random.Generator) -> None:
        """Assign every tree that is begun to one acker."""
        at, share = self._begins, self._share
        tuples[at] = 0
        for (first, last), trees in zip(self._begins_of, begun.tolist(), strict=True):
            if last > first:
                own = at[first:last]
                parts = share.tuples[own]
                tuples[own] = rng.multinomial(trees, parts / parts.sum())


def joined(stretches: Sequence[Stretch]) -> Stretch:
    """Return the sum of several stretches."""
    if len(stretches) == 1:
        return stretches[0]
    handled, emitted, cpu_ns, source, target, tuples, latency = zip(*stretches, strict=True)
    return Stretch(
        np.sum(handled, axis=0),
        np.sum(emitted, axis=0),
        np.sum(cpu_ns, axis=0),
        np.concatenate(source),
        np.concatenate(target),
        np.concatenate(tuples),
        np.sum(latency, axis=0),
    )


def _later(buckets: FloatArray, part: FloatArray) -> FloatArray:
    """Return buckets for times that are longer or shorter by a small fraction, shape (T,); the outer ones are open."""
    moves = np.clip(part / np.log(LATENCY_EDGES_MS[1] / LATENCY_EDGES_MS[0]), -1.0, 1.0)[:, None]
    up, down = np.maximum(moves, 0.0), np.maximum(-moves, 0.0)
    higher, lower = np.roll(buckets, 1, axis=1), np.roll(buckets, -1, axis=1)
    higher[:, 0], lower[:, -1] = 0.0, 0.0
    higher[:, -1] += buckets[:, -1]
    lower[:, 0] += buckets[:, 0]
    found = (1 - up - down) * buckets + up * higher + down * lower
    whole: FloatArray = found / found.sum(axis=1, keepdims=True)
    return whole


def _buckets(latency: Times) -> FloatArray:
    """Return the fraction of every topology's trees in each latency bucket, by a gamma distribution."""
    from scipy.special import gammainc  # slow to import

    mean, variance = (np.where(np.isfinite(each) & (each > 0), each, 1e-9)[:, None] for each in latency)
    below = gammainc(np.minimum(mean**2 / variance, 1e6), np.array(LATENCY_EDGES_MS) * 1e-3 * mean / variance)
    parts = np.diff(np.clip(below, 0.0, 1.0), prepend=0.0, append=1.0)
    found = np.maximum(parts, 0.0)
    whole: FloatArray = found / found.sum(axis=1, keepdims=True)
    return whole
