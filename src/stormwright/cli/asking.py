"""Client of a running service, with the user's token."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from stormwright.cli.options import TOKEN_FILE
from stormwright.errors import Fault, InputError

if TYPE_CHECKING:
    from stormwright.client import Client

#: The variable that may hold a token itself.
TOKEN = "STORMWRIGHT_TOKEN"  # noqa: S105 (its name)


def client_of(address: str, by: str) -> Client:
    """Return a client of the service, with the token of the current verb.

    Parameters
    ----------
    address, by
        Address of the service, and the user's name, as from `options.service`.
    """
    from stormwright.client import Client

    return Client(address, by, token=token_from_environment())


def token_from_environment() -> str | None:
    """Return the token of the current verb; None without one.

    Raises
    ------
    InputError
        The token file cannot be read, or does not hold a line of text.
    """
    path = click.get_current_context().meta.get(TOKEN_FILE)
    if path is None:
        return os.environ.get(TOKEN) or None
    try:
        text: str = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        secret = f"cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}"
        raise InputError("--token-file", [Fault(secret, str(path))]) from error
    if not text:
        raise InputError(
            "--token-file", [Fault("is empty; write the output of `stormwright token create` to it", str(path))]
        )
    return text
