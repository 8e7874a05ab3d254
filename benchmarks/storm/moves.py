"""Moves on a real Storm cluster: how long a topology completes no tuple, and when it has its rate again.

python -m benchmarks.storm.moves [--cores 0.4] [--kind one|three] [--standbys 1] [--compilers both|first] [--moves 20]

Kind ``one`` moves one of the two workers of a word count to a node without one, again and again. Kind ``three`` moves a
word count of three workers on three nodes into one worker, on a node that it shares with a busy worker of another
topology, and back, in turn; only the former is in the figures. Each combination of options is a cell of
``docs/results/storm-moves``; the page is made from all cells.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.kit.results import DIRECTORY, show_progress, stamp, write_results
from stormwright.controller.planning.expected_pauses import expected_pause, modelled_pause_s
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.model import Assignment, Problem
from stormwright.perflog.records import LogRecord, worker_id
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.jvm import FULL, LIGHT, WORKER_ARCHIVE
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.measure import longest_silence_s
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import finish, snapshot_of, submit
from stormwright.workbench.demo.topologies import parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller/draining.py",
    "src/stormwright/controller/move.py",
    "src/stormwright/controller/planning",
    "java/src/main/java/stormwright/standby",
    "java/src/main/java/stormwright/bridge",
)

#: Seconds from one move to the next; after the last one until the topology is warm; and of the rates whose median is
#: the warm one: where nodes have a quota, the rate of a minute differs from another's by a third without any move.
GAP_S, WARM_S, REFERENCE_S = 60.0, 300.0, 180.0
#: Seconds over which a rate is taken.
RATE_S = 5.0
BUSY = "word-count:name=busy,workers=1,spouts=1,split=1,count=1,rate=100"
TOPOLOGIES = {"one": ["word-count:name=moved,workers=2"], "three": ["word-count:name=moved,workers=3", BUSY]}
COMPILERS = {"both": FULL, "first": LIGHT}

log = logging.getLogger("storm_moves")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cores", type=float, default=0.4, help="of each node; 0: nodes share the cores of the machine"
    )
    parser.add_argument("--kind", choices=TOPOLOGIES, default="one")
    parser.add_argument("--standbys", type=int, default=1, help="of each node")
    parser.add_argument("--compilers", choices=COMPILERS, default="both")
    parser.add_argument(
        "--interval",
        type=int,
        default=DemoSettings.probe_interval_ms,
        help="of the probes' records in ms; users have 1000",
    )
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--gap", type=float, default=GAP_S, help="seconds between moves")
    parser.add_argument("--warm", type=float, default=WARM_S, help="seconds after the last move")
    parser.add_argument("--page", action="store_true", help="only make the page from the cells that are there")
    options = parser.parse_args()
    show_progress()
    if not options.page:
        cell = run(options)
        cells = DIRECTORY / "storm-moves"
        cells.mkdir(parents=True, exist_ok=True)
        name = f"{options.kind}-{options.cores:g}-cores-{options.compilers}-{options.standbys}-standbys"
        name += ".json" if options.interval == DemoSettings.probe_interval_ms else f"-{options.interval}-ms.json"
        (cells / name).write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")
    write_page()


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run one cell: a cluster of its own, and all moves on it."""
    archive = [f"-XX:SharedArchiveFile={WORKER_ARCHIVE}", "-Xlog:disable"]
    conf = {"worker.childopts": [*COMPILERS[options.compilers], *archive, "-Xmx%HEAP-MEM%m"]}
    config = demo_cluster(slots=4, cores_per_node=options.cores or None, standbys=options.standbys, storm_conf=conf)
    settings = DemoSettings(
        config,
        parse_submissions(TOPOLOGIES[options.kind]),
        make_scheduler("even"),
        "even",
        0,
        0,
        probe_interval_ms=options.interval,
    )
    with tempfile.TemporaryDirectory(prefix="stormwright-moves-") as state, LocalCluster(config) as cluster:
        serving = ServiceSettings(
            Path(state), cluster.service_host, cluster.service_port, keep_records=True, limits=LIMITS, mode="auto"
        )
        with Service(serving, settings.scheduler, "even", cluster.gateway_command()) as service:
            ids = submit(settings, cluster, service)
            moved = ids["moved"]
            moves: list[dict[str, Any]] = []
            if options.kind == "three":
                busy = snapshot_of(service).current[ids["busy"]].slots[0].supervisor
            for number in range(options.moves if options.kind == "one" else 2 * options.moves):
                next_s = time.monotonic() + options.gap
                await_standbys(cluster, options.standbys)
                time.sleep(max(0.0, next_s - time.monotonic()))
                problem = snapshot_of(service)
                nodes = next_nodes(problem, moved) if options.kind == "one" else ([busy] if number % 2 == 0 else None)
                moves.append(move(service, problem, moved, place(problem, moved, nodes), moves))
                log.info("move %d: %s", number + 1, moves[-1])
            time.sleep(options.warm + REFERENCE_S)
            end_ms = time.time() * 1000
            finish(service, list(ids))
            records = service.tally.records()
            lost = {name: service.tally.unaccounted(topology) for name, topology in ids.items()}
            failed = {name: service.tally.totals(topology).failed for name, topology in ids.items()}
    rates = measure(moves, records, moved, end_ms)
    return {
        **stamp(),
        "cell": {name: getattr(options, name) for name in ("cores", "kind", "standbys", "compilers", "interval")},
        "lost": lost,
        "failed": failed,
        "rates": rates,
        "moves": moves if options.kind == "one" else moves[0::2],
        "back": [] if options.kind == "one" else moves[1::2],
    }


def await_standbys(cluster: RunningCluster, count: int, timeout_s: float = 180.0) -> None:
    """Return when every node has its standbys, or after the timeout."""
    deadline = time.monotonic() + timeout_s
    homes = [cluster.plan.daemon_dir(node.name) / "standby" / "jvms" for node in cluster.plan.nodes]
    while any(len(list(home.glob("*/ready"))) < count for home in homes) and time.monotonic() < deadline:
        time.sleep(1.0)


def next_nodes(problem: Problem, moved: str) -> list[str]:
    """Return the nodes of the workers of a topology after the first of them has gone to a node without one."""
    slots = problem.current[moved].slots
    free = next(node.id for node in problem.supervisors if node.id not in {slot.supervisor for slot in slots})
    return [slots[1].supervisor, free]


def place(problem: Problem, moved: str, nodes: Sequence[str] | None) -> Assignment:
    """Return the current placement with the executors of a topology in one slot of each node; None for all nodes."""
    current = problem.current[moved]
    own = problem.executors_of(problem.topology_index[moved])
    others = {slot for name, placed in problem.current.items() if name != moved for slot in placed.slots}
    wanted = problem.current_slot.copy()
    worker = np.array(current.slot_of_executor)
    if nodes is None:
        nodes = [node.id for node in problem.supervisors]
        worker = np.arange(len(worker)) % len(nodes)
    elif len(nodes) == 1:
        worker = np.zeros(len(worker), dtype=int)
    else:  # the first worker of the current placement is the one that moves
        worker = (worker + 1) % 2
    chosen = []
    for node in nodes:
        kept = [slot for slot in current.slots if slot.supervisor == node]
        free = [slot for slot in problem.slot_index if slot.supervisor == node and slot not in others]
        chosen.append(problem.slot_index[kept[0] if kept and len(nodes) == 2 else free[-1]])
    wanted[own] = np.array(chosen, dtype=np.int32)[worker]
    return Assignment(wanted)


def move(
    service: Service, problem: Problem, moved: str, wanted: Assignment, before: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Move a topology and return the report, with the pause that plans expected after the moves `before`."""
    # At full speed a topology uses more than the CPU of the nodes that it is moved to.
    nodes = tuple(replace(node, cpu_hz=1e3 * node.cpu_hz) for node in problem.supervisors)
    order = plan_moves(replace(problem, supervisors=nodes), wanted, MoveBudget())
    own = problem.executors_of(problem.topology_index[moved])
    workers = {moved: len(set(wanted.slot_of_executor[own].tolist()))}
    order = replace(order, steps=tuple(step.with_workers(workers) for step in order.steps))
    modelled_s = sum(map(modelled_pause_s, order.steps))
    past = [each["pause_s"] / each["modelled_s"] for each in reversed(before)]
    expected = expected_pause(modelled_s, past, past)
    (report,) = service.execute(plan_of(problem, order).model_copy(update={"reason": "benchmark"}))
    return {
        "modelled_s": modelled_s,
        "expected_s": expected.seconds.value,
        "pause_s": report.pause_s,
        "started_ms": report.started_ms,
        "drain_s": report.drain_s,
        "swap_s": report.swap_s,
        "resume_s": report.resume_s,
        "complete": report.complete,
    }


def measure(
    moves: Sequence[dict[str, Any]], records: Sequence[LogRecord], moved: str, end_ms: float
) -> dict[str, float | list[int]]:
    """Add to each move the longest time without a completed tuple tree, and the time until 90 % of the rate.

    Returns the rates of the whole run.
    """
    ends = [each["started_ms"] for each in moves[1:]] + [end_ms]
    own = [record for record in records if worker_id(record).topology == moved]
    reached = np.array([record["start_ms"] + record["length_ns"] / 1e6 for record in own])
    acked = np.array([sum(each["acked"] for each in r["executors"] if each["type"] == "spout") for r in own])
    order = np.argsort(reached)
    times, total = reached[order], np.concatenate([[0], np.cumsum(acked[order])])

    def rate(begin_ms: float, end_ms: float) -> float:
        low, high = np.searchsorted(times, [begin_ms, end_ms])
        return float(total[high] - total[low]) / (end_ms - begin_ms) * 1000

    rates = [rate(at, at + RATE_S * 1000) for at in np.arange(moves[0]["started_ms"] - 60_000, end_ms, RATE_S * 1000)]
    warm = median(rates[-int(REFERENCE_S / RATE_S) - 1 : -1])
    for each, until in zip(moves, ends, strict=True):
        start = each["started_ms"]
        each["silence_s"] = round(longest_silence_s(records, moved, start - 5000, min(until, start + 70_000)), 2)
        each["rate_before_hz"] = round(rate(start - 20_000, start), 1)
        up = start + 1000 * (each["drain_s"] + each["swap_s"])
        steps = np.arange(up, until - RATE_S * 1000, 500)
        ready = [(step + RATE_S * 1000 - up) / 1000 for step in steps if rate(step, step + RATE_S * 1000) >= 0.9 * warm]
        each["until_90_percent_s"] = round(ready[0], 1) if ready else None
    begin_ms = moves[0]["started_ms"] - 60_000
    return {"warm_hz": round(warm, 1), "from_ms": begin_ms, "hz": [round(each) for each in rates]}


def write_page() -> None:
    """Write the page of all cells."""
    cells = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted((DIRECTORY / "storm-moves").glob("*.json"))
    ]
    rows = []
    for found in cells:
        cell = found["cell"]
        name = f"{'one worker' if cell['kind'] == 'one' else 'three workers into one'}, {cores_text(cell['cores'])}, "
        name += f"{'both compilers' if cell['compilers'] == 'both' else 'first compiler'}, "
        name += f"{cell['standbys'] or 'no'} standby, {len(found['moves'])} moves"
        if cell.get("interval", DemoSettings.probe_interval_ms) != DemoSettings.probe_interval_ms:
            name += f", records every {cell['interval']:,} ms"
        silence = [each["silence_s"] for each in found["moves"]]
        warm = [each["until_90_percent_s"] or math.inf for each in found["moves"]]
        rows.append((f"{name}: longest time without an acked tuple", asked(cell), spread(silence)))
        errors = [abs(each["expected_s"] / each["silence_s"] - 1) for each in found["moves"]]
        worst = max(
            max(each["expected_s"] / each["silence_s"], each["silence_s"] / each["expected_s"])
            for each in found["moves"]
        )
        text = f"{100 * median(errors):.0f} %; {worst:.1f} ×"
        rows.append((f"{name}: error of the expected pause, median; worst", "25 %; 2 ×", text))
        if cell["kind"] == "one":  # three workers and the one that they become have rates of their own
            rows.append((f"{name}: until 90 % of the warm rate", "40 s" if cell["cores"] else "15 s", spread(warm)))
        rows.append(
            (f"{name}: lost; failed", "0; 0", f"{sum(found['lost'].values())}; {sum(found['failed'].values())}")
        )
    write_results("storm-moves", "Moves on a real cluster: the pause, and the rate after it", rows, {"cells": cells})


def asked(cell: Mapping[str, Any]) -> str:
    """Return the figure of the issue for a cell."""
    if not cell["standbys"]:
        return ""
    if cell["kind"] == "three":
        return "median 8 s, worst 15 s" if cell["cores"] else ""
    return "median 5 s, worst 9 s" if cell["cores"] else "median 3.5 s, worst 6 s"


def cores_text(cores: float) -> str:
    """Return the CPU of nodes as text."""
    return f"{cores:g} cores a node" if cores else "shared cores"


def spread(values: Sequence[float]) -> str:
    """Return median and worst of times; those that ended too late to be known are infinite."""
    late = sum(value == math.inf for value in values)
    worst = f"{late} of {len(values)} not before the next move" if late else f"worst {max(values):.1f} s"
    return f"median {median(values):.1f} s, {worst}"


if __name__ == "__main__":
    main()
