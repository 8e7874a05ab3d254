"""Start and stop of a local Storm cluster."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from stormwright.errors import ClusterError, NimbusError
from stormwright.storm.jvm import require_java
from stormwright.storm.local_cluster import cpu, daemons, network, state
from stormwright.storm.local_cluster.plan import ClusterPlan, LocalClusterConfig, make_plan
from stormwright.storm.local_cluster.processes import kill, wait_until_ended
from stormwright.storm.local_cluster.running import RunningCluster
from stormwright.storm.local_cluster.state import exit_codes, log_tail, read_events, warden_tail

log = logging.getLogger(__name__)

_POLL_S = 0.1
_END_S = 15.0


class LocalCluster:
    """The one local cluster of this user, as a context manager: up on entering, down on leaving.

    It goes down as well when this process ends, of whatever cause, unless `keep` was called.

    Parameters
    ----------
    config
        Nodes, slots, CPU and link limits, and Storm settings of the cluster.

    Raises
    ------
    ClusterError
        On entering: one runs already, or this one does not come up; then with the end of the log concerned.
    MissingDependencyError
        On entering: no Java, or Storm's jars are not built.
    """

    def __init__(self, config: LocalClusterConfig) -> None:
        self._config = config
        self._keeper: subprocess.Popen[bytes] | None = None
        self._plan: ClusterPlan | None = None

    def __enter__(self) -> RunningCluster:
        try:
            return self._start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def keep(self) -> None:
        """Let the cluster outlive this process; `stop_running` ends it then."""
        if self._keeper is not None and self._keeper.stdin is not None:
            self._keeper.stdin.write(b"keep\n")
            self._keeper.stdin.close()
            self._keeper = None

    def stop(self) -> None:
        """Stop and remove the cluster, unless it was detached."""
        keeper, self._keeper = self._keeper, None
        if keeper is None or self._plan is None:
            return
        _terminate(RunningCluster(self._plan, keeper.pid))
        if keeper.stdin is not None:
            with suppress(BrokenPipeError):
                keeper.stdin.close()
        try:
            keeper.wait(_END_S)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
        state.sweep()
        _wait_for_link(self._plan)

    def _start(self) -> RunningCluster:
        begun = time.monotonic()
        java = require_java()
        lock = _acquire_place()
        try:
            self._plan = plan = self._make_plan(java)
            daemons.write_homes(plan)
            plan.save()
            self._keeper = _start_warden(plan, lock)
        except BaseException:
            state.clear()
            raise
        finally:
            os.close(lock)  # from here on, only the warden holds it
        state.save(state.RunningProcesses(keeper_pid=self._keeper.pid, owner_pid=os.getpid(), started_s=time.time()))
        log.info("nodes are %s", RunningCluster(plan, self._keeper.pid).describe_network())
        self._wait_until_up(plan, self._keeper, begun + self._config.start_timeout_s)
        log.info("local cluster is up after %.1f s", time.monotonic() - begun)
        return RunningCluster(plan, self._keeper.pid)

    def _make_plan(self, java: str) -> ClusterPlan:
        reason = "requested" if self._config.network == "loopback" else network.why_no_namespaces()
        if reason and self._config.network == "namespaces":
            raise ClusterError(f"nodes cannot be network namespaces: {reason}")
        return make_plan(self._config, state.work_dir(), java, reason, self._why_no_cpu_limits())

    def _why_no_cpu_limits(self) -> str:
        cores = [each for each in self._config.cores if each is not None]
        if not cores:
            return ""
        reason = cpu.why_no_limits(state.work_dir(), max(cores))
        if reason and self._config.cpu_limits == "groups":
            raise ClusterError(f"nodes cannot be held to their cores: {reason}, or leave --cores-per-node out")
        if not reason and sum(cores) > cpu.fitting_cores(1):
            log.warning(
                "%d nodes of %g cores together leave too little of this machine to the service and Spark, which may "
                "then be the limit; %g cores each fit",
                len(cores),
                sum(cores),
                cpu.fitting_cores(len(cores)),
            )
        return reason

    def _wait_until_up(self, plan: ClusterPlan, keeper: subprocess.Popen[bytes], deadline: float) -> None:
        wait = _Wait(plan, keeper, deadline)
        if plan.namespaces:
            wait.until("the network is laid", lambda: any("network" in event for event in read_events(plan)))
            network.lay_host(plan.host_link, plan.service_host, keeper.pid)
        wait.until("ZooKeeper answers", lambda: _answers(plan.nimbus_host, plan.zookeeper_port), daemons.ZOOKEEPER)
        log.info("ZooKeeper answers")
        wait.until("Nimbus answers", lambda: _answers(plan.nimbus_host, plan.nimbus_port), daemons.NIMBUS)
        log.info("Nimbus answers at %s:%d", plan.nimbus_host, plan.nimbus_port)
        running = RunningCluster(plan, keeper.pid)
        wait.until("all supervisors are registered", lambda: _registered(running) == len(plan.nodes), daemons.NIMBUS)
        log.info("%d supervisors are registered, %d worker slots each", len(plan.nodes), plan.config.slots)


class _Wait:
    """Waiting for conditions in sequence while checking that the cluster is alive."""

    def __init__(self, plan: ClusterPlan, keeper: subprocess.Popen[bytes], deadline: float) -> None:
        self._plan = plan
        self._keeper = keeper
        self._deadline = deadline

    def until(self, what: str, reached: Callable[[], bool], daemon: str | None = None) -> None:
        """Return once `reached`; on failure, the log of `daemon` is shown."""
        refusal = ""
        while True:
            try:
                if reached():
                    return
            except NimbusError as error:  # it answers a moment before it leads
                refusal = f"; {error}"
            self._check_alive()
            if time.monotonic() > self._deadline:
                tail = log_tail(self._plan, daemon) if daemon else warden_tail(self._plan)
                timeout = self._plan.config.start_timeout_s
                raise ClusterError(f"not reached within {timeout:.0f} s: {what}{refusal}\n{tail}".rstrip())
            time.sleep(_POLL_S)

    def _check_alive(self) -> None:
        if self._keeper.poll() is not None:
            raise ClusterError(f"the cluster was ended while it came up\n{warden_tail(self._plan)}".rstrip())
        events = read_events(self._plan)
        for event in events:
            if "error" in event:
                raise ClusterError(f"the cluster could not be started: {event['error']}")
        for daemon, code in exit_codes(events).items():
            raise ClusterError(f"{daemon} ended with exit code {code}\n{log_tail(self._plan, daemon)}")


def stop_running() -> bool:
    """Stop this user's running cluster, and return whether there was one."""
    if state.sweep():
        return False
    registered = _registered_cluster()
    running = RunningCluster(ClusterPlan.load(state.work_dir()), registered.keeper_pid)
    _terminate(running)
    lock = state.acquire_within(_END_S)
    if lock is None:
        kill(registered.keeper_pid)
        lock = state.acquire_within(_END_S)
    if lock is None:
        raise ClusterError(f"the local cluster does not end; its work directory is {state.work_dir()}")
    state.release(lock)
    wait_until_ended(registered.keeper_pid)
    _wait_for_link(running.plan)
    return True


def why_no_cpu_limits(cores: float) -> str:
    """Return why the nodes cannot be limited to `cores`, and a remedy; empty if they can."""
    return cpu.why_no_limits(state.work_dir(), cores)


def _acquire_place() -> int:
    lock = state.acquire()
    if lock is None:
        running = _registered_cluster()
        since = time.strftime("%H:%M:%S", time.localtime(running.started_s))
        raise ClusterError(
            f"a local cluster is up already (since {since}, started by process {running.owner_pid}); "
            "end it with `stormwright cluster down`"
        )
    return lock


def _registered_cluster() -> state.RunningProcesses:
    """Return the cluster that holds the lock; it is registered a moment after the lock is taken."""
    deadline = time.monotonic() + _END_S
    while time.monotonic() < deadline:
        if (running := state.load()) is not None:
            return running
        time.sleep(_POLL_S)
    raise ClusterError("a local cluster is being started; try again in a moment")


def _start_warden(plan: ClusterPlan, lock: int) -> subprocess.Popen[bytes]:
    prefix = network.UNSHARE if plan.namespaces else ()
    with (plan.work / "warden.log").open("wb") as log:
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "stormwright.storm.local_cluster.warden", str(plan.work)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=plan.work,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C in a terminal is for us to handle
        )


def _terminate(running: RunningCluster) -> None:
    with suppress(ClusterError, ProcessLookupError):  # it has ended already
        os.kill(running.warden_pid(), signal.SIGTERM)


def _wait_for_link(plan: ClusterPlan) -> None:
    """Wait until the kernel has removed the namespace's links, a moment after its last process."""
    deadline = time.monotonic() + _END_S
    while plan.namespaces and Path(f"/sys/class/net/{plan.host_link}").exists() and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _registered(running: RunningCluster) -> int:
    # A new gateway each time: one that came before Nimbus led may have ended.
    with running.gateway() as gateway:
        return len(gateway.cluster()["supervisors"])


def _answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1.0):
        return True
    return False
