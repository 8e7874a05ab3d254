"""``stormwright serve --pair``: one of several services for a cluster, which stands by until it leads."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.cli.serve.config import source_of
from stormwright.errors import Fault

if TYPE_CHECKING:
    from stormwright.service.leader_election.zookeeper import ZooKeeperTls
    from stormwright.service.settings import ServiceSettings

log = logging.getLogger(__name__)


# Options ------------------------------------------------------------------------------------------
# The options of one of several services beside a cluster.

#: Decorator: the options of leader election.
pair_options = options.group(
    click.option(
        "--pair",
        metavar="ZOOKEEPER",
        help="Run as one of several services of a cluster with leader election in ZooKeeper, as in "
        "zk1:2181,zk2:2181, or storm for the ZooKeeper in storm.yaml.",
    ),
    click.option(
        "--pair-secret",
        type=options.PATH,
        metavar="FILE",
        help="File with a secret shared by these services; others can neither read nor change their data in ZooKeeper.",
    ),
    click.option(
        "--pair-tls-ca",
        type=options.PATH,
        metavar="FILE",
        help="Certificate authority of ZooKeeper (PEM); enables TLS to ZooKeeper.",
    ),
    click.option("--pair-tls-cert", type=options.PATH, metavar="FILE", help="Client certificate for ZooKeeper (PEM)."),
    click.option(
        "--pair-tls-key",
        type=options.PATH,
        metavar="FILE",
        help="Private key of the client certificate (PEM, without a password).",
    ),
    click.option(
        "--known-as",
        metavar="URL",
        help="Address at which the others reach this service.  [default: from --host, or this machine's name, and "
        "--port]",
    ),
)


# Leader election ----------------------------------------------------------------------------------

#: What stands for the ZooKeeper of the Storm cluster; and where services agree there, below which each cluster has its
#: own path.
STORM, ROOT = "storm", "stormwright"

_TLS = ("pair_tls_ca", "pair_tls_cert", "pair_tls_key")

#: Of Storm's defaults.yaml.
_PORT, _STORM_ROOT = 2181, "/storm"


@dataclass(frozen=True)
class Pair:
    """Settings of leader election.

    Parameters
    ----------
    hosts
        ZooKeeper servers and root, as in ``zk1:2181,zk2:2181/stormwright``.
    secret
        Shared secret of the services; empty for none.
    address
        Address at which other services reach this one.
    tls
        TLS settings for ZooKeeper; None for plain connections.
    """

    hosts: str
    secret: str
    address: str
    tls: ZooKeeperTls | None = None


def pair_of(values: Mapping[str, Any], faults: list[Fault]) -> Pair | None:
    """Return the leader election settings from the verb's parameters; None for a single service.

    Parameters
    ----------
    values
        Parameters of the verb by name.
    faults
        List to which faults of the parameters are appended.
    """
    if values["pair"] is None:
        for name in ("pair_secret", "known_as", *_TLS):
            if values[name] is not None:
                option = f"--{name.replace('_', '-')}"
                faults.append(Fault("has no effect without --pair", source_of(option)))
        return None
    over_tls = values["pair_tls_ca"] is not None
    hosts = _of_storm(values["storm_home"], over_tls, faults) if values["pair"] == STORM else values["pair"]
    if "/" not in hosts:
        hosts = f"{hosts}/{ROOT}"
    if not all(_is_address(each) for each in hosts.partition("/")[0].split(",")):
        faults.append(Fault(f"should be as zk1:2181,zk2:2181/{ROOT}, or {STORM}; got {hosts}", source_of("--pair")))
    secret = _secret(values["pair_secret"], faults)
    if not secret and not values["without_authentication"]:
        what = (
            "is missing: who reaches ZooKeeper could change what is decided; write a long random word into a file, the "
            "same for each of the services"
        )
        faults.append(Fault(what, "--pair-secret"))
    return Pair(hosts, secret, _address(values), _tls(values, faults))


@contextmanager
def paired(pair: Pair | None, settings: ServiceSettings, stop: threading.Event) -> Iterator[ServiceSettings | None]:
    """Yield the settings of a service once it leads; None if `stop` was set before.

    Parameters
    ----------
    pair
        Settings of leader election; None for a single service, which leads at once.
    settings
        Settings of the service.
    stop
        Ends the wait for leadership.
    """
    if pair is None:
        yield settings
        return
    from stormwright.service.leader_election.leadership import ElectedLeader
    from stormwright.service.leader_election.lease import Lease
    from stormwright.service.leader_election.standby import renew_lease
    from stormwright.service.leader_election.zookeeper import ZooKeeper

    with ZooKeeper(pair.hosts, pair.secret, pair.tls) as store:
        lease = Lease(store, pair.address)
        leadership = ElectedLeader(lease, store)
        with renew_lease(lease, leadership):
            position = _wait_until_leader(settings, store, lease, stop)
            if position is None:
                yield None
                return
            if position and (settings.mode or settings.modes):
                # People changed the modes of another service, which has led until now.
                log.info("using the stored modes; `stormwright mode` changes them")
                settings = replace(settings, mode=None, modes={})
            yield replace(settings, leadership=leadership)


def found(pair: Pair) -> str:
    """Return the current leader; raises like `ZooKeeper`."""
    from stormwright.service.leader_election.zookeeper import ZooKeeper

    with ZooKeeper(pair.hosts, pair.secret, pair.tls) as store:
        leader = store.leader()
    return f"{pair.hosts} answers, and {leader.address if leader else 'no service'} leads"


def _wait_until_leader(settings: ServiceSettings, store: Any, lease: Any, stop: threading.Event) -> int | None:
    """Wait until this service leads; return the number of decisions before that, None if it was stopped."""
    from stormwright.service.auth.audit import FILE as AUDIT
    from stormwright.service.auth.middleware import AuthMiddleware
    from stormwright.service.http.server import HttpServer
    from stormwright.service.http.standby import standing_app
    from stormwright.service.leader_election.standby import open_standby

    auth = AuthMiddleware.of(settings.access, settings.host, settings.state_dir / AUDIT)
    with open_standby(settings.state_dir, store, lease) as standing:
        app = standing_app(standing, auth)
        with HttpServer(app, settings.host, settings.port, auth, settings.access.tls):
            leads = standing.wait_until_leader(stop)
        return standing.position if leads else None


def _of_storm(storm_home: Path, over_tls: bool, faults: list[Fault]) -> str:
    from stormwright.cli.doctor.facts import path_of, storm_yaml

    conf = storm_yaml(storm_home)
    servers = conf.get("storm.zookeeper.servers") if conf else None
    if not isinstance(servers, list) or not servers:
        what = f"{path_of(storm_home)} says no storm.zookeeper.servers: name ZooKeeper as zk1:2181,zk2:2181"
        faults.append(Fault(what, source_of("--pair")))
        return f"localhost:{_PORT}"
    if conf and conf.get("storm.zookeeper.ssl.enable") is True and not over_tls:
        what = (
            f"is missing: {path_of(storm_home)} says storm.zookeeper.ssl.enable; name the authority of its certificate"
        )
        faults.append(Fault(what, source_of("--pair-tls-ca")))
    port = (conf or {}).get("storm.zookeeper.port", _PORT)
    root = str((conf or {}).get("storm.zookeeper.root", _STORM_ROOT)).strip("/")
    return f"{','.join(f'{each}:{port}' for each in servers)}/{ROOT}/{root}".rstrip("/")


def _tls(values: Mapping[str, Any], faults: list[Fault]) -> ZooKeeperTls | None:
    authority, certificate, key = (values[name] for name in _TLS)
    if authority is None:
        for name in _TLS[1:]:
            if values[name] is not None:
                option = f"--{name.replace('_', '-')}"
                faults.append(Fault("has no effect without --pair-tls-ca", source_of(option)))
        return None
    from stormwright.service.leader_election.zookeeper import ZooKeeperTls

    tls = ZooKeeperTls(authority, certificate, key)
    faults += [Fault(fault.message, source_of(fault.path)) for fault in tls.faults()]
    return tls


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdigit() and 0 < int(port) < 2**16


def _secret(path: Path | None, faults: list[Fault]) -> str:
    if path is None:
        return ""
    try:
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it should be one word of ASCII"
        faults.append(Fault(f"{path} cannot be read: {why}", source_of("--pair-secret")))
        return "?"
    if not secret or not secret.isprintable() or " " in secret:
        faults.append(Fault(f"{path} should contain one long random word", source_of("--pair-secret")))
    return secret or "?"


def _address(values: Mapping[str, Any]) -> str:
    """Return the address at which other services reach this one."""
    if values["known_as"]:
        return str(values["known_as"]).rstrip("/")
    host = values["host"]
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 (only compared)
        host = socket.getfqdn()
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if values['tls_cert'] else 'http'}://{shown}:{values['port']}"
