"""``stormwright revert``: the placement as it was before an entry of the history."""

from __future__ import annotations

import click

from stormwright.cli import options
from stormwright.cli.apply import follow
from stormwright.cli.asking import client_of


@click.command()
@click.argument("entry", type=click.IntRange(0, 2**62), metavar="N")
@options.service
@options.reason("taken back by hand")
@click.option("--no-wait", is_flag=True, help="Do not follow it.")
@options.as_json("Print how it ended as JSON.")
@click.pass_context
def command(ctx: click.Context, entry: int, address: str, by: str, reason: str, no_wait: bool, as_json: bool) -> None:
    """Restore the placement exactly as it was before entry N of the history (`stormwright history` lists them).

    All that entry N and later ones have moved goes back to where it was before N. Where that cannot be any more, as a
    node is gone, nothing moves, and it is said why. Exits as `stormwright apply` does.
    """
    client = client_of(address, by)
    follow(ctx, client.address, by, client.revert(entry, reason).id, no_wait, as_json)
