"""A real Storm cluster for the whole test session, and what it takes to see whether one has left anything behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, RunningCluster
from stormwright.storm.local_cluster.cpu import groups_of
from stormwright.storm.local_cluster.network import why_no_namespaces
from stormwright.storm.local_cluster.plan import ClusterPlan
from stormwright.storm.local_cluster.processes import MARK
from tests.storm.guard import Guard

#: The kinds of network that this machine can do; where it can do better, the lesser one rarely breaks.
NETWORKS: list[Any] = (
    ["loopback"] if why_no_namespaces() else [pytest.param("loopback", marks=pytest.mark.slow), "namespaces"]
)

#: Of a cluster that tests share. Storm blacklists a supervisor that was missing three times, as one is that a test
#: kills: others would miss it. And Nimbus hears but once a minute which executors run: tests would wait for it.
_CONF = {"blacklist.scheduler.tolerance.count": 1000, "executor.metrics.frequency.secs": 3}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test that takes a `network` with each kind that this machine can do."""
    if "network" in metafunc.fixturenames:
        metafunc.parametrize("network", NETWORKS)


@pytest.fixture(scope="session")
def storm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Three nodes, four slots each, links of 40 Mbit where possible; Nimbus asks a service, if one runs."""
    with pytest.MonkeyPatch.context() as patch:
        # A place of its own, so that the tests leave a developer's running cluster alone.
        directory = tmp_path_factory.mktemp("cluster")
        patch.setenv("TMPDIR", str(directory))
        patch.setattr(tempfile, "tempdir", str(directory))
        with LocalCluster(LocalClusterConfig(storm_conf=_CONF)) as cluster:
            yield cluster


@dataclass(frozen=True)
class Place:
    """A temporary directory in which a test runs clusters of its own, in other processes."""

    directory: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The environment for those processes."""
        return {**os.environ, "TMPDIR": str(self.directory)}

    def command(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run ``stormwright cluster`` with these arguments."""
        return subprocess.run(self.argv(*args), capture_output=True, text=True, check=False, env=self.environment)

    def argv(self, *args: str) -> list[str]:
        """What `command` runs."""
        return [str(Path(sys.executable).with_name("stormwright")), "cluster", *args]

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start a process that is killed at the end of the test, if it still runs then."""
        process = subprocess.Popen(
            argv,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def start_owner(self, network: str) -> subprocess.Popen[str]:
        """Start a process that owns a cluster; it prints a line when the cluster is up, and stays."""
        return self.start(sys.executable, "-c", _OWNER, network)

    def processes(self) -> set[int]:
        """Processes that know this directory: all of the cluster's inherit its environment."""
        variable = f"TMPDIR={self.directory}".encode()
        found = set()
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and variable in (process / "environ").read_bytes().split(b"\0"):
                    found.add(int(process.name))
            except OSError:  # it has ended, or belongs to someone else
                continue
        return found


_OWNER = """
import sys, time
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig, fitting_cores
cores = fitting_cores(1)
config = LocalClusterConfig(nodes=1, slots=1, network=sys.argv[1], cores_per_node=cores, cpu_limits="auto")
with LocalCluster(config):
    print("up", flush=True)
    time.sleep(600)
"""


def traces(place: Place) -> dict[str, set[Any]]:
    """All that a cluster could leave on this machine; addresses and routes go with their links."""
    return {
        "processes": place.processes(),
        "links": {link["ifname"] for link in json.loads(_print("ip", "-json", "link"))} - _links_of_others(place),
        "control groups": set(groups_of(place.directory / f"stormwright-{os.getuid()}" / "work")),
        "named namespaces": set(_print("ip", "netns").splitlines()),
        "files": {Path(at) / name for at, dirs, files in os.walk(place.directory) for name in (*dirs, *files)},
        "files elsewhere": {path for path in Path("/tmp").iterdir() if _ours_elsewhere(path.name)},  # noqa: S108
    }


def _ours_elsewhere(name: str) -> bool:
    # What Storm's own defaults would leave; places of clusters that a developer runs beside the tests are no concern.
    return ("storm" in name or "rocksdb" in name) and not name.startswith("stormwright-")


def _links_of_others(place: Place) -> set[str]:
    """Links of clusters that a developer runs beside the tests."""
    links = set()
    for process in Path("/proc").iterdir():
        try:
            environment = (process / "environ").read_bytes().split(b"\0") if process.name.isdigit() else []
            works = [
                Path(entry.partition(b"=")[2].decode()) for entry in environment if entry.startswith(MARK.encode())
            ]
            links |= {ClusterPlan.load(work).host_link for work in works if place.directory not in work.parents}
        except OSError:  # the process, or its cluster, has ended
            continue
    return links


def _print(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A directory for clusters of the test's own; at its end nothing of them may be left on the machine.

    What `cluster up` has started outlives who started it: where the test fails, or its process is killed, it is ended.
    """
    place = Place(tmp_path)
    before = traces(place)
    with Guard("env", f"TMPDIR={tmp_path}", *place.argv("down")) as guard:
        yield place
        for process in place.started:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        deadline = time.monotonic() + 60
        while (left := _more(traces(place), before)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert left == {}
        guard.all_well()


def _more(after: dict[str, set[Any]], before: dict[str, set[Any]]) -> dict[str, set[Any]]:
    return {kind: there - before[kind] for kind, there in after.items() if there - before[kind]}


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool], str], None]:
    """Wait for something that must happen, within a time that is generous even for a very busy machine."""

    def wait(happens: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 120
        while not happens():
            assert time.monotonic() < deadline, f"did not happen within 120 s: {what}"
            time.sleep(0.05)

    return wait
