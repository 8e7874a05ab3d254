"""A ZooKeeper of a test's own, as Storm's jars bring one."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from stormwright.storm.jvm import LIGHT, STORM_HOME, java_command, require_java
from stormwright.storm.local_cluster.network import free_ports
from tests.service.auth.authorities import Pair


@contextmanager
def zookeeper(directory: Path) -> Iterator[str]:
    """Host and port of one that keeps what it has in a directory."""
    (port,) = free_ports(1, first=22_181)
    conf = directory / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    values = {"storm.zookeeper.port": port, "dev.zookeeper.path": str(directory / "data")}
    (conf / "storm.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))
    command = java_command(
        require_java(),
        main="org.apache.storm.command.DevZookeeper",
        class_path=[conf, STORM_HOME / "lib" / "*"],
        flags=LIGHT,
        heap_mb=64,
        properties={"java.io.tmpdir": directory},
    )
    with _running(command, directory, lambda: _answers(port)):
        yield f"127.0.0.1:{port}"


@contextmanager
def secured_zookeeper(directory: Path, shown: Pair, clients: Path) -> Iterator[str]:
    """Host and port of one that speaks TLS only, shows a certificate, and takes clients of an authority only."""
    (port,) = free_ports(1, first=22_281)
    directory.mkdir(parents=True, exist_ok=True)
    keys = directory / "keys.pem"
    keys.write_bytes(shown.key.read_bytes() + shown.certificate.read_bytes())
    shade = "org.apache.storm.shade.org.apache.zookeeper"
    conf = {
        "dataDir": directory / "data",
        "secureClientPort": port,
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": f"{shade}.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": keys,
        "ssl.trustStore.location": clients,
        "admin.enableServer": "false",
    }
    (directory / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
    command = java_command(
        require_java(),
        main=f"{shade}.server.ZooKeeperServerMain",
        class_path=[STORM_HOME / "lib" / "*"],
        flags=LIGHT,
        heap_mb=64,
        properties={"java.io.tmpdir": directory},
    )
    with _running([*command, str(directory / "zoo.cfg")], directory, lambda: _listens(port)):
        yield f"127.0.0.1:{port}"


@contextmanager
def _running(command: Sequence[str], directory: Path, is_there: Callable[[], bool]) -> Iterator[None]:
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until = time.monotonic() + 60
            while not is_there():
                assert server.poll() is None, (directory / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.1)
            yield
        finally:
            server.kill()
            server.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 1)):
        return True
    return False


def _answers(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 1)) as connection:
        connection.sendall(b"srvr")
        return b"Mode" in connection.recv(4096)
    return False
