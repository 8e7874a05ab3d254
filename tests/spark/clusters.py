"""Spark elsewhere: a standalone cluster of two workers, and a Connect server, on this machine's loopback alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"

_SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
_LEAN_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true"
_UP_S = 60

#: What a driver on a machine that only loopback reaches has to say.
DRIVER = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.memory": "600m",
    "spark.ui.enabled": "false",
    "spark.executor.memory": "500m",
    "spark.executor.extraJavaOptions": _LEAN_JVM,
    "spark.sql.shuffle.partitions": "2",
}


@dataclass(frozen=True)
class Standalone:
    """A running cluster."""

    master: str
    workers: list[subprocess.Popen[bytes]]

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors at once, as if its machine had gone."""
        for pid in [self.workers[number].pid, *_descendants(self.workers[number].pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self.workers[number].wait()


def environment(plugins: Path | None = None) -> dict[str, str]:
    """For Spark's processes and ours: this tree's code, and nothing of a Spark that this process may have started."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *([str(plugins)] if plugins else []), *_inherited(own)])
    return {**own, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}


def _inherited(own: Mapping[str, str]) -> list[str]:
    return [own["PYTHONPATH"]] if own.get("PYTHONPATH") else []


@contextmanager
def standalone(directory: Path, plugins: Path) -> Iterator[Standalone]:
    """A master and two workers of one core."""
    port = _free_port()
    master = f"spark://{LOOPBACK}:{port}"
    deploy = "org.apache.spark.deploy"
    with _started("master", directory, plugins, f"{deploy}.master.Master", "--host", LOOPBACK, "--port", str(port)) as (
        _,
        log,
    ):
        _wait_for(log, "I have been elected leader")
        sizes = ["--cores", "1", "--memory", "700M", "--host", LOOPBACK, "--work-dir", str(directory / "work")]
        worker = [f"{deploy}.worker.Worker", *sizes, master]
        with (
            _started("worker-0", directory, plugins, *worker) as (first, first_log),
            _started("worker-1", directory, plugins, *worker) as (second, second_log),
        ):
            for one in (first_log, second_log):
                _wait_for(one, "Successfully registered with master")
            yield Standalone(master, [first, second])


@contextmanager
def connect_server(directory: Path, plugins: Path) -> Iterator[str]:
    """A Connect server with two local cores; its URL."""
    port = _free_port()
    conf = {
        **DRIVER,
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.local.dir": str(directory / "tmp"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    submit = ["org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
    submit += [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    submit += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with _started("connect", directory, plugins, *submit, heap="700m") as (_, log):
        _wait_for(log, "Spark Connect server started at")
        yield f"sc://{LOOPBACK}:{port}"


@contextmanager
def _started(
    name: str, directory: Path, plugins: Path, *command: str, heap: str = "200m"
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / f"{name}.log"
    own = {"SPARK_DAEMON_MEMORY": heap, "SPARK_DAEMON_JAVA_OPTS": _LEAN_JVM, "SPARK_NO_DAEMONIZE": "1"}
    ports = {"SPARK_MASTER_WEBUI_PORT": "0", "SPARK_WORKER_WEBUI_PORT": "0"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [_SPARK_CLASS, *command],
            cwd=directory,
            env={**environment(plugins), **own, **ports},
            stdout=out,
            stderr=out,
        )
    try:
        yield process, log
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + _UP_S
    while text not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        return int(taken.getsockname()[1])


def _descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    # A JVM starts processes from any of its threads.
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += [int(child) for child in (task / "children").read_text().split()]
    return [found for child in dict.fromkeys(children) for found in (child, *_descendants(child))]


def settings(conf: Mapping[str, str]) -> list[str]:
    """As arguments of a verb."""
    return [word for key, value in conf.items() for word in ("--spark-conf", f"{key}={value}")]
