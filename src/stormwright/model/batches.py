"""Sizes of batches that end workers at their start, or that pending trees never fill.

After ``WorkerTransfer``, ``JCQueue`` and ``Executor.mkExecutor`` of Storm 2.8.3: a worker whose batch is above half of
the queue that it goes to throws, again and again; a batch that is not full leaves with the next flush tuple only. In
``WorkerState.transferLocalBatch`` the thread that receives from other workers has batches of its own, which nothing
flushes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from stormwright.model.arrays import is_amount
from stormwright.model.topology import Topology

PRODUCER_BATCH: Final = "topology.producer.batch.size"
TRANSFER_BATCH: Final = "topology.transfer.batch.size"
MAX_SPOUT_PENDING: Final = "topology.max.spout.pending"

#: Key of a batch → key of the queue that it goes to, and Storm's default sizes of both (defaults.yaml of 2.8.3).
_QUEUES: Final = {
    PRODUCER_BATCH: ("topology.executor.receive.buffer.size", 1, 32768),
    TRANSFER_BATCH: ("topology.transfer.buffer.size", 1, 1000),
}

FLUSH_MS: Final = "topology.batch.flush.interval.millis"


class BatchFault(NamedTuple):
    """A fault of a size of batches.

    Parameters
    ----------
    text
        Sentence with the keys and values.
    ends_workers
        Whether workers end at their start; else batches wait to be flushed.
    """

    text: str
    ends_workers: bool


def batch_faults(topology: Topology, conf: Mapping[str, Any]) -> Iterator[BatchFault]:
    """Yield the faults of the batches of a topology.

    Parameters
    ----------
    topology
        The topology, whose configuration takes precedence.
    conf
        Configuration of the cluster.
    """

    def size(key: str, default: float) -> float:
        value = topology.conf.get(key)
        value = conf.get(key) if value is None else value
        return float(value) if is_amount(value) else default

    for batch, (queue, one, usual) in _QUEUES.items():
        wanted, held = size(batch, one), size(queue, usual)
        if wanted > held / 2:
            text = f"workers end at their start: {batch} {wanted:,.0f} is above half of {queue} {held:,.0f}"
            yield BatchFault(text, ends_workers=True)
        if wanted > 1 and size(FLUSH_MS, 1) == 0:
            text = f"{batch} is {wanted:,.0f} and {FLUSH_MS} 0: batches that are not full are never flushed"
            yield BatchFault(text, ends_workers=False)
    wanted = size(PRODUCER_BATCH, 1)
    if wanted > 1 and topology.num_workers > 1:
        text = (
            f"{PRODUCER_BATCH} is {wanted:,.0f}: with several workers, tuples from others wait until a batch is full; "
            "where few follow, trees time out"
        )
        yield BatchFault(text, ends_workers=False)
    tasks = {topology.components[run.component].id: run.tasks_per_executor for run in topology.executor_runs}
    for component in topology.components:
        pending = component.conf.get(MAX_SPOUT_PENDING)
        most = float(pending) if is_amount(pending) and pending > 0 else size(MAX_SPOUT_PENDING, 0)
        most *= tasks.get(component.id, 1)  # of each task, and an executor has one batch for all of its tasks
        if component.type == "spout" and 0 < most < wanted:
            text = (
                f"{PRODUCER_BATCH} {wanted:,.0f} is above {MAX_SPOUT_PENDING} {most:,.0f}: batches of {component.id} "
                f"never fill, and wait for each {FLUSH_MS}, or for ever"
            )
            yield BatchFault(text, ends_workers=False)
