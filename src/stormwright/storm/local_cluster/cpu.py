"""CPU limits and accounting of nodes with control groups, version 1 or 2.

A node is a group ``stormwright-<cluster>-<node>`` at the top of the hierarchy: its supervisor is started in it, and
takes its workers along. The name follows from the cluster's work directory, so that its next owner finds leftovers of a
killed cluster.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from stormwright.errors import ClusterError
from stormwright.storm.local_cluster.processes import kill

#: Mounted file systems of this machine.
MOUNTS = Path("/proc/mounts")

#: Period of the CPU quota in µs. With the kernel's own 100 ms, a node of 0.4 cores runs at full speed
#: and then stands still for up to 60 ms, which no real one does. Under 20 ms the kernel no longer gives what it should.
PERIOD_US = 20_000

#: Cores that Nimbus, ZooKeeper, the service and Spark need to be no limit themselves.
RESERVED_CORES = 0.8


class NodeCpu(NamedTuple):
    """CPU of a node since the cluster came up.

    Parameters
    ----------
    used_s
        CPU time of its supervisor and workers together, in seconds.
    limit_cores
        CPU limit in cores.
    periods, throttled_periods
        Periods in which it ran, and those of them in which it used up its quota and had to wait.
    """

    used_s: float
    limit_cores: float
    periods: int
    throttled_periods: int

    @property
    def throttled_share(self) -> float:
        """Share of throttled periods among those in which the node ran: 0 to 1."""
        return self.throttled_periods / self.periods if self.periods else 0.0

    def since(self, earlier: Self) -> Self:
        """Return the difference from an earlier count."""
        return type(self)(
            self.used_s - earlier.used_s,
            self.limit_cores,
            self.periods - earlier.periods,
            self.throttled_periods - earlier.throttled_periods,
        )


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Mount points for groups; version 1 may limit and count in two places."""

    version: int
    limits: Path
    counts: Path

    @classmethod
    def find(cls) -> tuple[Self | None, str]:
        """Return this machine's hierarchies, and why they are unusable; empty if they are usable."""
        offers: dict[str, Path] = {}
        read_only: set[Path] = set()
        for line in MOUNTS.read_text(encoding="utf-8").splitlines():
            _, at, kind, how, *_ = line.split()
            if kind == "cgroup2" and _v2_has_cpu(Path(at)):
                offers.setdefault("v2", Path(at))
            elif kind == "cgroup":
                offers |= {controller: Path(at) for controller in {"cpu", "cpuacct"} & set(how.split(","))}
            if "ro" in how.split(","):
                read_only.add(Path(at))
        if {"cpu", "cpuacct"} <= offers.keys():
            found = cls(1, offers["cpu"], offers["cpuacct"])
        elif "v2" in offers:
            found = cls(2, offers["v2"], offers["v2"])
        else:
            return None, "no control group hierarchy for CPU is mounted"
        unusable = [str(place) for place in (found.limits, found.counts) if place in read_only]
        return found, f"{unusable[0]} is mounted read-only" if unusable else ""

    def groups(self, name: str) -> tuple[Path, ...]:
        """Return the directories that make up a group."""
        return tuple(dict.fromkeys((self.limits / name, self.counts / name)))

    def make(self, name: str, cores: float) -> None:
        """Create a group limited to `cores`; it must not exist yet."""
        if self.version == 2:
            # Left so afterwards: taking it back would take the limits off every other cluster's nodes.
            (self.limits / "cgroup.subtree_control").write_text("+cpu", encoding="ascii")
        for group in self.groups(name):
            group.mkdir()
        self.hold(name, cores)

    def hold(self, name: str, cores: float) -> None:
        """Change the limit of a group to `cores`."""
        quota_us = round(cores * PERIOD_US)
        if self.version == 2:
            (self.limits / name / "cpu.max").write_text(f"{quota_us} {PERIOD_US}", encoding="ascii")
        else:
            (self.limits / name / "cpu.cfs_period_us").write_text(str(PERIOD_US), encoding="ascii")
            (self.limits / name / "cpu.cfs_quota_us").write_text(str(quota_us), encoding="ascii")

    def weigh(self, name: str, times: int) -> None:
        """Set the CPU weight of a group to `times` the default."""
        if self.version == 2:
            (self.limits / name / "cpu.weight").write_text(str(100 * times), encoding="ascii")
        else:
            (self.limits / name / "cpu.shares").write_text(str(1024 * times), encoding="ascii")

    def read(self, name: str, cores: float) -> NodeCpu:
        """Return the CPU used by a group limited to `cores`."""
        stat = dict(line.split() for line in (self.limits / name / "cpu.stat").read_text(encoding="ascii").splitlines())
        if self.version == 2:
            used_s = int(stat["usage_usec"]) / 1e6
        else:
            used_s = int((self.counts / name / "cpuacct.usage").read_text(encoding="ascii")) / 1e9
        return NodeCpu(used_s, cores, int(stat["nr_periods"]), int(stat["nr_throttled"]))


_REMEDY = "run as root with the control groups writable (a container: --privileged)"


def why_no_limits(work: Path, cores: float) -> str:
    """Return why the nodes of a cluster cannot be limited to `cores`, and a remedy; empty if they can."""
    hierarchies, refusal = Hierarchies.find()
    if hierarchies is not None and not refusal:
        if os.geteuid() != 0:
            refusal = "only root can make control groups"
        else:
            trial = _name(work, "trial")
            try:
                hierarchies.make(trial, cores)
            except OSError as error:
                refusal = f"this machine does not allow it ({error.strerror}: {error.filename})"
            finally:
                _remove(hierarchies.groups(trial), time.monotonic())
    return f"{refusal}; {_REMEDY}" if refusal else ""


def make_group(work: Path, node: str, cores: float) -> None:
    """Create the group of a node of the cluster with that work directory.

    Raises
    ------
    ClusterError
        It cannot be made.
    """
    try:
        _found().make(_name(work, node), cores)
    except OSError as error:
        raise ClusterError(f"{node}: its control group cannot be made: {error}") from None


def hold_group(work: Path, node: str, cores: float, weight: int = 1) -> None:
    """Change the CPU limit and weight of a node's group.

    Parameters
    ----------
    work, node
        Work directory of the cluster, and the node.
    cores
        New CPU limit in cores.
    weight
        CPU weight relative to another process if the machine is overloaded, 1 to 100.

    Raises
    ------
    ClusterError
        It has no group: the cluster has ended.
    """
    hierarchies, name = _found(), _name(work, node)
    try:
        hierarchies.hold(name, cores)
        hierarchies.weigh(name, weight)
    except FileNotFoundError:
        raise ClusterError("the local cluster has ended") from None


def in_group(work: Path, node: str) -> tuple[str, ...]:
    """Return the prefix of a command that runs in a node's group, with all its children."""
    joins = [f"echo 0 > '{group}/cgroup.procs'" for group in _found().groups(_name(work, node))]
    return ("sh", "-ec", f'{"; ".join(joins)}; exec "$@"', "sh")


def read_group(work: Path, node: str, cores: float) -> NodeCpu:
    """Return the CPU used by a node limited to `cores`.

    Raises
    ------
    ClusterError
        It has no group: the cluster has ended.
    """
    try:
        return _found().read(_name(work, node), cores)
    except FileNotFoundError:
        raise ClusterError("the local cluster has ended") from None


def kill_group(work: Path, node: str) -> None:
    """Kill all processes in a node's group."""
    for pid in _members(list(_found().groups(_name(work, node)))):
        kill(pid)


def groups_of(work: Path) -> list[Path]:
    """Return the directories of all groups of the cluster with that work directory."""
    hierarchies, _ = Hierarchies.find()
    places = {hierarchies.limits, hierarchies.counts} if hierarchies else set()
    return [group for place in places for group in place.glob(_name(work, "*"))]


def remove_groups(work: Path, timeout_s: float = 10.0) -> None:
    """Kill remaining processes in the groups of a cluster, and remove the groups."""
    _remove(groups_of(work), time.monotonic() + timeout_s)


def fitting_cores(nodes: int) -> float:
    """Return the cores per node, in steps of 0.05, that leave enough to the service and Spark.

    At least 0.05, also where the machine is too small for that.
    """
    return max(int((len(os.sched_getaffinity(0)) - RESERVED_CORES) / nodes * 20 + 1e-9), 1) / 20


def _name(work: Path, node: str) -> str:
    # Containers may share the hierarchy, and have equal paths.
    cluster = hashlib.sha256(f"{socket.gethostname()}:{work}".encode()).hexdigest()[:12]
    return f"stormwright-{cluster}-{node}"


def _found() -> Hierarchies:
    hierarchies, refusal = Hierarchies.find()
    if hierarchies is None:
        raise ClusterError(refusal)
    return hierarchies


def _v2_has_cpu(mount: Path) -> bool:
    with suppress(OSError):
        return "cpu" in (mount / "cgroup.controllers").read_text(encoding="ascii").split()
    return False


def _remove(groups: Sequence[Path], deadline: float) -> None:
    """Remove groups once they are empty; the kernel refuses it before."""
    left = [group for group in groups if group.exists()]
    while left:
        for pid in _members(left):
            kill(pid)
        for group in left:
            with suppress(OSError):
                group.rmdir()
        left = [group for group in left if group.exists()]
        if left and time.monotonic() > deadline:
            return
        time.sleep(0.02 if left else 0)


def _members(groups: list[Path]) -> Iterator[int]:
    for group in groups:
        with suppress(OSError):
            pids = {int(line) for line in (group / "cgroup.procs").read_text(encoding="ascii").split()}
            # 0 is a process of a namespace outside this one.
            yield from pids - {0, os.getpid()}
