"""Access settings of ``stormwright serve``: other machines have access only if authentication is configured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli.serve.config import source_of
from stormwright.errors import Fault, InputError, collected

if TYPE_CHECKING:
    from stormwright.service.auth.settings import AccessSettings, Tls


def access_of(values: Mapping[str, Any], faults: list[Fault]) -> AccessSettings:
    """Return the access settings from the verb's parameters.

    Parameters
    ----------
    values
        Parameters of the verb by name.
    faults
        List to which faults of the parameters are appended.
    """
    from stormwright.service.auth.settings import AccessSettings, is_loopback

    tls, host = _tls(values, faults), values["host"]
    if values["without_authentication"]:
        if values["tokens_file"] is not None:
            faults.append(Fault("contradicts --without-authentication", source_of("--tokens")))
        return AccessSettings(None, tls)
    tokens = _tokens(values, faults)
    if tokens is None and not is_loopback(host):
        what = (
            f"{host} is reachable from other machines without authentication: {_how(values['state_dir'])}, or pass "
            "--without-authentication if everybody who can reach it may move topologies"
        )
        faults.append(Fault(what, source_of("--host")))
    return AccessSettings(tokens, tls)


def warnings_of(values: Mapping[str, Any], access: AccessSettings) -> list[str]:
    """Return warnings about the access settings."""
    from stormwright.service.auth.settings import is_loopback

    if is_loopback(values["host"]):
        return []
    if access.tokens is None:
        reached = f"everybody who can reach {values['host']}:{values['port']} may move topologies"
        return [f"--without-authentication: every request is accepted, and {reached}"]
    if access.tls is None:
        return ["tokens are sent unencrypted: pass --tls-cert and --tls-key"]
    return []


def _tokens(values: Mapping[str, Any], faults: list[Fault]) -> Path | None:
    """Return the file of tokens; None if there is none."""
    from stormwright.service.auth.tokens import FILE, Tokens

    path: Path = values["tokens_file"] or values["state_dir"] / FILE
    option = source_of("--tokens") if values["tokens_file"] else "--state"
    if values["tokens_file"] is None and not path.exists():
        return None
    with collected(faults, f"{option}: {path}"):
        now_ms = time.time() * 1000
        if not any(not each.ended(now_ms) for each in Tokens(path).stored()):
            how = f"stormwright token create NAME --role operator --tokens {path}"
            faults.append(
                Fault(f"has no valid token, so every request would be refused: `{how}` creates one", str(path))
            )
    return path


def _how(state_dir: Path) -> str:
    """Return how to create tokens; a temporary state directory cannot hold them."""
    if click.get_current_context().params["state_dir"] is not None:
        return f"create tokens (`stormwright token create NAME --role operator --state {state_dir}`)"
    made = "stormwright token create NAME --role operator --tokens FILE"
    return f"create tokens (`{made}`) and pass that file with --tokens, or pass a permanent --state with tokens"


def _tls(values: Mapping[str, Any], faults: list[Fault]) -> Tls | None:
    from stormwright.service.auth.settings import Tls, tls_context

    certificate, key, authority = values["tls_cert"], values["tls_key"], values["tls_client_ca"]
    if certificate is None or key is None:
        for option, value in (("--tls-cert", certificate), ("--tls-key", key), ("--tls-client-ca", authority)):
            if value is not None:
                missing = " and ".join(n for n, v in (("--tls-cert", certificate), ("--tls-key", key)) if v is None)
                faults.append(Fault(f"has no effect without {missing}", source_of(option)))
        return None
    tls = Tls(certificate, key, authority)
    try:
        tls_context(tls)
    except InputError as error:
        faults += [Fault(each.message, f"{source_of(error.source)} {each.path}") for each in error.faults]
    return tls
