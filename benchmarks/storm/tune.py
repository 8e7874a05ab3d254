"""Tuning of lone topologies at Storm's defaults on a real cluster, by `stormwright tune` and nothing else.

    python -m benchmarks.storm.tune [--only linear,star] [--p99-ms 1000] [--trials 6] [--minutes 90] [--repeats 2]

Each topology runs alone on three alike nodes with the defaults of Storm (three workers and ackers, 200 pending trees a
spout, waits as in defaults.yaml), and is tuned. Then its first and its last configuration take turns, and are measured
beside each other. The service goes on from one topology to the next, so later ones have what was learned; results are
kept as they come, and the page is made of all that are there.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

from benchmarks.kit.results import ROOT, show_progress, write_results
from benchmarks.storm.knobs import WAITS
from benchmarks.storm.moves import await_standbys
from stormwright.client import Client
from stormwright.controller.propose import propose
from stormwright.controller.requests import Place, PlanInputs
from stormwright.errors import ConflictError, StormwrightError
from stormwright.model import TopologyAssignment
from stormwright.plans.plan import Plan
from stormwright.plans.tuning import Tuning, TuningAim
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.measure import measure
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import finish, snapshot_of, submit
from stormwright.workbench.demo.submissions import parse_submissions

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller/tuning",
    "src/stormwright/history/evaluation/moves.py",
    "src/stormwright/service/plans/tunings.py",
)

DIRECTORY = ROOT / "docs" / "results" / "storm-tune"

CORES, LINK = 0.4, "100mbit"

_DEFAULTS = ",".join(["workers=3,ackers=3,pending=200", *(f"conf.{key}={value}" for key, value in WAITS.items())])

#: Topologies; of the last five nothing was looked at while tuning was developed.
TOPOLOGIES = {
    "word-count": "",
    "star": "bytes=1000,work_us=10",
    "diamond": "bytes=300",
    "sol": "bytes=500",
    "exclamation": "",
    "linear": "bytes=100,work_us=20",
    "page-load": "bytes=200,work_us=30",
    "advertising": "bytes=100",
    "processing": "bytes=200,work_us=5",
    "rolling-top-words": "",
}
DEVELOPED_ON = tuple(TOPOLOGIES)[:5]

#: Seconds: from the first record until it is tuned at the earliest, after each change of the last comparison until it
#: is measured, and measured.
WARM_S, SETTLE_S, MEASURE_S = 60.0, 25.0, 40.0

#: Seconds within which a tuning ends.
LONGEST_S = 2400.0

log_ = logging.getLogger("storm_tune")


@dataclass(frozen=True)
class Configuration:
    """Where a topology runs, its executors, and values of its configuration."""

    placement: TopologyAssignment
    executors: dict[str, int]
    conf: dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--p99-ms", type=float, help="the latency may rise up to that")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=90.0, help="no topology begins later")
    parser.add_argument("--repeats", type=int, default=2, help="of both configurations, in turns")
    parser.add_argument("--report", action="store_true", help="only make the page of what is there")
    options = parser.parse_args()
    show_progress()
    if options.report:
        report(options)
        return
    names = [each for each in options.only.split(",") if each] or list(TOPOLOGIES)
    until_s = time.monotonic() + 60 * options.minutes
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    config = demo_cluster(slots=4, link=LINK, cores_per_node=CORES, start_timeout_s=400)
    with tempfile.TemporaryDirectory(prefix="stormwright-tune-") as state, LocalCluster(config) as cluster:
        settings = ServiceSettings(
            Path(state),
            cluster.service_host,
            cluster.service_port,
            keep_records=True,
            limits=LIMITS,
            mode="observe",
            objective="throughput",
        )
        scheduler = make_scheduler("optimizer", {"objective": "throughput"})
        with Service(settings, scheduler, "even", cluster.gateway_command()) as service:
            for name in names:
                if time.monotonic() > until_s or _file(name, options).exists():
                    continue
                try:
                    found = tuned(service, cluster, config.standbys, name, options)
                except StormwrightError as error:
                    log_.warning("%s: %s", name, error)
                    break  # it may still run
                _file(name, options).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    report(options)


def _file(name: str, options: argparse.Namespace) -> Path:
    return DIRECTORY / f"{name}{'' if options.p99_ms is None else '.any-latency'}.json"


def tuned(
    service: Service, cluster: RunningCluster, standbys: int, name: str, options: argparse.Namespace
) -> dict[str, Any]:
    """Submit a topology, tune it, compare its first and last configuration, and remove it."""
    own = ",".join(filter(None, [f"name={name}", TOPOLOGIES[name], _DEFAULTS]))
    demo = DemoSettings(cluster.plan.config, parse_submissions([f"{name}:{own}"]), make_scheduler("even"), "even")
    topology = submit(demo, cluster, service)[name]
    try:
        await_standbys(cluster, standbys)
        with _running(service):
            time.sleep(WARM_S)
            first = _configuration(service, topology)
            tuning = _tuning(Client(cluster.service_url, "benchmark"), name, options)
        last = _configuration(service, topology)
        changed = [key for key, value in last.conf.items() if first.conf.get(key) != value]
        both = [
            Place(
                {topology: each.placement},
                {topology: each.executors},
                {topology: {key: each.conf.get(key) for key in changed}},
            )
            for each in (last, first)
        ]
        turns: list[list[dict[str, Any]]] = [[], []]
        if tuning.improvements:
            turns[0].append(_measured(service, topology))
            for number in range(1, 2 * options.repeats):
                await_standbys(cluster, standbys)
                _change(service, both[number % 2])
                turns[number % 2].append(_measured(service, topology))
    finally:
        finish(service, [name])
        with cluster.gateway() as nimbus:
            nimbus.kill(name, 0)
    lost = service.tally.unaccounted(topology)
    return {"tuning": tuning.model_dump(mode="json"), "last": turns[0], "first": turns[1], "lost": lost}


@contextmanager
def _running(service: Service) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=service.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(300)


def _tuning(client: Client, name: str, options: argparse.Namespace) -> Tuning:
    aim, until_s = TuningAim(p99_ms=options.p99_ms), time.monotonic() + LONGEST_S
    begun: Tuning | None = None
    while time.monotonic() < until_s:
        try:
            if begun is None:
                begun = client.tune(name, "benchmark", aim, trials=options.trials)
                log_.info("%s: %s", name, begun.aim)
            found = client.tuning(begun.id)
        except ConflictError as error:
            log_.info("%s", error)
            time.sleep(10)
            continue
        if found.state != "running" and not found.plan:
            for trial in found.trials:
                log_.info("  %s: %s, expected %s, measured %s, %s", *_trial(trial.model_dump()))
            log_.info("%s is %s: %s; ×%.2f at ×%.2f", name, found.state, found.why, found.gain, found.latency)
            return found
        time.sleep(2)
    raise ConflictError(f"{name}: its tuning has not ended within {LONGEST_S:g} s")


def _trial(trial: dict[str, Any]) -> tuple[object, ...]:
    change = {**trial["executors"], **trial["conf"]}
    expected, measured = (trial[each] and trial[each]["value"] for each in ("predicted", "measured"))
    return trial["state"], change, expected, measured, trial["why"]


def _configuration(service: Service, topology: str) -> Configuration:
    problem = snapshot_of(service)
    found = problem.topologies[problem.topology_index[topology]]
    return Configuration(problem.current[topology], dict(found.executor_counts), dict(found.conf))


def _change(service: Service, request: Place) -> None:
    plan = propose(snapshot_of(service), request, PlanInputs(predicts=False))
    if not isinstance(plan, Plan):
        raise StormwrightError(plan.reason)
    service.execute(plan.model_copy(update={"reason": "benchmark"}))


def _measured(service: Service, topology: str) -> dict[str, Any]:
    time.sleep(SETTLE_S)
    start_ms = time.time() * 1000
    time.sleep(MEASURE_S)
    found = measure(service.tally.records(), topology, start_ms, time.time() * 1000).as_dict()
    log_.info("  %.0f trees/s, %.1f ms", found["acked_tps"], found["mean_latency_ms"])
    return found


def report(options: argparse.Namespace) -> None:
    """Write the page."""
    rows: list[tuple[str, str, str]] = []
    gains = []
    for name in TOPOLOGIES:
        if not _file(name, options).exists():
            continue
        found = json.loads(_file(name, options).read_text(encoding="utf-8"))
        tuning = Tuning.model_validate_json(json.dumps(found["tuning"]))
        rate, latency = (_ratio(found, each) for each in ("acked_tps", "mean_latency_ms"))
        gains.append(rate)
        changes = "; ".join(trial.change for trial in tuning.improvements) or "as before"
        text = (
            f"×{rate:.2f} at ×{latency:.2f} of the latency; {len(tuning.trials)} trials, {tuning.pause_s:.0f} s paused"
        )
        rows.append((f"{name}{'' if name in DEVELOPED_ON else ' (not developed on)'}: {changes}", "≥ 1.00", text))
    mean = exp(sum(map(log, gains)) / len(gains)) if gains else 0.0
    asked = "≥ 1.4" if options.p99_ms is None else "≥ 1.8"
    rows.insert(0, (f"geometric mean of {len(gains)} topologies", asked, f"{mean:.2f}"))
    title = "Lone topologies at Storm's defaults, tuned"
    limit = "latency at most as before" if options.p99_ms is None else f"99th percentile up to {options.p99_ms:g} ms"
    name = "storm-tune" if options.p99_ms is None else "storm-tune-any-latency"
    write_results(name, f"{title}: {limit}", rows, {"gains": gains})


def _ratio(found: dict[str, Any], quantity: str) -> float:
    if not found["first"]:
        return 1.0
    last, first = (sum(each[quantity] for each in found[side]) / len(found[side]) for side in ("last", "first"))
    return float(last / first)


if __name__ == "__main__":
    main()
