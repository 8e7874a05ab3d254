"""``stormwright convert``: a problem file from JSON to arrays and back."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import prepare_output
from stormwright.experiments.ready import read_problem
from stormwright.files import name_of_output
from stormwright.formats import write_problem
from stormwright.model.texts import size_of


@click.command()
@options.problem_file
@click.argument("out", type=options.OUTPUT_PATH)
def command(file: Path, out: Path) -> None:
    """Write the problem in FILE to OUT: as a NumPy archive for *.npz, which is read several times as fast, else as JSON
    (stormwright-problem/1), gzipped for *.gz; OUT may be -, which is standard output.

    Every verb reads either. FILE may also be - or ready:NAME, as for `stormwright schedule`.
    """
    prepare_output(out, file, given_as="OUT")
    problem = read_problem(file)
    write_problem(out, problem)
    say(f"{problem.name or 'problem'}: {size_of(problem)}; written to {name_of_output(out)}")
