"""What the probe costs: throughput of word count with and without it, in alternating runs on one cluster.

    python benchmarks/probe_cost.py [--pairs 5] [--warm-up 25] [--measure 25]

Links are not limited, so that the CPU is what limits throughput and every instruction of the probe shows. The service
takes the records and drops them: the pipeline, which runs elsewhere, would take CPU from the workers only where there
is a probe. Both sides are counted by Storm's own metrics as Nimbus has them, not by the probe.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from results import write_results

from stormwright.experiments.demo import demo_cluster
from stormwright.schedulers import make_scheduler
from stormwright.service.app import HttpServer, make_app
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.local import LocalCluster, RunningCluster

#: How often workers report Storm's metrics; the default of 60 s is too coarse for a run of half a minute.
METRICS_S = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--warm-up", type=float, default=25)
    parser.add_argument("--measure", type=float, default=25)
    options = parser.parse_args()
    config = demo_cluster(link=None, storm_conf={"executor.metrics.frequency.secs": METRICS_S})
    tps: dict[bool, list[float]] = {True: [], False: []}
    app = make_app(Bridge(make_scheduler("even"), "even"), lambda _: None, dict)
    with LocalCluster(config, print) as cluster:
        server = HttpServer(app, cluster.service_host, config.service_port)
        with server, NimbusGateway(cluster.gateway_command()) as nimbus:
            for number in range(options.pairs):
                # The order within a pair alternates too, so that a drift of the machine favours neither.
                for probe in (number % 2 == 0, number % 2 == 1):
                    found = _run(cluster, nimbus, probe, f"wc-{number}-{probe}", options)
                    print(f"pair {number + 1}, probe {'on' if probe else 'off'}: {found:.0f} trees/s", flush=True)
                    tps[probe].append(found)
    ratios = [on / off for on, off in zip(tps[True], tps[False], strict=True)]
    row = (
        "throughput with / without the probe, median of pairs",
        "≥ 0.97",
        (
            f"{median(ratios):.3f} (pairs: {', '.join(f'{ratio:.3f}' for ratio in ratios)}; "
            f"medians {median(tps[True]):.0f} / {median(tps[False]):.0f} trees/s)"
        ),
    )
    write_results("probe-cost", "What the probe costs", [row], {"with": tps[True], "without": tps[False]})


def _run(cluster: RunningCluster, nimbus: NimbusGateway, probe: bool, name: str, options: argparse.Namespace) -> float:
    args = [f"name={name}", f"probe={'true' if probe else 'false'}"]
    cluster.run_topology("stormwright.topologies.WordCount", args)
    time.sleep(options.warm_up)
    first, first_s = _acked(nimbus, name)
    time.sleep(options.measure)
    last, last_s = _acked(nimbus, name)
    nimbus.kill(name, 0)
    while any(topology["name"] == name for topology in nimbus.cluster()["topologies"]):
        time.sleep(0.5)
    return (last - first) / (last_s - first_s)


def _acked(nimbus: NimbusGateway, name: str) -> tuple[int, float]:
    """Trees acked since the start, at a moment when a new report of the workers has just come in."""
    (topology_id,) = (t["id"] for t in nimbus.cluster()["topologies"] if t["name"] == name)
    before = _all_time(nimbus, topology_id)
    while (now := _all_time(nimbus, topology_id)) == before:
        time.sleep(0.2)
    return now, time.monotonic()


def _all_time(nimbus: NimbusGateway, topology_id: str) -> int:
    return sum(executor["acked_trees"] for executor in nimbus.topology(topology_id)["executors"])


if __name__ == "__main__":
    main()
