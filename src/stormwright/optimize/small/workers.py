"""Whole workers to other nodes, as long as one of them lowers the cost: what steps of executors cannot do."""

from __future__ import annotations

from stormwright.jit.compiled import compiled, inner
from stormwright.optimize.small.dense import NOTHING, Dense, add_up, between, overload_by, shift_worker
from stormwright.optimize.small.ruled import broken_by_worker


@compiled
def settle_workers(dense: Dense) -> None:
    """Move the worker for which it pays most to the node where it does, until none does; overload never rises.

    One look takes O(N E²), for N nodes and E executors: every worker on every node that has a port for it.
    """
    while True:
        least, worker, to = -NOTHING * dense.state[0].mean, -1, -1
        for candidate in dense.free_workers:
            cpu, memory = 0.0, 0.0
            for executor in range(len(dense.worker)):
                if dense.worker[executor] == candidate:
                    cpu, memory = cpu + dense.cpu[executor], memory + dense.memory[executor]
            for node in range(len(dense.ports)):
                if node == dense.node[candidate] or dense.used[node] >= dense.ports[node]:
                    continue
                over = overload_by(dense, dense.node[candidate], node, cpu, memory)
                if over + broken_by_worker(dense, candidate, node) > NOTHING:
                    continue
                rise = _rise(dense, candidate, node)
                if rise < least:
                    least, worker, to = rise, candidate, node
        if worker < 0:
            return
        shift_worker(dense, worker, to)
        add_up(dense)


@inner
def _rise(dense: Dense, worker: int, to: int) -> float:
    """By how much the cost rises if a worker goes to a node."""
    rise = 0.0
    for executor in range(len(dense.worker)):
        if dense.worker[executor] != worker:
            continue
        for other in range(len(dense.worker)):
            beside = dense.worker[other]
            if dense.tps[executor, other] > 0 and beside != worker:
                apart = between(dense, to, dense.node[beside]) - dense.far[worker, beside]
                rise += dense.tps[executor, other] * apart
    return rise
