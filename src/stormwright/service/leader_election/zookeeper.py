"""ZooKeeper as the place where services agree: a Storm cluster has one, and cannot do without it either.

::

    epoch          number of who led last; its version changes whenever another one leads
    leader         who leads; gone with his session
    log/N          what was decided, N counting from 1
    base           up to which N all is kept whole, and in which parts
    parts/NAME/I   what is too large for one node

Every change of who leads goes by the version of `epoch`, in one transaction with it: what a leader changes that another
one has followed is refused there, however late it comes.
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
from stormwright.service.leader_election.consensus import Base, Leader

# TLS ----------------------------------------------------------------------------------------------
# TLS to ZooKeeper: whose certificate it has to show, and what it is shown.


@dataclass(frozen=True)
class ZooKeeperTls:
    """Files in PEM.

    Parameters
    ----------
    authority
        Of ZooKeeper's certificates, which have to name the hosts as they are asked for.
    certificate, key
        What ZooKeeper is shown, which by default wants some (``ssl.clientAuth``); the key without a password.
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
            yield Fault(f"{self.authority}: {_told(error, 'is no certificate in PEM')}", "--pair-tls-ca")
        if (self.certificate is None) != (self.key is None):
            missing, other = ("--pair-tls-key", "--pair-tls-cert") if self.certificate else _CERT_AND_KEY
            yield Fault(f"is missing: {other} is of no use without it", missing)
        elif self.certificate is not None:
            try:
                # A key that wants a password would ask for it at the terminal.
                context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
            except (OSError, ValueError) as error:
                what = f"is no certificate with its key in {self.key}, both in PEM, the key without a password"
                yield Fault(f"{self.certificate}: {_told(error, what)}", "--pair-tls-cert")

    def options(self) -> dict[str, Any]:
        """The same for the client of ZooKeeper."""
        shown = {"certfile": str(self.certificate), "keyfile": str(self.key)} if self.certificate else {}
        return {"use_ssl": True, "ca": str(self.authority), "verify_certs": True, "check_hostname": True, **shown}


_CERT_AND_KEY = ("--pair-tls-cert", "--pair-tls-key")


def _told(error: Exception, what: str) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        return f"cannot be read: {error.strerror}"
    return what


# Zookeeper ----------------------------------------------------------------------------------------

#: Seconds after which who is not heard of leads no more. ZooKeeper counts in ticks (2 s by default): up to one later.
LEASE_S = 8.0

#: ZooKeeper takes less than 1 MiB in a node and in a request.
PART_BYTES = 512 * 1024

#: Seconds from one try to add an entry to the next, where a server is gone.
_AGAIN_S = 0.2

_EPOCH, _LEADER, _LOG, _BASE, _PARTS = "/epoch", "/leader", "/log", "/base", "/parts"
_WHOLE, _IN_PARTS = b"=", b"+"


class ZooKeeper:
    """Services agree below a path of ZooKeeper (see `ConsensusStore`); a context manager.

    Parameters
    ----------
    hosts
        As in ``zk1:2181,zk2:2181/stormwright``.
    secret
        What all of these services know, and nobody else; who does not can neither read nor change what they keep.
        Empty: everybody who reaches ZooKeeper can.
    tls
        How it is spoken to over TLS; None: as it is.

    Raises
    ------
    MissingDependencyError
        There is no client for it.
    ClusterError
        On entering, and from every call: it does not answer.
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
        quiet.setLevel(logging.CRITICAL)  # what it says is raised, and told by who hears of it
        allowed = {"default_acl": [make_digest_acl("stormwright", secret, all=True)]} if secret else {}
        known = {"auth_data": [("digest", f"stormwright:{secret}")]} if secret else {}
        over = tls.options() if tls else {}
        self._client: Any = KazooClient(hosts, timeout=LEASE_S, logger=quiet, **allowed, **known, **over)
        self._note_lease()
        self._version, self._data = -1, b""
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            starting.callback(self.resign)
            with _asked():
                self._client.start(timeout=LEASE_S)
                for path in (_EPOCH, _LOG, _BASE, _PARTS):
                    self._client.ensure_path(self._at(path))
            starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.resign()

    def resign(self) -> None:
        """See `ConsensusStore`: the session ends, and with it `leader`."""
        with suppress(Exception):  # nobody answers: it ends by itself
            self._client.stop()
        with suppress(Exception):
            self._client.close()

    def leader(self) -> Leader | None:
        """See `ConsensusStore`."""
        found = self._found(_LEADER)
        return Leader(**orjson.loads(found)) if found else None

    def claim(self, address: str, now_ms: int) -> Leader | None:
        """See `ConsensusStore`."""
        with _asked():
            self._leave_what_is_mine()
            told, stat = self._client.get(self._at(_EPOCH))
            # Also where somebody has deleted all of it: Nimbus goes by the highest that it has seen.
            leader = Leader(address, now_ms, max(int(told or 0) + 1, int(time.time())))
            self._data = orjson.dumps(vars(leader))
            change = self._client.transaction()
            change.set_data(self._at(_EPOCH), str(leader.epoch).encode(), version=stat.version)
            change.create(self._at(_LEADER), self._data, ephemeral=True)
            if any(isinstance(each, Exception) for each in self._committed(change)):
                return None
            self._version = stat.version + 1
        return leader

    def renew(self) -> None:
        """See `ConsensusStore`. A write needs a majority; a read may be answered by a server that is cut off."""
        change = self._client.transaction()
        change.check(self._at(_EPOCH), self._version)
        change.set_data(self._at(_LEADER), self._data)
        self._require_done(change)

    def append(self, number: int, entry: bytes) -> None:
        """See `ConsensusStore`."""
        until_s = time.monotonic() + self.lease_s
        with self._writing:
            content = self._stored(entry)
            while not self._added(number, content):
                if time.monotonic() > until_s:
                    raise ClusterError("ZooKeeper has not said whether what was decided is kept")
                time.sleep(_AGAIN_S)

    def _added(self, number: int, content: bytes) -> bool:
        """Create a node; False if the connection was lost, which may have created it already."""
        change = self._client.transaction()
        change.check(self._at(_EPOCH), self._version)
        change.create(self._at(_numbered(number)), content)
        try:
            self._require_done(change)
        except ClusterError:
            return False
        except NotLeadingError:
            self.renew()
            if self._found(_numbered(number)) != content:
                raise
        return True

    def entries(self, after: int) -> Iterator[tuple[int, bytes]]:
        """See `ConsensusStore`."""
        while (content := self._found(_numbered(after + 1))) is not None:
            after += 1
            yield after, self._loaded(content)

    def base(self) -> Base | None:
        """See `ConsensusStore`."""
        found = self._found(_BASE)
        return Base(**orjson.loads(found)["base"]) if found else None

    def load(self, base: Base) -> bytes:
        """See `ConsensusStore`."""
        told = orjson.loads(self._found(_BASE) or b"{}")
        if told.get("base") != vars(base):
            raise ClusterError("what the services have agreed on has changed meanwhile: it is read again")
        return self._loaded(told["content"].encode())

    def keep(self, base: Base, content: bytes) -> None:
        """See `ConsensusStore`."""
        before = orjson.loads(self._found(_BASE) or b"{}")
        stored = self._stored(content, always=True).decode()
        told = {"base": vars(base), "content": stored}
        change = self._client.transaction()
        change.check(self._at(_EPOCH), self._version)
        change.set_data(self._at(_BASE), orjson.dumps(told))
        self._require_done(change)
        with self._writing, _asked():  # parts that nothing names yet may be of what is being added
            self._forget(before, stored)

    def _forget(self, before: dict[str, Any], content: str) -> None:
        """Delete entries that the base before had, and parts that nothing names any more."""
        last = before.get("base", {}).get("position", 0)
        named = {_part(content.encode())}
        for name in self._client.get_children(self._at(_LOG)):
            if int(name) <= last:
                self._client.delete(self._at(f"{_LOG}/{name}"))
            elif found := self._found(f"{_LOG}/{name}"):
                named.add(_part(found))
        for name in self._client.get_children(self._at(_PARTS)):
            if name not in named:
                self._client.delete(self._at(f"{_PARTS}/{name}"), recursive=True)

    def _stored(self, content: bytes, always: bool = False) -> bytes:
        """Return the content of a node: all of it, or the names of its parts."""
        if len(content) <= PART_BYTES and not always:
            return _WHOLE + content
        name = secrets.token_hex(8)
        with _asked():
            for number, start in enumerate(range(0, len(content), PART_BYTES)):
                path = self._at(f"{_PARTS}/{name}/{number:06d}")
                self._client.create(path, content[start : start + PART_BYTES], makepath=True)
        return _IN_PARTS + name.encode()

    def _loaded(self, content: bytes) -> bytes:
        if content[:1] == _WHOLE:
            return content[1:]
        path = self._at(f"{_PARTS}/{_part(content)}")
        with _asked():
            return b"".join(self._client.get(f"{path}/{each}")[0] for each in sorted(self._client.get_children(path)))

    def _found(self, path: str) -> bytes | None:
        from kazoo.exceptions import NoNodeError

        with _asked(), suppress(NoNodeError):
            found: bytes = self._client.get(self._at(path))[0]
            return found
        return None

    def _leave_what_is_mine(self) -> None:
        """A claim that was not answered may have been taken: without its epoch's version it is of no use."""
        found = self._client.exists(self._at(_LEADER))
        session = self._client.client_id
        if found and session and found.ephemeralOwner == session[0]:
            self._client.delete(self._at(_LEADER))

    def _require_done(self, change: Any) -> None:
        from kazoo.exceptions import SessionExpiredError

        with _asked():
            try:
                results = self._committed(change)
            except SessionExpiredError as error:
                raise NotLeadingError("ZooKeeper has not heard of it for too long") from error
        if any(isinstance(each, Exception) for each in results):
            raise NotLeadingError("ZooKeeper has not heard of it for too long, or another one leads")

    def _committed(self, change: Any) -> Sequence[object]:
        results: Sequence[object] = change.commit_async().get(timeout=self.lease_s)
        return results

    def _note_lease(self) -> None:
        """Take over the session timeout that the server granted, which may be shorter than requested."""
        connection = self._client._connection  # noqa: SLF001 (nothing public has it)
        connect = connection._connect  # noqa: SLF001

        def noted(*args: Any) -> tuple[float, float]:
            read_ms, connect_ms = connect(*args)
            self.lease_s = min(LEASE_S, read_ms * 1.5 / 1000)  # two thirds of it
            return read_ms, connect_ms

        connection._connect = noted  # noqa: SLF001

    def _at(self, path: str) -> str:
        return f"{self._root.rstrip('/')}{path}"


@contextmanager
def _asked() -> Iterator[None]:
    """Convert exceptions of the client to one error."""
    from kazoo.exceptions import KazooException, NoAuthError
    from kazoo.handlers.threading import KazooTimeoutError

    try:
        yield
    except NoAuthError as error:
        raise ClusterError(
            "ZooKeeper does not let it: --pair-secret is another than that of the other service"
        ) from error
    except KazooTimeoutError as error:
        raise ClusterError(
            f"ZooKeeper does not do it: no answer within {LEASE_S:g} s. Is it there, and does it speak TLS where, and "
            "only where, --pair-tls-ca is said?"
        ) from error
    except (KazooException, OSError) as error:
        raise ClusterError(f"ZooKeeper does not do it: {type(error).__name__} {error}".rstrip()) from error


def _numbered(number: int) -> str:
    return f"{_LOG}/{number:010d}"


def _part(content: bytes) -> str:
    """Name of the parts that a node names; empty where it names none."""
    return content[1:].decode() if content[:1] == _IN_PARTS else ""
