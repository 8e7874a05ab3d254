"""``stormwright export``: a topology of a problem file as a file of another tool."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import prepare_output
from stormwright.errors import Fault, InputError
from stormwright.formats.files.json_files import write_bytes
from stormwright.model.problem import topologies_called
from stormwright.workbench.ready_problems import read_problem


@click.group(cls=options.Verbs)
def command() -> None:
    pass


@command.command()
@options.problem_file
@click.option("--topology", "name", metavar="NAME", help="Name or id of the topology; needed where there are several.")
@options.output("Write the file here instead of printing it.")
def loadgen(file: Path, name: str | None, output: Path | None) -> None:
    """Export a topology of the problem in FILE as a recorded load, which GenLoad of Storm's load generator replays.

    Nothing of the topology's code or data is in it: its shape, rates, times and requests are what a report of a fault
    needs. `stormwright import loadgen` reads it.
    """
    from stormwright.formats.storm.loadgen import write_loadgen

    prepare_output(output, file)
    problem = read_problem(file)
    names = ", ".join(each.name for each in problem.topologies) or "none"
    indices = topologies_called(problem, name) if name else list(range(len(problem.topologies)))
    if len(indices) != 1:
        wrong = "no such topology" if name and not indices else "should be one topology"
        raise InputError("--topology", [Fault(f"{wrong}; there are {names}", name or "")])
    text = write_loadgen(problem, indices[0])
    if output is None:
        click.echo(text, nl=False)
        return
    write_bytes(output, text.encode())
    say(f"{output}: load of {problem.topologies[indices[0]].name}, for `storm jar storm-loadgen.jar GenLoad`")
