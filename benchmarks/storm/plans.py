"""Plans and reverts on a real Storm cluster, the service killed in the middle of most: what becomes of them.

python -m benchmarks.storm.plans [--calm 6] [--plans 20] [--rate 200] [--seed 1]

Two word counts run on three nodes. A plan brings them to as few nodes as hold them, a revert back to where they were,
in turn. The first go on undisturbed: by these it is measured for how long spouts are silent, and whether that, and how
long all of a plan takes, is what it said. In all others, after each has begun, the service is killed (kill −9) and
started again. In the end spouts are paused, and every tuple tree of all records that ever landed is counted.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kit.results import show_progress, write_results
from stormwright.cli.triggers import by_goal
from stormwright.client import Client
from stormwright.controller.tally import Tally
from stormwright.errors import StormwrightError
from stormwright.perflog.columns import landed_results
from stormwright.perflog.records import RejectedLine
from stormwright.pipeline.settings import StreamSettings
from stormwright.plans.plan import Plan
from stormwright.plans.states import HALTED_STATES
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import LocalCluster, RunningCluster
from stormwright.workbench.demo.run import demo_cluster
from stormwright.workbench.demo.topologies import parse_submissions

#: The longest that is waited for anything, in seconds.
PATIENCE_S = 600.0

#: After which no tuple tree is pending any more: more than twice Storm's message timeout.
DRAINED_S = 75.0

#: States that nothing leads out of, and those that a person has to lead out of.
ENDED = ("done", "rolled_back", "failed", "discarded")

#: Of those in which it is not.
CALM = "never"

#: When the service is killed: right after it was told, while a step moves, while a stage is judged or ends.
MOMENTS = ("at once", "moving", "moving", "later")

log = logging.getLogger("storm_plans")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calm", type=int, default=6, help="plans and reverts that nothing disturbs, first")
    parser.add_argument("--plans", type=int, default=20, help="plans and reverts in which the service is killed")
    parser.add_argument("--rate", type=int, default=200, help="trees a second of each spout executor")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    show_progress()
    if options.serve:
        serve(options.serve)
        return
    config = demo_cluster(slots=4, storm_conf={"topology.worker.childopts": "-XX:TieredStopAtLevel=1"})
    with tempfile.TemporaryDirectory(prefix="stormwright-plans-") as state, LocalCluster(config) as cluster:
        told, paused = run(cluster, Path(state), options)
        lost = count(Path(state))
    write(options, told, paused, lost)


def serve(state: Path) -> None:
    """What is killed."""
    cluster = RunningCluster.find()
    assert cluster is not None
    stream = StreamSettings(keep_raw_s=86_400)
    settings = ServiceSettings(state, cluster.service_host, cluster.service_port, objective="nodes", stream=stream)
    optimizer = make_scheduler("optimizer", (), objective="nodes")
    deciders = by_goal("optimizer", (), None)
    with Service(settings, optimizer, "optimizer", cluster.gateway_command(), deciders) as service:
        service.run(_never())


def _never() -> Any:
    from threading import Event

    return Event()


class Process:
    """The service, as often as it is started."""

    def __init__(self, state: Path) -> None:
        self._command = [sys.executable, "-m", __spec__.name, "--serve", str(state)]
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0

    def start(self) -> None:
        """Start it; with all that it starts, it has a group of its own."""
        self._process = subprocess.Popen(self._command, start_new_session=True)

    def kill(self) -> None:
        """End it, and its JVMs, at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.kills += 1


@contextmanager
def serving(state: Path) -> Iterator[Process]:
    process = Process(state)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def run(cluster: RunningCluster, state: Path, options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """What became of each plan and revert, and topologies that were found paused."""
    chance, client = random.Random(options.seed), Client(cluster.service_url, "benchmark")  # noqa: S311 (no secret)
    conf = {"stormwright.probe.service.url": cluster.service_url, "stormwright.probe.interval.ms": 500}
    submissions = parse_submissions([f"word-count:name={name},workers=3,rate={options.rate}" for name in "ab"])
    told: list[dict[str, Any]] = []
    with serving(state) as process, cluster.gateway() as nimbus:
        for each in submissions:
            cluster.run_topology(each.main_class, each.arguments(), conf)
        back: int | None = None
        while len(told) < options.calm + options.plans:
            plan = _begun(client, back)
            begun_s = time.monotonic()
            moment = CALM if len(told) < options.calm else chance.choice(MOMENTS)
            if moment != CALM:
                _until(client, plan.id, moment, chance)
                process.kill()
                process.start()
            ended = _ended(client, plan.id)
            told.append(_told(client, ended, moment) | {"took_s": time.monotonic() - begun_s})
            log.info("%s of %s: %s", len(told), options.calm + options.plans, told[-1])
            moved = ended.kind == "plan" and ended.state == "done"
            back = ended.decision if moved else None
        running = nimbus.cluster()["topologies"]
        paused = [each["name"] for each in running if each["status"] != "ACTIVE"]
        for each in submissions:
            nimbus.deactivate(each.name)
        time.sleep(DRAINED_S)
    return told, paused


def _begun(client: Client, back: int | None) -> Plan:
    """A plan that is being applied, or a revert of an entry of the history."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            if back is not None:
                return client.revert(back, "back again")
            plan = client.wait_until_planned(client.plan("fewer nodes", goals=["nodes"], least_gain_percent=0).id)
            if plan.topologies == 2:
                return client.apply(plan.id, "as agreed")
            log.info("nothing to apply yet: %s", plan.why)
        except StormwrightError as error:  # it starts, or has measured nothing yet
            log.info("%s", error)
        time.sleep(5)
    raise SystemExit("no plan could be begun")


def _until(client: Client, plan: str, moment: str, chance: random.Random) -> None:
    """Wait for a moment at which to kill."""
    if moment == "at once":
        return
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found = client.show(plan)
        moving = any(step.state == "moving" for step in found.steps)
        if found.state in (*ENDED, *HALTED_STATES) or (moment == "moving" and moving) or found.state == "evaluating":
            break
        time.sleep(0.2)
    time.sleep(chance.uniform(0, 12))


def _ended(client: Client, plan: str) -> Plan:
    """A plan once it has come to an end; one that waits for a person goes on."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            found = client.show(plan)
            if found.state in ENDED:
                return found
            if found.state in HALTED_STATES:
                log.info("plan %s is %s: %s", plan, found.state, found.why)
                changed = found.why.startswith("the cluster has changed")
                (client.discard if changed else client.resume)(plan, "go on")
        except StormwrightError:
            pass
        time.sleep(1)
    raise SystemExit(f"plan {plan} has not ended")


def _told(client: Client, plan: Plan, moment: str) -> dict[str, Any]:
    measured = {
        move.topology: move.pause_s
        for entry in client.history(5).entries
        if entry.plan == plan.id
        for move in entry.moves
        if move.pause_s is not None
    }
    expected = {each.topology: (each.pause_s.value, each.pause_from) for each in plan.moved}
    pauses = [(*expected[each], pause_s) for each, pause_s in measured.items() if each in expected]
    expected_s = {"expected_s": plan.duration_s, "stages": plan.stages}
    return {"kind": plan.kind, "killed": moment, "state": plan.state, "why": plan.why, "pauses": pauses, **expected_s}


def count(state: Path) -> dict[str, int]:
    """Topology → tuple trees begun, and neither acked nor failed, or failed, in all records that landed."""
    tally = Tally()
    files = sorted(each for part in ("landing", "stream/raw") for each in (state / part).rglob("*.parquet"))
    names = set()
    for file in files:
        records = [each for each in landed_results(file) if not isinstance(each, RejectedLine)]
        names |= {each["worker"]["topology"] for each in records}
        tally.add(records)
    totals = {name: tally.totals(name) for name in sorted(names)}
    assert all(total.begun > 0 for total in totals.values()), "there are records"
    for name, total in totals.items():
        log.info("%s: begun %s, acked %s, failed %s", name, total.begun, total.acked, total.failed)
    return {name: abs(tally.unaccounted(name)) + total.failed for name, total in totals.items()}


def write(options: argparse.Namespace, told: list[dict[str, Any]], paused: list[str], lost: dict[str, int]) -> None:
    calm, killed = ([each for each in told if (each["killed"] == CALM) == quiet] for quiet in (True, False))
    rows = [
        (f"{len(killed)} plans and reverts, the service killed in each", "all resumed or undone", _ends(killed)),
        (f"{len(calm)} plans and reverts that nothing disturbed", "all done", _ends(calm)),
        ("topologies left paused", "0", str(len(paused))),
        ("tuple trees failed or lost", "0", str(sum(lost.values()))),
        *_of_pauses("nothing disturbed", calm, "≤ 25 %"),
        *_of_pauses("the service killed", killed, ""),
        ("all of a plan, expected beside measured, median error, nothing disturbed", "", _error(_whole(calm))),
    ]
    title = f"Plans with kills, two word counts of 3 workers, {options.rate} trees/s a spout"
    write_results("storm-plans", title, rows, {"plans": told, "paused": paused, "lost": lost})


def _ends(told: list[dict[str, Any]]) -> str:
    states = {state: sum(each["state"] == state for each in told) for state in sorted(ENDED)}
    return ", ".join(f"{number} {state}" for state, number in states.items() if number) or "–"


def _of_pauses(which: str, told: list[dict[str, Any]], wanted: str) -> Iterator[tuple[str, str, str]]:
    """For how long spouts were silent in moves, and beside what was expected, by what that was known from."""
    pauses = [pause for each in told for pause in each["pauses"]]
    shown = "–"
    if silent_s := sorted(measured for _, _, measured in pauses):
        shown = f"{median(silent_s):.1f} s, {silent_s[0]:.1f} to {silent_s[-1]:.1f} s in {len(pauses)} moves"
    yield f"spouts are silent in a move, median, {which}", "", shown
    known, assumed = ([each for each in pauses if ("assumed" in each[1]) == by] for by in (False, True))
    for name, some, asked in (("past moves", known, wanted), ("the assumption", assumed, "")):
        error = _error([(expected, measured) for expected, _, measured in some])
        yield f"pause expected by {name} beside measured, median error, {which}", asked, error


def _whole(told: list[dict[str, Any]]) -> list[tuple[float, float]]:
    """Seconds that plans which were made to the end said that they take, and took."""
    return [(each["expected_s"], each["took_s"]) for each in told if each["state"] == "done"]


def _error(pairs: list[tuple[float, float]]) -> str:
    errors = [abs(expected - measured) / measured for expected, measured in pairs if measured > 0]
    return f"{median(errors):.0%} of {len(errors)}" if errors else "–"


if __name__ == "__main__":
    main()
