"""CPU of nodes learned from their workers: wrong declarations named, and a quota that is halved while topologies run.

    python -m benchmarks.storm.capacities [--changes 40] [--starts 3]

First a service that only observes stands beside a word count on three nodes, all of which declare 0.4 cores, and the
quota of one node after the other is changed at run time, half of the times to what it declares. What is learned and
named is compared with the quota. Then, in mode `auto` and from new starts, the quota of the largest node that is
used is halved: how soon it is named, how soon a move elsewhere is complete, and what was lost. Each part is stored in
``build/capacities`` once it was measured, and not measured again.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import ROOT, show_progress, write_results
from stormwright.controller.objectives.outlook import THROUGHPUT
from stormwright.plans.modes import Mode
from stormwright.predict.workers import nodes_of
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster
from stormwright.storm.local_cluster.running import RunningCluster
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import finish, submit
from stormwright.workbench.demo.submissions import parse_submissions

#: Code that the page measures.
MEASURES = ("src/stormwright/controller/safety/capacities.py", "src/stormwright/service/safety/anomalies.py")

DIRECTORY = ROOT / "build" / "capacities"

NAME, DECLARED = "words", 0.4

#: Factors of what is declared that are named, and such that are not.
WRONG, RIGHT = (0.5, 0.7, 1.5), (1.0, 0.9, 1.1)

#: Quotas of the nodes before one of them is halved.
UNLIKE = (0.6, 0.35, 0.25)

#: Seconds within which a change is to be named, and a topology to have moved; and after which it is given up.
NAMED_S, MOVED_S, PATIENCE_S = 30.0, 180.0, 420.0

#: Seconds for which a node without a change may not be named, and for which a service settles before a change.
QUIET_S, SETTLED_S = 15.0, 150.0

log = logging.getLogger("storm_capacities")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=40)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    show_progress()
    changes = stored(f"changes-{options.changes}-{options.seed}", lambda: observe(options.changes, options.seed))
    halved = [stored(f"halved-{number}", halve) for number in range(options.starts)]
    report(changes, halved, options)


def stored(name: str, measure: Callable[[], Any]) -> Any:
    """Return what was measured before under this name, or measure it now."""
    file = DIRECTORY / f"{name}.json"
    if not file.exists():
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(measure()))
    return json.loads(file.read_text())


@contextmanager
def running(cores: tuple[float, ...], mode: Mode) -> Iterator[tuple[RunningCluster, Service, str]]:
    """A word count on three nodes and a service beside it, which runs as `serve` does."""
    config = demo_cluster(slots=4, link="60mbit", cores_per_node=cores, start_timeout_s=400)
    scheduler = make_scheduler("optimizer", objective=THROUGHPUT)
    words = parse_submissions([f"word-count:name={NAME},pending=200"])
    demo = DemoSettings(config, words, scheduler, "optimizer")
    stop = threading.Event()
    with LocalCluster(config) as cluster, tempfile.TemporaryDirectory() as state:
        settings = ServiceSettings(
            Path(state),
            cluster.service_host,
            cluster.service_port,
            triggers=TriggerParams(period_s=10, cool_down_s=10),
            objective=THROUGHPUT,
            mode=mode,
        )
        with Service(settings, scheduler, "optimizer", cluster.gateway_command()) as service:
            (topology,) = submit(demo, cluster, service).values()
            thread = threading.Thread(target=service.run, args=(stop,), daemon=True)
            thread.start()
            try:
                yield cluster, service, topology
            finally:
                stop.set()
                thread.join(60)


def observe(count: int, seed: int) -> list[dict[str, Any]]:
    """Change the quota of one node after the other; what was learned and named, and after how many seconds."""
    draw, found = random.Random(seed), list[dict[str, Any]]()  # noqa: S311 (no secret)
    with running((DECLARED,) * 3, "observe") as (cluster, service, _):
        until(lambda: len(learned(service)) == len(cluster.plan.nodes), PATIENCE_S)
        for number in range(count):
            node = cluster.plan.nodes[number % 3]
            host = node.address
            cores = round(DECLARED * draw.choice(WRONG if number // 3 % 2 == 0 else RIGHT), 3)
            was_named = host in named(service)
            cluster.limit_node(node.name, cores=cores)
            is_wrong = not 1 / 1.2 <= cores / DECLARED <= 1.2

            def as_it_should(host: str = host, cores: float = cores, is_wrong: bool = is_wrong) -> bool:
                knows = abs(learned(service).get(host, 0.0) / cores - 1) <= 0.1
                return knows and (host in named(service)) == is_wrong

            took_s = until(as_it_should, 2 * NAMED_S)
            time.sleep(QUIET_S)
            found.append(
                {
                    "node": node.name,
                    "cores": cores,
                    "wrong": is_wrong,
                    "was_named": was_named,
                    "seconds": took_s,
                    "named": host in named(service),
                    "learned": learned(service).get(host),
                }
            )
            log.info("%s", found[-1])
        finish(service, [NAME])
    return found


def halve() -> dict[str, Any]:
    """Halve the quota of the largest node that is used, in mode `auto`; what was done about it, and when."""
    with running(UNLIKE, "auto") as (cluster, service, topology):
        until(lambda: len(learned(service)) == len(UNLIKE), PATIENCE_S)
        settle(service)
        problem, before = service.problem(), service.memory.counts.moves
        assert problem is not None
        slots, addresses = problem.current_slot, {node.address: node.cores for node in cluster.plan.nodes}
        on = np.bincount(problem.slot_node[slots[slots >= 0]], minlength=len(UNLIKE))
        quotas = np.array([addresses[each.host] for each in problem.supervisors])
        fullest = int(np.argmax(np.where(on > 0, quotas, 0.0)))
        host, cores = problem.supervisors[fullest].host, float(quotas[fullest]) / 2
        name = next(each.name for each in cluster.plan.nodes if each.address == host)
        cluster.limit_node(name, cores=cores)
        begin = time.monotonic()
        named_s = until(lambda: host in named(service), PATIENCE_S)
        moved_s = until(lambda: service.memory.counts.moves > before, max(PATIENCE_S - (time.monotonic() - begin), 1))
        reason = service.status().decision
        finish(service, [NAME])
        totals, lost = service.tally.totals(topology), service.tally.unaccounted(topology)
    found = {
        "node": name,
        "cores": cores,
        "executors": on.tolist(),
        "moves_before": before,
        "named_s": named_s,
        "moved_s": None if moved_s is None else moved_s + (named_s or 0.0),
        "decision": reason,
        "begun": totals.begun,
        "failed": totals.failed,
        "lost": lost,
    }
    log.info("%s", found)
    return found


def settle(service: Service) -> None:
    """Wait until the service has moved nothing for `SETTLED_S`."""
    begin = last = time.monotonic()
    moves = service.memory.counts.moves
    while time.monotonic() - last < SETTLED_S and time.monotonic() - begin < 4 * SETTLED_S:
        time.sleep(1)
        if service.memory.counts.moves != moves:
            moves, last = service.memory.counts.moves, time.monotonic()


def until(holds: Callable[[], bool], patience_s: float) -> float | None:
    """Wait until something holds; the seconds that it took, None if it did not come."""
    begin = time.monotonic()
    while time.monotonic() - begin < patience_s:
        if holds():
            return time.monotonic() - begin
        time.sleep(0.2)
    return None


def learned(service: Service) -> dict[str, float]:
    """Return the measured cores of nodes by host."""
    problem = service.problem()
    if problem is None or problem.load is None:
        return {}
    cores, quotas = nodes_of(problem).cores, problem.load.node_quota_hz
    return {node.host: float(cores[number]) for number, node in enumerate(problem.supervisors) if node.id in quotas}


def named(service: Service) -> set[str]:
    """Return the hosts of nodes whose declaration is named as wrong."""
    problem = service.problem()
    if problem is None:
        return set()
    ids = {each["supervisor"] for each in service.status().anomalies if each["kind"] == "capacity"}
    return {node.host for node in problem.supervisors if node.id in ids}


def report(changes: list[dict[str, Any]], halved: list[dict[str, Any]], options: argparse.Namespace) -> None:
    wrong, right = ([one for one in changes if one["wrong"] == which] for which in (True, False))
    close = sum(one["learned"] is not None and abs(one["learned"] / one["cores"] - 1) <= 0.1 for one in changes)
    took_s = [one["seconds"] for one in changes if one["seconds"] is not None]

    def worst(key: str) -> str:
        values = [one[key] for one in halved]
        return ", ".join("never" if value is None else f"{value:.0f} s" for value in values)

    rows = [
        ("wrong declarations named", "20 of 20", f"{sum(one['named'] for one in wrong)} of {len(wrong)}"),
        ("right declarations named", "never", f"{sum(one['named'] for one in right)} of {len(right)}"),
        ("learned CPU of a node within 10 %", "≥ 95 %", f"{close} of {len(changes)}"),
        (
            "seconds until a change is known and named",
            f"≤ {NAMED_S:.0f}",
            f"at most {max(took_s):.0f}, median {np.median(took_s):.0f}" if took_s else "–",
        ),
        (f"halved in mode auto, named ({len(halved)} starts)", f"≤ {NAMED_S:.0f} s", worst("named_s")),
        ("topology elsewhere", f"≤ {MOVED_S:.0f} s", worst("moved_s")),
        (
            f"tuple trees failed or lost, of {sum(one['begun'] for one in halved):,}",
            "0",
            str(sum(one["failed"] + abs(one["lost"]) for one in halved)),
        ),
    ]
    details = {"changes": changes, "halved": halved, "options": vars(options)}
    write_results("storm-capacities", "CPU of nodes as learned, and quotas changed at run time", rows, details)


if __name__ == "__main__":
    main()
