"""Who may reach a service, as it is told at start."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tls:
    """Certificate and key of a service, as files in PEM; and the authority whose certificates Nimbus and probes show.

    Parameters
    ----------
    certificate, key
        Of the service; the certificate with those that lead to its authority.
    client_authority
        Whoever asks for placements or delivers has a certificate of it; None where tokens are enough.
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None


@dataclass(frozen=True)
class AccessSettings:
    """Who may reach a service.

    Parameters
    ----------
    tokens
        File of tokens; None where nobody is asked who he is.
    tls
        None for HTTP as it is.
    """

    tokens: Path | None = None
    tls: Tls | None = None


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone; a name is where all that it stands for is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(each).partition("%")[0]).is_loopback for each in found)
