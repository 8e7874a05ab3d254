"""The ledger whose numbers come from Kafka: its jars, its topology, and a broker beside Nimbus with the producer.

None of it is part of the product: ``java/kafka/pom.xml`` fetches Kafka and Storm's Kafka client into ``build/kafka``
when they are first needed, and the classes in ``java/kafka/src`` are compiled with them.

The journals of the ledger (`stormwright_lab.chaos.ledger_files`) are written by two sides: run 0 of a partition by the
producer, with all numbers that it has produced, acked as far as the offsets are committed; the other runs by the
spouts, with each emission. So the oracle of ledgers finds a number that no spout has emitted, and one whose offset was
committed although no sink has it.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stormwright_lab.chaos.lab import until
from stormwright_lab.chaos.ledger_files import LedgerKind
from stormwright_lab.chaos.ledger_workload import LedgerWorkload

from stormwright.errors import ClusterError, MissingDependencyError
from stormwright.storm.jvm import LIGHT, STORM_HOME, STORMWRIGHT_JAR, java_command, require_java
from stormwright.storm.local_cluster import RunningCluster
from stormwright.storm.local_cluster.daemons import NIMBUS
from stormwright.storm.local_cluster.network import free_ports
from stormwright.storm.local_cluster.processes import MARK
from stormwright.storm.submitting import submission_properties, submit

ROOT = Path(__file__).resolve().parents[2]
POM, SOURCES = ROOT / "java" / "kafka" / "pom.xml", ROOT / "java" / "kafka" / "src"

#: Jars of workers and of the broker, and the classes of this benchmark.
KAFKA = ROOT / "build" / "kafka"
CLIENT, BROKER, JAR = KAFKA / "client", KAFKA / "broker", KAFKA / "kafka-ledger.jar"

#: Seconds until the broker answers, and until it has ended.
UP_S, END_S = 90.0, 15.0
PARTITIONS, WORKERS = 2, 2
FIRST_PORT = 9092

log = logging.getLogger("kafka_ledger")


def build() -> None:
    """Fetch the jars unless they are there, and compile the classes of this benchmark.

    Raises
    ------
    MissingDependencyError
        Maven or the compiler fails, with what it printed.
    """
    require_java()
    complete = KAFKA / ".complete"
    if not complete.exists() or complete.stat().st_mtime < POM.stat().st_mtime:
        log.info("fetching Kafka into %s", KAFKA)
        shutil.rmtree(KAFKA, ignore_errors=True)
        _run("mvn", "-q", "-B", "-f", str(POM), "initialize")
        complete.touch()
    classes = KAFKA / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    path = (BROKER / "*", CLIENT / "*", STORMWRIGHT_JAR, STORM_HOME / "lib" / "*")
    sources = map(str, sorted(SOURCES.rglob("*.java")))
    warnings = ("-Xlint:all,-processing,-serial,-classfile,-path", "-Werror")
    _run("javac", "--release", "17", *warnings, "-d", str(classes), "-cp", ":".join(map(str, path)), *sources)
    with zipfile.ZipFile(JAR, "w") as jar:
        for file in sorted(classes.rglob("*.class")):
            jar.write(file, file.relative_to(classes))


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise MissingDependencyError(f"{command[0]} is not found: run `make setup` in the clone") from error
    if done.returncode != 0:
        raise MissingDependencyError(f"{command[0]} fails: {(done.stdout + done.stderr).strip()}")


@dataclass(frozen=True)
class KafkaWorkload(LedgerWorkload):
    """A ledger whose spouts are Storm's own for Kafka; the option ``broker`` is the address of the broker."""

    def submit(self, cluster: RunningCluster, conf: Mapping[str, Any] | None = None) -> None:
        """Submit the topology with the jars of Kafka's client, as ``storm jar --jars`` does; raises ClusterError."""
        plan, main = cluster.plan, "stormwright.topologies.KafkaLedger"
        home = plan.daemon_dir(NIMBUS)
        command = java_command(
            plan.java,
            main=main,
            class_path=[JAR, CLIENT / "*", STORM_HOME / "lib" / "*", plan.lib / "*", home / "conf"],
            flags=LIGHT,
            heap_mb=128,
            properties={
                "java.io.tmpdir": home / "tmp",
                "storm.dependency.jars": ",".join(map(str, sorted(CLIENT.glob("*.jar")))),
                **submission_properties(JAR, conf or {}),
            },
            args=self.arguments(),
        )
        submit([*cluster.command_beside_nimbus(), *command], main, {MARK: str(plan.work)})


class KafkaSource:
    """A broker beside Nimbus and the producer of a ledger's numbers, in one JVM; a context manager.

    Parameters
    ----------
    cluster
        The cluster, with which it ends at the latest.
    directory
        Directory of the ledger.
    name
        Name of the topology, of its topic and of its consumer group.
    rate_tps
        Numbers/s of all partitions together.

    Raises
    ------
    ClusterError
        On entering: the broker does not answer in time, with the end of its log.
    MissingDependencyError
        On entering: Kafka cannot be fetched.
    """

    def __init__(self, cluster: RunningCluster, directory: Path, name: str, rate_tps: float) -> None:
        self._cluster, self._directory = cluster, directory
        self._name, self._rate_tps = name, rate_tps
        self._port, self._controller_port = free_ports(2, FIRST_PORT)
        self._home = cluster.plan.daemon_dir("kafka")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        build()
        (self._home / "tmp").mkdir(parents=True)
        with (self._home / "printed.log").open("wb") as printed:
            self._process = subprocess.Popen(
                [*self._cluster.command_beside_nimbus(), *self._command()],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                env={**os.environ, MARK: str(self._cluster.plan.work)},
            )
        if not until(self._answers, UP_S) or self._process.poll() is not None:
            self._end()
            raise ClusterError(f"Kafka is not up within {UP_S:g} s; the end of its log: {self.printed()}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end()

    def workload(self) -> KafkaWorkload:
        """Return the ledger that reads the numbers."""
        options = {"broker": f"{self._cluster.nimbus_host}:{self._port}", "spouts": PARTITIONS}
        return KafkaWorkload(self._directory, LedgerKind.DRAIN, self._name, self._rate_tps, WORKERS, options)

    def produce(self) -> None:
        """Begin to produce numbers."""
        self._write(b"produce\n")

    def set_rate(self, rate_tps: float) -> None:
        """Produce so many numbers/s of all partitions together from now on."""
        self._write(f"rate {rate_tps:.1f}\n".encode())

    def stop(self) -> None:
        """Produce no more numbers; committed offsets are still recorded."""
        self._write(b"stop\n")

    def printed(self) -> str:
        """Return the end of what it has printed."""
        text = (self._home / "printed.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-20:])

    def _command(self) -> list[str]:
        plan = self._cluster.plan
        ports = (str(self._port), str(self._controller_port))
        numbers = (self._name, str(PARTITIONS), str(self._rate_tps), str(self._directory.absolute()))
        return java_command(
            plan.java,
            main="stormwright.topologies.KafkaSource",
            class_path=[JAR, BROKER / "*"],
            flags=LIGHT,
            heap_mb=256,
            properties={"java.io.tmpdir": self._home / "tmp", "org.slf4j.simpleLogger.defaultLogLevel": "warn"},
            args=[str(self._home / "broker"), plan.nimbus_host, *ports, *numbers],
        )

    def _answers(self) -> bool:
        """Return whether its topic is there, or it has ended."""
        assert self._process is not None
        ended = self._process.poll() is not None
        return ended or len(list(self._directory.glob("spout-*-0.journal"))) == PARTITIONS

    def _write(self, line: bytes) -> None:
        if self._process is None or self._process.stdin is None:
            raise ClusterError("Kafka is not started")
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ClusterError(f"Kafka has ended; the end of its log: {self.printed()}") from None

    def _end(self) -> None:
        """Close its standard input, with which it ends."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
