"""``stormwright calibrate``: what messages and workers of a cluster cost, from its performance log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, numbers_table, prepare_output, print_json, print_table
from stormwright.errors import Fault, InputError
from stormwright.formats import write_json

if TYPE_CHECKING:
    from stormwright.predict.fit.calibration import Calibration
    from stormwright.predict.fit.from_files import FromFiles

_MAX_TOPOLOGIES = 20


@click.command()
@click.argument("records", nargs=-1, required=True, type=options.PATH, metavar="RECORDS...")
@click.option(
    "-o", "--output", type=options.OUTPUT_PATH, help="Write the costs here, for --costs of predict and whatif."
)
@options.as_json("Print them as JSON.")
def command(records: tuple[Path, ...], output: Path | None, as_json: bool) -> None:
    """Fit what messages and workers cost to the performance log in RECORDS: files of it, or directories that hold such
    (*.jsonl), as where records land or the state directory of a service. A minute of one placement is enough; more
    placements tell more.

    What the records do not tell stays what it is taken to be without them, and its interval says so. Intervals hold a
    cost 19 times in 20.
    """
    from stormwright.predict.fit.file import costs_to_dict
    from stormwright.predict.fit.from_files import from_files

    files = list(_files(records))
    prepare_output(output, *files)
    found = from_files(files)
    document = costs_to_dict(found.calibration)
    if output:
        write_json(output, document)
    if as_json:
        print_json(document)
    elif not output:
        _print(found.calibration)
    _tell_rest(found)


def _files(given: Sequence[Path]) -> Iterator[Path]:
    from stormwright.perflog.landing import SUFFIX

    for path in given:
        if not path.is_dir():
            yield path
            continue
        within = [path / "landing", path / "stream" / "raw"] if (path / "landing").is_dir() else [path]
        found = sorted(file for directory in within for file in directory.glob(f"*{SUFFIX}"))
        if not found:
            raise InputError("records", [Fault(f"no file *{SUFFIX} in this directory", str(path))])
        yield from found


def _print(calibration: Calibration) -> None:
    table = numbers_table("cost", "value", "from", "to", "learned")
    for name, one in calibration.figures.items():
        table.add_row(name, f"{one.value:.3g}", f"{one.low:.3g}", f"{one.high:.3g}", f"{one.learned:.0%}")
    print_table(table)
    costs = calibration.costs
    errors = {"messages": costs.message_error, "work": costs.work_error, "delays": costs.delay_error}
    say(f"error {', '.join(f'of {name} {error:.0%}' for name, error in errors.items())}")
    lines = [
        f"{topology}: work × {one.work:.3f}, messages × {one.messages:.3f}"
        for topology, one in calibration.corrections.items()
    ]
    for line in cut_short(lines, _MAX_TOPOLOGIES, " topologies; --json has all"):
        say(line)


def _tell_rest(found: FromFiles) -> None:
    lines = []
    if found.rejected:
        lines.append(f"{found.rejected:,} of {found.lines:,} lines are no records: {found.reason}")
    if found.twice:
        lines.append(f"{found.twice:,} records are there twice")
    for line in lines:
        click.echo(f"note: {line}", err=True)
