"""Problems small enough to try every placement."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from stormwright.model import Assignment, Problem
from stormwright.testing import oracles
from tests.schedulers.builders import load, nodes, problem, topology


def tiny(seed: int, cpu_ghz: tuple[float, float] = (1.5, 4.0)) -> Problem:
    """Up to six executors in two workers on two nodes of `cpu_ghz`, from and to; some are too small for them."""
    rng = np.random.default_rng(seed)
    executors = int(rng.integers(3, 7))
    pairs = [(i, j, int(rng.integers(1, 100))) for i in range(executors) for j in range(i) if rng.random() < 0.6]
    measured = load(executors, pairs, cpu_ghz=rng.uniform(0.2, 1.0, executors), memory_mb=100.0)
    return problem(nodes(*rng.uniform(*cpu_ghz, 2), ports=2), (topology("t", executors, 2), measured))


def valid_placements(of: Problem) -> Iterator[tuple[int, ...]]:
    """All of them."""
    every = itertools.product(range(len(of.slots)), repeat=of.num_executors)
    return (slots for slots in every if oracles.is_valid(of, slots))


@cache
def worked_out(seed: int) -> tuple[Problem, tuple[tuple[int, ...], ...]]:
    """A tiny problem and its valid placements: several tests look for the best of them, each for another reason."""
    of = tiny(seed)
    return of, tuple(valid_placements(of))


def least(of: Problem, objective: Callable[[Problem, Sequence[int]], float]) -> float | None:
    """The least objective of any valid placement, by trying them all."""
    return min((objective(of, slots) for slots in valid_placements(of)), default=None)


def part_optimal(
    schedule: Callable[[Problem], Assignment], objective: Callable[[Problem, Sequence[int]], float], within: float = 0.0
) -> float:
    """The part of tiny problems in which `schedule` reaches the optimum, or comes that near to it.

    On the way: it claims no less than the optimum, and leaves executors out where no placement is valid.
    """
    reached = []
    for of, every in map(worked_out, range(30)):
        optimum = min((objective(of, slots) for slots in every), default=None)
        answer = schedule(of)
        if optimum is None:
            assert answer.unplaced
            continue
        found = objective(of, answer.slot_of_executor.tolist())
        assert found >= optimum - 1e-9
        reached.append(found <= optimum * (1 + within) + 1e-9)
    assert len(reached) >= 20
    return float(np.mean(reached))


def busy_parts(of: Problem, slots: Sequence[int], hop_cycles: float, passed_on: str) -> dict[str, float]:
    """Busy part of every node's CPU, by loops; tuples between workers, or between nodes, are passed on."""
    where = [of.slots[slot] for slot in slots]
    load_hz = {node.id: 0.0 for node in of.supervisors}
    for slot, cpu_hz in zip(where, of.executor_cpu_hz.tolist(), strict=True):
        load_hz[slot.supervisor] += cpu_hz
    for (source, target), tps in oracles.traffic(of, [-1] * of.num_executors).items():
        a, b = where[source], where[target]
        if (a != b) if passed_on == "workers" else (a.supervisor != b.supervisor):
            load_hz[a.supervisor] += hop_cycles * tps
            load_hz[b.supervisor] += hop_cycles * tps
    return {node.id: load_hz[node.id] / node.cpu_hz for node in of.supervisors}
