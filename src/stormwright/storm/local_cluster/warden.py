"""The warden, on which a local cluster depends: ``python -m stormwright.storm.local_cluster.warden WORK``.

As root it is the first process of a process namespace inside a network namespace of its own, so that its end, of
whatever cause, ends every process of the cluster and takes down every link. Without namespaces it does by hand what
it can: orphans are handed to it, and it kills by the mark that all processes of the cluster carry.

It lays the network, starts the daemons and then waits for one of two ends: SIGTERM, or the end of its standard input,
which is a pipe from the process that owns the cluster. A line ``keep`` on that pipe means that the owner may leave.
It records its actions in ``events.jsonl``; it never waits for a reader.

Storm's daemons end themselves at the first thing that they do not understand and count on a supervision that starts
them again, so this does: a supervisor, for one, ends when a topology is killed while it fetches the topology's files.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from stormwright.errors import StormwrightError
from stormwright.storm.local_cluster import cpu, daemons, network, state
from stormwright.storm.local_cluster.plan import ClusterPlan
from stormwright.storm.local_cluster.processes import MARK, kill_all_marked, renice

_PR_SET_CHILD_SUBREAPER = 36
_KEEP = b"keep\n"
_POLL_S = 0.2
#: Niceness of the whole cluster.
_SESSION_NICENESS = 5

#: Age in seconds from which workers yield to starting ones, as on nodes that share no CPU.
_SETTLED_S = 7.0
_SETTLED_NICENESS = 19
_LOOK_S = 1.0

#: A daemon that ends sooner than this after its start is not started again: it would only end again.
_STARTED_S = 15.0


class Warden:
    """Process that starts a planned cluster, restarts ended daemons, and stops the cluster."""

    def __init__(self, plan: ClusterPlan) -> None:
        self._plan = plan
        self._events = (plan.work / "events.jsonl").open("a", encoding="utf-8", buffering=1)
        self._daemons: dict[int, tuple[str, float]] = {}
        self._holders: dict[str, int] = {}
        self._workers_since: dict[int, float] = {}
        self._next_look = 0.0

    def run(self) -> NoReturn:
        """Run the cluster; returns only by ending the process."""
        signal.signal(signal.SIGTERM, lambda *_: self._end())
        try:
            self._start()
        except StormwrightError as error:
            # The owner reads this, and the logs, before it lets go.
            self._record(error=str(error))
        self._watch()
        self._end()

    def _start(self) -> None:
        if self._plan.namespaces:
            network.lay_master(self._plan.nimbus_host)
            for node in self._plan.nodes:
                self._holders[node.name] = holder = self._hold_namespace(node.name)
                network.lay_node(node.name, node.address, holder, node.link)
                self._record(node=node.name, holder=holder)
            self._record(network="laid")
        else:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for node in self._plan.nodes:
            if node.cores is not None:
                cpu.make_group(self._plan.work, node.name, node.cores)
        for daemon in daemons.names(self._plan):
            self._start_daemon(daemon)

    def _hold_namespace(self, name: str) -> int:
        """Create a network namespace that lasts as long as the process whose id is returned."""
        holder = subprocess.Popen(
            ["unshare", "--net", "--", "sh", "-ec", f"{network.FORGET_THE_DEAD}; echo made; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        stdout = holder.stdout
        if stdout is None or stdout.readline() != b"made\n":
            raise StormwrightError(f"{name}: its network namespace could not be made")
        return holder.pid

    def _start_daemon(self, daemon: str) -> None:
        prefix = network.in_namespace(self._holders[daemon]) if daemon in self._holders else ()
        if self._plan.limits_cpu and self._plan.is_node(daemon):
            prefix = (*prefix, *cpu.in_group(self._plan.work, daemon))
        home = self._plan.daemon_dir(daemon)
        with (home / "logs" / "printed.log").open("ab") as printed:
            process = subprocess.Popen(
                [*prefix, *daemons.command(self._plan, daemon)],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                cwd=home,
                env={**os.environ, **daemons.environment(self._plan, daemon)},
            )
        self._daemons[process.pid] = (daemon, time.monotonic())
        self._record(daemon=daemon, pid=process.pid)

    def _watch(self) -> None:
        """Return when the owner has gone without detaching the cluster."""
        owner: list[int] = [sys.stdin.fileno()]
        while True:
            readable, _, _ = select.select(owner, [], [], _POLL_S)
            if readable:
                received = os.read(owner[0], 64)
                if received == b"":
                    return
                if received == _KEEP:
                    owner = []
            self._reap()
            if not self._plan.limits_cpu:
                self._settle_workers()

    def _settle_workers(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_S
        # Supervisors keep an empty file with the process id of each worker as its name.
        running = {int(file.name) for file in self._plan.work.glob("*/local/workers/*/pids/*")}
        self._workers_since = {pid: self._workers_since.get(pid, now) for pid in running}
        for pid, since in self._workers_since.items():
            if now - since > _SETTLED_S:
                # Each time, as a thread that started during the previous pass still has its priority.
                renice(pid, _SETTLED_NICENESS)

    def _reap(self) -> None:
        """Reap ended processes, including orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._daemons:
                daemon, since = self._daemons.pop(pid)
                self._record(daemon=daemon, exit=os.waitstatus_to_exitcode(status))
                if time.monotonic() - since > _STARTED_S:
                    self._start_daemon(daemon)

    def _record(self, **event: Any) -> None:
        self._events.write(json.dumps(event) + "\n")

    def _end(self) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once: another cluster may take the place at any time from now
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)  # everyone in this process namespace but this process
        kill_all_marked(self._plan.work)
        cpu.remove_groups(self._plan.work)
        if self._plan.namespaces:
            with suppress(StormwrightError):  # not laid yet
                network.take_down()
        state.clear()
        os._exit(0)


def _yield_cpu() -> None:
    """Lower the priority of the whole cluster to idle CPU.

    A busy topology has dozens of runnable threads: without this, what watches the cluster from the same machine waits
    for minutes. Linux shares CPU between sessions before it looks at the niceness of their processes.
    """
    with suppress(OSError):  # a kernel without autogroups
        Path("/proc/self/autogroup").write_text(str(_SESSION_NICENESS), encoding="ascii")


if __name__ == "__main__":
    work = Path(sys.argv[1])
    os.environ[MARK] = str(work)
    _yield_cpu()
    Warden(ClusterPlan.load(work)).run()
