"""Standby workers on a real Storm cluster: what an idle one takes, and how soon a worker that crashed is back.

python -m benchmarks.storm.standby [--cores 0] [--kills 10]

A worker is killed (SIGKILL), and is back when the new one logs that it has finished loading.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median

from stormwright_lab.chaos.faults import ClusterProcesses
from stormwright_lab.chaos.soak_record import sample_of

from benchmarks.kit.results import DIRECTORY, show_progress, stamp, write_results
from benchmarks.storm.moves import await_standbys, cores_text, spread
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.storm.local_cluster.processes import outer_pids, stat
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import submit
from stormwright.workbench.demo.topologies import parse_submissions

#: Code that the page measures.
MEASURES = (
    "java/src/main/java/stormwright/standby",
    "java/src/main/java/stormwright/Standby.java",
)

TOPOLOGY = "word-count:name=crashing,workers=2,spouts=1,split=1,count=1,rate=100"
#: Seconds over which the CPU of idle standbys is measured.
IDLE_S = 60.0
LONGEST_START = timedelta(seconds=60)
#: In the log of a worker that has started.
STARTED = "has finished loading"

log = logging.getLogger("standby")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=float, default=0.0, help="of each node; 0: nodes share the machine's")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--page", action="store_true", help="only make the page from the cells that are there")
    options = parser.parse_args()
    show_progress()
    cells = DIRECTORY / "storm-standby"
    cells.mkdir(parents=True, exist_ok=True)
    for standbys in () if options.page else (1, 0):
        cell = {**stamp(), "cores": options.cores, "standbys": standbys, **run(options.cores, standbys, options.kills)}
        path = cells / f"{options.cores:g}-cores-{standbys}-standbys.json"
        path.write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")
    write_page(cells)


def run(cores: float, standbys: int, kills: int) -> dict[str, list[float]]:
    """Run one cell: a cluster of its own, and all kills on it."""
    config = demo_cluster(slots=4, cores_per_node=cores or None, standbys=standbys)
    settings = DemoSettings(config, parse_submissions([TOPOLOGY]), make_scheduler("even"), "even", 0, 0)
    with tempfile.TemporaryDirectory(prefix="stormwright-standby-") as state, LocalCluster(config) as cluster:
        serving = ServiceSettings(Path(state), cluster.service_host, cluster.service_port, limits=LIMITS)
        with Service(serving, settings.scheduler, "even", cluster.gateway_command()) as service:
            submit(settings, cluster, service)
            await_standbys(cluster, standbys)
            found = idle(cluster) if standbys else {}
            return {**found, "back_s": [kill(cluster, standbys) for _ in range(kills)]}


def idle(cluster: RunningCluster) -> dict[str, list[float]]:
    """Return the memory (proportional set size) and CPU of each idle standby."""
    time.sleep(20.0)  # the last one has settled
    processes, here = ClusterProcesses(cluster), outer_pids(cluster.warden_pid())
    pids = [here[pid] for node in cluster.plan.nodes for pid in processes.standbys(node.name)]
    before = [cpu_s(pid) for pid in pids]
    time.sleep(IDLE_S)
    return {
        "memory_mb": [sample.memory_mb for sample in map(sample_of, pids) if sample],
        "idle_cores": [(cpu_s(pid) - was) / IDLE_S for pid, was in zip(pids, before, strict=True)],
    }


def cpu_s(pid: int) -> float:
    """Return the CPU of a process since its start."""
    fields = stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kill(cluster: RunningCluster, standbys: int) -> float:
    """Kill a worker, and return the seconds until it is back."""
    await_standbys(cluster, standbys)
    place, pids = next(iter(sorted(ClusterProcesses(cluster).workers().items(), key=lambda item: str(item[0]))))
    here = outer_pids(cluster.warden_pid())
    home = cluster.plan.daemon_dir(place.node) / "logs" / "workers" / place.topology / str(place.port)
    killed = datetime.now()
    for pid in pids:
        os.kill(here[pid], signal.SIGKILL)
    while (back_s := started(home, killed)) is None:
        if datetime.now() - killed > LONGEST_START:
            raise SystemExit(f"{place} is not back after {LONGEST_START.total_seconds():g} s")
        time.sleep(0.2)
    log.info("%s: back after %.2f s", place, back_s)
    time.sleep(25.0)  # standbys are loaded 20 s after a worker
    return round(back_s, 2)


def started(home: Path, killed: datetime) -> float | None:
    """Return the seconds from a kill to the first start that the log of the worker has after it."""
    for line in (home / "worker.log").read_text(encoding="utf-8", errors="replace").splitlines():
        if STARTED in line:
            at = datetime.combine(killed.date(), datetime.strptime(line.split()[0], "%H:%M:%S.%f").time())
            after = (at - killed) % timedelta(days=1)
            if after < timedelta(hours=12):
                return after.total_seconds()
    return None


def write_page(cells: Path) -> None:
    """Write the page of all cells."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(cells.glob("*.json"))]
    rows = []
    for cell in found:
        name = f"{cores_text(cell['cores'])}, {cell['standbys'] or 'no'} standby"
        if cell["standbys"]:
            rows.append((f"{name}: memory", "140 MB", f"at most {max(cell['memory_mb']):.0f} MB"))
            idle_cores = f"median {median(cell['idle_cores']):.4f}, at most {max(cell['idle_cores']):.4f} cores"
            rows.append((f"{name}: CPU while idle", "0.002 cores", idle_cores))
        target = "2 s" if cell["standbys"] else "3 s or more"
        text = f"{spread(cell['back_s'])}, {len(cell['back_s'])} kills"
        rows.append((f"{name}: a killed worker is back after", target, text))
    write_results("storm-standby", "Standby workers on a real cluster", rows, {"cells": found})


if __name__ == "__main__":
    main()
