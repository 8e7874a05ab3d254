"""The service of a chaos run as a supervised process: ``python -m stormwright_lab.chaos.service_process STATE``.

It is composed as ``stormwright cluster serve`` composes it, with a scheduler whose placement a run writes to a file,
and a clock that a run can change.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stormwright.base.clock import WallClock
from stormwright.base.files import write_whole
from stormwright.defaults import DEFAULT_SCHEDULER
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import RunningCluster
from stormwright.storm.local_cluster.processes import is_alive, stat, with_variable

#: In the environment of every process of a service: its state directory.
MARK = "STORMWRIGHT_CHAOS"

#: Files of the state directory that a run writes.
TARGET, CLOCK, LOG = "target.json", "clock.txt", "service.log"

#: Seconds from the end of a service until its supervision starts it again, and between two checks.
RESTART_S, _POLL_S = 1.0, 0.05

#: Main classes of a service's JVMs.
GATEWAY, SPARK = "stormwright.NimbusGateway", "org.apache.spark.deploy.SparkSubmit"

_PR_SET_PDEATHSIG = 1


class AdjustableClock(WallClock):
    """Clock of this machine, changed by the seconds in a file.

    Parameters
    ----------
    path
        The file; without it the clock is right.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def time(self) -> float:
        """Return seconds since 1970 of the changed clock."""
        try:
            return time.time() + float(self._path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return time.time()


class TargetScheduler:
    """Scheduler that returns the placement in a file; executors that it does not name stay.

    Parameters
    ----------
    path
        JSON object: name of a topology → ``[host, port]`` of each executor.
    """

    moves_running = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def schedule(self, problem: Problem) -> Assignment:
        """Return the placement."""
        slots = problem.current_slot.copy()
        hosts = {node.id: node.host for node in problem.supervisors}
        numbers = {(hosts[slot.supervisor], slot.port): number for number, slot in enumerate(problem.slots)}
        for index, topology in enumerate(problem.topologies):
            wanted = [numbers.get((host, port), UNPLACED) for host, port in self._targets().get(topology.name, ())]
            if len(wanted) == topology.num_executors and UNPLACED not in wanted:
                slots[problem.executors_of(index)] = wanted
        return Assignment(slots, scheduler="target")

    def _targets(self) -> Mapping[str, Sequence[tuple[str, int]]]:
        try:
            targets: dict[str, list[tuple[str, int]]] = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return targets


def write_targets(state: Path, targets: Mapping[str, Sequence[tuple[str, int]]]) -> None:
    """Write the placement that `TargetScheduler` returns."""
    write_whole(state / TARGET, json.dumps(targets).encode())


def serve(state: Path) -> None:
    """Run the service for the local cluster until SIGTERM, or until its supervision has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    cluster = RunningCluster.find()
    if cluster is None:
        sys.exit("no local cluster is up")
    stop = threading.Event()
    scheduler = TargetScheduler(state / TARGET)
    settings = ServiceSettings(
        state, cluster.service_host, cluster.service_port, mode="observe", clock=AdjustableClock(state / CLOCK)
    )
    with Service(settings, scheduler, DEFAULT_SCHEDULER, cluster.gateway_command(), lambda _: scheduler) as service:
        for number in (signal.SIGINT, signal.SIGTERM):  # after Spark, which sets its own
            signal.signal(number, lambda *_: stop.set())
        service.run(stop)


class SupervisedService:
    """Process of a service that is started again whenever it ends; a context manager.

    Parameters
    ----------
    state
        State directory of the service, which also has its log.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._closed, self._not_before_s = False, 0.0
        self.starts = 0

    def __enter__(self) -> SupervisedService:
        self._start()
        threading.Thread(target=self._supervise, name="chaos-supervision", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            self.resume()
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def pid(self) -> int | None:
        """Process id; None while it does not run."""
        with self._lock:
            return self._process.pid if self._process and self._process.poll() is None else None

    def signal(self, number: signal.Signals, away_s: float = RESTART_S) -> None:
        """Send a signal to the process; if it ends, it is started again after some seconds."""
        with self._lock:
            self._not_before_s = time.monotonic() + max(away_s, RESTART_S)
            if self._process is not None:
                self._process.send_signal(number)

    def resume(self) -> None:
        """Let a stopped process go on."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal.SIGCONT)

    def pids(self, part: str = "") -> list[int]:
        """Return all processes of this service and former ones whose command contains a text."""
        found = []
        for pid in with_variable(MARK, str(self.state)):
            with suppress(OSError):  # it has ended
                if part.encode() in Path(f"/proc/{pid}/cmdline").read_bytes() and is_alive(pid):
                    found.append(pid)
        return sorted(found)

    def jvms(self, main_class: str) -> list[int]:
        """Return the JVMs that run a class, `GATEWAY` or `SPARK`, without the scripts that start them."""
        found = []
        for pid in self.pids(main_class):
            with suppress(OSError):
                if Path(f"/proc/{pid}/exe").readlink().name == "java":
                    found.append(pid)
        return found

    def orphans(self) -> list[int]:
        """Return processes of former services: those that do not descend from the current one."""
        own = self.pid
        return [pid for pid in self.pids() if pid != own and own not in _ancestors(pid)]

    def _start(self) -> None:
        with self._lock, (self.state / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stormwright_lab.chaos.service_process", str(self.state)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, MARK: str(self.state)},
                start_new_session=True,
            )
            self.starts += 1

    def _supervise(self) -> None:
        while not self._closed:
            with self._lock:
                ended = self._process is not None and self._process.poll() is not None
                if ended and not self._closed and time.monotonic() >= self._not_before_s:
                    self._not_before_s = time.monotonic() + RESTART_S
                    with suppress(OSError):  # a full disk: the next round tries again
                        self._start()
            time.sleep(_POLL_S)


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 1 and pid not in found:
        found.add(pid)
        try:
            pid = int(stat(pid)[1])
        except OSError:
            break
    return found


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    serve(Path(sys.argv[1]))
