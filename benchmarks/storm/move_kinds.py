"""Moves of each kind on a real Storm cluster: numbers lost, state, replays beside those predicted, and the pause.

python -m benchmarks.storm.move_kinds [--kind drain|checkpoint|window|batch] [--moves 20] [--page]

One of the two workers of a *ledger* (numbered tuples from a source that repeats them, and an oracle) moves to the other
of two nodes, again and again. The kind of the move and the replays are what the service predicts. Each kind is a cell
of ``docs/results/storm-move-kinds``; the page is made from all cells.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.kit.results import DIRECTORY, show_progress, stamp, write_results
from stormwright.chaos.finishing import finish_ledgers
from stormwright.chaos.invariants import Invariant, violations_of_ledger
from stormwright.chaos.lab import until
from stormwright.chaos.ledger import Ledger, ViolationKind, read_ledger
from stormwright.chaos.ledger_files import LedgerKind
from stormwright.chaos.ledger_workload import LedgerWorkload
from stormwright.controller.planning.plan import MoveBudget, MovePlan
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.plans.draft import measured_rates
from stormwright.controller.policy import Decision
from stormwright.controller.safety.move_kinds import MoveSafety, restarted_shares
from stormwright.errors import ClusterError
from stormwright.model import Assignment, Problem
from stormwright.modes import KindRule, MoveKind
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.measure import longest_silence_s
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.steps import snapshot_of

CELLS = DIRECTORY / "storm-move-kinds"
NAME = "ledger"

#: Seconds until all workers report, and until the load is measured; seconds between moves, in which all trees that were
#: pending time out, and before the first one.
UP_S, GAP_S, WARM_S = 180.0, 60.0, 40.0
CONF = {"topology.message.timeout.secs": 20, "stormwright.probe.interval.ms": 500}

#: Tolerance of predicted replays.
TOLERANCE = 0.2

log = logging.getLogger("storm_move_kinds")


@dataclass(frozen=True)
class KindCase:
    """A workload, and the kind of move that the service is to recognize.

    Parameters
    ----------
    ledger
        Processing of the ledger.
    expected
        Kind of the move.
    text
        For the page.
    options
        Arguments of the topology.
    """

    ledger: LedgerKind
    expected: MoveKind
    text: str
    options: Mapping[str, object] = field(default_factory=dict)


CASES = {
    "drain": KindCase(LedgerKind.DRAIN, "drain", "bolts that ack"),
    "checkpoint": KindCase(LedgerKind.CHECKPOINT, "checkpoint", "stateful bolts"),
    "window": KindCase(
        LedgerKind.WINDOW, "window", "windows of 200 tuples, replayed", {"window": 200, "slide": 50, "unit": "tuples"}
    ),
    "batch": KindCase(LedgerKind.BATCH, "batch", "Trident"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=CASES, default="drain")
    parser.add_argument("--moves", type=int, default=20)
    parser.add_argument("--rate", type=float, default=100.0, help="numbers/s of all spouts")
    parser.add_argument("--gap", type=float, default=GAP_S, help="seconds between moves")
    parser.add_argument("--page", action="store_true", help="only make the page from the cells that are there")
    options = parser.parse_args()
    show_progress()
    if not options.page:
        cell = run(options)
        CELLS.mkdir(parents=True, exist_ok=True)
        (CELLS / f"{options.kind}.json").write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")
    write_page()


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run one kind: a cluster of its own, and all moves on it."""
    case = CASES[options.kind]
    config = demo_cluster(nodes=2, slots=3, storm_conf={"executor.metrics.frequency.secs": 3})
    with tempfile.TemporaryDirectory(prefix="stormwright-kinds-") as directory, LocalCluster(config) as cluster:
        workload = LedgerWorkload(Path(directory) / NAME, case.ledger, NAME, options.rate, 2, case.options)
        # Windows that are replayed are forbidden unless a person allows them.
        rules = {"kinds": {NAME: KindRule(forbid=("never",))}}
        serving = ServiceSettings(
            Path(directory) / "state",
            cluster.service_host,
            cluster.service_port,
            keep_records=True,
            limits=LIMITS,
            mode="auto",
            modes=rules,
        )
        with Service(serving, make_scheduler("even"), "even", cluster.gateway_command()) as service:
            topology = submit(workload, cluster, service)
            time.sleep(WARM_S)
            moves: list[dict[str, Any]] = []
            for number in range(options.moves):
                moves.append(move(service, workload, topology, case, options.gap))
                log.info("move %d: %s", number + 1, moves[-1])
            ((ledger, found),) = finish_ledgers(service.nimbus, [workload])
            records = service.tally.records()
    for each in moves:
        start, end = each["started_ms"], each["started_ms"] + 1000 * (each["took_s"] + options.gap)
        each["silence_s"] = round(longest_silence_s(records, topology, start - 5000, end), 2)
    return {
        **stamp(),
        "cell": {"kind": options.kind, "rate_tps": options.rate, "text": case.text},
        "numbers": ledger.emitted,
        "acked": ledger.acked,
        "replays": ledger.replays,
        "lost": sum(each.count for each in found if each.kind in (ViolationKind.LOST, ViolationKind.UNFINISHED)),
        "state_equal": not any(each.invariant is Invariant.STATE for each in violations_of_ledger(found)),
        "violations": [str(each) for each in found],
        "moves": moves,
    }


def submit(workload: LedgerWorkload, cluster: RunningCluster, service: Service) -> str:
    """Submit the ledger, and return the id of its topology once its load is measured."""
    workload.directory.mkdir(parents=True)
    workload.submit(cluster, {**CONF, "stormwright.probe.service.url": cluster.service_url})
    found: list[str] = []

    def measured() -> bool:
        problem = service.decider.observe()
        known = [each.id for each in problem.topologies if each.name == workload.name] if problem else []
        if problem and known and known[0] in measured_rates(problem):
            found.extend(known)
        return bool(found)

    if not until(measured, UP_S, 1.0):
        raise ClusterError(f"{workload.name}: not measured within {UP_S:g} s")
    return found[0]


def move(service: Service, workload: LedgerWorkload, topology: str, case: KindCase, gap_s: float) -> dict[str, Any]:
    """Move a worker, wait until what is replayed has been, and return figures of the move."""
    before = read_ledger(workload.directory)
    plan, safety = planned(service, topology)
    if safety.kind != case.expected:
        raise ClusterError(f"{topology}: recognized as {safety.kind} instead of {case.expected}: {safety.reason}")
    began = time.monotonic()
    (report,) = service.execute(Decision(True, "benchmark", plan))
    took_s = time.monotonic() - began
    time.sleep(gap_s)
    after = read_ledger(workload.directory)
    return {
        "kind": safety.kind,
        "reason": safety.reason,
        "started_ms": report.started_ms,
        "drain_s": report.drain_s,
        "swap_s": report.swap_s,
        "resume_s": report.resume_s,
        "took_s": took_s,
        "complete": report.complete,
        "pending": report.replayed,
        "predicted": safety.replayed,
        "replays": after.replays - before.replays,
        "lost": lost(after),
    }


def lost(ledger: Ledger) -> int:
    """Return the numbers of a running ledger that were acked and are nowhere."""
    return sum(each.count for each in ledger.violations() if each.kind is ViolationKind.LOST)


def planned(service: Service, topology: str) -> tuple[MovePlan, MoveSafety]:
    """Return the plan that moves a worker to the other node, and how the service will move it."""
    snapshot_of(service)
    problem = service.problem()
    if problem is None:
        raise ClusterError("Nimbus has not requested a placement yet")
    # The first minutes of JVMs take more than the CPU of the nodes that they are moved to.
    nodes = tuple(replace(node, cpu_hz=1e3 * node.cpu_hz) for node in problem.supervisors)
    plan = plan_moves(replace(problem, supervisors=nodes), one_worker_moved(problem, topology), MoveBudget())
    (moved,) = plan.moves
    rate_tps = measured_rates(problem).get(topology)
    return plan, service.plan_service.safety_of(moved.topology, rate_tps, restarted_shares([moved]))


def one_worker_moved(problem: Problem, topology: str) -> Assignment:
    """Return the current placement with the first worker of a topology on the other node."""
    current = problem.current[topology]
    own = problem.executors_of(problem.topology_index[topology])
    source = current.slots[0]
    free = [
        index
        for slot, index in problem.slot_index.items()
        if slot.supervisor != source.supervisor and slot not in current.slots
    ]
    wanted = problem.current_slot.copy()
    wanted[own] = np.where(wanted[own] == problem.slot_index[source], free[0], wanted[own])
    return Assignment(wanted)


def write_page() -> None:
    """Write the page of all cells."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CELLS.glob("*.json"))}
    rows = []
    for kind in (name for name in CASES if name in found):
        cell, moves = found[kind], found[kind]["moves"]
        name = f"{kind} ({cell['cell']['text']}), {len(moves)} moves"
        predicted, replays = (sum(each[key] or 0 for each in moves) for key in ("predicted", "replays"))
        rows.append((f"{name}: numbers lost, of {cell['numbers']:,}", "0", f"{cell['lost']:,}"))
        rows.append((f"{name}: state equal to the oracle's", "yes", "yes" if cell["state_equal"] else "no"))
        rows.append((f"{name}: numbers replayed", f"{predicted:,} predicted, ± {TOLERANCE:.0%}", f"{replays:,}"))
        rows.append((f"{name}: pause", "", spread([each["drain_s"] + each["swap_s"] for each in moves])))
        rows.append((f"{name}: longest time without an acked tuple", "", spread([each["silence_s"] for each in moves])))
    title = "Moves of each kind on a real cluster: nothing lost, and replays as predicted"
    write_results("storm-move-kinds", title, rows, {"cells": list(found.values())})


def spread(values: Sequence[float]) -> str:
    """Return median and worst."""
    return f"median {median(values):.1f} s, worst {max(values):.1f} s"


if __name__ == "__main__":
    main()
