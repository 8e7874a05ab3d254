"""``stormwright revert``: restore the placement before an entry of the history."""

from __future__ import annotations

import click

from stormwright.cli import options
from stormwright.cli.apply import follow
from stormwright.cli.asking import client_of


@click.command()
@click.argument("entry", type=options.WholeRange(0, 2**62), metavar="N")
@options.service
@options.reason("taken back by hand")
@click.option("--no-wait", is_flag=True, help="Return immediately instead of following the plan.")
@options.as_json("Print how it ended as JSON.")
@click.pass_context
def command(ctx: click.Context, entry: int, address: str, by: str, reason: str, no_wait: bool, as_json: bool) -> None:
    """N is the number of the entry, as listed by `stormwright history`.

    Everything that entry N and later ones moved returns to where it was before. If that is impossible, for example
    because a node is gone, nothing moves, and the reason is printed. Exits like `stormwright apply`.
    """
    client = client_of(address, by)
    follow(ctx, client.address, by, client.revert(entry, reason).id, no_wait, as_json)
