"""What goes through while nothing happens."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev
from typing import Any

from stormwright.errors import ClusterError
from stormwright.evaluations.cells import Cell
from stormwright.evaluations.definitions import ALIKE
from stormwright.evaluations.kept import CellFound
from stormwright.evaluations.lab.cluster import ClusterLab
from stormwright.evaluations.lab.facts import with_load
from stormwright.evaluations.lab.phases import ARRIVE_S, SETTLE_S, begin, ids_of
from stormwright.evaluations.placing import CellPlacement, named
from stormwright.formats import problem_to_dict
from stormwright.model import Problem
from stormwright.workbench.demo.measure import NodeMeter, NodeUse, compiler_share, fullest, measure


def measure_steady(lab: ClusterLab, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellFound:
    """Run a cell's topologies, warm them up, and measure each figure in several stretches.

    Parameters
    ----------
    lab
        Whose cluster is up.
    cell
        What is measured.
    placement
        Where everything goes; None for where Storm's own scheduler puts it.
    rate_tps
        Trees/s of the first variant; it finds out what the block's share of the highest is.

    Raises
    ------
    ClusterError
        Workers did not report, or nothing went through.
    """
    with lab.running(cell, placement) as problem:
        rate_tps = begin(lab, problem, cell, rate_tps)
        time.sleep(SETTLE_S)
        figures, use, span = stretches(lab, problem, cell)
        records = [r for r in lab.records(ids_of(problem)) if span[0] <= r["start_ms"] <= span[1]]
        cores = lab.cores_in(cell.block)
        shown = None
        if cell.is_first:
            following = not cell.block.conf.get(ALIKE)
            shown = problem_to_dict(with_load(problem, records, cores, cell.block.link, following))
        told = {"fullest": str(fullest(use)), "compilers": compiler_share(records), "cores": cores}
        return CellFound(figures, told, named(problem, problem.current_slot), shown, rate_tps)


def stretches(
    lab: ClusterLab, problem: Problem, cell: Cell
) -> tuple[dict[str, list[float]], Mapping[str, NodeUse], tuple[float, float]]:
    """Figures by stretch, what nodes used in all of them, and from when to when they were, in ms since 1970."""
    bounds, uses, whole = [time.time() * 1000], [], NodeMeter(lab.cluster)
    for _ in range(cell.times.samples):
        meter = NodeMeter(lab.cluster)
        time.sleep(cell.times.sample_s)
        uses.append(meter.use())
        bounds.append(time.time() * 1000)
    use = whole.use()
    time.sleep(ARRIVE_S)
    records = lab.records(ids_of(problem))
    found: dict[str, list[float]] = {}
    for start_ms, end_ms, used in zip(bounds[:-1], bounds[1:], uses, strict=True):
        for name, value in _figures(records, problem, (start_ms, end_ms), used).items():
            found.setdefault(name, []).append(value)
    if not sum(found["acked_tps"]):
        raise ClusterError(f"{cell.name}: no tuple tree was completed")
    return found, use, (bounds[0], bounds[-1])


def _figures(
    records: Sequence[Mapping[str, Any]], problem: Problem, span: tuple[float, float], used: Mapping[str, NodeUse]
) -> dict[str, float]:
    runs = [measure(records, topology, *span) for topology in ids_of(problem)]
    acked, crossing = sum(run.acked_tps for run in runs), sum(run.inter_node_tps for run in runs)
    latencies = [(run.mean_latency_ms, run.acked_tps) for run in runs if run.mean_latency_ms is not None]
    figures = {"acked_tps": acked, "inter_node_tps": crossing}
    if acked:
        figures["inter_node_per_acked"] = crossing / acked
    if weight := sum(tps for _, tps in latencies):
        figures["latency_ms"] = sum(ms * tps for ms, tps in latencies) / weight
    slots = {slot for of in problem.current.values() for slot in of.slots}
    hosts = {node.host for node in problem.supervisors if node.id in {slot.supervisor for slot in slots}}
    figures |= {"nodes": float(len(hosts)), "workers": float(len(slots))}
    shares = [100 * share for use in used.values() if (share := use.cpu_share) is not None]
    if shares:
        busiest = sorted(shares, reverse=True)[: len(hosts)]
        figures |= {"cpu_percent": fmean(shares), "cpu_sd_percent": pstdev(shares), "used_cpu_percent": fmean(busiest)}
    return figures
