"""The cluster of chaos runs: a local cluster with a supervised service, started again when it is no longer healthy."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from stormwright.client import Client
from stormwright.errors import ClusterError, NimbusError, StormwrightError
from stormwright.plans.states import ACTIVE_STATES, HALTED_STATES
from stormwright.storm.gateway import NimbusGateway
from stormwright.storm.installer import SHORT_TIMES
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, RunningCluster
from stormwright.storm.local_cluster.cpu import groups_of
from stormwright.storm.local_cluster.processes import marked, stat
from stormwright.workbench.demo.run import demo_cluster
from stormwright_lab.chaos.faults import RESTARTABLE_S, ClusterProcesses
from stormwright_lab.chaos.service_process import SupervisedService

log = logging.getLogger(__name__)

#: Nodes and slots of the cluster: two ledgers of three workers fill it, so that they exchange slots. And the cores that
#: each node may use: it has a control group, and is not slow.
NODES, SLOTS, CORES = 3, 2, 2.0

#: Size of the file system of the service's state.
_STATE_SIZE = "256m"

#: Seconds that a client waits for an answer, and longest waits for the cluster.
CALL_S, _READY_S = 4.0, 120.0


def until(reached: Callable[[], bool], limit_s: float, every_s: float = 0.2) -> bool:
    """Wait for a condition; return whether it was reached in time.

    Parameters
    ----------
    reached
        The condition; errors of the cluster count as not reached.
    limit_s, every_s
        Longest wait, and seconds between two checks.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        with suppress(StormwrightError, OSError):
            if reached():
                return True
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(every_s)


class ChaosLab:
    """A cluster with a service; a context manager, at whose end nothing of it is left.

    Parameters
    ----------
    directory
        Directory of its files.
    cluster
        A cluster that runs already and is never restarted; None for one of its own.
    """

    def __init__(self, directory: Path, cluster: RunningCluster | None = None) -> None:
        self.directory, self._given = directory, cluster
        self._stack = ExitStack()
        self._number, self._is_up = 0, False
        self.cluster: RunningCluster
        self.service: SupervisedService
        self.nimbus: NimbusGateway
        #: Processes, groups and mounts that clusters have left behind.
        self.leftovers: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
        if self.leftovers:
            log.warning("left behind: %s", "; ".join(self.leftovers))

    @property
    def client(self) -> Client:
        """Client of the service."""
        return Client(self.cluster.service_url, "chaos", CALL_S)

    @property
    def processes(self) -> ClusterProcesses:
        """Processes of the cluster."""
        return ClusterProcesses(self.cluster)

    def prepare(self) -> None:
        """Make sure that a healthy cluster with a service is up.

        Raises
        ------
        ClusterError
            It cannot be started.
        """
        if self._is_up and self._is_healthy():
            return
        self.close()
        self._number += 1
        self._start()
        self._is_up = True
        if not until(self._answers, _READY_S):
            raise ClusterError(f"the service did not become ready within {_READY_S:g} s; see {self.service.state}")

    def close(self) -> None:
        """Stop service and cluster, and record leftovers."""
        self._stack.close()
        self._stack = ExitStack()
        if self._is_up and self._given is None:
            work = self.cluster.plan.work
            until(lambda: not marked(work) and not groups_of(work), 15)
            self.leftovers += [f"process {pid} of the cluster" for pid in marked(work)]
            self.leftovers += [f"control group {path.name}" for path in groups_of(work)]
        self._is_up = False

    def _start(self) -> None:
        self.cluster = self._given or self._stack.enter_context(LocalCluster(_config()))
        state = self._stack.enter_context(_state_directory(self.directory / f"service-{self._number}"))
        self.nimbus = self._stack.enter_context(self.cluster.gateway())
        self.service = SupervisedService(state)
        self._stack.callback(self._note_orphans)
        self._stack.enter_context(self.service)

    def _note_orphans(self) -> None:
        until(lambda: not self.service.pids(), 10)
        self.leftovers += [f"process {pid} of the service" for pid in self.service.pids()]

    def _answers(self) -> bool:
        return bool(self.client.overview().service)  # Nimbus asks only when there is a topology

    def _is_healthy(self) -> bool:
        """Return whether the next run can use the cluster."""

        def healthy() -> bool:
            daemons = self.cluster.daemon_pids().values()
            known = self.nimbus.cluster()
            plans = self.client.plans([*ACTIVE_STATES, *HALTED_STATES, "planning"]).plans
            drains = self.client.drains().drained
            return (
                all(pid is not None for pid in daemons)
                and len(known["supervisors"]) == len(self.cluster.plan.nodes)
                and not known["topologies"]
                and not plans
                and not drains
                and self._answers()
            )

        return until(healthy, 30)

    def wait_until_restartable(self) -> None:
        """Wait until every daemon is old enough that the warden starts it again when it ends."""
        pids = [pid for pid in self.cluster.daemon_pids().values() if pid is not None]
        until(lambda: all(_age_s(pid) >= RESTARTABLE_S for pid in pids), 2 * RESTARTABLE_S)

    def statuses(self) -> dict[str, str]:
        """Return the status of each topology by id; raises NimbusError."""
        return {each["id"]: each["status"] for each in self.nimbus.cluster()["topologies"]}

    def kill_topology(self, name: str) -> None:
        """Kill a topology; one that is gone is no error."""
        for _ in range(3):
            try:
                self.nimbus.kill(name, 0)
            except NimbusError as error:
                if error.kind == "NotAliveException":
                    return
                time.sleep(2)
            else:
                return


def _config() -> LocalClusterConfig:
    # As `install` proposes: once Nimbus was killed nothing can be activated before its session has expired.
    conf = {"executor.metrics.frequency.secs": 3, **{key: each.value for key, each in SHORT_TIMES.items()}}
    return demo_cluster(nodes=NODES, slots=SLOTS, cores_per_node=CORES, cpu_limits="auto", storm_conf=conf)


@contextmanager
def _state_directory(path: Path) -> Iterator[Path]:
    """Make a state directory, on a file system of its own where that is allowed, so that it can be full."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_STATE_SIZE}", "stormwright-chaos", str(path)]
    mounted = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield path
    finally:
        if mounted:
            log_file = path / "service.log"
            if log_file.exists():
                shutil.copy2(log_file, path.with_suffix(".log"))
            subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)
            with suppress(OSError):
                path.rmdir()


def _age_s(pid: int) -> float:
    """Return the seconds since the start of a process."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat(pid)[19]) / os.sysconf("SC_CLK_TCK")
