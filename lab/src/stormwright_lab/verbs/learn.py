"""``stormwright learn``: train the model of the `learned` scheduler, or an agent of `model_free`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.base.files import name_of_output
from stormwright.cli import options
from stormwright.cli.history_location import HistoryLocation, opened, place
from stormwright.cli.lines import say
from stormwright.cli.output import prepare_output, print_json
from stormwright.cli.progress import shown
from stormwright.errors import Fault, InputError
from stormwright.formats import write_json
from stormwright.model.humanize import counted

if TYPE_CHECKING:
    from stormwright_lab.evaluations.learning.examples import Group

#: Default number of random problems, as for the model that comes with the package.
_PROBLEMS = 120


@click.command()
@click.option(
    "--problems",
    type=options.WholeRange(0, 1_000_000),
    default=_PROBLEMS,
    show_default=True,
    help="Number of random problems to generate; each takes a few seconds.",
)
@click.option(
    "--sweep",
    "spec",
    type=options.PATH,
    help="Also learn from the cells of this sweep.",
)
@click.option(
    "--table",
    type=options.PATH,
    help="Table of the sweep's cells.  [default: SPEC's name with -cells, in the current directory]",
)
@click.option(
    "--examples",
    "files",
    type=options.PATH,
    multiple=True,
    help="Also learn from this file of examples, written by --keep or made from measured placements.",
)
@click.option("--keep", type=options.OUTPUT_PATH, help="Write all examples to this file; gzipped for *.gz.")
@click.option("--seed", type=options.WholeRange(0, 2**31 - 1), default=0, show_default=True, help="Random seed.")
@click.option(
    "--control",
    "controlled",
    type=options.PATH,
    help="Train an agent of model_free for the topology of this problem instead, in a virtual cluster: some minutes.",
)
@click.option("-o", "--output", type=options.OUTPUT_PATH, required=True, help="Output file of the model, or agent.")
@place
@options.as_json("Print what it was learned from as JSON.")
def command(
    problems: int,
    spec: Path | None,
    table: Path | None,
    files: tuple[Path, ...],
    keep: Path | None,
    seed: int,
    controlled: Path | None,
    output: Path,
    where: HistoryLocation,
    as_json: bool,
) -> None:
    """The scheduler uses the model with --set model=FILE. With --control an agent of the scheduler `model_free` is
    trained instead, which that scheduler uses with --set agent=FILE.

    Random problems are placed by fast rules and the placements are predicted; the model learns which placements perform
    best. With --state or --history it also learns from the recorded decisions of a service, with --sweep from the cells
    of a sweep.

    The same options produce the same file. The file is plain data, and contains a digest of its training examples.
    """
    from stormwright_lab.evaluations.learning.examples import random_examples, read_examples, write_examples
    from stormwright_lab.evaluations.learning.training import trained

    if table is not None and spec is None:
        raise InputError("learn", [Fault("requires --sweep", "--table")])
    if controlled is not None:
        if spec is not None or files or keep is not None or where.state_dir is not None or where.uri is not None:
            raise InputError(
                "learn", [Fault("learns from the virtual cluster alone: leave out other sources", "--control")]
            )
        _learn_control(controlled, seed, output, as_json=as_json)
        return
    prepare_output(output, *files)
    prepare_output(keep, *files, given_as="--keep")
    if keep is not None and keep.resolve() == output.resolve():
        raise InputError("learn", [Fault("is the output file of the model; choose another name", "--keep")])
    groups: list[Group] = [group for file in files for group in read_examples(file)]
    made = [f"{counted(len(groups), 'group')} of files"] if files else []
    with shown(err=True):
        if problems:
            groups += _counted_out(random_examples(problems, seed), problems)
            made.append(f"{counted(problems, 'problem')} drawn with seed {seed}")
        if spec is not None:
            found, note = _of_sweep(spec, table or Path(f"{spec.stem}-cells"))
            groups += found
            made.append(f"sweep {spec.stem}")
            if note:
                click.echo(f"note: {note}", err=True)
        if where.state_dir is not None or where.uri is not None:
            groups += _of_history(where, seed)
            made.append("history")
        if keep:
            # Before they are learned from: too few are enough beside others.
            write_examples(keep, groups, ", ".join(made))
        model = trained(groups, ", ".join(made), seed)
    write_json(output, model.as_dict())
    if as_json:
        print_json({"data": dict(model.data), "trained": dict(model.trained), "output": name_of_output(output)})
    else:
        rows, problem_count = f"{counted(model.data['rows'], 'placement')}", counted(len(groups), "problem")
        say(f"learned from {rows} of {problem_count} ({model.data['made']}): {name_of_output(output)}")


def _learn_control(path: Path, seed: int, output: Path, *, as_json: bool) -> None:
    from stormwright.simulator.precompile import ready_simulator
    from stormwright.workbench.ready_problems import read_problem
    from stormwright_lab.evaluations.learning.model_free import ControlSettings, VirtualTopology, train_agent

    problem = read_problem(path)
    prepare_output(output, path)
    with shown(err=True):
        ready_simulator()
        settings = ControlSettings(seed=seed)
        agent = train_agent(VirtualTopology(problem), settings)
    agent.write(output)
    if as_json:
        found = {"components": dict(agent.components), "nodes": agent.nodes, "rate_tps": agent.rate_tps}
        print_json({**found, "measurements": settings.samples + settings.steps, "output": name_of_output(output)})
    else:
        executors = counted(sum(agent.components.values()), "executor")
        say(f"agent for {executors} on {counted(agent.nodes, 'node')}: {name_of_output(output)}")


def _counted_out(found: Iterable[Group], total: int) -> Iterator[Group]:
    """Yield the groups, reporting progress at every tenth."""
    step = max(total // 10, 1)
    for number, group in enumerate(found, start=1):
        if number % step == 0:
            click.echo(f"{number} of {total} problems", err=True)
        yield group


def _of_sweep(spec: Path, table: Path) -> tuple[list[Group], str]:
    from stormwright_lab.evaluations.learning.recorded import SweepExamples

    examples = SweepExamples(spec, table)
    found, skipped = list(examples.groups()), examples.skipped
    return (
        found,
        f"{counted(skipped, 'cell')} came out otherwise than the table says: not learned from" if skipped else "",
    )


def _of_history(where: HistoryLocation, seed: int) -> list[Group]:
    from stormwright_lab.evaluations.learning.recorded import history_examples

    with opened(where) as (_, store):
        return list(history_examples(store, seed))
