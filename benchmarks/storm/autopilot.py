"""The autopilot on a real cluster: a day of a source in Kafka within half an hour, beside a fixed size.

    python -m benchmarks.storm.autopilot [--minutes 30] [--most 900] [--fixed]

Numbers come from a topic of Kafka by Storm's own spout, at a rate that follows a day: a curve of ×4, a spike, an outage
of whoever sends, and all that it has kept at once afterwards. Each number takes CPU, so that the peak needs all nodes.
The page shows how long the lag was within its limit, the changes, the cores of the nodes that were used, and what the
oracle of ledgers finds. With ``--fixed`` the topology keeps the size that it was submitted with, on all nodes. The
times of the autopilot (an hour of demand, half an hour between changes) are shortened as the day is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import math
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stormwright_lab.chaos.finishing import finish_ledgers
from stormwright_lab.chaos.lab import until

from benchmarks.kit.results import ROOT, show_progress, write_results
from benchmarks.storm.kafka_ledger import KafkaSource, KafkaWorkload
from stormwright.client import Client
from stormwright.controller.autopilot import AutopilotSettings
from stormwright.controller.objectives.placements import measured_rates
from stormwright.model.topology_config import SLO_LAG, WORKERS_KEY
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.steps import snapshot_of

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller/autopilot.py",
    "src/stormwright/controller/sizing.py",
    "src/stormwright/history/evaluation/moves.py",
    "src/stormwright/service/plans/autopilots.py",
    "java/src/main/java/stormwright/probe/KafkaBacklog.java",
)

DIRECTORY = ROOT / "docs" / "results" / "storm-autopilot"

NAME = "ledger-day"
NODES, CORES = 4, 0.4

#: CPU of a number in µs, and executors: as many as there may be with the fixed size, else one of each bolt.
WORK_US, EXECUTORS = 500, 4

#: Maximum lag in seconds; and seconds between looks at it.
LAG_S, LOOK_S = 60.0, 2.0

#: A day in which times of the autopilot have their defaults, in minutes.
DAY_MIN = 24 * 60

#: Seconds until the load is measured.
UP_S = 300.0

log = logging.getLogger("storm_autopilot")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="length of the day")
    parser.add_argument("--most", type=float, default=900.0, help="numbers/s of the curve at its highest")
    parser.add_argument("--fixed", action="store_true", help="without the autopilot, on all nodes")
    parser.add_argument("--report", action="store_true", help="only make the page of what is there")
    options = parser.parse_args()
    show_progress()
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    if not options.report:
        name = "fixed" if options.fixed else "autopilot"
        (DIRECTORY / f"{name}.json").write_text(json.dumps(run(options), indent=1) + "\n", encoding="utf-8")
    report(options)


def day(at: float, most_tps: float) -> float:
    """Numbers/s of those who send at a part of the day: a curve of ×4, and a spike of half as much again."""
    curve = most_tps * (0.25 + 0.75 * (1 - math.cos(2 * math.pi * at)) / 2)
    return curve * (1 + 0.5 * max(1 - abs(at - 0.75) / 0.02, 0.0))


#: Part of the day in which nothing is sent, though it is there to be sent.
OUTAGE = (0.30, 0.32)


def settings_of(minutes: float) -> AutopilotSettings:
    """The settings of a day that is so long."""
    usual, part = AutopilotSettings(), minutes / DAY_MIN
    # Less than a pause and the first windows after it would be no measurement.
    settle_s = min(usual.settle_s, 40.0)
    return AutopilotSettings(
        settle_s=settle_s,
        cool_down_s=max(usual.cool_down_s * part, 2 * settle_s),
        look_back_s=max(usual.look_back_s * part, 4 * settle_s),
        catch_up_s=max(usual.catch_up_s * part, LAG_S),
    )


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run the day, and return what was looked at."""
    config = demo_cluster(nodes=NODES, slots=3, cores_per_node=CORES, start_timeout_s=400)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stormwright-autopilot-")))
        cluster = stack.enter_context(LocalCluster(config))
        serving = ServiceSettings(
            directory / "state", cluster.service_host, cluster.service_port, keep_records=True, limits=LIMITS,
            mode="observe" if options.fixed else "auto", autopilot=settings_of(options.minutes),
        )  # fmt: skip
        service = stack.enter_context(Service(serving, make_scheduler("even"), "even", cluster.gateway_command()))
        stop = threading.Event()
        loop = threading.Thread(target=service.run, args=(stop, 0.5))
        loop.start()
        stack.callback(loop.join)
        stack.callback(stop.set)
        source = stack.enter_context(KafkaSource(cluster, directory / NAME, NAME, day(0.0, options.most)))
        workload = workload_of(source, fixed=options.fixed)
        workload.directory.mkdir(parents=True, exist_ok=True)
        conf = {
            "stormwright.probe.service.url": cluster.service_url,
            "topology.max.spout.pending": 200,
            WORKERS_KEY: "free",
        }
        workload.submit(cluster, conf if options.fixed else {**conf, SLO_LAG: LAG_S})
        source.produce()
        if not until(lambda: (now := service.decider.observe()) is not None and bool(measured_rates(now)), UP_S):
            raise SystemExit("no load was measured")
        looks = list(follow(service, source, 60 * options.minutes, options.most))
        source.stop()
        ((ledger, violations),) = finish_ledgers(service.nimbus, [workload])
        changes = [entry.reason for entry in Client(cluster.service_url, "benchmark").history(100).entries]
    return {
        "looks": looks,
        "changes": changes,
        "numbers": ledger.emitted,
        "violations": [str(each) for each in violations],
        "options": vars(options),
    }


def workload_of(source: KafkaSource, *, fixed: bool) -> KafkaWorkload:
    """The ledger, with as many tasks as executors may be."""
    usual = source.workload()
    options = {**usual.options, "work": WORK_US, "pass": EXECUTORS, "sink": 1}
    workers = NODES if fixed else 1
    return KafkaWorkload(usual.directory, usual.kind, usual.name, usual.rate_tps, workers, options)


def follow(service: Service, source: KafkaSource, seconds: float, most_tps: float) -> Iterator[dict[str, float]]:
    """Drive the source through its day, and yield rate, lag and cores now and then."""
    begin, kept, last, logged = time.monotonic(), 0.0, 0.0, 0.0
    while (at := time.monotonic() - begin) < seconds:
        wanted, step = day(at / seconds, most_tps), at - last
        last = at
        if OUTAGE[0] <= at / seconds < OUTAGE[1]:
            kept += wanted * step
            source.set_rate(0.0)
        else:
            # What was kept is sent within a few seconds, as fast as somebody can who has it.
            more = min(kept, 4 * most_tps * step)
            kept -= more
            source.set_rate(wanted + more / max(step, 1e-3))
        look = {"at_s": round(at, 1), "wanted_tps": round(wanted, 1), **looked(service, wanted)}
        if at >= logged + 30:
            logged = at
            log.info("%s", look)
        yield look
        time.sleep(LOOK_S)


def looked(service: Service, wanted_tps: float) -> dict[str, float]:
    """The backlog by the newest records, the lag at the rate that is wanted, and cores of the nodes that are used."""
    problem = snapshot_of(service)
    (topology,) = problem.topologies
    nodes = {slot.supervisor for slot in problem.current[topology.id].slots}
    newest: dict[Any, int] = {}
    for record in service.tally.records()[-400:]:
        if record.get("backlog") is not None:
            newest[record["worker"]["supervisor"], record["worker"]["port"]] = record["backlog"]
    backlog = float(sum(newest.values()))
    return {"backlog": backlog, "lag_s": round(backlog / max(wanted_tps, 1.0), 2), "cores": CORES * len(nodes)}


def figures(looks: Sequence[dict[str, float]]) -> dict[str, float]:
    """Held part of the time, mean cores and changes of the size; an outage has 15 minutes of a day to be caught up."""
    seconds = looks[-1]["at_s"]
    excused = (OUTAGE[0] * seconds, (OUTAGE[1] + 900 / 86_400) * seconds + LAG_S)
    counted = [each for each in looks if not excused[0] <= each["at_s"] < excused[1]]
    cores = [each["cores"] for each in looks]
    return {
        "held": sum(each["lag_s"] <= LAG_S for each in counted) / len(counted),
        "worst lag": max(each["lag_s"] for each in counted),
        "cores": sum(cores) / len(cores),
        "changes": sum(one != other for one, other in itertools.pairwise(cores)),
    }


def report(options: argparse.Namespace) -> None:
    """Write the page of what is there."""
    cells = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DIRECTORY.glob("*.json"))}
    rows = []
    found = {name: figures(cell["looks"]) for name, cell in cells.items()}
    for name, one in found.items():
        rows.append((f"{name}: time within a lag of {LAG_S:g} s", "≥ 98 %", f"{one['held']:.1%}"))
        rows.append((f"{name}: worst lag", "–", f"{one['worst lag']:.0f} s"))
        moves = f"{len(cells[name]['changes'])}, of the number of nodes {one['changes']:.0f}"
        rows.append((f"{name}: changes", "≤ 8", moves))
        rows.append((f"{name}: cores of nodes in the mean", "–", f"{one['cores']:.2f}"))
        cell = cells[name]
        rows.append((f"{name}: of {cell['numbers']:,} numbers, violations", "0", f"{len(cell['violations'])}"))
    if {"autopilot", "fixed"} <= found.keys():
        ratio = found["autopilot"]["cores"] / found["fixed"]["cores"]
        rows.append(("cores of the autopilot, of those of the fixed size", "≤ 0.7", f"{ratio:.2f}"))
    title = "An autopilot with Kafka on a real cluster"
    write_results("storm-autopilot", title, rows, {"figures": found, "options": vars(options)})


if __name__ == "__main__":
    main()
