"""Runs starts on a local cluster and keeps, of each stretch that is measured, all records and readings."""

from __future__ import annotations

import gzip
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells.chosen import CONF, LIMITED, NODES, SLOTS, Limit, Placement, Start
from benchmarks.cells.machine import PlanQueries, between
from benchmarks.cells.speed import loop_ms, watched
from stormwright.errors import StormwrightError
from stormwright.formats import problem_to_dict
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.schedulers import make_scheduler
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.measure import measure
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.topologies import parse_submissions

log = logging.getLogger("cells")

#: JVMs compile little and at once: under a quota the second compiler would take minutes.
WORKER = "-XX:+UseSerialGC -XX:-UsePerfData -XX:TieredStopAtLevel=1 -Xmx384m"

#: What nodes have while workers start and become warm: nothing is measured then.
WIDE = Limit(0.62, "200mbit")

#: Of the machine where it has too little, against all that else runs on it.
WEIGHT = 100

#: Seconds: all workers report at the latest; then until they are warm; and until each stretch is.
REPORT_S, WARM_S, SETTLE_S = 90.0, 11.0, 2.0
#: What goes through with all trees pending varies from second to second.
MEASURE_S, MEASURE_LIMITED_S = 14.0, 8.0


class Watch:
    """Answers Nimbus as a start says, and keeps what probes deliver."""

    def __init__(self, cluster: RunningCluster, placement: Placement) -> None:
        self.placement = placement
        self.records: list[dict[str, Any]] = []
        make_scheduler("even")  # imported before Nimbus waits for it
        self.bridge = Bridge(self, "cells")
        self.http = HttpServer(
            make_app(self.bridge, BodyRecipient(self._take), dict), cluster.service_host, cluster.service_port
        )

    def schedule(self, problem: Problem) -> Assignment:
        """Everything stays where it is; what is nowhere goes where the placement says."""
        slots = problem.current_slot.copy()
        for number, topology in enumerate(problem.topologies):
            own = problem.executors_of(number)
            if np.all(slots[own] == UNPLACED):
                alone = replace(problem, topologies=(topology,), current={}, load=None)
                slots[own] = _free_slots(problem, slots, self.placement.rule(alone))
        return Assignment(slots.astype(np.int32))

    def _take(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self.records += [r for r in parse_lines(body.split(b"\n")) if not isinstance(r, RejectedLine)]

    def of(self, topology: str) -> list[dict[str, Any]]:
        """Records of one topology."""
        return [record for record in list(self.records) if record["worker"]["topology"] == topology]


def _free_slots(problem: Problem, taken: IntArray, wanted: IntArray) -> IntArray:
    """The slots that are wanted, or others of the same nodes where a topology that just ends still has them."""
    free = np.setdiff1d(np.arange(len(problem.slots)), taken)
    result = np.empty_like(wanted)
    for slot in np.unique(wanted):
        on_node = free[problem.slot_node[free] == problem.slot_node[slot]]
        result[wanted == slot] = slot if slot in on_node else on_node[-1]
        free = np.setdiff1d(free, result)
    return result


def run(starts: Mapping[Start, Placement], directory: Path) -> None:
    """Run starts whose file is not there yet; one that fails is tried once more on a cluster of its own."""
    directory.mkdir(parents=True, exist_ok=True)
    left = [start for start in starts if not file_of(directory, start).exists()]
    failed: set[Start] = set()
    while left:
        config = demo_cluster(
            nodes=NODES,
            slots=SLOTS,
            link=WIDE.link,
            cores_per_node=WIDE.cores,
            storm_conf={"worker.childopts": WORKER, "nimbus.monitor.freq.secs": 2},
        )
        with LocalCluster(config) as cluster, cluster.gateway() as nimbus:
            watch = Watch(cluster, starts[left[0]])
            with watch.http, watched(_speed(cluster)):
                while left:
                    log.info("%s, %d more", left[0].name, len(left) - 1)
                    watch.placement = starts[left[0]]
                    try:
                        found = _run_start(left[0], cluster, watch, nimbus)
                    except StormwrightError as error:
                        log.warning("%s: %s", left[0].name, error)
                        if left[0] in failed:
                            left.pop(0)
                        else:
                            failed.add(left[0])
                        break
                    _keep(found, file_of(directory, left.pop(0)))


def _speed(cluster: RunningCluster) -> Path:
    return cluster.plan.work / "speed"


def file_of(directory: Path, start: Start) -> Path:
    """Where a start is kept."""
    return directory / f"{start.name}.json.gz"


def _keep(found: dict[str, Any], file: Path) -> None:
    unfinished = file.with_suffix(".part")
    unfinished.write_bytes(gzip.compress(json.dumps(found).encode(), 6))
    unfinished.replace(file)


def _run_start(start: Start, cluster: RunningCluster, watch: Watch, nimbus: NimbusGateway) -> dict[str, Any]:
    """Submit, warm up, measure under all limits at two rates each, kill."""
    begun = time.monotonic()
    watch.records.clear()
    rate = cluster.plan.work / "rate"
    rate.write_text("0", encoding="ascii")
    cluster.limit_nodes(WIDE.cores, WIDE.link, WEIGHT)
    name = f"{start.topology}-{start.placement}-{time.time_ns() // 10**6}"
    submission = parse_submissions([start.submission])[0]
    args = {"name": name, **submission.args, "workers": str(watch.placement.workers)}
    conf = {
        "stormwright.probe.service.url": cluster.service_url,
        "stormwright.probe.interval.ms": 1000,
        "stormwright.rate.file": str(rate),
        **CONF,
    }
    cluster.run_topology(submission.main_class, [f"{key}={value}" for key, value in args.items()], conf)
    try:
        topology, problem = _reporting(watch, name)
        time.sleep(WARM_S)
        stretches = []
        for limit in start.limits:
            cluster.limit_nodes(limit.cores, limit.link, WEIGHT)
            for part in (None,) if start.only else (None, LIMITED):
                asked = 0.0 if part is None else part * stretches[-1]["measured"]["acked_tps"]
                rate.write_text(f"{asked:.6g}", encoding="ascii")
                stretches.append(_stretch(topology, limit, asked, cluster, watch))
    finally:
        nimbus.kill(name, 0)
        cluster.limit_nodes(WIDE.cores, WIDE.link, WEIGHT)
    time.sleep(1.5)
    log.info("%s took %.0f s", start.name, time.monotonic() - begun)
    return {"start": asdict(start), "topology": topology, "problem": problem_to_dict(problem), "stretches": stretches}


def _stretch(topology: str, limit: Limit, asked_tps: float, cluster: RunningCluster, watch: Watch) -> dict[str, Any]:
    """Measure for a while under one limit at one rate."""
    time.sleep(SETTLE_S)
    first = PlanQueries.of(cluster).as_dict()
    time.sleep(MEASURE_LIMITED_S if asked_tps else MEASURE_S)
    last = PlanQueries.of(cluster).as_dict()
    time.sleep(0.3)  # what was written by now arrives
    records = [r for r in watch.of(topology) if first["at_ms"] <= r["start_ms"] <= last["at_ms"]]
    heard = {(record["worker"]["supervisor"], record["worker"]["port"]) for record in records}
    if len(heard) < watch.placement.workers:
        raise StormwrightError(f"{topology}: only {len(heard)} of {watch.placement.workers} workers reported")
    found = measure(records, topology, first["at_ms"], last["at_ms"])
    machine = between(first, last, limit.cores)
    if not found.acked_tps:
        raise StormwrightError(f"{topology}: no tree was completed")
    log.info(
        "  %s, %s trees/s: %.0f trees/s, %s ms, cores %s of others %.2f idle %.2f%s",
        *(limit, f"{asked_tps:.0f}" if asked_tps else "all", found.acked_tps),
        f"{found.mean_latency_ms:.1f}" if found.mean_latency_ms else "?",
        " ".join(f"{node['cores']:.2f}" for node in machine["nodes"].values()),
        *(machine["other_cores"], machine["idle_cores"], ", disturbed" if machine["disturbed"] else ""),
    )
    return {
        "limit": asdict(limit),
        "asked_tps": asked_tps,
        "first": first,
        "last": last,
        "load_average": os.getloadavg()[0],
        "loop_ms": loop_ms(_speed(cluster), first["at_ms"], last["at_ms"]),
        "measured": found.as_dict(),
        "machine": machine,
        "records": records,
    }


def _reporting(watch: Watch, name: str) -> tuple[str, Problem]:
    """The id of a topology and the problem that shows it placed, once all its workers have told twice."""
    deadline = time.monotonic() + REPORT_S
    while time.monotonic() < deadline:
        snapshot = watch.bridge.snapshot()
        topology = next((t for t in snapshot.topologies if t.name == name), None) if snapshot else None
        if snapshot and topology is not None:
            told = {(r["worker"]["supervisor"], r["worker"]["port"]) for r in watch.of(topology.id) if r["seq"] > 0}
            if len(told) == watch.placement.workers:
                current = {topology.id: snapshot.current[topology.id]}
                return topology.id, _as_placed(replace(snapshot, topologies=(topology,), current=current), watch)
        time.sleep(0.2)
    raise StormwrightError(f"{name}: not all workers reported within {REPORT_S:g} s")


def _as_placed(problem: Problem, watch: Watch) -> Problem:
    """The problem, if the topology runs where it should: Nimbus does not wait for a late answer for long."""
    wanted = watch.placement.rule(replace(problem, current={}, load=None))
    nodes = problem.slot_node[problem.current_slot], problem.slot_node[wanted]
    if not np.array_equal(*nodes):
        raise StormwrightError("Nimbus has placed it differently")
    return problem
