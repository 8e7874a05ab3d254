"""``stormwright new-scheduler``: create a package with a scheduler."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import print_json


@click.command()
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Parent directory of the package.  [default: current directory]",
)
@options.as_json("Print the files and what to do next as JSON.")
def command(name: str, directory: Path, as_json: bool) -> None:
    """The package is installable, and has the scheduler NAME and tests that run the contract suite against it."""
    from stormwright.workbench.scheduler_template import write_skeleton

    written = write_skeleton(name, directory)
    steps = [f"cd {written[0].parent} && pip install -e '.[test]' && pytest", f"stormwright schedulers {name}"]
    if as_json:
        print_json({"scheduler": name, "files": [str(path) for path in written], "next": steps})
        return
    for path in written:
        say(path)
    say(f"next: {steps[0]}; then `{steps[1]}`")
