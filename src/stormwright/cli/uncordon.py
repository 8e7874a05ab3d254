"""``stormwright uncordon``: make a drained node schedulable again."""

from __future__ import annotations

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say
from stormwright.cli.output import print_json


@click.command()
@click.argument("node")
@options.service
@options.reason("uncordoned by hand")
@options.as_json("Print what was drained as JSON.")
def command(node: str, address: str, by: str, reason: str, as_json: bool) -> None:
    """NODE is a host, or the id of a supervisor.

    Nothing moves there at once: the next decision may use it. `stormwright revert` brings back what has left.
    """
    was = client_of(address, by).uncordon(node, reason)
    if as_json:
        print_json(was.model_dump(mode="json"))
    else:
        say(f"{was.host} is schedulable again")
        if was.plan:
            say(f"plan {was.plan} of the drain stops before its next step, if it is not done: see `stormwright status`")
