"""A standalone cluster of Spark on the loopback interface, whose executors can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pyspark

from stormwright.storm.local_cluster.network import free_ports

#: Seconds until master and workers are there.
UP_S = 60.0

_FIRST_PORT = 17077


class Standalone:
    """A master and workers of one core each; a context manager.

    Parameters
    ----------
    directory
        Directory for logs and the files of executors.
    workers
        Number of workers.
    """

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory, self._number = directory, workers
        self._port, self._page = free_ports(2, _FIRST_PORT)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        """Address of the master, as of ``--master``."""
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Standalone:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            of_master = ["--port", str(self._port), "--webui-port", str(self._page)]
            self._run("master.Master", *of_master)
            self._wait_for_master()
            for number in range(self._number):
                work = self._directory / f"work-{number}"
                of_worker = ["--cores", "1", "--memory", "1500m", "--webui-port", "0", "--work-dir", str(work)]
                self._run("worker.Worker", *of_worker, self.master)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def executors(self) -> list[int]:
        """Return the ids of the processes of executors."""
        children = [child for process in self._processes[1:] for child in _children(process.pid)]
        return [pid for pid in children if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def _run(self, main: str, *args: str) -> None:
        home = Path(pyspark.__file__).parent
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", "--host", "127.0.0.1", *args]
        environment = os.environ | {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
        with (self._directory / "printed.log").open("ab") as printed:
            self._processes.append(
                subprocess.Popen(command, stdout=printed, stderr=printed, env=environment, start_new_session=True)
            )

    def _wait_for_master(self) -> None:
        deadline = time.monotonic() + UP_S
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            assert self._processes[0].poll() is None, (self._directory / "printed.log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"no master within {UP_S} s"
            time.sleep(0.1)


def _children(pid: int) -> list[int]:
    """Processes that any thread of a process has started."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended
            found += map(int, path.read_text().split())
    return found
