"""Figures over cells: errors, choices, and how far two measurements of the same are apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from benchmarks.cells.compare import Cell
from benchmarks.cells.measured import Measured

#: Of what there is of a node or link, uses below are no figure to compare by parts.
_LITTLE = 0.02

#: How often rates are drawn anew for what chance alone leaves, and from which numbers.
_DRAWS, _SEED = 100, 1


def spread(values: Iterable[float]) -> str:
    """Median, 95th percentile and worst."""
    found = np.array(list(values))
    if not len(found):
        return "none"
    return f"median {np.median(found):.1%}, p95 {np.percentile(found, 95):.1%}, worst {found.max():.1%}"


def of_cells(cells: Sequence[Cell]) -> dict[str, str]:
    """What is asked of predictions."""
    latencies = [abs(c.latency_error) for c in cells if c.latency_error is not None]
    known = [error for error in latencies if np.isfinite(error)]
    cores = np.concatenate([c.node_cores for c in cells])
    links = np.concatenate([c.link_tps for c in cells])
    regrets, taus = _choices(cells)
    named = [c for c in cells if c.measured_limits]
    right = sum(c.predicted_limit in c.measured_limits for c in named)
    return {
        "throughput error": spread(abs(c.rate_error) for c in cells),
        "throughput q-error": f"median {np.median([c.q_error for c in cells]):.2f}",
        "mean latency error at the limited rate": f"{spread(known)}; {len(latencies) - len(known)} of {len(latencies)} "
        "predicted not to be sustained",
        "CPU per node": spread(_parts(cores, _LITTLE)),
        "tuples per link": spread(_parts(links, 1.0)),
        "bottleneck right": f"{right} of {len(named)}; in {len(cells) - len(named)} more nothing was full",
        "regret": f"{spread(regrets)}, {len(regrets)} choices",
        "Kendall tau": f"median {np.median(taus):.2f}, lowest {min(taus):.2f}" if taus else "none",
    }


def _parts(pairs: np.ndarray, least: float) -> np.ndarray:
    """Errors in parts of what was measured, where that is something."""
    some = pairs[pairs[:, 1] > least]
    return np.abs(some[:, 0] / some[:, 1] - 1)


def _choices(cells: Sequence[Cell]) -> tuple[list[float], list[float]]:
    """Regret and Kendall's tau of every topology, limit and source with at least three placements."""
    groups: dict[Any, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.topology, cell.source, cell.limit].append(cell)
    regrets, taus = [], []
    for group in groups.values():
        if len(group) >= 3:
            predicted, measured = ([getattr(c, name) for c in group] for name in ("predicted_tps", "measured_tps"))
            regrets.append(1 - measured[int(np.argmax(predicted))] / max(measured))
            taus.append(float(kendalltau(predicted, measured).statistic))
    return regrets, taus


def noise(starts: Sequence[Measured]) -> dict[str, str]:
    """How far two starts of the same are apart: of each pair, in parts of the second."""
    rates, by_speed, latencies, count = _repeated(starts)
    return {
        "throughput of two starts of the same": f"{spread(_off(rates))} ({count} starts)",
        "the same at the same speed of the machine": spread(_off(by_speed)),
        "mean latency of two starts of the same": spread(_off(latencies)),
    }


def chance(told: Sequence[Cell], starts: Sequence[Measured]) -> dict[str, str]:
    """How far predictions of cells that know all but chance would be off, by how far two starts of the same are apart.

    What differs between source and target by chance differs as much between two starts. For choices each rate counts as
    the true one, and is measured again with a normal error in its logarithm.
    """
    _, by_speed, latencies, _ = _repeated(starts)
    rate_errors = np.log([cell.predicted_tps / cell.measured_tps for cell in told])
    off = [cell.latency_error for cell in told if cell.latency_error is not None]
    latency_errors = np.log1p([error for error in off if np.isfinite(error)])
    parts = (
        np.mean(np.log(repeated) ** 2) / np.mean(errors**2)
        for repeated, errors in ((by_speed, rate_errors), (latencies, latency_errors))
    )
    deviation = float(np.sqrt(np.mean(np.log(by_speed) ** 2) / 2))
    drawn = np.random.default_rng(_SEED).normal(0.0, deviation, (_DRAWS, len(told)))
    again = [
        _choices(
            [
                replace(cell, predicted_tps=cell.measured_tps, measured_tps=tps)
                for cell, tps in zip(told, of, strict=True)
            ]
        )
        for of in (np.array([cell.measured_tps for cell in told]) * np.exp(drawn)).tolist()
    ]
    regrets, taus = (np.array(each) for each in zip(*again, strict=True))
    throughput, latency = (f"{part:.0%}" for part in parts)
    late, worst = np.percentile(regrets, 95, axis=1).mean(), regrets.max(axis=1).mean()
    return {
        "of squared errors of throughput (in logarithms), what two starts of the same differ by": throughput,
        "of those of mean latency": latency,
        "regret that chance alone leaves": f"p95 {late:.1%}, worst {worst:.1%}",
        "Kendall tau that chance alone leaves": f"median {np.median(taus, axis=1).mean():.2f}, "
        f"lowest {taus.min(axis=1).mean():.2f}",
    }


def _off(ratios: Sequence[float]) -> list[float]:
    return [abs(ratio - 1) for ratio in ratios]


def _repeated(starts: Sequence[Measured]) -> tuple[list[float], list[float], list[float], int]:
    """Rates of pairs of starts of the same, by each other; at the same speed; mean latencies; and how many starts."""
    groups: dict[Any, list[Measured]] = defaultdict(list)
    for start in starts:
        groups[start.start.topology, start.start.placement].append(start)
    rates, by_speed, latencies, count = [], [], [], 0
    for group in (group for group in groups.values() if len(group) > 1):
        count += len(group)
        for one, other in combinations(group, 2):
            for limit in one.start.limits:
                first, second = one.at(limit), other.at(limit)
                rates.append(first.acked_tps / second.acked_tps)
                by_speed.append(rates[-1] * first.loop_ms / second.loop_ms)
                both = one.at(limit, limited=True).latency_ms, other.at(limit, limited=True).latency_ms
                if both[0] and both[1]:
                    latencies.append(both[0][0] / both[1][0])
    return rates, by_speed, latencies, count
