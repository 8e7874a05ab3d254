"""``stormwright uncordon``: a drained node takes what comes again."""

from __future__ import annotations

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say


@click.command()
@click.argument("node")
@options.service
@options.reason("uncordoned by hand")
def command(node: str, address: str, by: str, reason: str) -> None:
    """Let NODE (a host, or the id of a supervisor), which is drained, take what comes again.

    Nothing goes there by that alone: it is among the nodes of the next decision. `stormwright revert` brings back what
    has left.
    """
    say(f"{client_of(address, by).uncordon(node, reason).host} takes what comes again")
