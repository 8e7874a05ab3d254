"""TLS: the service's own certificate, and those that others show."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from stormwright.errors import Fault, InputError
from stormwright.service.access.settings import Tls


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
        told = f"is no certificate with its key in {tls.key}, both in PEM, the key without a password ({_told(error)})"
        raise InputError("--tls-cert", [Fault(told, str(tls.certificate))]) from error
    if tls.client_authority is not None:
        # Browsers and people show none: who has to, is refused by the door.
        context.verify_mode = ssl.CERT_OPTIONAL
        try:
            context.load_verify_locations(tls.client_authority)
        except ssl.SSLError as error:
            told = f"is no certificate in PEM ({_told(error)})"
            raise InputError("--tls-client-ca", [Fault(told, str(tls.client_authority))]) from error
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


def _told(error: Exception) -> str:
    return getattr(error, "reason", "") or str(error)
