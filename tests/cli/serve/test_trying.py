"""``stormwright serve --check``."""

from __future__ import annotations

import os
import socket

import pytest

from stormwright.base.file_lock import exclusive_lock
from stormwright.cli.serve import LOCK
from stormwright.errors import ClusterError, NimbusError
from stormwright.service.leader_election.consensus import Leader
from stormwright.storm.jvm import STORMWRIGHT_JAR


class ConsensusStore:
    """A place where services agree and one leads, or that does not answer."""

    why_not = ""

    def __init__(self, hosts, secret, tls):
        pass

    def __enter__(self):
        if self.why_not:
            raise ClusterError(self.why_not)
        return self

    def __exit__(self, *_):
        return None

    def leader(self):
        return Leader("http://10.0.0.6:7070", 0, 3)


class Nimbus:
    """A gateway that reaches it, or does not."""

    why_not = ""

    def __init__(self, command):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def cluster(self):
        if self.why_not:
            raise NimbusError(self.why_not)
        return {"supervisors": [1, 2], "topologies": [1]}


@pytest.fixture
def check(run, tmp_path, monkeypatch):
    """Exit code and lines."""
    monkeypatch.setattr("stormwright.storm.gateway.gateway_command", lambda home: [])
    monkeypatch.setattr("stormwright.storm.gateway.NimbusGateway", Nimbus)
    (tmp_path / "extlib-daemon").mkdir()
    (tmp_path / "extlib-daemon" / STORMWRIGHT_JAR.name).touch()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "storm.yaml").write_text("nimbus.seeds: [nimbus-1]")

    def of(*options):
        required = ("--storm-home", tmp_path, "--state", tmp_path / "state", "--port", free_port())
        code, out, _ = run("serve", "--check", *required, *options)
        return code, out.splitlines()

    return of


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_all_is_well_and_nothing_is_left_behind(check, tmp_path):
    code, lines = check()
    assert (code, [line.split(":")[0] for line in lines]) == (
        0,
        ["ok      configuration", "ok      jar", "ok      Nimbus", "ok      address", "ok      state"],
    )
    assert not (tmp_path / "state").exists()


def test_check_reports_each_fault_on_its_own_line(check, tmp_path, monkeypatch):
    monkeypatch.setattr(Nimbus, "why_not", "it is away")
    (tmp_path / "extlib-daemon" / STORMWRIGHT_JAR.name).unlink()
    with exclusive_lock(tmp_path / "state", "", LOCK), socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        code, lines = check("--port", port, "--initial", "nobody", "--history-format", "orc")
    assert code == 2
    starts = [
        "wrong   configuration: --initial nobody: unknown scheduler",
        "wrong   configuration: --history-format orc: unknown",
        f"wrong   jar: {tmp_path}/extlib-daemon/{STORMWRIGHT_JAR.name}: is missing",
        "wrong   Nimbus: it is away",
        f"wrong   address: 127.0.0.1:{port}: cannot listen there: address already in use",
        f"wrong   state: {tmp_path}/state: another service uses it",
    ]
    assert len(lines) == len(starts)
    assert [line for line, start in zip(lines, starts, strict=True) if not line.startswith(start)] == []
    assert f"(process {os.getpid()})" in lines[-1]


def test_check_reports_whether_a_kafka_broker_accepts_connections(check):
    with socket.socket() as broker:
        broker.bind(("127.0.0.1", 0))
        broker.listen()
        address = f"127.0.0.1:{broker.getsockname()[1]}"
        code, lines = check("--kafka", f"127.0.0.1:{free_port()},{address}", "--kafka-topic", "perflog")
    assert (code, lines[-1]) == (0, f"ok      Kafka: {address} accepts connections")
    code, lines = check("--kafka", address, "--kafka-topic", "perflog")
    assert code == 2
    assert lines[-1].startswith(f"wrong   Kafka: no Kafka broker answers ({address}: ")


def test_check_reports_unresolvable_host(check):
    code, lines = check("--host", "no.such.host.invalid")
    assert code == 2
    assert any(line.startswith("wrong   address: no.such.host.invalid:") for line in lines)


def test_check_reports_unusable_state_directory(check, tmp_path):
    (tmp_path / "file").touch()
    code, lines = check("--state", tmp_path / "file" / "state")
    assert (code, lines[-1].split(" in ")[0]) == (2, f"wrong   state: {tmp_path}/file/state: cannot be made")


def test_check_contacts_zookeeper_and_reports_leader(check, monkeypatch):
    monkeypatch.setattr("stormwright.service.leader_election.zookeeper.ZooKeeper", ConsensusStore)
    paired = ("--pair", "zk1:2181", "--without-authentication")
    code, lines = check(*paired)
    assert (code, lines[-1]) == (0, "ok      pair: zk1:2181/stormwright answers, and http://10.0.0.6:7070 leads")
    monkeypatch.setattr(ConsensusStore, "why_not", "ZooKeeper does not do it")
    code, lines = check(*paired)
    assert (code, lines[-1]) == (2, "wrong   pair: ZooKeeper does not do it")


def test_check_refuses_a_uri_as_state_directory(run, tmp_path):
    code, _, err = run("serve", "--check", "--storm-home", tmp_path, "--state", "s3a://bucket/state")
    assert code == 2
    assert "s3a://bucket/state is a URI" in err


def test_check_names_missing_storm_yaml_and_the_address_it_would_use(check, tmp_path):
    (tmp_path / "conf" / "storm.yaml").unlink()
    code, lines = check()
    (line,) = [line for line in lines if line.startswith("wrong   Nimbus")]
    assert code == 2
    assert f"{tmp_path}/conf/storm.yaml" in line
    assert "localhost:6627" in line


def test_check_reports_each_kafka_fault_once(check, tmp_path):
    (tmp_path / "jars").mkdir()
    conf = ("--kafka-conf", "maxOffsetsPerTrigger=abc", "--kafka-jars", tmp_path / "jars")
    for options, count in ((("--kafka", "h"), 1), (("--kafka", "h:1", "--kafka-topic", "t", *conf), 2)):
        code, lines = check(*options)
        wrong = [line for line in lines if line.startswith("wrong")]
        assert (code, len(wrong)) == (2, count), lines
        assert all("--kafka" in line for line in wrong)
    assert "maxOffsetsPerTrigger should be a whole number" in wrong[0]
    assert f"{tmp_path}/jars has no jar" in wrong[1]


def test_check_names_damaged_token_file(check, tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "tokens.json").write_text('{"tokens": ')
    _, lines = check()
    assert f"{tmp_path}/state/tokens.json" in lines[0]
