"""Whether a load that leaves as a file for Storm's load generator does the same work when that replays it.

    python -m benchmarks.storm.loadgen --jar storm-loadgen-2.8.3.jar

A topology runs on a real cluster, held to a rate. `CaptureLoad` records it, and so does ``export loadgen``, from the
load that the service measured. `GenLoad` replays each file, and probes measure it as they measured the original. The
generator's jar is in no registry: ``mvn package`` makes it of ``examples/storm-loadgen`` in Storm's sources.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import show_progress, write_results
from stormwright.errors import ClusterError
from stormwright.formats.storm.conf import StormConf
from stormwright.formats.storm.loadgen import read_loadgen, write_loadgen
from stormwright.model import Problem
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import measured_problem, submit
from stormwright.workbench.demo.submissions import parse_submissions

#: Code that the page measures.
MEASURES = ("src/stormwright/formats/storm/loadgen.py",)

GENERATOR = "org.apache.storm.loadgen"
TOPOLOGY = "linear:name=original,work_us=200,workers=3,rate=1000"

#: Seconds for which workers warm up, and minutes that the generator runs.
WARM_S, REPLAY_MIN = 90.0, 4.0

log = logging.getLogger("storm_loadgen")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jar", type=Path, required=True)
    options = parser.parse_args()
    show_progress()
    config = demo_cluster(slots=4, cores_per_node=0.5, start_timeout_s=400)
    demo = DemoSettings(config, parse_submissions([TOPOLOGY]), make_scheduler("even"), "even")
    with tempfile.TemporaryDirectory(prefix="stormwright-loadgen-") as scratch, LocalCluster(config) as cluster:
        home = Path(scratch)
        settings = ServiceSettings(home / "state", cluster.service_host, cluster.service_port, keep_records=True)
        with Service(settings, demo.scheduler, "even", cluster.gateway_command()) as service:
            submit(demo, cluster, service)
            original = measured(service)
            cluster.run_topology(f"{GENERATOR}.CaptureLoad", ["-o", str(home / "captured")], jar=options.jar)
            (captured,) = (home / "captured").glob("*.yaml")
            exported = home / "exported.yaml"
            exported.write_text(write_loadgen(original, 0))
            with cluster.gateway() as nimbus:
                nimbus.kill("original", 0)
            replays = {
                name: replayed(cluster, service, options.jar, file)
                for name, file in (("CaptureLoad", captured), ("export loadgen", exported))
            }
            imported, load, errors = read_loadgen([captured], StormConf([]), original.core_hz)
            if errors:
                raise ClusterError(str(errors[0]))
    of_import = figures(Problem(original.supervisors, imported, load=load), 0)
    report(figures(original, 0), {**replays, "import loadgen of what CaptureLoad wrote": of_import})


def measured(service: Service) -> Problem:
    """The problem with a load of warm workers."""
    time.sleep(WARM_S)
    return measured_problem(service, time.time() * 1000)


def replayed(cluster: RunningCluster, service: Service, jar: Path, file: Path) -> dict[str, float]:
    """Have a file replayed, and return what is measured of it."""
    conf = {
        "topology.auto.task.hooks": ["stormwright.ExecutorProbe"],
        "stormwright.probe.service.url": cluster.service_url,
    }
    arguments = ["-t", str(REPLAY_MIN), str(file)]
    running = threading.Thread(
        target=cluster.run_topology,
        args=(f"{GENERATOR}.GenLoad", arguments, conf, jar, 120 + 60 * REPLAY_MIN),
        daemon=True,
    )
    before = service.bridge.snapshot()
    known = _names(before) if before else set()
    running.start()
    deadline = time.monotonic() + 120
    while not (snapshot := service.bridge.snapshot()) or not snapshot.current or not _names(snapshot) - known:
        if time.monotonic() > deadline or not running.is_alive():
            raise ClusterError("the replay of a load has not begun within 120 s")
        time.sleep(1)
    problem = measured(service)
    found = figures(problem, 0)
    running.join(60 * REPLAY_MIN)
    time.sleep(20)
    return found


def _names(problem: Problem) -> set[str]:
    return {each.name for each in problem.topologies}


def figures(problem: Problem, topology: int) -> dict[str, float]:
    """Rates in tuples/s by component, CPU in cores, and all traffic, with that of ackers."""
    one, load = problem.topologies[topology], problem.loads[topology]
    of, count = one.executor_component, len(one.components)
    received = np.bincount(of[load.pair_target], load.pair_tps, count)
    received += np.bincount(load.flow_component, load.flow_tps, count)
    own = [number for number, each in enumerate(one.components) if not each.id.startswith("__")]
    cpu = np.bincount(of, load.cpu_hz, count) / problem.core_hz
    bolts = {f"tuples/s into {one.components[n].id}": received[n] for n in own if one.components[n].type == "bolt"}
    return {**bolts, "CPU of its components, cores": float(cpu[own].sum()), "all tuples/s": float(received.sum())}


def report(original: dict[str, float], others: dict[str, dict[str, float]]) -> None:
    """Write the page."""
    rows = []
    for name, found in others.items():
        errors: dict[str, Any] = {key: found[key] / value - 1 for key, value in original.items() if value}
        worst = max(errors, key=lambda key: abs(errors[key]))
        texts = "; ".join(f"{key} {original[key]:.4g} → {found[key]:.4g}" for key in errors)
        rows.append((f"{name}: largest difference", "15 %", f"{errors[worst]:+.1%} ({worst})"))
        rows.append((f"{name}: original → this", "", texts))
    write_results(
        "storm-loadgen", "A measured load replayed by Storm's load generator", rows, {"original": original, **others}
    )


if __name__ == "__main__":
    main()
