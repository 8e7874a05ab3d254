"""Records that should be there and are not: gaps in the sequence numbers of a worker."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stormwright.pipeline.panes.windows import kind_of


@dataclass(frozen=True)
class WorkerRecords:
    """What arrived of one worker in a window.

    Parameters
    ----------
    start_ms
        When the worker started: one that takes over the port of another begins to count anew.
    records
        Records that are used.
    missing
        Sequence numbers between the lowest and the highest of them that are not: lost, in quarantine or under way.
    """

    topology: str
    supervisor: str
    port: int
    start_ms: int
    records: int
    missing: int


def worker_records(facts: pa.Table) -> list[WorkerRecords]:
    """What arrived of each worker, from the facts of one window."""
    keys = ("topology", "supervisor", "second", "first")
    workers = kind_of(facts, "worker").sort_by([(name, "ascending") for name in keys])
    return [
        WorkerRecords(
            topology=worker["topology"],
            supervisor=worker["supervisor"],
            port=worker["second"],
            start_ms=worker["first"],
            records=worker["records"],
            missing=worker["highest_seq"] - worker["lowest_seq"] + 1 - worker["records"],
        )
        for worker in workers.to_pylist()
    ]
