"""Changes of a running topology's configuration on a real Storm cluster: pause, losses, mixtures, and the way back.

    python -m benchmarks.storm.reconfigure [--changes 20] [--cores 0.4] [--kinds conf,executors,workers,place]

A word count gets another configuration, alone or with other executors, another number of workers or another placement,
and its former one back, in turn. A page shows how long no tuple tree completed, how many were lost, whether any worker
worked under another configuration than another one of its topology, and whether the former one came back.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kit.results import show_progress, write_results
from benchmarks.storm.moves import await_standbys, next_nodes
from stormwright.controller.propose import propose
from stormwright.controller.requests import Place, PlanInputs
from stormwright.model import Problem, TopologyAssignment
from stormwright.perflog.records import LogRecord
from stormwright.plans.plan import Plan, TopologyMove
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster
from stormwright.workbench.demo.measure import longest_silence_s
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import finish, snapshot_of, submit
from stormwright.workbench.demo.submissions import parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller/configuration.py",
    "src/stormwright/controller/move.py",
    "src/stormwright/controller/reconfigure.py",
    "java/src/main/java/stormwright/access/ConfDigest.java",
    "java/src/main/java/stormwright/standby",
)

TOPOLOGY = "word-count:name=tuned,workers=2"

#: Values that differ from those that the topology is submitted with.
CONF = {
    "topology.max.spout.pending": 150,
    "topology.executor.receive.buffer.size": 16_384,
    "topology.bolt.wait.progressive.level2.count": 0,
}
EXECUTORS = {"split": 3, "count": 3}

#: Seconds for which it runs before the first change, and from one change to the next.
WARM_S, GAP_S = 60.0, 25.0

log = logging.getLogger("storm_reconfigure")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=20, help="of each kind; every second one is the way back")
    parser.add_argument("--cores", type=float, default=0.4, help="of each node; 0: nodes share those of the machine")
    parser.add_argument("--kinds", default="conf,executors,workers,place")
    options = parser.parse_args()
    show_progress()
    config = demo_cluster(slots=4, cores_per_node=options.cores or None, start_timeout_s=400)
    demo = DemoSettings(config, parse_submissions([TOPOLOGY]), make_scheduler("even"), "even")
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="stormwright-reconfigure-") as state, LocalCluster(config) as cluster:
        settings = ServiceSettings(
            Path(state), cluster.service_host, cluster.service_port, keep_records=True, limits=LIMITS, mode="auto"
        )
        with Service(settings, demo.scheduler, "even", cluster.gateway_command()) as service:
            topology = submit(demo, cluster, service)["tuned"]
            time.sleep(WARM_S)
            for kind in options.kinds.split(","):
                made: Made | None = None
                for number in range(options.changes):
                    next_s = time.monotonic() + GAP_S
                    await_standbys(cluster, config.standbys)
                    each, made = change(service, topology, kind, made)
                    found.setdefault(kind, []).append(each)
                    log.info("%s %d: %s", kind, number + 1, each)
                    time.sleep(max(0.0, next_s - time.monotonic()))
            finish(service, [topology])
            records = service.tally.records()
            totals, lost = service.tally.totals(topology), service.tally.unaccounted(topology)
    for each in (each for of in found.values() for each in of):
        begin_ms = each["started_ms"]
        each["silence_s"] = longest_silence_s(records, topology, begin_ms - 5000, begin_ms + 1000 * (GAP_S - 1))
        each["starts_s"] = starts(records, topology, begin_ms, begin_ms + 1000 * (GAP_S + each["pause_s"]))
    failed = {
        record["start_ms"]: count
        for record in records
        if record["worker"]["topology"] == topology
        and (count := sum(executor["failed"] for executor in record["executors"]))
    }
    report(options, found, mixtures(records, topology), (totals.begun, totals.failed, lost), failed)


def starts(records: Sequence[LogRecord], topology: str, begin_ms: float, end_ms: float) -> dict[str, list[float]]:
    """Return when workers in each slot started between two moments, in seconds since the first."""
    found: dict[str, set[float]] = {}
    for record in records:
        worker = record["worker"]
        if worker["topology"] == topology and begin_ms <= worker["start_ms"] < end_ms:
            slot = f"{worker['host']}:{worker['port']}"
            found.setdefault(slot, set()).add(round((worker["start_ms"] - begin_ms) / 1000, 1))
    return {slot: sorted(of) for slot, of in sorted(found.items())}


#: A move, and the configuration before it.
Made = tuple[TopologyMove, dict[str, Any]]


def change(service: Service, topology: str, kind: str, made: Made | None) -> tuple[dict[str, Any], Made | None]:
    """Change the topology, or undo the change that was made; return the report, and what is to be undone next."""
    problem = snapshot_of(service)
    if made:
        move, before = made
        request = Place({topology: move.before}, {topology: move.executors_before}, {topology: move.conf_before})
    else:
        request = wanted(problem, topology, kind)
        before = dict(problem.topologies[problem.topology_index[topology]].conf)
    plan = propose(problem, request, PlanInputs(repair_scheduler=make_scheduler("even"), predicts=False))
    if not isinstance(plan, Plan):
        raise SystemExit(f"{kind}: {plan.reason}")
    (move,) = plan.moves
    (report,) = service.execute(plan.model_copy(update={"reason": "benchmark"}))
    now = dict(snapshot_of(service).topologies[0].conf)
    keys = ("pause_s", "drain_s", "swap_s", "resume_s", "started_ms", "complete")
    as_wanted = same(now, before) if made else all(now.get(key) == value for key, value in move.conf.items())
    found = {**{key: getattr(report, key) for key in keys}, "back": made is not None, "as_wanted": as_wanted}
    return found, None if made else (move, before)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two configurations are equal to the byte; a key without a value is none."""
    texts = (json.dumps({k: v for k, v in of.items() if v is not None}, sort_keys=True) for of in (one, other))
    return next(texts) == next(texts)


def wanted(problem: Problem, topology: str, kind: str) -> Place:
    """The change of a kind; the configuration changes in each."""
    conf = {topology: CONF}
    if kind == "conf":
        return Place({}, conf=conf)
    if kind == "executors":
        return Place({}, {topology: EXECUTORS}, conf)
    now = problem.current[topology]
    if kind == "place":
        nodes = next_nodes(problem, topology)
        taken = {slot for placed in problem.current.values() for slot in placed.slots}
        free = (slot for slot in problem.slots if slot.supervisor == nodes[1] and slot not in taken)
        return Place({topology: TopologyAssignment((now.slots[1], next(free)), now.slot_of_executor)}, conf=conf)
    third = next(slot for slot in problem.slots if slot.supervisor not in {each.supervisor for each in now.slots})
    of = tuple(number % 3 for number in range(len(now.slot_of_executor)))
    return Place({topology: TopologyAssignment((*now.slots, third), of)}, conf=conf)


def mixtures(records: Sequence[LogRecord], topology: str) -> int:
    """How often a worker worked under another configuration than another one had changed to before.

    Records in which tuples were executed, in order of time: each change is one from one configuration to another.
    """
    own = [each for each in records if each["worker"]["topology"] == topology]
    worked = [each for each in own if any(executor["received"] for executor in each["executors"])]
    worked.sort(key=lambda each: each["start_ms"])
    spans: list[tuple[str, float]] = []
    count = 0
    for each in worked:
        configuration, end_ms = each["worker"].get("configuration") or "", each["start_ms"] + each["length_ns"] / 1e6
        if spans and spans[-1][0] != configuration:
            count += each["start_ms"] < spans[-1][1] - 1000  # clocks of records are in whole milliseconds
        if not spans or spans[-1][0] != configuration:
            spans.append((configuration, end_ms))
        else:
            spans[-1] = configuration, max(end_ms, spans[-1][1])
    return count


def report(
    options: argparse.Namespace,
    found: dict[str, list[dict[str, Any]]],
    mixed: int,
    trees: tuple[int, int, int],
    failed: dict[int, int],
) -> None:
    """Write the page; `failed` is the number of trees that failed by the begin of a record, in ms since 1970."""
    begun, failed, lost = trees
    every = [each for of in found.values() for each in of]
    rows = [
        (f"tuple trees failed; lost, of {begun:,}", "–; 0", f"{failed}; {abs(lost)}"),
        ("workers that worked under a mixture of configurations", "0", f"{mixed}"),
    ]
    for kind, of in found.items():
        silence = [each["silence_s"] for each in of]
        text = f"median {median(silence):.1f} s, worst {max(silence):.1f} s"
        rows.append((f"{kind}, {len(of)} changes: longest time without an acked tuple", "median ≤ 6 s", text))
    ways = [each for each in every if each["back"]]
    text = f"{sum(each['as_wanted'] for each in ways)} of {len(ways)}"
    rows.append(("former configuration back to the byte", f"{len(ways)} of {len(ways)}", text))
    good = sum(each["complete"] and each["as_wanted"] for each in every)
    rows.append(("changes complete and as wanted", "all", f"{good} of {len(every)}"))
    title = f"Changes of configuration on a real cluster, {options.cores:g} cores a node"
    write_results("storm-reconfigure", title, rows, {"changes": found, "failed": failed, "options": vars(options)})


if __name__ == "__main__":
    main()
