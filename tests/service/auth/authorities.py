"""Certificates for tests, made by an authority of their own."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from stormwright.service.auth.settings import Tls


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Certifies whom a test wants; `file` is its own certificate."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory, self._made = directory, trustme.CA()
        self.file = directory / "ca.pem"
        self._made.cert_pem.write_to_path(str(self.file))

    def certify(self, name: str, common_name: str | None = None) -> Pair:
        """A certificate of a host or address; its key is as most programs write keys (PKCS #8)."""
        made = self._made.issue_cert(name, common_name=common_name)
        pair = Pair(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        pair.certificate.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        key = load_pem_private_key(made.private_key_pem.bytes(), None)
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return pair

    def tls(self, host: str, clients: Authority | None = None) -> Tls:
        """What a service at an address shows, and find_token certificates it wants of Nimbus and probes."""
        pair = self.certify(host)
        return Tls(pair.certificate, pair.key, clients.file if clients else None)

    def context(self, shown: Pair | None = None) -> ssl.SSLContext:
        """For who takes its certificates, and shows one."""
        context = ssl.create_default_context(cafile=str(self.file))
        if shown:
            context.load_cert_chain(shown.certificate, shown.key)
        return context
