"""ZooKeeper as consensus store: every Storm cluster has one, and depends on it already.

::

    epoch          epoch of the last leader; its version changes with every new leader
    leader         the leader; an ephemeral node of its session
    log/N          entries, N counting from 1
    snapshot       position of the latest snapshot, and the names of its parts
    parts/NAME/I   content that is too large for one node

Every change of the leader checks the version of `epoch` in the same transaction: changes of a former leader are
refused, however late they arrive.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from stormwright.errors import ClusterError, Fault, MissingDependencyError, NotLeadingError
from stormwright.service.leader_election.consensus import Leader, StateSnapshot

# TLS ----------------------------------------------------------------------------------------------
# TLS to ZooKeeper: certificate authority and client certificate.


@dataclass(frozen=True)
class ZooKeeperTls:
    """TLS files for ZooKeeper, in PEM.

    Parameters
    ----------
    authority
        Authority of ZooKeeper's certificates, which have to name the hosts as they are configured.
    certificate, key
        Client certificate, which ZooKeeper requires by default (``ssl.clientAuth``), and its key without a password.
    """

    authority: Path
    certificate: Path | None = None
    key: Path | None = None

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the TLS options, each under its option."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self.authority)
        except OSError as error:  # ssl.SSLError is one, too
            yield Fault(f"{self.authority}: {_reason(error, 'is no certificate in PEM')}", "--pair-tls-ca")
        if (self.certificate is None) != (self.key is None):
            missing, other = ("--pair-tls-key", "--pair-tls-cert") if self.certificate else _CERT_AND_KEY
            yield Fault(f"is missing: {other} is of no use without it", missing)
        elif self.certificate is not None:
            try:
                # A key that wants a password would ask for it at the terminal.
                context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
            except (OSError, ValueError) as error:
                fault = f"is no certificate with its key in {self.key}, both in PEM, the key without a password"
                yield Fault(f"{self.certificate}: {_reason(error, fault)}", "--pair-tls-cert")

    def options(self) -> dict[str, Any]:
        """Return the TLS options of the client."""
        shown = {"certfile": str(self.certificate), "keyfile": str(self.key)} if self.certificate else {}
        return {"use_ssl": True, "ca": str(self.authority), "verify_certs": True, "check_hostname": True, **shown}


_CERT_AND_KEY = ("--pair-tls-cert", "--pair-tls-key")


def _reason(error: Exception, fault: str) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"cannot be read: {error.strerror}"
    return fault


# ZooKeeper ----------------------------------------------------------------------------------------

#: Session timeout in seconds. ZooKeeper counts in ticks (2 s by default): a session may expire up to one tick later.
LEASE_S = 8.0

#: Bytes per node: ZooKeeper allows less than 1 MiB for a node and for a request.
PART_BYTES = 512 * 1024

#: Seconds between two tries to append an entry after the connection was lost.
_RETRY_S = 0.2

_EPOCH, _LEADER, _LOG, _SNAPSHOT, _PARTS = "/epoch", "/leader", "/log", "/snapshot", "/parts"
_INLINE, _IN_PARTS = b"=", b"+"


class ZooKeeper:
    """Consensus store below a path of ZooKeeper (see `ConsensusStore`); a context manager.

    Parameters
    ----------
    hosts
        Servers and path, as in ``zk1:2181,zk2:2181/stormwright``.
    secret
        Secret shared by these services; without it no client can read or change their data. Empty: no access control.
    tls
        TLS settings; None for plain connections.

    Raises
    ------
    MissingDependencyError
        The ZooKeeper client is not installed.
    ClusterError
        On entering, and from every call: ZooKeeper does not answer.
    """

    def __init__(self, hosts: str, secret: str = "", tls: ZooKeeperTls | None = None) -> None:
        try:
            from kazoo.client import KazooClient
            from kazoo.security import make_digest_acl
        except ImportError as error:
            raise MissingDependencyError("--pair needs kazoo: pip install 'stormwright[service]'") from error
        hosts, _, path = hosts.partition("/")
        self._root, self.lease_s = f"/{path.strip('/')}", LEASE_S
        quiet = logging.getLogger(f"{__name__}.kazoo")
        quiet.setLevel(logging.CRITICAL)  # its errors are raised, and logged by the caller
        allowed = {"default_acl": [make_digest_acl("stormwright", secret, all=True)]} if secret else {}
        known = {"auth_data": [("digest", f"stormwright:{secret}")]} if secret else {}
        over = tls.options() if tls else {}
        self._client: Any = KazooClient(hosts, timeout=LEASE_S, logger=quiet, **allowed, **known, **over)
        self._watch_granted_timeout()
        self._version, self._data = -1, b""
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.callback(self.release)
            with _client_errors():
                self._client.start(timeout=LEASE_S)
                for path in (_EPOCH, _LOG, _SNAPSHOT, _PARTS):
                    self._client.ensure_path(self._path(path))
            starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """See `ConsensusStore`: the session ends, and with it `leader`."""
        with suppress(Exception):  # without an answer the session expires
            self._client.stop()
        with suppress(Exception):
            self._client.close()

    def leader(self) -> Leader | None:
        """See `ConsensusStore`."""
        found = self._get(_LEADER)
        return Leader(**orjson.loads(found)) if found else None

    def acquire(self, address: str, now_ms: int) -> Leader | None:
        """See `ConsensusStore`."""
        with _client_errors():
            self._delete_own_leader()
            epoch, stat = self._client.get(self._path(_EPOCH))
            # Time-based, as all nodes may have been deleted: Nimbus rejects epochs below the highest one it knows.
            leader = Leader(address, now_ms, max(int(epoch or 0) + 1, int(time.time())))
            self._data = orjson.dumps(vars(leader))
            change = self._client.transaction()
            change.set_data(self._path(_EPOCH), str(leader.epoch).encode(), version=stat.version)
            change.create(self._path(_LEADER), self._data, ephemeral=True)
            if any(isinstance(each, Exception) for each in self._run_transaction(change)):
                return None
            self._version = stat.version + 1
        return leader

    def renew(self) -> None:
        """See `ConsensusStore`. A write needs a majority; a read may be answered by a server that is cut off."""
        change = self._client.transaction()
        change.check(self._path(_EPOCH), self._version)
        change.set_data(self._path(_LEADER), self._data)
        self._commit(change)

    def append(self, number: int, entry: bytes) -> None:
        """See `ConsensusStore`."""
        until_s = time.monotonic() + self.lease_s
        with self._writing:
            content = self._store_content(entry)
            while not self._try_append(number, content):
                if time.monotonic() > until_s:
                    raise ClusterError("ZooKeeper has not confirmed that the decision is stored")
                time.sleep(_RETRY_S)

    def _try_append(self, number: int, content: bytes) -> bool:
        """Create the node of an entry; False if the connection was lost, which may have created it all the same."""
        change = self._client.transaction()
        change.check(self._path(_EPOCH), self._version)
        change.create(self._path(_entry_path(number)), content)
        try:
            self._commit(change)
        except ClusterError:
            return False
        except NotLeadingError:
            self.renew()
            if self._get(_entry_path(number)) != content:
                raise
        return True

    def entries(self, after: int) -> Iterator[tuple[int, bytes]]:
        """See `ConsensusStore`."""
        while (content := self._get(_entry_path(after + 1))) is not None:
            after += 1
            yield after, self._load_content(content)

    def latest_snapshot(self) -> StateSnapshot | None:
        """See `ConsensusStore`."""
        found = self._get(_SNAPSHOT)
        return StateSnapshot(**orjson.loads(found)["snapshot"]) if found else None

    def load_snapshot(self, snapshot: StateSnapshot) -> bytes:
        """See `ConsensusStore`."""
        document = orjson.loads(self._get(_SNAPSHOT) or b"{}")
        if document.get("snapshot") != vars(snapshot):
            raise ClusterError("the snapshot has changed meanwhile: it is read again")
        return self._load_content(document["content"].encode())

    def save_snapshot(self, snapshot: StateSnapshot, content: bytes) -> None:
        """See `ConsensusStore`."""
        before = orjson.loads(self._get(_SNAPSHOT) or b"{}")
        stored = self._store_content(content, always=True).decode()
        document = {"snapshot": vars(snapshot), "content": stored}
        change = self._client.transaction()
        change.check(self._path(_EPOCH), self._version)
        change.set_data(self._path(_SNAPSHOT), orjson.dumps(document))
        self._commit(change)
        with self._writing, _client_errors():  # parts without a reference may belong to an entry that is being appended
            self._delete_old(before, stored)

    def _delete_old(self, before: dict[str, Any], content: str) -> None:
        """Delete entries that the previous snapshot contains, and parts without a reference."""
        last = before.get("snapshot", {}).get("position", 0)
        named = {_part_name(content.encode())}
        for name in self._client.get_children(self._path(_LOG)):
            if int(name) <= last:
                self._client.delete(self._path(f"{_LOG}/{name}"))
            elif found := self._get(f"{_LOG}/{name}"):
                named.add(_part_name(found))
        for name in self._client.get_children(self._path(_PARTS)):
            if name not in named:
                self._client.delete(self._path(f"{_PARTS}/{name}"), recursive=True)

    def _store_content(self, content: bytes, always: bool = False) -> bytes:
        """Return the content of a node: the bytes themselves, or the names of their parts."""
        if len(content) <= PART_BYTES and not always:
            return _INLINE + content
        name = secrets.token_hex(8)
        with _client_errors():
            for number, start in enumerate(range(0, len(content), PART_BYTES)):
                path = self._path(f"{_PARTS}/{name}/{number:06d}")
                self._client.create(path, content[start : start + PART_BYTES], makepath=True)
        return _IN_PARTS + name.encode()

    def _load_content(self, content: bytes) -> bytes:
        if content[:1] == _INLINE:
            return content[1:]
        path = self._path(f"{_PARTS}/{_part_name(content)}")
        with _client_errors():
            return b"".join(self._client.get(f"{path}/{each}")[0] for each in sorted(self._client.get_children(path)))

    def _get(self, path: str) -> bytes | None:
        from kazoo.exceptions import NoNodeError

        with _client_errors(), suppress(NoNodeError):
            found: bytes = self._client.get(self._path(path))[0]
            return found
        return None

    def _delete_own_leader(self) -> None:
        """Delete the node of an acquisition without an answer: without its epoch's version it is useless."""
        found = self._client.exists(self._path(_LEADER))
        session = self._client.client_id
        if found and session and found.ephemeralOwner == session[0]:
            self._client.delete(self._path(_LEADER))

    def _commit(self, change: Any) -> None:
        from kazoo.exceptions import SessionExpiredError

        with _client_errors():
            try:
                results = self._run_transaction(change)
            except SessionExpiredError as error:
                raise NotLeadingError("the session in ZooKeeper has expired") from error
        if any(isinstance(each, Exception) for each in results):
            raise NotLeadingError("the session in ZooKeeper has expired, or another service leads")

    def _run_transaction(self, change: Any) -> Sequence[object]:
        results: Sequence[object] = change.commit_async().get(timeout=self.lease_s)
        return results

    def _watch_granted_timeout(self) -> None:
        """Take over the session timeout that the server granted, which may be shorter than requested."""
        connection = self._client._connection  # noqa: SLF001 (nothing public has it)
        connect = connection._connect  # noqa: SLF001

        def noted(*args: Any) -> tuple[float, float]:
            read_ms, connect_ms = connect(*args)
            self.lease_s = min(LEASE_S, read_ms * 1.5 / 1000)  # two thirds of it
            return read_ms, connect_ms

        connection._connect = noted  # noqa: SLF001

    def _path(self, path: str) -> str:
        return f"{self._root.rstrip('/')}{path}"


@contextmanager
def _client_errors() -> Iterator[None]:
    """Convert exceptions of the client to one error."""
    from kazoo.exceptions import KazooException, NoAuthError
    from kazoo.handlers.threading import KazooTimeoutError

    try:
        yield
    except NoAuthError as error:
        raise ClusterError("ZooKeeper denies access: --pair-secret differs from that of the other service") from error
    except KazooTimeoutError as error:
        raise ClusterError(
            f"ZooKeeper does not answer within {LEASE_S:g} s: check that it runs, and that it uses TLS if and only if "
            "--pair-tls-ca is set"
        ) from error
    except (KazooException, OSError) as error:
        raise ClusterError(f"ZooKeeper fails: {type(error).__name__} {error}".rstrip()) from error


def _entry_path(number: int) -> str:
    return f"{_LOG}/{number:010d}"


def _part_name(content: bytes) -> str:
    """Return the name of the parts that a node refers to; empty if it has none."""
    return content[1:].decode() if content[:1] == _IN_PARTS else ""
