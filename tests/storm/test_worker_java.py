"""The launcher of workers with a real JVM and the jars of Storm, but no cluster: a class of ours is the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stormwright.storm.jvm import STORM_HOME, STORMWRIGHT_JAR, require_java
from stormwright.storm.local_cluster.processes import kill

LAUNCHER = Path(__file__).parents[2] / "src" / "stormwright" / "storm" / "worker_java.sh"
LOG4J2 = LAUNCHER.parent / "local_cluster" / "log4j2" / "worker.xml"

#: Writes what it sees, and ends with code 7 when a file says so, or when it has lost its directory.
WORKER = """
import java.nio.file.*;

public class TestWorker {
    public static void main(String[] args) throws Exception {
        Path out = Path.of(args[0]);
        String seen = String.join("\\n", "pid=" + ProcessHandle.current().pid(), "id=" + System.getProperty("storm.id"),
            "env=" + System.getenv("TEST_VARIABLE"), "resource=" + Files.exists(Path.of("resource")),
            "standby=" + (System.getProperty("stormwright.worker.start.ms") != null),
            "max=" + Runtime.getRuntime().maxMemory(), "command=" + System.getProperty("sun.java.command"));
        Files.writeString(out.resolveSibling("unfinished"), seen);
        Files.move(out.resolveSibling("unfinished"), out);
        Thread worker = new Thread(() -> {
            java.util.List<byte[]> held = new java.util.ArrayList<>();
            while (Files.exists(out)) {
                try {
                    if (Files.exists(out.resolveSibling("fill"))) {
                        held.add(new byte[1 << 20]);
                    } else {
                        Thread.sleep(20);
                    }
                } catch (InterruptedException e) {
                    return;
                }
            }
            System.exit(7);
        });
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> Runtime.getRuntime().halt(9));
        worker.start();
    }
}
"""


@dataclass
class Node:
    """A node's directories, and the workers that were started on it."""

    root: Path
    classes: Path
    count: int = 1
    elsewhere: Path | None = None
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def standbys(self) -> Path:
        return self.elsewhere or self.root / "standby"

    def start(self, topology: str, *options: str, heap: str = "200m", before: bool = False, **variables: str) -> Worker:
        """Start a worker as a supervisor does, which fails if what it writes is there `before`."""
        local, logs = self.root / "local", self.root / "logs"
        directory = local / "workers" / topology
        directory.mkdir(parents=True)
        (directory / "resource").touch()
        (directory / "artifacts").mkdir()
        jar = local / "supervisor" / "stormdist" / topology / "stormjar.jar"
        jar.parent.mkdir(parents=True)
        jar.symlink_to(self.classes)
        common = [f"-Dworkers.artifacts={logs}", f"-Dstorm.id={topology}", f"-Dworker.id=w-{topology}"]
        common += ["-Dworker.port=6700", f"-Dstorm.local.dir={local}"]
        class_path = f"{STORM_HOME / 'lib-worker'}/*:{STORMWRIGHT_JAR}:{jar}"
        out = directory / "seen"
        if before:
            out.mkdir()
            (out / "full").touch()
        command = [str(LAUNCHER), "-cp", class_path, *common, "org.apache.storm.LogWriter", "java", "-server", *common]
        command += [f"-Dlog4j.configurationFile={LOG4J2}", "-XX:+UseSerialGC", *options, f"-Xmx{heap}"]
        command += ["-Djava.library.path=/nowhere", f"-Djava.io.tmpdir={directory}", "-cp", class_path]
        environment = {
            **os.environ,
            "STORMWRIGHT_JAVA": require_java(),
            "STORMWRIGHT_STANDBYS": str(self.count),
            "STORMWRIGHT_STANDBY_DIR": str(self.standbys),
            "STORMWRIGHT_STANDBY_DELAY": "0",
            **variables,
        }
        process = subprocess.Popen([*command, "TestWorker", str(out)], env=environment, cwd=directory)
        self.started.append(process)
        return Worker(process, out)

    def ready(self) -> list[Path]:
        """Return the directories of standbys that wait for a worker."""
        return [file.parent for file in self.standbys.glob("jvms/*/ready")]

    def await_ready(self, count: int = 1) -> list[Path]:
        wait_until(lambda: len(self.ready()) >= count)
        return self.ready()

    def pids(self) -> list[int]:
        pids = []
        for file in self.standbys.glob("jvms/*/pid"):
            with suppress(FileNotFoundError):  # its JVM has ended since
                pids += [int(text) for text in file.read_text().split()]
        return pids

    def clear(self) -> bool:
        """Kill all JVMs, also those that are being started; return whether there are any."""
        for pid in self.pids():
            kill(pid)
        # By a pattern: `glob` looks up an exact name such as "renewing", and does not find a symbolic link to no file.
        return bool(list(self.standbys.glob("jvms/*")) or list(self.standbys.glob("options/*/r*")))

    def log(self) -> str:
        file = self.standbys / "log"
        return file.read_text() if file.exists() else ""


@dataclass
class Worker:
    """A worker, by the process that the supervisor has started."""

    process: subprocess.Popen[bytes]
    out: Path

    def state(self) -> dict[str, str]:
        """Return what the worker has written when it has started."""
        wait_until(self.out.exists)
        return dict(line.split("=", 1) for line in self.out.read_text().splitlines())

    def end(self) -> int:
        """Have it end, and return the exit code of the supervisor's process."""
        self.state()
        self.out.unlink()
        return self.process.wait(30)


def wait_until(reached: Callable[[], Any], timeout_s: float = 240.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < deadline, "not reached in time"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def worker_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("worker")
    (directory / "TestWorker.java").write_text(WORKER)
    subprocess.run(["javac", "-d", directory, directory / "TestWorker.java"], check=True)
    return directory


@pytest.fixture
def node(tmp_path: Path, worker_classes: Path) -> Iterator[Node]:
    node = Node(tmp_path, worker_classes)
    yield node
    for process in node.started:
        process.kill()
        process.wait()
    wait_until(lambda: not node.clear())


@pytest.mark.long
def test_standby_becomes_the_next_worker(node: Node) -> None:
    first = node.start("a-1-1", TEST_VARIABLE="one")
    assert first.state()["standby"] == "false"
    (standby,) = node.await_ready()
    second = node.start("b-2-2", TEST_VARIABLE="two")
    state = second.state()
    assert state["standby"] == "true"
    assert (state["id"], state["env"], state["resource"]) == ("b-2-2", "two", "true")
    assert state["pid"] == (standby / "pid").read_text().strip()
    assert state["command"] == f"TestWorker {second.out}"
    assert (second.out.parents[3] / "logs" / "b-2-2" / "6700" / "worker.out").exists()
    node.await_ready()  # its successor
    assert second.end() == 7
    assert first.end() == 7
    wait_until(lambda: not standby.exists())


@pytest.mark.slow
def test_kill_of_a_worker_that_was_a_standby_ends_the_process_of_the_supervisor(node: Node) -> None:
    node.start("a-1-1")
    node.await_ready()
    worker = node.start("b-2-2")
    os.kill(int(worker.state()["pid"]), signal.SIGKILL)
    assert worker.process.wait(10) == 128 + signal.SIGKILL


@pytest.mark.slow
def test_failure_to_become_a_worker_is_followed_by_a_cold_start(node: Node) -> None:
    node.start("a-1-1")
    node.await_ready()
    # It fails as long as the file is there that it writes: the second attempt starts with the same error.
    worker = node.start("b-2-2", before=True)
    assert worker.process.wait(30) == 1
    assert "ended while it became the worker" in node.log()


@pytest.mark.slow
def test_standby_that_does_not_answer_is_replaced_by_a_cold_start(node: Node) -> None:
    node.start("a-1-1")
    (standby,) = node.await_ready()
    pid = int((standby / "pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    worker = node.start("b-2-2")
    assert worker.state()["standby"] == "false"
    assert 3.0 <= time.monotonic() - begin < 15.0
    assert "no answer within 3 s" in node.log()
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.slow
def test_idle_standby_that_is_killed_is_reaped_and_replaced(node: Node) -> None:
    node.start("a-1-1")
    (standby,) = node.await_ready()
    pid = int((standby / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{pid}").exists() and pid not in node.pids() and node.ready())
    assert node.start("b-2-2").state()["standby"] == "true"


@pytest.mark.slow
def test_standby_that_loads_while_its_supervisor_is_started_again_is_replaced(node: Node) -> None:
    first = subprocess.Popen(["sleep", "600"])
    node.standbys.mkdir(mode=0o700)
    (node.standbys / "supervisor").write_text(f"{first.pid}\n")
    node.start("a-1-1")
    wait_until(node.pids)
    (node.standbys / "supervisor").write_text(f"{os.getpid()}\n")
    first.kill()
    first.wait()
    (standby,) = node.await_ready()
    time.sleep(6.0)  # a standby looks for its supervisor every five seconds
    assert standby in node.ready()
    assert node.start("b-2-2").state()["standby"] == "true"


@pytest.mark.slow
def test_one_standby_becomes_one_of_two_workers_that_start_at_once(node: Node) -> None:
    node.start("a-1-1")
    node.await_ready()
    workers = [node.start("b-2-2"), node.start("c-3-3")]
    assert sorted(worker.state()["standby"] for worker in workers) == ["false", "true"]


@pytest.mark.slow
def test_two_standbys_are_loaded_where_two_are_configured(node: Node) -> None:
    node.count = 2
    node.start("a-1-1")
    node.await_ready(2)
    assert [node.start(name).state()["standby"] for name in ("b-2-2", "c-3-3")] == ["true", "true"]


@pytest.mark.long
def test_zero_standbys_switch_them_off(node: Node) -> None:
    node.count = 0
    assert node.start("a-1-1").end() == 7
    assert not node.standbys.exists()


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-Dtest.port=6700", "-XX:+AlwaysPreTouch"])
def test_options_that_fit_one_worker_only_have_no_standby(node: Node, option: str) -> None:
    assert node.start("a-1-1", option).state()["standby"] == "false"
    assert not list(node.standbys.glob("options/*"))


@pytest.mark.slow
def test_worker_with_other_options_starts_cold(node: Node) -> None:
    node.start("a-1-1")
    node.await_ready()
    assert node.start("b-2-2", "-Dtest.option=other").state()["standby"] == "false"


@pytest.mark.slow
def test_worker_with_another_start_environment_starts_cold(node: Node) -> None:
    node.start("a-1-1")
    node.await_ready()
    assert node.start("b-2-2", MALLOC_ARENA_MAX="2").state()["standby"] == "false"
    assert "MALLOC_ARENA_MAX" in node.log()


# Requested before `node`, so that it is torn down last: standbys run in it until then.
@pytest.fixture
def shared_memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        yield Path(directory)


@pytest.mark.slow
def test_log_of_collections_on_another_file_system_starts_cold(shared_memory: Path, node: Node) -> None:
    assert shared_memory.stat().st_dev != node.root.stat().st_dev
    node.elsewhere = shared_memory / "standby"
    node.start("a-1-1", "-Xlog:gc:file=artifacts/gc.log")
    node.await_ready()
    assert node.start("b-2-2", "-Xlog:gc:file=artifacts/gc.log").state()["standby"] == "false"
    assert "its directory is on another file system than the standbys, set STORMWRIGHT_STANDBY_DIR" in node.log()


@pytest.mark.slow
def test_larger_heap_than_that_of_the_standby_starts_cold_and_is_learnt(node: Node) -> None:
    node.start("a-1-1", heap="100m")
    node.await_ready()
    assert node.start("b-2-2", heap="401m").state()["standby"] == "false"
    node.await_ready()
    assert node.start("c-3-3", heap="800m").state()["standby"] == "true"


@pytest.mark.slow
def test_heap_in_gigabytes_has_standbys(node: Node) -> None:
    node.start("a-1-1", heap="1g")
    node.await_ready()
    assert node.start("b-2-2", heap="2g").state()["standby"] == "true"


@pytest.mark.slow
def test_worker_ends_when_it_uses_more_than_its_heap_although_its_standby_has_more(node: Node) -> None:
    node.start("a-1-1", heap="200m")
    node.await_ready()
    worker = node.start("b-2-2", heap="64m")
    assert int(worker.state()["max"]) > 500 << 20
    worker.out.with_name("fill").touch()
    assert worker.process.wait(30) == 9


@pytest.mark.slow
def test_idle_standby_ends_with_its_supervisor(node: Node) -> None:
    supervisor = subprocess.Popen(["sleep", "600"])
    node.standbys.mkdir(mode=0o700)
    (node.standbys / "supervisor").write_text(f"{supervisor.pid}\n")
    worker = node.start("a-1-1")
    (standby,) = node.await_ready()
    supervisor.kill()
    supervisor.wait()
    wait_until(lambda: not standby.exists())
    assert worker.end() == 7


@pytest.mark.slow
def test_untried_version_of_storm_switches_standbys_off(node: Node, tmp_path: Path) -> None:
    classes = tmp_path / "version"
    classes.mkdir()
    (classes / "storm-client-version-info.properties").write_text("version=4.0.0\nrevision=1\nbranch=1\nuser=1\n")
    worker = node.start("a-1-1", f"-Xbootclasspath/a:{classes}")
    worker.state()
    off = node.standbys / "off"
    wait_until(off.exists)
    assert "Storm 4.0.0 has not been tried" in off.read_text()
    assert node.start("b-2-2", f"-Xbootclasspath/a:{classes}").state()["standby"] == "false"


@pytest.mark.long
def test_directory_that_belongs_to_another_user_is_not_used(node: Node) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give directories away")
    node.standbys.mkdir()
    os.chown(node.standbys, 65534, 65534)
    assert node.start("a-1-1").end() == 7
    assert not list(node.standbys.iterdir())


def test_launcher_says_what_to_set_without_a_java(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STORMWRIGHT")}
    done = subprocess.run([LAUNCHER, "-version"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "set it to the path of the java to use" in done.stderr
