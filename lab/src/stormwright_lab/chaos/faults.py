"""Injection of faults on the local cluster; each is undone after its duration, and all at the end of a run."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from stormwright.errors import ClusterError
from stormwright.perflog.landing import SUFFIXES
from stormwright.storm.local_cluster import RunningCluster
from stormwright.storm.local_cluster.daemons import NIMBUS, ZOOKEEPER
from stormwright.storm.local_cluster.network import limit_arguments
from stormwright.storm.local_cluster.processes import is_alive
from stormwright_lab.chaos.invariants import WorkerPlace
from stormwright_lab.chaos.scenarios import NODES, FaultKind, FaultTarget, PlannedFault
from stormwright_lab.chaos.service_process import CLOCK, GATEWAY, SPARK, SupervisedService

log = logging.getLogger(__name__)

Undo = Callable[[], object]

#: Age in seconds from which a killed daemon is started again by the warden.
RESTARTABLE_S = 16.0

#: Name of the file that fills the disk of the service's state.
FILLING = "filling"


@dataclass(frozen=True)
class MoveParts:
    """Nodes and workers of a move.

    Parameters
    ----------
    source, target, other
        Names of the node that a worker leaves, of the one that takes it, and of another one.
    moving, arriving
        The worker that moves: where it is before and after.
    unchanged
        A worker that does not move; None if there is none.
    """

    source: str
    target: str
    other: str
    moving: WorkerPlace
    arriving: WorkerPlace
    unchanged: WorkerPlace | None = None


class FaultyMachine:
    """Commands and signals of this machine."""

    def run(self, *command: str) -> str:
        """Run a command and return its output; raises ClusterError."""
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return done.stdout

    def signal(self, pid: int, number: signal.Signals) -> bool:
        """Send a signal to a process; return whether it still exists."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True


class ClusterProcesses:
    """Processes of a local cluster: workers and standbys, by the files of supervisors.

    Parameters
    ----------
    cluster
        Running local cluster; the files in its work directory name the processes.
    """

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster, self._work = cluster, cluster.plan.work

    def workers(self) -> dict[WorkerPlace, list[int]]:
        """Return the process ids of each worker (topology by id), in the cluster's process namespace."""
        found: dict[WorkerPlace, list[int]] = {}
        for node in self._cluster.plan.nodes:
            for directory in (self._work / node.name / "local" / "workers").glob("*"):
                with suppress(OSError):  # it has ended
                    artifacts = (directory / "artifacts").readlink()
                    port, topology = artifacts.name, artifacts.parent.name
                    pids = [int(file.name) for file in (directory / "pids").iterdir()]
                    place = WorkerPlace(topology, node.name, int(port))
                    found.setdefault(place, []).extend(pid for pid in pids if is_alive(pid, self._proc()))
        return {place: pids for place, pids in found.items() if pids}

    def standbys(self, node: str) -> list[int]:
        """Return the idle standby JVMs of a node, in the cluster's process namespace."""
        found = []
        for jvm in (self._work / node / "standby" / "jvms").glob("*"):
            with suppress(OSError, ValueError):
                if not (jvm / "taken").exists():
                    found.append(int((jvm / "pid").read_text(encoding="ascii")))
        return found

    def _proc(self) -> Path:
        """Return ``/proc`` of the cluster's process namespace."""
        warden = self._cluster.warden_pid() if self._cluster.plan.namespaces else None
        return Path("/proc", str(warden), "root", "proc") if warden else Path("/proc")


class FaultError(ClusterError):
    """A fault cannot be injected, as its target does not exist at this moment."""


@dataclass
class InjectedFault:
    """A fault in force, or undone.

    Parameters
    ----------
    fault
        Kind, target, duration and parameters, as planned.
    since_s, until_s
        Begin and end, of `time.monotonic`; no end while it is in force.
    without_effect
        Whether it slows a node on which no worker runs.
    """

    fault: PlannedFault
    since_s: float
    until_s: float | None = None
    without_effect: bool = False
    undo: Undo | None = field(default=None, repr=False)

    @property
    def in_force_s(self) -> float:
        """Seconds for which it was in force."""
        return (self.until_s if self.until_s is not None else time.monotonic()) - self.since_s


class Injection(Protocol):
    """Injects one fault and returns its undoing; None if it undoes itself."""

    def __call__(self, fault: PlannedFault, parts: MoveParts) -> Undo | None: ...


class FaultInjector:
    """Injects faults and undoes them; a context manager, at whose end nothing is in force.

    Parameters
    ----------
    cluster
        Local cluster whose nodes, daemons and workers are the targets.
    service
        The service beside it.
    machine
        Runs commands and sends signals; by default on this machine.
    """

    def __init__(
        self, cluster: RunningCluster, service: SupervisedService, machine: FaultyMachine | None = None
    ) -> None:
        self._cluster, self._service, self._machine = cluster, service, machine or FaultyMachine()
        self._processes = ClusterProcesses(cluster)
        self._lock = threading.RLock()
        self._timers: list[threading.Timer] = []
        #: Faults so far, in order.
        self.injected: list[InjectedFault] = []
        self._by_kind: dict[FaultKind, Injection] = {
            FaultKind.KILL: self._kill,
            FaultKind.STOP: self._stop,
            FaultKind.RESTART: self._restart,
            FaultKind.CUT: self._cut,
            FaultKind.SLOW_LINK: self._slow_link,
            FaultKind.SLOW_CPU: self._slow_cpu,
            FaultKind.FILL_DISK: self._fill_disk,
            FaultKind.SET_CLOCK: self._set_clock,
            FaultKind.REFUSE: self._refuse,
            FaultKind.DAMAGE: self._damage,
        }

    def __enter__(self) -> FaultInjector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Undo every fault that is in force."""
        for timer in self._timers:
            timer.cancel()
        for injected in reversed(self.injected):
            self._undo(injected)

    def why_impossible(self, fault: PlannedFault) -> str:
        """Return why this machine or cluster cannot do a fault; empty if it can."""
        plan = self._cluster.plan
        on_link = fault.kind in (FaultKind.CUT, FaultKind.SLOW_LINK, FaultKind.REFUSE)
        if on_link and not plan.namespaces:
            return f"nodes have no links: {plan.loopback_reason}"
        if fault.target in NODES and fault.kind in (FaultKind.KILL, FaultKind.SLOW_CPU) and not plan.limits_cpu:
            return f"nodes have no control groups: {plan.no_cpu_limit_reason or 'started without a limit of cores'}"
        if "delay_ms" in fault.parameters and (why := self._why_no_netem()):
            return why
        if fault.kind is FaultKind.FILL_DISK and not os.path.ismount(self._service.state):
            return "the state directory is not a file system of its own: only root can mount one"
        return ""

    @property
    def in_force(self) -> bool:
        """Whether any fault is in force."""
        with self._lock:
            return any(each.until_s is None for each in self.injected)

    @property
    def passed_s(self) -> float | None:
        """When the last fault had passed (`time.monotonic`); None while one is in force, or before the first."""
        with self._lock:
            ends = [each.until_s for each in self.injected]
            return None if not ends or None in ends else max(end for end in ends if end is not None)

    def inject(self, fault: PlannedFault, parts: MoveParts) -> InjectedFault:
        """Inject a fault, to be undone after its duration.

        Raises
        ------
        FaultError
            Its target does not exist now.
        ClusterError
            A command failed.
        """
        since_s = time.monotonic()
        log.info("fault: %s", fault)
        undo = self._by_kind[fault.kind](fault, parts)
        slows_node = fault.kind in (FaultKind.SLOW_CPU, FaultKind.SLOW_LINK) and fault.target in NODES
        used = {place.node for place in self._processes.workers()} if slows_node else set()
        without_effect = slows_node and self._node(fault.target, parts) not in used
        injected = InjectedFault(fault, since_s, without_effect=without_effect, undo=undo)
        with self._lock:
            self.injected.append(injected)
            if undo is None and not fault.duration_s:
                injected.until_s = time.monotonic()
                return injected
        timer = threading.Timer(fault.duration_s, self._undo, [injected])
        timer.daemon = True
        self._timers.append(timer)
        timer.start()
        return injected

    def _undo(self, injected: InjectedFault) -> None:
        with self._lock:
            if injected.until_s is not None:
                return
            injected.until_s = time.monotonic()
        if injected.undo is not None:
            log.info("undone: %s", injected.fault)
            try:
                injected.undo()
            except (ClusterError, OSError) as error:  # the cluster has ended: it takes its links along
                log.warning("%s could not be undone: %s", injected.fault, error)

    def _kill(self, fault: PlannedFault, parts: MoveParts) -> Undo | None:
        if fault.target in NODES:
            node = self._node(fault.target, parts)
            self._link(node, "down")
            self._cluster.kill_processes(node)
            return lambda: self._link(node, "up")
        self._signal(fault, parts, signal.SIGKILL)
        return None

    def _restart(self, fault: PlannedFault, parts: MoveParts) -> Undo | None:
        self._signal(fault, parts, signal.SIGTERM)
        return None

    def _stop(self, fault: PlannedFault, parts: MoveParts) -> Undo:
        return self._signal(fault, parts, signal.SIGSTOP)

    def _signal(self, fault: PlannedFault, parts: MoveParts, number: signal.Signals) -> Undo:
        """Send a signal to a target, and return how it goes on after SIGSTOP."""
        target, machine = fault.target, self._machine
        if target is FaultTarget.SERVICE:
            self._service.signal(number, fault.duration_s)
            return self._service.resume
        if target in (FaultTarget.GATEWAY, FaultTarget.SPARK):
            pids = self._service.jvms(GATEWAY if target is FaultTarget.GATEWAY else SPARK)
            self._require(pids, target)
            for pid in pids:
                machine.signal(pid, number)
            return lambda: [machine.signal(pid, signal.SIGCONT) for pid in pids]
        if (daemon := self._daemon(target, parts)) is not None:
            daemon_pid = self._cluster.daemon_pids()[daemon]
            self._require([daemon_pid] if daemon_pid else [], target)
            pid = daemon_pid or 0
            machine.signal(pid, number)
            return lambda: machine.signal(pid, signal.SIGCONT)
        pids = self._inner_pids(target, parts)
        self._require(pids, target)
        self._signal_inside(pids, number)
        return lambda: self._signal_inside(pids, signal.SIGCONT)

    def _daemon(self, target: FaultTarget, parts: MoveParts) -> str | None:
        names = {
            FaultTarget.NIMBUS: NIMBUS,
            FaultTarget.ZOOKEEPER: ZOOKEEPER,
            FaultTarget.SOURCE_SUPERVISOR: parts.source,
            FaultTarget.TARGET_SUPERVISOR: parts.target,
        }
        return names.get(target)

    def _inner_pids(self, target: FaultTarget, parts: MoveParts) -> list[int]:
        """Return processes in the cluster's namespace: of the move's worker the new one if the old one has ended."""
        if target is FaultTarget.STANDBY:
            return self._processes.standbys(parts.target)
        workers = self._processes.workers()
        if target is FaultTarget.MOVING_WORKER:
            return workers.get(parts.moving) or workers.get(parts.arriving) or []
        return workers.get(parts.unchanged, []) if parts.unchanged else []

    def _signal_inside(self, pids: Sequence[int], number: signal.Signals) -> None:
        command = f"kill -{number.value} {' '.join(map(str, pids))} 2>/dev/null || true"
        self._machine.run(*self._cluster.command_beside_nimbus(), "sh", "-c", command)

    def _require(self, pids: Sequence[int], target: FaultTarget) -> None:
        if not pids:
            raise FaultError(f"there is no process of {target} now")

    def _node(self, target: FaultTarget, parts: MoveParts) -> str:
        names = {
            FaultTarget.SOURCE_NODE: parts.source,
            FaultTarget.TARGET_NODE: parts.target,
            FaultTarget.OTHER_NODE: parts.other,
        }
        return names[target]

    def _beside(self, *command: str) -> str:
        return self._machine.run(*self._cluster.command_beside_nimbus(), *command)

    def _on_node(self, node: str, *command: str) -> str:
        return self._machine.run(*self._cluster.command_on_node(node), *command)

    def _link(self, device: str, state: str) -> None:
        self._beside("ip", "link", "set", device, state)

    def _cut(self, fault: PlannedFault, parts: MoveParts) -> Undo:
        device = "host" if fault.target is FaultTarget.SERVICE else self._node(fault.target, parts)
        self._link(device, "down")
        return lambda: self._link(device, "up")

    def _slow_link(self, fault: PlannedFault, parts: MoveParts) -> Undo:
        if "delay_ms" in fault.parameters:
            return self._delay(self._node(fault.target, parts), fault)
        rate = str(fault.parameters["rate"])
        if fault.target is FaultTarget.SERVICE:
            self._beside("tc", "qdisc", "replace", "dev", "host", "root", *limit_arguments(rate))
            return lambda: self._beside("tc", "qdisc", "del", "dev", "host", "root")
        node = self._node(fault.target, parts)
        usual = self._cluster.plan.node(node).link
        self._cluster.limit_node(node, link=rate)
        return lambda: self._cluster.limit_node(node, link=usual)

    def _delay(self, node: str, fault: PlannedFault) -> Undo:
        details = [f"{fault.parameters['delay_ms']}ms", "loss", f"{fault.parameters.get('loss_percent', 0)}%"]
        usual = self._cluster.plan.node(node).link
        self._beside("tc", "qdisc", "replace", "dev", node, "root", "netem", "delay", *details)
        back = limit_arguments(usual) if usual else ("pfifo_fast",)
        return lambda: self._beside("tc", "qdisc", "replace", "dev", node, "root", *back)

    def _why_no_netem(self) -> str:
        trial = "ip link add storm0 type bridge && tc qdisc add dev storm0 root netem delay 1ms"
        try:
            self._machine.run("unshare", "--net", "sh", "-ec", trial)
        except ClusterError as error:
            return f"this kernel has no netem ({error.line.rsplit(': ', 1)[-1]})"
        return ""

    def _slow_cpu(self, fault: PlannedFault, parts: MoveParts) -> Undo:
        node = self._node(fault.target, parts)
        usual = self._cluster.plan.node(node).cores
        self._cluster.limit_node(node, cores=float(fault.parameters["cores"]))
        return lambda: self._cluster.limit_node(node, cores=usual)

    def _refuse(self, fault: PlannedFault, parts: MoveParts) -> Undo:  # noqa: ARG002 (the same for all moves)
        plan = self._cluster.plan
        address = plan.service_host if fault.target is FaultTarget.SERVICE else plan.nimbus_host
        nodes = [node.name for node in plan.nodes]

        def route(change: str) -> None:
            command = ("ip", "route", change, "unreachable", f"{address}/32")
            if fault.target is FaultTarget.SERVICE:
                self._beside(*command)
            for node in nodes:
                self._on_node(node, *command)

        route("replace")  # it may be refused already
        return lambda: route("del")

    def _fill_disk(self, fault: PlannedFault, parts: MoveParts) -> Undo:  # noqa: ARG002
        path = self._service.state / FILLING
        with path.open("wb", buffering=0) as file:
            for size in (2**20, 2**12, 1):
                with suppress(OSError):  # the disk is full
                    while file.write(b"\0" * size) == size:
                        pass
        return lambda: path.unlink(missing_ok=True)

    def _set_clock(self, fault: PlannedFault, parts: MoveParts) -> Undo:  # noqa: ARG002
        path = self._service.state / CLOCK
        path.write_text(str(float(fault.parameters["seconds"])), encoding="ascii")
        return lambda: path.unlink(missing_ok=True)

    def _damage(self, fault: PlannedFault, parts: MoveParts) -> Undo | None:  # noqa: ARG002
        """Kill the service, and damage a file before it is started again."""
        self._service.signal(signal.SIGKILL, max(fault.duration_s, 1.0))
        state, name = self._service.state, str(fault.parameters["file"])
        if name == "landing":
            newest = max((each for each in (state / name).iterdir() if each.name.endswith(SUFFIXES)), default=None)
            path = newest or state / name / "0.jsonl"
            content = newest.read_bytes() if newest else b'{"worker": {"topology": "half'
            path.write_bytes(content[: len(content) // 2])
        else:
            (state / name).write_bytes(b"damaged")
        return None
