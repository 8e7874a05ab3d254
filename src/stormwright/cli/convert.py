"""``stormwright convert``: a problem file from JSON to arrays and back."""

from __future__ import annotations

from pathlib import Path

import click

from stormwright.base.files import is_standard_output, name_of_output
from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import prepare_output, print_json
from stormwright.errors import Fault, InputError
from stormwright.formats import write_problem
from stormwright.model.problem import size_of, sizes
from stormwright.workbench.ready_problems import read_problem

#: Extensions of problem files.
_ENDINGS = (".json", ".json.gz", ".npz")


@click.command()
@options.problem_file
@click.argument("out", type=options.OUTPUT_PATH)
@options.as_json("Print how large it is as JSON; not where OUT is standard output.")
def command(file: Path, out: Path, as_json: bool) -> None:
    """The problem in FILE is written to OUT. The extension selects the format: *.npz, a NumPy archive, several times as
    fast to read; *.json (stormwright-problem/1); *.json.gz, gzipped. OUT may be -, standard output, as JSON.

    Every verb reads either. FILE may also be - or ready:NAME, as for `stormwright schedule`.
    """
    prepare_output(out, file, given_as="OUT")
    _check_ending(out)
    if as_json and is_standard_output(out):
        raise InputError("convert", [Fault("has no effect: standard output has the problem as JSON", "--json")])
    problem = read_problem(file)
    write_problem(out, problem)
    if as_json:
        print_json({"problem": problem.name, **sizes(problem), "output": name_of_output(out)})
        return
    say(f"{problem.name or 'problem'}: {size_of(problem)}; written to {name_of_output(out)}")


def _check_ending(out: Path) -> None:
    """Raise if the extension does not select a format; devices and pipes have none."""
    if out.name.endswith(_ENDINGS) or is_standard_output(out) or (out.exists() and not out.is_file()):
        return
    wanted = "should end with .npz for a NumPy archive, or with .json or .json.gz for JSON"
    raise InputError("OUT", [Fault(wanted, str(out))])
