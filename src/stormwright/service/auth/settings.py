"""Access settings of a service."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from stormwright.errors import Fault, InputError

# Certificates -------------------------------------------------------------------------------------
# TLS: the service's own certificate, and those that others show.


def tls_context(tls: Tls) -> ssl.SSLContext:
    """TLS 1.2 or later, with a service's certificate.

    Raises
    ------
    InputError
        A file cannot be read, is no certificate or key, or the two do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path, option in (
        (tls.certificate, "--tls-cert"),
        (tls.key, "--tls-key"),
        (tls.client_authority, "--tls-client-ca"),
    ):
        if path is not None:
            _require_readable(path, option)
    try:
        # A key that wants a password would ask for it at the terminal.
        context.load_cert_chain(tls.certificate, tls.key, password=lambda: b"")
    except (ssl.SSLError, ValueError) as error:
        message = (
            f"is no certificate with its key in {tls.key}, both in PEM, the key without a password ({_fault_of(error)})"
        )
        raise InputError("--tls-cert", [Fault(message, str(tls.certificate))]) from error
    if tls.client_authority is not None:
        # Browsers and people show none: the middleware refuses those that need one.
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(tls.client_authority)
        except ssl.SSLError as error:
            message = f"is no certificate in PEM ({_fault_of(error)})"
            raise InputError("--tls-client-ca", [Fault(message, str(tls.client_authority))]) from error
    return context


def certified(transport: asyncio.BaseTransport) -> str:
    """The name in the certificate that the other side has shown, which was found to be good; empty for none."""
    channel = transport.get_extra_info("ssl_object")
    shown = channel.getpeercert() if channel else None
    for part in (shown or {}).get("subject", ()):
        for name, value in part:
            if name == "commonName" and value:
                return str(value)
    return "somebody" if shown else ""


def _require_readable(path: Path, option: str) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(option, [Fault(f"cannot be read: {error.strerror}", str(path))]) from error


def _fault_of(error: Exception) -> str:
    return getattr(error, "reason", "") or str(error)


# Settings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tls:
    """Certificate and key of a service as PEM files, and the authority of client certificates.

    Parameters
    ----------
    certificate, key
        Of the service; the certificate with those that lead to its authority.
    client_authority
        Every client that requests placements or delivers has a certificate of it; None where tokens are enough.
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None


@dataclass(frozen=True)
class AccessSettings:
    """Access settings of a service.

    Parameters
    ----------
    tokens
        File of tokens; None disables authentication.
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
