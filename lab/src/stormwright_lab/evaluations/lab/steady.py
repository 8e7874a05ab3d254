"""Measurement of throughput and latency in steady state."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, Protocol

from stormwright.errors import ClusterError
from stormwright.formats import problem_to_dict
from stormwright.model import LoadProfile, Problem, WorkerSlot
from stormwright.model.link_speed import link_bits_per_s
from stormwright.model.topology import PLACEMENT_FOLLOWING
from stormwright.model.topology_config import UNAWARE_SHUFFLE
from stormwright.perflog.records import LogRecord
from stormwright.predict.calibration.windows import WARM_S, WINDOW_S
from stormwright.storm.local_cluster import RunningCluster
from stormwright.storm.local_cluster.plan import of_nodes
from stormwright.workbench.demo.measure import compiler_share, measure
from stormwright.workbench.demo.node_use import NodeMeter, NodeUse, fullest
from stormwright_lab.evaluations.cell_store import CellOutcome
from stormwright_lab.evaluations.cells import Cell
from stormwright_lab.evaluations.definitions import Block
from stormwright_lab.evaluations.lab.phases import ARRIVE_S, SETTLE_S, RunningLab, ids_of, prepare
from stormwright_lab.evaluations.placing import CellPlacement, named

if TYPE_CHECKING:
    import pyarrow as pa

#: Windows of warm workers from which costs are fitted; one of them may have begun too early.
_COST_WINDOWS = 3


def facts_of(records: Iterable[LogRecord], spin: float = 0.0, following: bool = True) -> pa.Table:
    """Return records as the facts described in `stormwright.pipeline.measurement.panes`.

    Parameters
    ----------
    records
        Records of any topologies.
    spin
        CPU of idle threads as a fraction of their idle time: it is no load.
    following
        Whether shuffled tuples follow the placement: Storm's default.
    """
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for record in records:
        worker, length = record["worker"], record["length_ns"]
        labels = {"topology": worker["topology"], "supervisor": worker["supervisor"]}
        for each in record["executors"]:
            executor = {name: each[name] for name in ("component", "received", "execute_ns")}
            executor["cpu_ns"] = max(each["cpu_ns"] - round(spin * idle_ns(each, length)), 0)
            # Records in old results lack fields that were added since.
            if each.get("waited_ns") is not None:
                executor |= {"waited_ns": each["waited_ns"], "waited_known_ns": length}
            if each.get("runs") is not None:
                executor |= {"runs": each["runs"], "runs_known_ns": length}
            if each.get("pending") is not None:
                executor |= {"pending_ns": each["pending"] * length, "pending_known_ns": length}
            place = {"first": each["first_task"], "second": each["last_task"], "length_ns": length}
            rows.append({"kind": "executor", **labels, **place, **executor})
        for source, target, stream, tuples, size in record["pairs"]:
            _, name, component, grouping = record["streams"][stream]
            follows = following and grouping in PLACEMENT_FOLLOWING
            sent = {"first": source, "second": None if follows else target, "tuples": tuples, "bytes": size}
            stated = {"component": component, "stream": name, "grouping": grouping, "sampled": tuples if size else 0}
            rows.append({"kind": "flow" if follows else "pair", **labels, **sent, **stated})
    names = (
        *("length_ns", "cpu_ns", "received", "execute_ns", "first", "second", "tuples", "bytes", "sampled"),
        *("waited_ns", "waited_known_ns", "runs", "runs_known_ns", "pending_ns", "pending_known_ns"),
    )
    texts = ("kind", "topology", "supervisor", "component", "stream", "grouping")
    schema = pa.schema([*((name, pa.string()) for name in texts), *((name, pa.int64()) for name in names)])
    return pa.Table.from_pylist(rows, schema=schema)


def idle_ns(executor: Mapping[str, Any], length_ns: int) -> int:
    """Return how long an executor's thread was idle."""
    idle: int = max(length_ns - executor["cpu_ns"] - (executor["waited_ns"] or 0), 0)
    return idle


def _nodes_only(records: Sequence[LogRecord], core_hz: float) -> LoadProfile:
    """Return the CPU of nodes, their quotas and overhead as workers report them, without loads of topologies."""
    cpu_ns, covered_ns = Counter[WorkerSlot](), Counter[WorkerSlot]()
    group_ns, group_known_ns, millicores = Counter[str](), Counter[str](), dict[str, int]()
    for record in records:
        worker = WorkerSlot(record["worker"]["supervisor"], record["worker"]["port"])
        cpu_ns[worker] += record["process_cpu_ns"]
        covered_ns[worker] += record["length_ns"]
        node = record.get("node") or {}
        if node.get("used_ns") is not None and node.get("millicores") is not None:
            # Every worker of a node reports the same group.
            group_ns[worker.supervisor] += node["used_ns"]
            group_known_ns[worker.supervisor] += record["length_ns"]
            millicores[worker.supervisor] = node["millicores"]
    workers_hz: dict[str, float] = {}
    for worker, used_ns in cpu_ns.items():
        workers_hz[worker.supervisor] = workers_hz.get(worker.supervisor, 0.0) + used_ns / covered_ns[worker] * core_hz
    group_hz = {node: used_ns / group_known_ns[node] * core_hz for node, used_ns in group_ns.items()}
    return LoadProfile(
        {},
        node_cpu_hz=workers_hz | group_hz,
        node_quota_hz={node: cores / 1000 * core_hz for node, cores in millicores.items()},
        node_overhead_hz={node: max(hz - workers_hz[node], 0.0) for node, hz in group_hz.items()},
    )


def with_load(
    problem: Problem,
    records: Sequence[LogRecord],
    cores: float | tuple[float, ...],
    link: str | tuple[str, ...],
    following: bool,
) -> Problem:
    """Return a problem with the load and fitted costs from records, and nodes limited to `cores`.

    Parameters
    ----------
    problem
        Problem with the running placement.
    records
        Records of a period with warm workers.
    cores, link
        Limits of nodes during the records, of all or of each in the order of their hosts.
    following
        Streams that follow the placement, as for `facts_of`.
    """
    from stormwright.pipeline.measurement.load_profile import topology_load
    from stormwright.pipeline.settings import StreamSettings
    from stormwright.predict.calibration.calibration import calibrated, learn
    from stormwright.predict.calibration.document import costs_to_dict
    from stormwright.predict.calibration.evidence import Evidence
    from stormwright.predict.calibration.windows import Windows

    core_hz = problem.core_hz
    count = len(problem.supervisors)
    order = sorted(range(count), key=lambda number: problem.supervisors[number].host)
    limits = dict(zip(order, zip(of_nodes(cores, count), of_nodes(link, count), strict=True), strict=True))
    nodes = tuple(
        replace(node, cpu_hz=limits[n][0] * core_hz, link_bps=link_bits_per_s(limits[n][1]))
        for n, node in enumerate(problem.supervisors)
    )
    loads = {}
    for topology in problem.topologies:
        own = (record for record in records if record["worker"]["topology"] == topology.id)
        facts = facts_of(own, following=following)
        loads[topology.id] = topology_load(topology, facts, StreamSettings(), core_hz)
    windows, known = Windows(), Evidence()
    windows.add(records)
    learned = learn(known, windows.closed(all_of_them=True))
    costs = costs_to_dict(calibrated(known)) if learned else {}
    load = replace(_nodes_only(records, core_hz), topologies=loads, end_ms=1, costs=costs)
    return replace(problem, supervisors=nodes).with_load(load)


class MeteredLab(RunningLab, Protocol):
    """A lab on a real cluster, the use of whose nodes is measured."""

    @property
    def cluster(self) -> RunningCluster: ...

    def cores_in(self, block: Block) -> float | tuple[float, ...]:
        """Return the cores of each node while a block is measured."""
        ...


def measure_steady(lab: MeteredLab, cell: Cell, placement: CellPlacement | None, rate_tps: float) -> CellOutcome:
    """Run a cell's topologies, warm them up, and measure each figure in several stretches.

    Parameters
    ----------
    lab
        Lab with a running cluster.
    cell
        Start to measure: its block, variant, repeat and measuring times.
    placement
        Placement of all executors; None for that of Storm's own scheduler.
    rate_tps
        Trees/s; if 0 the first variant measures the block's share of the highest rate.

    Raises
    ------
    ClusterError
        Workers did not report, or nothing went through.
    """
    with lab.running(cell, placement) as problem:
        rate_tps = prepare(lab, problem, cell, rate_tps)
        time.sleep(SETTLE_S)
        figures, use, (start_ms, end_ms) = stretches(lab, problem, cell)
        if cell.is_first and not cell.repeat:
            end_ms = warm_for_costs(lab, problem)
        records = [r for r in lab.records(ids_of(problem)) if start_ms <= r["start_ms"] <= end_ms]
        cores = lab.cores_in(cell.block)
        document = None
        if cell.is_first:
            following = not cell.block.conf.get(UNAWARE_SHUFFLE)
            document = problem_to_dict(with_load(problem, records, cores, cell.block.link, following))
        details = {"fullest": str(fullest(use)), "compilers": compiler_share(records), "cores": cores}
        return CellOutcome(figures, details, named(problem, problem.current_slot), document, rate_tps, records)


def warm_for_costs(lab: MeteredLab, problem: Problem) -> float:
    """Return once every worker has run long enough for costs to be fitted: the time, in ms since 1970."""
    youngest_ms = max(record["worker"]["start_ms"] for record in lab.records(ids_of(problem)))
    time.sleep(max(youngest_ms / 1000 + WARM_S + _COST_WINDOWS * WINDOW_S - time.time(), 0.0))
    return time.time() * 1000


def stretches(
    lab: MeteredLab, problem: Problem, cell: Cell
) -> tuple[dict[str, list[float]], Mapping[str, NodeUse], tuple[float, float]]:
    """Return figures by stretch, the use of nodes over all stretches, and their period in ms since 1970."""
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
    slots = {slot for assignment in problem.current.values() for slot in assignment.slots}
    hosts = {node.host for node in problem.supervisors if node.id in {slot.supervisor for slot in slots}}
    figures |= {"nodes": float(len(hosts)), "workers": float(len(slots))}
    shares = [100 * share for use in used.values() if (share := use.cpu_share) is not None]
    if shares:
        busiest = sorted(shares, reverse=True)[: len(hosts)]
        figures |= {"cpu_percent": fmean(shares), "cpu_sd_percent": pstdev(shares), "used_cpu_percent": fmean(busiest)}
    return figures
