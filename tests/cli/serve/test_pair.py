"""One of several services, as configured: where they agree, what they alone know, where each is reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stormwright.cli.serve import command
from stormwright.cli.serve.pair import Pair, pair_of, paired
from stormwright.errors import Fault
from stormwright.service.leader_election import zookeeper
from stormwright.service.leader_election.leadership import SINGLE_SERVICE
from stormwright.service.leader_election.zookeeper import ZooKeeperTls
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.database import FILE, State
from tests.service.auth.authorities import Authority
from tests.service.leader_election.places import Place, Session

PairOf = Callable[..., tuple[Pair | None, list[Fault]]]


@pytest.fixture
def pair_with(tmp_path: Path) -> PairOf:
    """Where it agrees, and what is wrong with that."""

    def of(*options: object) -> tuple[Pair | None, list[Fault]]:
        given = ["--storm-home", str(tmp_path), "--state", str(tmp_path / "state"), *map(str, options)]
        faults: list[Fault] = []
        with command.make_context("serve", given) as context:
            return pair_of(context.params, faults), faults

    return of


@pytest.fixture
def word(tmp_path: Path) -> Path:
    (tmp_path / "word").write_text("correcthorse\n")
    return tmp_path / "word"


def test_single_service_has_no_pair_and_rejects_pair_options(pair_with: PairOf, word: Path) -> None:
    assert pair_with() == (None, [])
    assert [fault.path for fault in pair_with("--pair-secret", word, "--known-as", "http://a")[1]] == [
        "--pair-secret",
        "--known-as",
    ]


def test_pair_storm_uses_zookeeper_of_storm_yaml(pair_with: PairOf, word: Path, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "storm.yaml").write_text("storm.zookeeper.servers: [zk1, zk2]\nstorm.zookeeper.root: /prod\n")
    pair, faults = pair_with("--pair", "storm", "--pair-secret", word, "--host", "10.0.0.5", "--tls-cert", word)
    assert faults == []
    assert pair == Pair("zk1:2181,zk2:2181/stormwright/prod", "correcthorse", "https://10.0.0.5:7070")
    (conf / "storm.yaml").write_text("nimbus.seeds: [a]\n")
    _, (fault,) = pair_with("--pair", "storm", "--pair-secret", word)
    assert "says no storm.zookeeper.servers" in fault.message


def test_zookeeper_over_tls(pair_with: PairOf, word: Path, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    yaml = tmp_path / "conf" / "storm.yaml"
    yaml.write_text("storm.zookeeper.servers: [zk1]\nstorm.zookeeper.ssl.enable: true\n")
    _, (fault,) = pair_with("--pair", "storm", "--pair-secret", word)
    assert (fault.path, "storm.zookeeper.ssl.enable" in fault.message) == ("--pair-tls-ca", True)
    authority = Authority(tmp_path / "authority")
    shown = authority.certify("zk1")
    options = ("--pair", "storm", "--pair-secret", word, "--pair-tls-ca", authority.file)
    pair, faults = pair_with(*options, "--pair-tls-cert", shown.certificate, "--pair-tls-key", shown.key)
    assert faults == []
    assert pair is not None
    assert pair.tls == ZooKeeperTls(authority.file, shown.certificate, shown.key)
    _, (fault,) = pair_with(*options, "--pair-tls-cert", shown.certificate)
    assert (fault.path, fault.message) == ("--pair-tls-key", "is missing: --pair-tls-cert is of no use without it")
    _, (fault,) = pair_with(*options, "--pair-tls-cert", word, "--pair-tls-key", shown.key)
    assert "is no certificate with its key" in fault.message
    _, faults = pair_with("--pair", "zk:2181", "--pair-secret", word, "--pair-tls-ca", tmp_path / "none")
    assert [each.message for each in faults] == [f"{tmp_path / 'none'}: cannot be read: No such file or directory"]
    _, (fault,) = pair_with("--pair", "zk:2181", "--pair-secret", word, "--pair-tls-key", shown.key)
    assert fault.message == "has no effect without --pair-tls-ca"


def test_another_zookeeper_and_another_address(pair_with: PairOf, word: Path) -> None:
    pair, faults = pair_with("--pair", "zk:2181/of/us", "--pair-secret", word, "--known-as", "https://a.example/")
    assert (pair, faults) == (Pair("zk:2181/of/us", "correcthorse", "https://a.example"), [])
    pair, _ = pair_with("--pair", "zk:2181", "--without-authentication", "--host", "0.0.0.0")  # noqa: S104
    assert pair is not None
    assert pair.hosts == "zk:2181/stormwright"
    assert "0.0.0.0" not in pair.address  # noqa: S104


@pytest.mark.parametrize("hosts", ["zk", "zk:", "zk:port", ":2181", "zk:2181,", "zk:99999"])
def test_invalid_zookeeper_address_is_rejected(pair_with: PairOf, word: Path, hosts: str) -> None:
    _, (fault,) = pair_with("--pair", hosts, "--pair-secret", word)
    assert fault.path == "--pair"
    assert "should be as zk1:2181" in fault.message


def test_pair_without_valid_secret_is_rejected(pair_with: PairOf, tmp_path: Path) -> None:
    _, (fault,) = pair_with("--pair", "zk:2181")
    assert "who reaches ZooKeeper could change what is decided" in fault.message
    for content in ("", "two words", "ümlaut"):
        (tmp_path / "word").write_text(content)
        _, (fault,) = pair_with("--pair", "zk:2181", "--pair-secret", tmp_path / "word")
        assert fault.path == "--pair-secret"


@pytest.fixture
def agreed(monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place()

    @contextmanager
    def session(*_: object) -> Iterator[Session]:
        opened = Session(place)
        yield opened
        opened.release()

    monkeypatch.setattr(zookeeper, "ZooKeeper", session)
    return place


def test_new_leader_keeps_modes_changed_by_users_over_its_own_options(agreed: Place, tmp_path: Path) -> None:
    pair = Pair("zk:2181/x", "", "http://a")

    def leads(home: str, **settings: Any) -> ServiceSettings:
        given = ServiceSettings(tmp_path / home, "127.0.0.1", 0, **settings)
        with paired(pair, given, threading.Event()) as joined:
            assert joined is not None
            assert joined.leadership is not SINGLE_SERVICE
            state = State(joined.state_dir / FILE)
            joined.leadership.start(state)
            state.document("x").save(home)
            state.close()
            return replace(joined, leadership=SINGLE_SERVICE)

    assert leads("one", mode="auto", modes={"time_zone": "UTC"}).mode == "auto"
    then = leads("other", mode="auto", modes={"time_zone": "UTC"})
    assert (then.mode, then.modes) == (None, {})


@pytest.mark.long
def test_standby_stopped_before_election_never_leads(agreed: Place, tmp_path: Path) -> None:
    assert Session(agreed).acquire("http://b", 0)
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    with paired(Pair("zk:2181/x", "", "http://a"), ServiceSettings(tmp_path, "127.0.0.1", 0), stop) as joined:
        assert joined is None
