"""Moves of each kind on a real Storm cluster: numbers lost, state, replays beside those predicted, and the pause.

python -m benchmarks.storm.move_kinds [--kind all|drain,checkpoint,window,batch,kafka] [--moves 20] [--page]

One of the two workers of a *ledger* (numbered tuples from a source that repeats them, and an oracle) moves to the other
of two nodes, again and again. The ledgers of all kinds run on one cluster, and move in turn. The kind of the move and
the replays are what the service predicts. The source of the kind ``kafka`` is Storm's own spout with a real broker,
which is fetched from Maven Central when it is first needed. Each kind is a cell of ``docs/results/storm-move-kinds``;
the page is made from all cells. The exit code is 1 if the oracle has found any violation, such as a number that is
lost, or if a kind was not moved to the end.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from stormwright_lab.chaos.finishing import finish_ledgers
from stormwright_lab.chaos.invariants import Invariant, violations_of_ledger
from stormwright_lab.chaos.lab import until
from stormwright_lab.chaos.ledger import Ledger, LedgerViolation, ViolationKind, read_ledger
from stormwright_lab.chaos.ledger_files import LedgerKind
from stormwright_lab.chaos.ledger_workload import LedgerWorkload

from benchmarks.kit.results import DIRECTORY, show_progress, stamp, write_results
from benchmarks.storm.kafka_ledger import KafkaSource
from benchmarks.storm.moves import await_standbys
from stormwright.controller.objectives.placements import measured_rates
from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.safety.move_kinds import MoveSafety, restarted_shares
from stormwright.errors import ClusterError, StormwrightError
from stormwright.model import Assignment, Problem
from stormwright.perflog.records import LogRecord, worker_id
from stormwright.plans.modes import KindRule, MoveKind
from stormwright.plans.plan import Plan
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.measure import longest_silence_s
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.steps import snapshot_of

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller/draining.py",
    "src/stormwright/controller/move.py",
    "src/stormwright/controller/planning",
    "java/src/main/java/stormwright/standby",
    "java/src/main/java/stormwright/bridge",
    "src/stormwright/controller/safety/move_kinds.py",
    "src/stormwright/controller/safety/move_permissions.py",
    "src/stormwright/plans/modes.py",
)

CELLS = DIRECTORY / "storm-move-kinds"
NAME = "ledger"

#: Seconds until all workers report, and until the load is measured; and before the first move.
UP_S, WARM_S = 300.0, 40.0

#: Seconds from the begin of a move to that of the next one; from the end of any move to the next one, in which Nimbus
#: sends a placement that contains it; and from the end of a move of a topology to its next one, in which all trees that
#: were pending time out.
EVERY_S, SETTLE_S, GAP_S = 15.0, 6.0, 60.0
CONF = {"topology.message.timeout.secs": 20, "stormwright.probe.interval.ms": 500}

#: Standbys of each node. A move needs one that is ready, and its successor is loaded during the next moves.
STANDBYS = 2

#: Memory that each node declares for each topology, MB: enough for both of its workers.
MEMORY_MB = 3000.0

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
    guarantee
        Processing guarantee that the service is to recognize; empty unless the numbers come from Kafka.
    """

    ledger: LedgerKind
    expected: MoveKind
    text: str
    options: Mapping[str, object] = field(default_factory=dict)
    guarantee: str = ""


CASES = {
    "drain": KindCase(LedgerKind.DRAIN, "drain", "bolts that ack"),
    "checkpoint": KindCase(LedgerKind.CHECKPOINT, "checkpoint", "stateful bolts"),
    "window": KindCase(
        LedgerKind.WINDOW, "window", "windows of 200 tuples, replayed", {"window": 200, "slide": 50, "unit": "tuples"}
    ),
    "batch": KindCase(LedgerKind.BATCH, "batch", "Trident"),
    "kafka": KindCase(LedgerKind.DRAIN, "drain", "KafkaSpout, and bolts that ack", guarantee="AT_LEAST_ONCE"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", type=kinds_of, default="all", help=f"all, or some of {','.join(CASES)}")
    parser.add_argument("--moves", type=int, default=20, help="of each kind")
    parser.add_argument("--rate", type=float, default=100.0, help="numbers/s of all spouts of a ledger")
    parser.add_argument("--every", type=float, default=EVERY_S, help="seconds from move to move, at least")
    parser.add_argument("--gap", type=float, default=GAP_S, help="seconds between two moves of a topology, at least")
    parser.add_argument("--page", action="store_true", help="only make the page from the cells that are there")
    options = parser.parse_args()
    show_progress()
    cells = {} if options.page else run(options)
    CELLS.mkdir(parents=True, exist_ok=True)
    for kind, cell in cells.items():
        (CELLS / f"{kind}.json").write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")
    write_page()
    faults = [f"{kind}: {each}" for kind, cell in cells.items() for each in faults_of(cell)]
    sys.exit("\n".join(faults) if faults else 0)


def kinds_of(text: str) -> list[str]:
    """Return the kinds that an option names, in the order of their turns."""
    kinds = list(CASES) if text == "all" else text.split(",")
    if unknown := sorted(set(kinds) - set(CASES)):
        raise argparse.ArgumentTypeError(f"there is no kind {', '.join(unknown)}, only all, {', '.join(CASES)}")
    return list(dict.fromkeys(kinds))


@dataclass
class MovingLedger:
    """A ledger that runs.

    Attributes
    ----------
    kind, workload
        Its kind, and the workload.
    start, stop
        Begin and end of the numbers, if its source is not a part of the topology.
    topology
        Id of its topology.
    moves
        Figures of its moves; those of the last one are complete once its topology has rested.
    before
        The ledger before the last move.
    ended_s
        Time of the end of the last move, by `time.monotonic`.
    error
        Why it is not moved any more; empty while it is.
    """

    kind: str
    workload: LedgerWorkload
    start: Callable[[], None] = lambda: None
    stop: Callable[[], None] = lambda: None
    topology: str = ""
    moves: list[dict[str, Any]] = field(default_factory=list)
    before: Ledger | None = None
    ended_s: float = float("-inf")
    error: str = ""

    def read(self) -> None:
        """Read the ledger, and complete the figures of the last move: what it has replayed was replayed until now."""
        ledger = read_ledger(self.workload.directory)
        if self.moves and self.before is not None:
            self.moves[-1] |= {"replays": ledger.replays - self.before.replays, "lost": lost(ledger)}
            log.info("%s, move %d: %s", self.kind, len(self.moves), self.moves[-1])
        self.before = ledger


def run(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Run the ledgers of some kinds on one cluster with all their moves, and return their cells."""
    kinds: list[str] = options.kind
    config = demo_cluster(
        nodes=2,
        slots=2 * len(kinds) + 1,
        standbys=STANDBYS,
        memory_mb_per_node=MEMORY_MB * len(kinds),
        storm_conf={"executor.metrics.frequency.secs": 3},
    )
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stormwright-kinds-")))
        cluster = stack.enter_context(LocalCluster(config))
        # Windows that are replayed are forbidden unless a person allows them.
        rules = {"kinds": {f"{NAME}-*": KindRule(forbid=("never",))}}
        serving = ServiceSettings(
            directory / "state",
            cluster.service_host,
            cluster.service_port,
            keep_records=True,
            limits=LIMITS,
            mode="auto",
            modes=rules,
        )
        service = stack.enter_context(Service(serving, make_scheduler("even"), "even", cluster.gateway_command()))
        ledgers = [prepare(kind, directory, cluster, options.rate, stack) for kind in kinds]
        submit(ledgers, cluster, service)
        time.sleep(WARM_S)
        make_moves(ledgers, options, cluster, service)
        for each in ledgers:
            try:
                each.stop()
            except ClusterError as error:
                each.error = each.error or str(error)
        found = finish_ledgers(service.nimbus, [each.workload for each in ledgers])
        records = service.tally.records()
    return {each.kind: cell_of(each, *outcome, records, options) for each, outcome in zip(ledgers, found, strict=True)}


def prepare(kind: str, directory: Path, cluster: RunningCluster, rate_tps: float, stack: ExitStack) -> MovingLedger:
    """Return a ledger that is not submitted yet, with its source if that is not a part of the topology."""
    case, name = CASES[kind], f"{NAME}-{kind}"
    if case.guarantee:
        source = stack.enter_context(KafkaSource(cluster, directory / name, name, rate_tps))
        return MovingLedger(kind, source.workload(), source.produce, source.stop)
    return MovingLedger(kind, LedgerWorkload(directory / name, case.ledger, name, rate_tps, 2, case.options))


def submit(ledgers: Sequence[MovingLedger], cluster: RunningCluster, service: Service) -> None:
    """Submit the ledgers, and return once the load of each topology is measured."""
    for each in ledgers:
        each.workload.directory.mkdir(parents=True, exist_ok=True)
        each.workload.submit(cluster, {**CONF, "stormwright.probe.service.url": cluster.service_url})
        each.start()

    def measured() -> bool:
        problem = service.decider.observe()
        ids = {each.name: each.id for each in problem.topologies} if problem else {}
        rates = measured_rates(problem) if problem else {}
        for each in ledgers:
            found = ids.get(each.workload.name, "")
            each.topology = found if found in rates else ""
        return all(each.topology for each in ledgers)

    if not until(measured, UP_S, 1.0):
        missing = [each.workload.name for each in ledgers if not each.topology]
        raise ClusterError(f"{', '.join(missing)}: not measured within {UP_S:g} s")


def make_moves(
    ledgers: Sequence[MovingLedger], options: argparse.Namespace, cluster: RunningCluster, service: Service
) -> None:
    """Move the topologies in turn, a worker each, and complete the figures of the last moves."""
    begun_s = ended_s = float("-inf")
    node = ""
    for _ in range(options.moves):
        for each in ledgers:
            if each.error:
                continue
            await_standbys(cluster, 1, options.gap)
            start_s = next_start_s(begun_s, ended_s, each.ended_s, options.every, options.gap)
            time.sleep(max(0.0, start_s - time.monotonic()))
            each.read()
            begun_s = time.monotonic()
            try:
                node, figures = move(service, each.topology, CASES[each.kind], node)
            except StormwrightError as error:
                log.exception("%s", each.kind)
                each.error = f"move {len(each.moves) + 1}: {error}"
            else:
                each.moves.append(figures)
            ended_s = each.ended_s = time.monotonic()
    time.sleep(options.gap)
    for each in ledgers:
        if not each.error:
            each.read()


def next_start_s(begun_s: float, ended_s: float, own_end_s: float, every_s: float, gap_s: float) -> float:
    """Return the time of the next move.

    Parameters
    ----------
    begun_s, ended_s
        Begin and end of the last move of any topology.
    own_end_s
        End of the last move of the topology that is to move.
    every_s, gap_s
        Minimum time from move to move, and of rest of a topology.
    """
    return max(begun_s + every_s, ended_s + SETTLE_S, own_end_s + gap_s)


def cell_of(
    ledger: MovingLedger,
    last: Ledger,
    found: Sequence[LedgerViolation],
    records: Sequence[LogRecord],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Return the cell of a ledger that is finished."""
    own = [record for record in records if worker_id(record).topology == ledger.topology]
    for each in ledger.moves:
        start, end = each["started_ms"], each["started_ms"] + 1000 * (each["took_s"] + options.gap)
        each["silence_s"] = round(longest_silence_s(own, ledger.topology, start - 5000, end), 2)
    return {
        **stamp(),
        "cell": {
            "kind": ledger.kind,
            "rate_tps": options.rate,
            "text": CASES[ledger.kind].text,
            "together": options.kind,
        },
        "numbers": last.emitted,
        "acked": last.acked,
        "replays": last.replays,
        "lost": sum(each.count for each in found if each.kind in (ViolationKind.LOST, ViolationKind.UNFINISHED)),
        "state_equal": not any(each.invariant is Invariant.STATE for each in violations_of_ledger(found)),
        "violations": [str(each) for each in found],
        "error": ledger.error,
        "moves": ledger.moves,
    }


def faults_of(cell: Mapping[str, Any]) -> list[str]:
    """Return the reasons why a cell is no proof that moves are safe."""
    incomplete = sum(not each["complete"] for each in cell["moves"])
    errors = [cell["error"]] if cell["error"] else []
    return [*cell["violations"], *errors, *([f"{incomplete} moves are not complete"] if incomplete else [])]


def move(service: Service, topology: str, case: KindCase, latest: str) -> tuple[str, dict[str, Any]]:
    """Move a worker, and return the node that has received it, with figures of the move.

    Parameters
    ----------
    service
        The service.
    topology
        Id of the topology.
    case
        Its case.
    latest
        The node that has received the latest worker of any topology; its standby is just being loaded.
    """
    plan, safety = planned(service, topology, latest)
    require_recognized(service, plan, safety, case)
    (moved,) = plan.moves
    began = time.monotonic()
    (report,) = service.execute(plan)
    return moved.started_workers[0].supervisor, {
        "kind": safety.kind,
        "reason": safety.reason,
        "started_ms": report.started_ms,
        "drain_s": report.drain_s,
        "swap_s": report.swap_s,
        "resume_s": report.resume_s,
        "took_s": time.monotonic() - began,
        "complete": report.complete,
        "pending": report.replayed,
        "predicted": safety.replayed,
    }


def require_recognized(service: Service, plan: Plan, safety: MoveSafety, case: KindCase) -> None:
    """Raise ClusterError unless the service recognizes the kind of the move, and the guarantee of a spout for Kafka."""
    (moved,) = plan.moves
    if safety.kind != case.expected:
        raise ClusterError(f"recognized as {safety.kind} instead of {case.expected}: {safety.reason}")
    problem = snapshot_of(service)
    components = problem.topologies[problem.topology_index[moved.topology]].components
    codes = [each.code for each in components if each.type == "spout" and each.code is not None]
    guarantees = {each.guarantee for each in codes} if case.guarantee else {""}
    if guarantees != {case.guarantee}:
        raise ClusterError(f"guarantee {case.guarantee} of its spout is not recognized: {sorted(guarantees)}")


def lost(ledger: Ledger) -> int:
    """Return the numbers of a running ledger that were acked and are nowhere."""
    return sum(each.count for each in ledger.violations() if each.kind is ViolationKind.LOST)


def planned(service: Service, topology: str, latest: str) -> tuple[Plan, MoveSafety]:
    """Return the plan that moves a worker to the other node, and how the service will move it."""
    snapshot_of(service)
    problem = service.problem()
    if problem is None:
        raise ClusterError("Nimbus has not requested a placement yet")
    # The first minutes of JVMs take more than the CPU of the nodes that they are moved to.
    nodes = tuple(replace(node, cpu_hz=1e3 * node.cpu_hz) for node in problem.supervisors)
    wanted = one_worker_moved(problem, topology, latest)
    order = plan_moves(replace(problem, supervisors=nodes), wanted, MoveBudget())
    itself = problem.topologies[problem.topology_index[topology]]
    rate_tps = measured_rates(problem).get(topology)
    safety = service.plan_service.safety_of(itself, rate_tps, restarted_shares(itself, order.moves))
    return plan_of(problem, order).model_copy(update={"reason": "benchmark"}), safety


def one_worker_moved(problem: Problem, topology: str, latest: str) -> Assignment:
    """Return the current placement with a worker of a topology on the other node.

    Of a topology with a worker on each node, the one on node `latest` moves; else the first one.
    """
    current = problem.current[topology]
    own = problem.executors_of(problem.topology_index[topology])
    source = next((slot for slot in current.slots if slot.supervisor == latest), current.slots[0])
    taken = {slot for placed in problem.current.values() for slot in placed.slots}
    free = [
        index
        for slot, index in problem.slot_index.items()
        if slot.supervisor != source.supervisor and slot not in taken
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
        rows.append((f"{name}: numbers replayed", f"{predicted:,} ± {TOLERANCE:.0%}, as predicted", f"{replays:,}"))
        rows.append((f"{name}: pause", "", spread([each["drain_s"] + each["swap_s"] for each in moves])))
        rows.append((f"{name}: longest time without an acked tuple", "", spread([each["silence_s"] for each in moves])))
    title = "Moves of each kind on a real cluster"
    write_results("storm-move-kinds", title, rows, {"cells": list(found.values())})


def spread(values: Sequence[float]) -> str:
    """Return median and worst."""
    return f"median {median(values):.1f} s, worst {max(values):.1f} s" if values else "none"


if __name__ == "__main__":
    main()
