"""What messages of a tree take of executors, of workers and of links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.costs import Costs
from stormwright.predict.flow.graph import GraphEdges
from stormwright.predict.flow.routes import Routes
from stormwright.predict.sums import sums


class Carried(NamedTuple):
    """Messages of a tree: CPU of each executor (µs) for those it sends, and of each worker; what crosses links."""

    serialise_us: FloatArray
    send_us: FloatArray
    receive_us: FloatArray
    sent: FloatArray
    received: FloatArray
    link_bytes: FloatArray
    link_messages: FloatArray

    @classmethod
    def of(cls, routes: Routes, graph: GraphEdges, costs: Costs) -> Carried:
        """Of the messages along `routes`, by what each costs."""
        sender, receiver = graph.sources.executor, graph.targets.executor
        executors, workers = len(routes.workers.of_executor), len(routes.workers.slot)
        # What is nowhere is counted before all others.
        by_sender, by_receiver = (routes.workers.of_executor[end] + 1 for end in (sender, receiver))

        def of_workers(worker: IndexArray, amounts: FloatArray) -> FloatArray:
            return sums(worker, amounts, workers + 1)[..., 1:]

        sent, received = routes.sent, routes.received
        kilobytes, came = sent.bytes / 1e3, received.bytes / 1e3
        serialise_us = sent.tuples * costs.serialise_us + kilobytes * costs.serialise_us_per_kb
        ends = ((by_sender, sent), (by_receiver, received))
        return cls(
            serialise_us=sums(sender, serialise_us, executors),
            send_us=of_workers(by_sender, sent.tuples * costs.send_us + kilobytes * costs.send_us_per_kb),
            receive_us=of_workers(by_receiver, received.tuples * costs.receive_us + came * costs.receive_us_per_kb),
            sent=of_workers(by_sender, sent.tuples),
            received=of_workers(by_receiver, received.tuples),
            link_bytes=np.stack(
                [of_workers(end, of.far_bytes + of.far_tuples * costs.overhead_bytes) for end, of in ends]
            ),
            link_messages=np.stack([of_workers(end, of.far_tuples) for end, of in ends]),
        )
