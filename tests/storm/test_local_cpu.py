"""Nodes are held to their cores by control groups: with hierarchies made of files, and on this machine's own."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stormwright.errors import ClusterError
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, NodeCpu, cpu, fitting_cores, state
from stormwright.storm.local_cluster.cpu import groups_of
from stormwright.storm.local_cluster.plan import make_plan
from stormwright.storm.local_cluster.running import RunningCluster

_STAT_V1 = "nr_periods 50\nnr_throttled 20\nthrottled_time 1500000000\n"
_STAT_V2 = (
    "usage_usec 2500000\nuser_usec 0\nsystem_usec 0\nnr_periods 50\nnr_throttled 20\nthrottled_usec 1500000\n"
    "nr_bursts 0\nburst_usec 0\n"
)


class FakeKernel:
    """Hierarchies below a directory, as this process sees them; groups are refused or removed as the kernel does."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.mounts: list[str] = ["tmpfs /sys/fs/cgroup tmpfs ro,nosuid 0 0"]
        self._remove = Path.rmdir
        patch.setattr("os.geteuid", lambda: 0)
        patch.setattr(cpu, "MOUNTS", root / "mounts")
        patch.setattr(Path, "rmdir", lambda group: self._removed(group))

    def mount(self, kind: str, options: str, controllers: str = "") -> Path:
        at = self.root / options.rpartition(",")[2]
        at.mkdir()
        self.mounts.append(f"{kind} {at} {kind} {options} 0 0")
        (self.root / "mounts").write_text("\n".join(self.mounts) + "\n")
        if kind == "cgroup2":
            (at / "cgroup.controllers").write_text(controllers)
            (at / "cgroup.subtree_control").touch()
        return at

    def _removed(self, group: Path) -> None:
        procs = group / "cgroup.procs"
        if procs.exists() and procs.read_text():
            raise OSError(errno.EBUSY, "busy", str(group))
        for file in group.iterdir():
            file.unlink()
        self._remove(group)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    (tmp_path / "cgroup").mkdir()
    kernel = FakeKernel(tmp_path / "cgroup", monkeypatch)
    (kernel.root / "mounts").touch()
    return kernel


def test_version_1_in_two_hierarchies(kernel, tmp_path):
    limits = kernel.mount("cgroup", "rw,relatime,cpu")
    counts = kernel.mount("cgroup", "rw,relatime,cpuacct")
    kernel.mount("cgroup2", "rw,unified", "hugetlb")
    assert cpu.why_no_limits(tmp_path, 0.4) == ""
    assert not [*limits.iterdir(), *counts.iterdir()]
    cpu.make_group(tmp_path, "node1", 0.4)
    (group,) = limits.iterdir()
    assert group.name == next(counts.iterdir()).name
    quota, period = (int((group / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
    assert quota / period == pytest.approx(0.4)
    cpu.hold_group(tmp_path, "node1", 0.25, weight=100)
    assert int((group / "cpu.cfs_quota_us").read_text()) / period == pytest.approx(0.25)
    assert (group / "cpu.shares").read_text() == "102400"
    joining = subprocess.run(
        [*cpu.in_group(tmp_path, "node1"), "echo", "started in it"], capture_output=True, text=True, check=True
    )
    assert joining.stdout == "started in it\n"
    for place in (group, counts / group.name):
        assert (place / "cgroup.procs").read_text() == "0\n"
    (group / "cpu.stat").write_text(_STAT_V1)
    (counts / group.name / "cpuacct.usage").write_text("2500000000\n")
    _assert_read(tmp_path)
    cpu.remove_groups(tmp_path, timeout_s=0)
    assert group.exists()  # something outside this namespace is in it
    for place in (group, counts / group.name):
        (place / "cgroup.procs").write_text("")
    cpu.remove_groups(tmp_path)
    assert not [*limits.iterdir(), *counts.iterdir()]


def test_version_2(kernel, tmp_path):
    mount = kernel.mount("cgroup2", "rw,nsdelegate", "cpuset cpu io memory")
    assert cpu.why_no_limits(tmp_path, 0.4) == ""
    cpu.make_group(tmp_path, "node1", 0.4)
    assert (mount / "cgroup.subtree_control").read_text() == "+cpu"
    (group,) = (path for path in mount.iterdir() if path.is_dir())
    quota, period = map(int, (group / "cpu.max").read_text().split())
    assert quota / period == pytest.approx(0.4)
    cpu.hold_group(tmp_path, "node1", 0.25, weight=100)
    assert (group / "cpu.max").read_text() == f"{period // 4} {period}"
    assert (group / "cpu.weight").read_text() == "10000"
    (group / "cpu.stat").write_text(_STAT_V2)
    _assert_read(tmp_path)
    cpu.remove_groups(tmp_path)
    assert not group.exists()


def _assert_read(work):
    read = cpu.read_group(work, "node1", 0.4)
    assert read == NodeCpu(2.5, 0.4, 50, 20)
    assert read.throttled_share == 0.4
    assert read.since(NodeCpu(1.5, 0.4, 10, 0)) == NodeCpu(1.0, 0.4, 40, 20)
    assert NodeCpu(0.0, 0.4, 0, 0).throttled_share == 0.0


def test_parallel_local_clusters_use_separate_cgroups(kernel, tmp_path):
    mount = kernel.mount("cgroup", "rw,cpu,cpuacct")
    for cluster in ("one", "other"):
        cpu.make_group(tmp_path / cluster, "node1", 1.0)
    assert len(list(mount.iterdir())) == 2
    cpu.remove_groups(tmp_path / "one")
    assert len(list(mount.iterdir())) == 1
    with pytest.raises(ClusterError, match="has ended"):
        cpu.read_group(tmp_path / "one", "node1", 1.0)
    with pytest.raises(ClusterError, match="has ended"):
        cpu.hold_group(tmp_path / "one", "node1", 1.0)
    with pytest.raises(ClusterError, match=r"node1: its control group cannot be made: .*exists"):
        cpu.make_group(tmp_path / "other", "node1", 1.0)


@pytest.mark.parametrize(
    ("kind", "options", "controllers"),
    [("cgroup", "rw,cpu", ""), ("cgroup", "rw,memory", ""), ("cgroup2", "rw,nsdelegate", "hugetlb")],
)
def test_missing_cgroup_hierarchy_is_reported(kernel, kind, options, controllers, tmp_path):
    kernel.mount(kind, options, controllers)
    assert cpu.why_no_limits(tmp_path, 0.4).startswith("no control group hierarchy for CPU is mounted; run as root")


def test_read_only_cgroup_hierarchy_is_reported(kernel, tmp_path):
    at = kernel.mount("cgroup2", "ro,nsdelegate", "cpu")
    assert cpu.why_no_limits(tmp_path, 0.4).startswith(f"{at} is mounted read-only; run as root")


def test_cpu_limits_without_root_are_refused_with_reason(kernel, monkeypatch, tmp_path):
    kernel.mount("cgroup2", "rw,nsdelegate", "cpu")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert cpu.why_no_limits(tmp_path, 0.4).startswith("only root can make control groups; run as root")


def test_kernel_refusal_is_reported_and_leaves_no_cgroup(kernel, tmp_path):
    mount = kernel.mount("cgroup2", "rw,nsdelegate", "cpu")
    (mount / "cgroup.subtree_control").unlink()
    (mount / "cgroup.subtree_control").mkdir()
    assert cpu.why_no_limits(tmp_path, 0.4).startswith(
        f"this machine does not allow it (Is a directory: {mount}/cgroup.subtree"
    )
    assert {path.name for path in mount.iterdir()} == {"cgroup.controllers", "cgroup.subtree_control"}


def test_missing_cpu_limits_are_an_error_only_if_requested(kernel, tmp_path, monkeypatch):
    refusal = "no control group hierarchy for CPU is mounted; "
    monkeypatch.setattr(state, "place", lambda: tmp_path / "place")
    monkeypatch.setattr("stormwright.storm.local_cluster.cluster.require_java", lambda: "java")
    with (
        pytest.raises(ClusterError, match=rf"nodes cannot be held to their cores: {refusal}"),
        LocalCluster(LocalClusterConfig(cores_per_node=0.4)),
    ):
        pass
    config = LocalClusterConfig(cores_per_node=0.4, cpu_limits="auto")
    plan = make_plan(config, tmp_path, "java", "asked for", refusal)
    assert (plan.limits_cpu, plan.nodes[0].declared_cores) == (False, 2.0)
    running = RunningCluster(plan, os.getpid())
    assert running.node_cpu() == {}
    assert f"; without CPU limits: {refusal}" in running.describe_network()


def test_fitting_cores_reserve_capacity_for_service(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    assert (fitting_cores(3), fitting_cores(1), fitting_cores(60)) == (0.4, 1.2, 0.05)


_BUSY = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass"


def assert_held(cluster: RunningCluster, cores: float) -> None:
    """A worker with work for a whole core gets what is requested, in every period where the machine has it to give."""
    before, begun = cluster.node_cpu()["node1"], time.monotonic()
    subprocess.run([*cluster.command_on_node("node1"), sys.executable, "-c", _BUSY], check=True)
    took_s = time.monotonic() - begun
    used = cluster.node_cpu()["node1"].since(before)
    assert used.used_s / took_s < cores * 1.15
    assert used.used_s > 0.85 * cores * cpu.PERIOD_US * 1e-6 * used.throttled_periods
    assert used.throttled_periods


@pytest.mark.storm
def test_a_busy_node_gets_its_cores(place, monkeypatch):
    """The fixture sees that no group is left; what a killed cluster leaves is among the life cycle's tests."""
    up = place.command("up", "--nodes", "1", "--cores-per-node", "0.3")
    if reason := cpu.why_no_limits(place.directory, 0.3):
        assert (up.returncode, reason in up.stderr) == (2, True)
        pytest.skip(f"no CPU limits: {reason}")
    assert up.returncode == 0, up.stderr
    monkeypatch.setattr("tempfile.tempdir", str(place.directory))
    cluster = RunningCluster.find()
    assert_held(cluster, 0.3)
    (node,) = json.loads(place.command("status", "--json").stdout)["nodes"]
    assert node["cpu_limit_cores"] == 0.3
    assert 0 < node["cpu_used_cores"] < 0.35
    assert " of 0.3, throttled in " in place.command("status").stdout
    cluster.limit_nodes(0.15, "10mbit")
    assert_held(cluster, 0.15)
    link = subprocess.run(
        [*cluster.command_on_node("node1"), "tc", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True
    )
    assert " rate 10Mbit " in link.stdout
    (node,) = json.loads(place.command("status", "--json").stdout)["nodes"]
    assert node["cpu_limit_cores"] == 0.15
    assert groups_of(cluster.plan.work)
    assert place.command("down").returncode == 0
