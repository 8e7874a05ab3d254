"""A real Kafka broker of one node, and topics with messages at chosen times."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from stormwright.base.java import find_java
from stormwright.storm.jvm import LIGHT, java_command
from stormwright.storm.local_cluster.network import free_ports

#: What `tools/setup kafka` fetches.
JARS = Path(__file__).resolve().parents[2] / "build" / "kafka"
CONNECTOR = JARS / "connector"


def has_jars() -> bool:
    """Return whether there are jars, and those of the connector are for this version of Spark."""
    return any(CONNECTOR.glob(f"spark-sql-kafka-*-{pyspark.__version__}.jar"))


#: Seconds until a broker answers.
UP_S = 60.0

_FIRST_PORT = 19092


class Broker:
    """A broker, which is its own controller, on the loopback interface; a context manager.

    Parameters
    ----------
    directory
        Directory for its configuration, data and log.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port, controller_port = free_ports(2, _FIRST_PORT)
        self._process: subprocess.Popen[bytes] | None = None
        self._properties = directory / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": directory / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": 1,
            # A broker that starts again waits until its former session has ended.
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
            "num.network.threads": 1,
            "num.io.threads": 2,
            # Messages are as old as tests say.
            "log.retention.ms": -1,
        }
        directory.mkdir(parents=True, exist_ok=True)
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        cluster = "c3Rvcm13cmlnaHQtdGVzdA"
        self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._properties)).wait()

    @property
    def address(self) -> str:
        """``HOST:PORT``."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, and return when it accepts connections."""
        self._process = self._run("kafka.Kafka", str(self._properties))
        deadline = time.monotonic() + UP_S
        while not self._answers():
            assert self._process.poll() is None, (self._directory / "printed.log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"no broker within {UP_S} s"
            time.sleep(0.1)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def _run(self, main: str, *args: str) -> subprocess.Popen[bytes]:
        command = java_command(
            find_java("Kafka"),
            main=main,
            class_path=[JARS / "broker" / "*"],
            flags=LIGHT,
            heap_mb=256,
            properties={"org.slf4j.simpleLogger.defaultLogLevel": "warn"},
            args=args,
        )
        with (self._directory / "printed.log").open("ab") as printed:
            return subprocess.Popen(command, stdout=printed, stderr=printed, cwd=self._directory)


class Topic:
    """A new topic of a broker, and its producer, in the JVM of a session with the connector's jars.

    Parameters
    ----------
    spark
        The session.
    broker
        The broker.
    name
        Name of the topic.
    partitions
        Number of its partitions.
    """

    def __init__(self, spark: SparkSession, broker: Broker, name: str, partitions: int = 1) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the only way to Kafka's own client
        self.name, self.broker = name, broker
        self._conf = self._jvm.java.util.HashMap()
        self._conf.put("bootstrap.servers", broker.address)
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        for part in ("key", "value"):
            self._conf.put(f"{part}.serializer", serializer)
        new = self._jvm.org.apache.kafka.clients.admin.NewTopic(name, partitions, self._jvm.Short("1"))
        admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(self._conf)
        try:
            admin.createTopics(self._jvm.java.util.List.of(new)).all().get()
        finally:
            admin.close()

    def produce(self, messages: Iterable[tuple[bytes | None, int]], partition: int = 0) -> None:
        """Append messages, given with their timestamps in ms; they are in the topic when this returns."""
        client = self._jvm.org.apache.kafka.clients.producer
        producer = client.KafkaProducer(self._conf)
        try:
            for value, moment_ms in messages:
                producer.send(client.ProducerRecord(self.name, partition, self._jvm.Long(moment_ms), None, value))
        finally:
            producer.close()
