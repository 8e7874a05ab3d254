"""What the probe costs: throughput of word count with and without it, alternating within the life of its workers.

    python -m benchmarks.storm.probe_cost [--runs 3] [--warm-up 45] [--phases 30] [--phase 3]

Links are not limited, so that the CPU is what limits throughput and every instruction of the probe shows. The service
takes the records and drops them: the pipeline, which runs elsewhere, would take CPU from the workers only where there
is a probe. Two starts of a word count differ by half in throughput, whatever is measured on them, since the JIT
compiler begins differently; so its workers take the probe off and on every few seconds (``ProbeCost.java``) and each
phase with it is compared with those without it before and after. The spout counts the trees, not the probe. The
probe's own threads, which write and ship the records, run in all phases: their CPU time is charged to those with it.

Storm makes an object for every emission, execution and ack as soon as there is any hook. What that costs is measured
in the same way with a hook that does nothing: less than that no probe can cost.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median

from benchmarks.kit.results import ROOT, write_results
from stormwright.schedulers import make_scheduler
from stormwright.service.http.app import make_app
from stormwright.service.http.deliveries import BodyRecipient
from stormwright.service.http.server import HttpServer
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.run import demo_cluster

#: Code that the page measures.
MEASURES = (
    "java/src/main/java/stormwright/ExecutorProbe.java",
    "java/src/main/java/stormwright/probe",
)

TOPOLOGY = "stormwright.topologies.ProbeCost"
WORKERS = 3
PROBE = "stormwright.ExecutorProbe"
NOTHING = "org.apache.storm.hooks.BaseTaskHook"


@dataclass(frozen=True)
class Phase:
    """A few seconds of all workers."""

    probe: bool
    trees_per_s: float
    cpu_us_per_tree: float
    probe_threads_us_per_tree: float


@dataclass(frozen=True)
class Run:
    """Ratios with / without the probe of one life of the workers, medians over its phases."""

    throughput: float
    cpu: float
    phases: list[Phase]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=45)
    parser.add_argument("--phases", type=int, default=30)
    parser.add_argument("--phase", type=float, default=3)
    options = parser.parse_args()
    config = demo_cluster(link=None)
    app = make_app(Bridge(make_scheduler("even"), "even"), BodyRecipient(lambda _: None), dict)
    runs: dict[str, list[Run]] = {PROBE: [], NOTHING: []}
    with LocalCluster(config) as cluster:
        _add_test_classes(cluster)
        server = HttpServer(app, cluster.service_host, config.service_port)
        with server, NimbusGateway(cluster.gateway_command()) as nimbus:
            for number, hook in product(range(options.runs), runs):
                runs[hook].append(_run(cluster, nimbus, hook, options))
                print(f"run {number + 1}, {hook}: {runs[hook][-1].throughput:.3f} of the throughput", flush=True)
    rows = [
        ("throughput with / without the probe, median of runs", "≥ 0.97", _told(run.throughput for run in runs[PROBE])),
        ("trees per CPU second of the workers, with / without the probe", "", _told(run.cpu for run in runs[PROBE])),
        ("throughput with a hook that does nothing / without any", "", _told(run.throughput for run in runs[NOTHING])),
        ("trees per CPU second, with such a hook / without any", "", _told(run.cpu for run in runs[NOTHING])),
    ]
    details = {hook: [asdict(run) for run in found] for hook, found in runs.items()}
    write_results("probe-cost", "What the probe costs", rows, details)


def _told(ratios: Iterable[float]) -> str:
    ratios = list(ratios)
    return f"{median(ratios):.3f} (runs: {', '.join(f'{ratio:.3f}' for ratio in ratios)})"


def _add_test_classes(cluster: RunningCluster) -> None:
    """Give the topology's class to clients and workers; it is not part of what is shipped."""
    classes = ROOT / "java" / "target" / "test-classes"
    with zipfile.ZipFile(cluster.plan.lib / "test-classes.jar", "w") as jar:
        for path in sorted(classes.rglob("ProbeCost*.class")):
            jar.write(path, path.relative_to(classes))


def _run(cluster: RunningCluster, nimbus: NimbusGateway, hook: str, options: argparse.Namespace) -> Run:
    directory = Path(tempfile.mkdtemp(dir=cluster.plan.work))
    name = "probe-cost"
    conf = {
        "topology.auto.task.hooks": [f"{TOPOLOGY}$Hook"],
        "probe.cost.hook": hook,
        "probe.cost.phase.ms": round(options.phase * 1000),
        "probe.cost.directory": str(directory),
    }
    cluster.run_topology(TOPOLOGY, [f"name={name}", f"workers={WORKERS}"], conf)
    begun_s = time.time() + options.warm_up
    time.sleep(options.warm_up + (options.phases + 2) * options.phase)
    nimbus.kill(name, 0)
    while any(topology["name"] == name for topology in nimbus.cluster()["topologies"]):
        time.sleep(0.5)
    return _compare(_read(directory, first=begun_s / options.phase))


def _read(directory: Path, first: float) -> list[Phase]:
    """The phases from number `first` on that all workers have written whole, in order."""
    lines: dict[int, list[list[int]]] = defaultdict(list)
    for file in directory.iterdir():
        for line in file.read_text(encoding="ascii").splitlines():
            number, *counts = map(int, line.split())
            if number >= first:
                lines[number].append(counts)
    return [_phase(workers) for _, workers in sorted(lines.items()) if len(workers) == WORKERS]


def _phase(workers: list[list[int]]) -> Phase:
    probe, ns, trees, cpu_ns, probe_threads_ns = (sum(column) for column in zip(*workers, strict=True))
    seconds = ns / len(workers) / 1e9
    return Phase(probe > 0, trees / seconds, cpu_ns / trees / 1e3, probe_threads_ns / trees / 1e3)


def _compare(phases: list[Phase]) -> Run:
    throughput, cpu = [], []
    for before, here, after in zip(phases, phases[1:], phases[2:], strict=False):
        if here.probe:
            own_threads = 1 - here.probe_threads_us_per_tree / here.cpu_us_per_tree
            throughput.append(here.trees_per_s / (before.trees_per_s + after.trees_per_s) * 2 * own_threads)
            without = (before.cpu_us_per_tree + after.cpu_us_per_tree) / 2 - here.probe_threads_us_per_tree
            cpu.append(without / here.cpu_us_per_tree)
    return Run(median(throughput), median(cpu), phases)


if __name__ == "__main__":
    main()
