"""``stormwright token``: manage access tokens of a service."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json, print_table, text_table
from stormwright.errors import Fault, InputError
from stormwright.model.humanize import in_utc
from stormwright.service.auth.roles import Role, role_of

if TYPE_CHECKING:
    from stormwright.service.auth.tokens import Token, Tokens

_DAY_MS = 86_400_000


def _where(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--state`` and ``--tokens``, either of which locates the file."""
    state = click.option(
        "--state",
        "state_dir",
        type=click.Path(path_type=Path, file_okay=False),
        envvar="STORMWRIGHT_SERVE_STATE",
        show_envvar=True,
        help="State directory of the service; the file is tokens.json below it.",
    )
    file = click.option(
        "--tokens", "tokens_file", type=options.PATH, metavar="FILE", help="Token file, as for `serve --tokens`."
    )
    return state(file(function))


@click.group(cls=options.Verbs)
def command() -> None:
    """They authenticate users, and are stored in a file; no running service is needed. A running one picks up changes
    within a second. A service that was started without authentication has to be restarted.
    """


@command.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(get_args(Role)),
    required=True,
    help="viewer reads; operator also plans, applies, reverts and sets modes; approver reads, and applies or "
    "discards plans of others; bridge is Nimbus and the probes; probe is probes only.",
)
@click.option("--expires", "days", type=options.DAYS, metavar="DAYS", help="Lifetime of the token.")
@_where
@options.as_json("Print it as JSON: what `list --json` has of it, and `token`, which is the token itself.")
def create(
    name: str, role: str, days: int | None, state_dir: Path | None, tokens_file: Path | None, as_json: bool
) -> None:
    """Create a token for NAME and print it; it is not stored, and cannot be shown again.

    NAME appears in the history. The file contains only the SHA-256 of the token's 256 random bits.
    """
    tokens = _tokens(state_dir, tokens_file, makes=True)
    expires_ms = round(time.time() * 1000) + days * _DAY_MS if days else None
    secret = tokens.create(name, role_of(role), expires_ms)
    _note(tokens, f"token create {name} --role {role}")
    if as_json:
        made = tokens.find_token(secret)
        print_json({"token": secret, **(_described(made, time.time() * 1000) if made else {})})
    else:
        say(secret)


@command.command("list")
@_where
@options.as_json("Print them as JSON, without the tokens themselves.")
def list_(state_dir: Path | None, tokens_file: Path | None, as_json: bool) -> None:
    """List the tokens: owner, role, and whether they are valid."""
    tokens, now_ms = _tokens(state_dir, tokens_file), time.time() * 1000
    stored = tokens.stored()
    if as_json:
        print_json({"tokens": [_described(each, now_ms) for each in stored]})
        return
    if not stored:
        where = f"--tokens {tokens_file}" if tokens_file else f"--state {state_dir}"
        say(f"there is no token yet: `stormwright token create NAME --role operator {where}` makes one")
        return
    table = text_table("name", "role", "made", "ends", "counts")
    for each in stored:
        ends = in_utc(each.expires_ms) if each.expires_ms is not None else "never"
        table.add_row(each.name, each.role, in_utc(each.created_ms), ends, each.ended(now_ms) or "yes")
    print_table(table)


@command.command()
@click.argument("name")
@_where
@options.as_json("Print it as JSON, as `list --json` does.")
def revoke(name: str, state_dir: Path | None, tokens_file: Path | None, as_json: bool) -> None:
    """Revoke the token of NAME: requests with it are refused within a second, and its sessions end."""
    tokens = _tokens(state_dir, tokens_file)
    ended = tokens.revoke(name)
    _note(tokens, f"token revoke {name}")
    if as_json:
        print_json(_described(ended, time.time() * 1000))
    else:
        say(f"the token of {name} is revoked")


def _described(token: Token, now_ms: float) -> dict[str, object]:
    """Return a token for JSON, without its secret."""
    return {**token.model_dump(exclude={"digest"}), "ended": token.ended(now_ms)}


def _tokens(state_dir: Path | None, tokens_file: Path | None, *, makes: bool = False) -> Tokens:
    """Return the tokens of a file; its directory is created if tokens are made."""
    from stormwright.service.auth.tokens import FILE, Tokens

    if state_dir is None and tokens_file is None:
        raise InputError("token", [Fault("give the state directory of the service, or --tokens FILE", "--state")])
    path = tokens_file or Path(state_dir or "") / FILE
    directory = path.absolute().parent
    needed = directory.parent if makes else directory
    with suppress(PermissionError):  # reading the file reports it
        if not (directory.is_dir() or needed.is_dir()):
            make = ": make it first, or name another one" if makes else ""
            given = Fault(f"there is no directory {needed}{make}", "--tokens" if tokens_file else "--state")
            raise InputError("token", [given])
    return Tokens(path)


def _note(tokens: Tokens, what: str) -> None:
    """Write a change to the audit log beside the file of tokens, which is the service's in its state directory."""
    from stormwright.cli.options import user
    from stormwright.service.auth.audit import FILE, Audit

    Audit(tokens.path.with_name(FILE)).note(what, who=user(), role="", status=0, **{"from": "command line"})
