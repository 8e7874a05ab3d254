"""``stormwright convert``: a problem file from JSON to arrays and back."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import prepare_output
from stormwright.errors import Fault, InputError
from stormwright.experiments.ready import read_problem
from stormwright.files import is_standard_output, name_of_output
from stormwright.formats import write_problem
from stormwright.model.texts import size_of

#: What names of problem files end with.
_ENDINGS = (".json", ".json.gz", ".npz")


@click.command()
@options.problem_file
@click.argument("out", type=options.OUTPUT_PATH)
def command(file: Path, out: Path) -> None:
    """Write the problem in FILE to OUT: as a NumPy archive for *.npz, which is read several times as fast, as JSON
    (stormwright-problem/1) for *.json, gzipped for *.json.gz; OUT may be -, which is standard output and gets JSON.

    Every verb reads either. FILE may also be - or ready:NAME, as for `stormwright schedule`.
    """
    prepare_output(out, file, given_as="OUT")
    _check_ending(out)
    problem = read_problem(file)
    write_problem(out, problem)
    say(f"{problem.name or 'problem'}: {size_of(problem)}; written to {name_of_output(out)}")


def _check_ending(out: Path) -> None:
    """Refuse a name that does not say what is to be written; devices and pipes have no such names."""
    if out.name.endswith(_ENDINGS) or is_standard_output(out) or (out.exists() and not out.is_file()):
        return
    told = "should end with .npz for a NumPy archive, or with .json or .json.gz for JSON"
    raise InputError("OUT", [Fault(told, str(out))])
