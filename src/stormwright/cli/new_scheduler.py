"""``stormwright new-scheduler``: the skeleton of a package with a scheduler of one's own."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.cli.lines import say


@click.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Where the package's directory is made.  [default: here]",
)
def command(name: str, directory: Path) -> None:
    """Write a package with the scheduler NAME, ready to install, and tests that hold it to the contract."""
    from stormwright.experiments.skeleton import write_skeleton

    written = write_skeleton(name, directory)
    for path in written:
        say(path)
    say(f"next: cd {written[0].parent} && pip install -e '.[test]' && pytest; then `stormwright schedulers {name}`")
