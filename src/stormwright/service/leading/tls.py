"""TLS to ZooKeeper: whose certificate it has to show, and what it is shown."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormwright.errors import Fault


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
        """What is wrong with them, each under its option."""
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
