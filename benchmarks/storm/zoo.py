"""Ten topologies with an oddity each, together on a real cluster under ``mode auto``: what is said, and whom it harms.

    python -m benchmarks.storm.zoo [--minutes 30] [--before 5]

Nodes are unlike and Storm's EvenScheduler places first, so that there is something to gain. For some minutes the
service only observes; then it moves what it wants. A topology counts as worse while its rate over 32 s, a multiple of
the period of the bursts, is below 0.97 of that before. Rates are completed trees/s, or of the topology that acks
nothing the tuples that reach its last bolt.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import show_progress, write_results
from stormwright.client import Client
from stormwright.controller.objectives.outlook import THROUGHPUT
from stormwright.controller.safety.move_kinds import move_safety
from stormwright.errors import ClusterError
from stormwright.perflog.records import LogRecord
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.steps import finish, snapshot_of

#: Code that the page measures.
MEASURES = (
    "src/stormwright/controller",
    "src/stormwright/service/health",
    "src/stormwright/model/peculiarities.py",
    "java/src/main/java/stormwright/probe",
    "java/src/main/java/stormwright/topologies/Odd.java",
)

#: Kind → arguments beside the rate, and a part of the sentence that has to name it; empty if nothing is to be said.
ODDITIES = {
    "unregistered": ("rate=150", "share a worker stay together"),
    "never-acking": ("rate=100", "failed or timed out"),
    "failing": ("rate=150", "failed or timed out"),
    "blocking": ("rate=300", "waits for something else than CPU"),
    "skewed": ("rate=300,work_us=500", "of the tuples that fields group"),
    "bursts": ("rate=150", ""),
    "large": ("rate=100", "100 Mbit/s carry"),
    "window": ("rate=150", ""),
    "join": ("rate=100", ""),
    "multilang": ("rate=100", "runs a process of its own"),
}

CORES, LINK = (0.75, 0.6, 0.4), "60mbit"

#: Seconds within which all workers report, between looks at the service, and over which a rate is taken.
START_S, LOOK_S, RATE_S = 900.0, 2.0, 32.0

#: What is asked: within which time an oddity is named, and for how long a topology may have less than which part.
NAMED_S, WORSE_S, NO_WORSE = 60.0, 90.0, 0.97

log = logging.getLogger("storm_zoo")


@dataclass
class Watch:
    """Looks at the service as a person would, by its API: when each oddity was first named, and all that was said.

    `named_s` is in seconds since the topology ran.
    """

    client: Client
    running_s: dict[str, float] = field(default_factory=dict)
    named_s: dict[str, float] = field(default_factory=dict)
    said: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """Look once."""
        now_s = time.monotonic()
        for each in self.client.overview().findings:
            self.said.setdefault(each.text, now_s)
            for kind, (_, sentence) in ODDITIES.items():
                if sentence and sentence in each.text and f"odd-{kind}" in each.text and kind not in self.named_s:
                    self.named_s[kind] = now_s - self.running_s.get(kind, now_s)
                    log.info("%s is named: %s", kind, each.text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="under mode auto")
    parser.add_argument("--before", type=float, default=5.0, help="minutes for which it only observes")
    options = parser.parse_args()
    if min(options.before, options.minutes) < 1:
        parser.error("rates are compared over a minute at least")
    show_progress()
    config = demo_cluster(slots=12, cores_per_node=CORES, link=LINK, start_timeout_s=400)
    with tempfile.TemporaryDirectory(prefix="stormwright-zoo-") as state, LocalCluster(config) as cluster:
        settings = ServiceSettings(
            Path(state),
            cluster.service_host,
            cluster.service_port,
            keep_records=True,
            objective=THROUGHPUT,
            triggers=TriggerParams(period_s=60, cool_down_s=60),
        )
        with Service(
            settings, make_scheduler("optimizer", {"objective": THROUGHPUT}), "even", cluster.gateway_command()
        ) as service:
            watch = Watch(Client(cluster.service_url, "zoo"))
            ids = submit(cluster, service, watch)
            moved_ms, end_ms = live(service, watch, options)
            kinds = {
                kind: move_safety(topology).kind
                for topology in snapshot_of(service).topologies
                for kind, id_ in ids.items()
                if id_ == topology.id
            }
            finish(service, [f"odd-{kind}" for kind in ODDITIES if kind != "never-acking"])
            records = service.tally.records()
            lost = {kind: service.tally.unaccounted(id_) for kind, id_ in ids.items() if kind != "never-acking"}
            moves = service.memory.counts.moves, service.memory.counts.rolled_back
    report(options, watch, ids, records, (moved_ms, end_ms), (moves, kinds, lost))


def submit(cluster: RunningCluster, service: Service, watch: Watch) -> dict[str, str]:
    """Submit all, and return their ids by kind once all of their workers report."""
    conf = {"stormwright.probe.service.url": cluster.service_url, "topology.fall.back.on.java.serialization": False}
    for kind, (arguments, _) in ODDITIES.items():
        log.info("submitting odd-%s", kind)
        workers = [] if kind == "unregistered" else ["workers=2"]
        own = [f"kind={kind}", *workers, *arguments.split(",")]
        cluster.run_topology("stormwright.topologies.Odd", own, conf)
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        snapshot = service.bridge.snapshot()
        ids = {each.name.removeprefix("odd-"): each.id for each in snapshot.topologies} if snapshot else {}
        for kind, topology in ids.items():
            if kind not in watch.running_s and _reports(service, topology):
                watch.running_s[kind] = time.monotonic()
        if len(watch.running_s) == len(ODDITIES):
            return ids
        watch.look()
        time.sleep(LOOK_S)
    missing = sorted(ODDITIES.keys() - watch.running_s.keys())
    raise ClusterError(f"not every worker of {', '.join(missing)} reported within {START_S:g} s")


def _reports(service: Service, topology: str) -> bool:
    placement = snapshot_of(service).current.get(topology)
    return placement is not None and all(
        service.tally.reports(topology, slot.supervisor, slot.port, frozenset(), 0.0) for slot in placement.slots
    )


def live(service: Service, watch: Watch, options: argparse.Namespace) -> tuple[float, float]:
    """Let the service observe, then move; when it began to, and the end, in ms since 1970."""
    stop = threading.Event()
    running = threading.Thread(target=service.run, args=(stop,), daemon=True)
    running.start()
    auto_s = time.monotonic() + 60 * options.before
    end_s = auto_s + 60 * options.minutes
    moved_ms = 0.0
    try:
        while time.monotonic() < end_s and running.is_alive():
            if not moved_ms and time.monotonic() >= auto_s:
                moved_ms = time.time() * 1000
                service.change(service.settings, {"default": "auto"}, None)
                log.info("it may move from now on")
            watch.look()
            time.sleep(LOOK_S)
    finally:
        stop.set()
        running.join(300)
    if time.monotonic() < end_s:
        raise ClusterError("the service has ended: its log says why")
    return moved_ms, time.time() * 1000


def rates(records: Sequence[LogRecord], topology: str, kind: str, start_ms: float, end_ms: float) -> np.ndarray:
    """Rate in each second between two moments."""
    seconds = int((end_ms - start_ms) / 1000)
    found = np.zeros(seconds + 1)
    for record in records:
        if record["worker"]["topology"] == topology:
            at = int((record["start_ms"] - start_ms) / 1000)
            if 0 <= at < seconds:
                found[at] += sum(_counted(record, kind))
    return found[:-1]


def _counted(record: LogRecord, kind: str) -> Iterator[int]:
    for executor in record["executors"]:
        if kind == "never-acking" and executor["component"] == "sink":
            yield executor["received"]
        elif kind != "never-acking" and executor["type"] == "spout":
            yield executor["acked"]


def longest_worse_s(before: float, series: np.ndarray) -> tuple[float, float]:
    """The longest time for which the rate was below `NO_WORSE` of that before, and the least part of it."""
    over = np.convolve(series, np.ones(int(RATE_S)) / RATE_S, "valid") / before
    longest = run = 0
    for part in over:
        run = run + 1 if part < NO_WORSE else 0
        longest = max(longest, run)
    return float(longest), float(over.min())


def report(
    options: argparse.Namespace,
    watch: Watch,
    ids: dict[str, str],
    records: Sequence[LogRecord],
    between: tuple[float, float],
    ended: tuple[Any, ...],
) -> None:
    """Write the page."""
    (moved_ms, end_ms), ((moves, back), kinds, lost) = between, ended
    rows, details = [], {}
    worse, late = [], []
    for kind in ODDITIES:
        reference = rates(records, ids[kind], kind, moved_ms - 30_000 * options.before, moved_ms)
        series = rates(records, ids[kind], kind, moved_ms, end_ms)
        before = float(reference.mean())
        for_s, least = longest_worse_s(before, series)
        wanted, named_s = ODDITIES[kind][1], watch.named_s.get(kind)
        after = float(series[-120:].mean())
        details[kind] = {"before": before, "after": after, "worse_s": for_s, "least": least, "named_s": named_s}
        worse += [kind] if for_s > WORSE_S else []
        late += [kind] if wanted and (named_s is None or named_s > NAMED_S) else []
        named = ("named after " + (f"{named_s:.0f} s" if named_s is not None else "–")) if wanted else "nothing to name"
        text = f"{before:,.0f} → {after:,.0f}, below {NO_WORSE} for {for_s:.0f} s at most; {named}; move: {kinds[kind]}"
        rows.append((f"{kind}: rate before and at the end", "", text))
    of = len([kind for kind, (_, sentence) in ODDITIES.items() if sentence])
    head = [
        (f"topologies worse by more than 3 % for longer than {WORSE_S:g} s", "0", f"{len(worse)} {' '.join(worse)}"),
        (f"oddities named within {NAMED_S:g} s", f"{of}", f"{of - len(late)}; not: {', '.join(late) or 'none'}"),
        ("moves of topologies, of which back", "", f"{moves}, {back}"),
        ("tuple trees lost, without the one that acks nothing", "0", f"{sum(lost.values())}"),
    ]
    begin_s = min(watch.running_s.values())
    said = {text: round(at_s - begin_s) for text, at_s in watch.said.items()}
    title = f"Ten odd topologies together under mode auto for {options.minutes:g} minutes"
    write_results("storm-zoo", title, [*head, *rows], {"topologies": details, "lost": lost, "said": said})


if __name__ == "__main__":
    main()
