"""The options of one of several services beside a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from stormwright.cli import options

Command = Callable[..., Any]


def pair_options(command: Command) -> Command:
    """Adds them to a verb."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


_OPTIONS = (
    click.option(
        "--pair",
        metavar="ZOOKEEPER",
        help="Be one of several services of this cluster, of which one leads and the others stand by: where they "
        "agree, as in zk1:2181,zk2:2181, or storm for the ZooKeeper in storm.yaml.",
    ),
    click.option(
        "--pair-secret",
        type=options.PATH,
        metavar="FILE",
        help="Holds a word that these services know and nobody else, who can then neither read nor change what they "
        "agree on.",
    ),
    click.option(
        "--pair-tls-ca",
        type=options.PATH,
        metavar="FILE",
        help="ZooKeeper is spoken to over TLS, and has a certificate of this authority (PEM).",
    ),
    click.option("--pair-tls-cert", type=options.PATH, metavar="FILE", help="Certificate that it is shown (PEM)."),
    click.option("--pair-tls-key", type=options.PATH, metavar="FILE", help="The key of it (PEM, without a password)."),
    click.option(
        "--known-as",
        metavar="URL",
        help="Where one that stands by says that this one is.  [default: by --host, or this machine's name, and "
        "--port]",
    ),
)
