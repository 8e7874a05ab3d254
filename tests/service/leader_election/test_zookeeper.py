"""Services that agree at a real ZooKeeper: who is killed, stopped or cut off is followed by another, in time."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from stormwright.errors import ClusterError, NotLeadingError
from stormwright.service.leader_election.leadership import ElectedLeader
from stormwright.service.leader_election.lease import Lease
from stormwright.service.leader_election.replicated_state import MAX_ENTRIES
from stormwright.service.leader_election.standby import open_standby, renew_lease
from stormwright.service.leader_election.zookeeper import LEASE_S, ZooKeeper, ZooKeeperTls
from stormwright.service.plans.journal import Journal
from stormwright.service.storage.database import FILE, State
from tests.service.auth.authorities import Authority
from tests.service.leader_election.zookeepers import secured_zookeeper, zookeeper

pytestmark = pytest.mark.zookeeper


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture
def hosts(server: str) -> str:
    """A place of a test's own."""
    return f"{server}/{secrets.token_hex(4)}"


class Service:
    """One of several, that leads as soon as no other does."""

    def __init__(self, hosts: str, home: Path, name: str) -> None:
        self.home, self.stop, self.leads = home, threading.Event(), threading.Event()
        self.agreed = ZooKeeper(hosts, "word")
        self.lease = Lease(self.agreed, name)
        self.lead = ElectedLeader(self.lease, self.agreed)
        self.running = ExitStack()
        self.running.enter_context(self.agreed)
        self.running.enter_context(renew_lease(self.lease, self.lead))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with open_standby(self.home, self.agreed, self.lease) as standing:
            if not standing.wait_until_leader(self.stop):
                return
        self.state = State(self.home / FILE)
        self.lead.start(self.state)
        self.leads.set()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(10)
        self.running.close()


Begin = Callable[..., Service]


@pytest.fixture
def begin(hosts: str, tmp_path: Path) -> Iterator[Begin]:
    begun: list[Service] = []

    def start(name: str, at: str = hosts) -> Service:
        begun.append(Service(at, tmp_path / name, name))
        return begun[-1]

    yield start
    for each in begun:
        each.end()


def test_concurrent_start_elects_exactly_one_leader(begin: Begin) -> None:
    services = [begin(name) for name in ("one", "other", "third")]
    until = time.monotonic() + 20
    while not any(each.leads.is_set() for each in services) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1.5)
    (leader,) = [each for each in services if each.leads.is_set()]
    assert [each.lease.leader for each in services if each is not leader] == [None, None]


def test_standby_takes_over_all_decisions_after_orderly_shutdown(begin: Begin) -> None:
    one = begin("one")
    assert one.leads.wait(20)
    other = begin("other")
    for number in range(3):
        Journal(one.state).add_entry("auto", "anna", f"decision {number}")
    one.end()
    began = time.monotonic()
    assert other.leads.wait(20)
    assert time.monotonic() - began < LEASE_S / 2
    assert [each.reason for each in Journal(other.state).entries(9, None).entries] == [
        f"decision {n}" for n in (2, 1, 0)
    ]
    assert Journal(other.state).add_entry("auto", "anna", "the next") == 4
    with pytest.raises(NotLeadingError):
        Journal(one.state).add_entry("auto", "anna", "one too late")
    assert len(Journal(one.state).entries(9, None).entries) == 3
    assert other.lease.require().epoch > one.lease.leader.epoch  # type: ignore[union-attr]


class Wire:
    """A connection to a server that can be cut without notice to either side."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._to, self.cut = (host, int(port)), threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port, self._open = self._listening.getsockname()[1], list[socket.socket]()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listening.accept()[0]
                far = socket.create_connection(self._to)
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                while self.cut.is_set():
                    time.sleep(0.05)
                sink.sendall(data)

    def close(self) -> None:
        self.cut.clear()
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def test_disconnected_leader_stops_before_standby_takes_over(begin: Begin, hosts: str, server: str) -> None:
    with closing(Wire(server)) as wire:
        one = begin("one", f"127.0.0.1:{wire.port}/{hosts.partition('/')[2]}")
        assert one.leads.wait(20)
        other = begin("other")
        time.sleep(1.5)
        assert not other.leads.is_set()
        wire.cut.set()
        began = time.monotonic()
        with suppress(NotLeadingError):
            while True:
                one.lease.require()
                assert not other.leads.is_set()
                time.sleep(0.02)
        ended = time.monotonic() - began
        assert other.leads.wait(20)
        taken = time.monotonic() - began
        assert ended < taken < 15
        Journal(other.state).add_entry("auto", "anna", "by the other")
        with pytest.raises((NotLeadingError, ClusterError)):
            Journal(one.state).add_entry("auto", "anna", "by one that was cut off")
        wire.cut.clear()
        until = time.monotonic() + 30
        while not one.lease.lost and time.monotonic() < until:
            time.sleep(0.1)
        assert one.lease.lost
        assert [each.reason for each in Journal(other.state).entries(9, None).entries] == ["by the other"]


def test_late_standby_replicates_state_and_sets_own_state_aside(begin: Begin, tmp_path: Path) -> None:
    one = begin("one")
    assert one.leads.wait(20)
    journal = Journal(one.state)
    with one.state.change():
        for number in range(MAX_ENTRIES + 20):
            journal.add_entry("auto", "anna", f"decision {number}")
    one.state.document("large").save(secrets.token_hex(400_000))
    one.lead._replicated.save_snapshot()  # type: ignore[union-attr]  # noqa: SLF001
    one.lead._replicated.save_snapshot()  # type: ignore[union-attr]  # noqa: SLF001
    assert list(one.agreed.entries(0)) == [], "what is kept whole need not be kept in entries"
    with closing(State(tmp_path / "other" / FILE)) as own:
        Journal(own).add_entry("modes", "otto", "by myself")
    other = begin("other")
    time.sleep(1.5)
    one.end()
    assert other.leads.wait(20)
    entries = Journal(other.state).entries(1000, None).entries
    assert [entries[0].reason, len(entries)] == [f"decision {MAX_ENTRIES + 19}", MAX_ENTRIES]
    assert other.state.document("large").load() == one.state.document("large").load()
    (aside,) = (tmp_path / "other").glob(f"{FILE}.before-*")
    with closing(State(aside)) as own:
        assert [each.who for each in Journal(own).entries(9, None).entries] == ["otto"]


def test_client_with_wrong_secret_has_no_access_to_zookeeper(begin: Begin, hosts: str) -> None:
    one = begin("one")
    assert one.leads.wait(20)
    before = set(threading.enumerate())
    for word in ("wrong", ""):
        with pytest.raises(ClusterError, match="--pair-secret differs"), ZooKeeper(hosts, word) as agreed:
            agreed.leader()
    assert not [each.name for each in set(threading.enumerate()) - before if each.is_alive()], "nobody goes on asking"


def test_unresponsive_zookeeper_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
    with (
        pytest.raises(ClusterError, match=r"ZooKeeper (fails|does not answer)"),
        ZooKeeper(f"127.0.0.1:{port}/x"),
    ):
        pass


# Its client leaves open what was refused, until Python finds it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_zookeeper_tls_accepts_only_trusted_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, others = Authority(tmp_path / "ours"), Authority(tmp_path / "others")
    shown = ours.certify("127.0.0.1")
    with secured_zookeeper(tmp_path / "zookeeper", shown, ours.file) as hosts:
        with ZooKeeper(f"{hosts}/us", "word", ZooKeeperTls(ours.file, shown.certificate, shown.key)) as agreed:
            assert agreed.acquire("http://a", 1) is not None
            agreed.append(1, b"decided")
            assert list(agreed.entries(0)) == [(1, b"decided")]
        monkeypatch.setattr("stormwright.service.leader_election.zookeeper.LEASE_S", 1.0)
        stranger = others.certify("127.0.0.1")
        for refused in (
            None,
            ZooKeeperTls(others.file, shown.certificate, shown.key),
            ZooKeeperTls(ours.file, stranger.certificate, stranger.key),
        ):
            with pytest.raises(ClusterError, match="ZooKeeper does not answer within"):
                ZooKeeper(f"{hosts}/us", "word", refused).__enter__()
