"""Records as a load: what a service would know of topologies that ran for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stormwright.link_speed import link_bits_per_s
from stormwright.model import LoadProfile, Problem, WorkerSlot
from stormwright.model.topology import PLACEMENT_FOLLOWING
from stormwright.perflog.records import LogRecord

if TYPE_CHECKING:
    import pyarrow as pa


def facts_of(records: Iterable[LogRecord], spin: float = 0.0, following: bool = True) -> pa.Table:
    """Records as the facts that loads are made of, as `stormwright.pipeline.measurement.panes` describes them.

    Parameters
    ----------
    records
        Of any topologies.
    spin
        CPU of idle threads in parts of the time for which they are idle: it is no load.
    following
        Whether shuffled tuples follow the placement, as they do unless a topology's configuration says otherwise.
    """
    import pyarrow as pa

    rows: list[dict[str, Any]] = []
    for record in records:
        worker, length = record["worker"], record["length_ns"]
        of = {"topology": worker["topology"], "supervisor": worker["supervisor"]}
        for each in record["executors"]:
            executor = {name: each[name] for name in ("component", "received", "execute_ns")}
            executor["cpu_ns"] = max(each["cpu_ns"] - round(spin * idle_ns(each, length)), 0)
            place = {"first": each["first_task"], "second": each["last_task"], "length_ns": length}
            rows.append({"kind": "executor", **of, **place, **executor})
        for source, target, stream, tuples, size in record["pairs"]:
            _, name, component, grouping = record["streams"][stream]
            follows = following and grouping in PLACEMENT_FOLLOWING
            sent = {"first": source, "second": None if follows else target, "tuples": tuples, "bytes": size}
            stated = {"component": component, "stream": name, "grouping": grouping, "sampled": tuples if size else 0}
            rows.append({"kind": "flow" if follows else "pair", **of, **sent, **stated})
    names = ("length_ns", "cpu_ns", "received", "execute_ns", "first", "second", "tuples", "bytes", "sampled")
    texts = ("kind", "topology", "supervisor", "component", "stream", "grouping")
    schema = pa.schema([*((name, pa.string()) for name in texts), *((name, pa.int64()) for name in names)])
    return pa.Table.from_pylist(rows, schema=schema)


def idle_ns(executor: Mapping[str, Any], length_ns: int) -> int:
    """For how long an executor's thread wanted no CPU."""
    idle: int = max(length_ns - executor["cpu_ns"] - (executor["waited_ns"] or 0), 0)
    return idle


def _worker_hz(records: Sequence[LogRecord], core_hz: float) -> dict[str, float]:
    """Supervisor id → CPU in Hz that its workers took, as they measure it."""
    cpu_ns, covered_ns = Counter[WorkerSlot](), Counter[WorkerSlot]()
    for record in records:
        worker = WorkerSlot(record["worker"]["supervisor"], record["worker"]["port"])
        cpu_ns[worker] += record["process_cpu_ns"]
        covered_ns[worker] += record["length_ns"]
    hz: dict[str, float] = {}
    for worker, used_ns in cpu_ns.items():
        hz[worker.supervisor] = hz.get(worker.supervisor, 0.0) + used_ns / covered_ns[worker] * core_hz
    return hz


def with_load(problem: Problem, records: Sequence[LogRecord], cores: float, link: str, following: bool) -> Problem:
    """A problem with the load that its topologies' records tell, costs fitted to them, and nodes of so many cores.

    Parameters
    ----------
    problem
        As it runs.
    records
        Of a while in which all was warm.
    cores, link
        What each node was held to then.
    following
        See `facts_of`.
    """
    from stormwright.pipeline.measurement.load_profile import topology_load
    from stormwright.pipeline.settings import StreamSettings
    from stormwright.predict.calibration.calibration import calibrated, learn
    from stormwright.predict.calibration.document import costs_to_dict
    from stormwright.predict.calibration.evidence import Evidence
    from stormwright.predict.calibration.windows import Windows

    core_hz = problem.core_hz
    nodes = tuple(replace(node, cpu_hz=cores * core_hz, link_bps=link_bits_per_s(link)) for node in problem.supervisors)
    loads = {}
    for topology in problem.topologies:
        own = (record for record in records if record["worker"]["topology"] == topology.id)
        facts = facts_of(own, following=following)
        loads[topology.id] = topology_load(topology, facts, StreamSettings(), core_hz)
    windows, known = Windows(), Evidence()
    windows.add(records)
    learned = learn(known, windows.closed(all_of_them=True))
    costs = costs_to_dict(calibrated(known)) if learned else {}
    load = LoadProfile(loads, _worker_hz(records, core_hz), end_ms=1, costs=costs)
    return replace(problem, supervisors=nodes).with_load(load)
