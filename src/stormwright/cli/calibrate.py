"""``stormwright calibrate``: fit message and worker costs from a performance log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.cli.lines import say
from stormwright.cli.output import cut_short, numbers_table, prepare_output, print_json, print_table
from stormwright.cli.progress import shown
from stormwright.errors import Fault, InputError
from stormwright.formats import write_json

if TYPE_CHECKING:
    from stormwright.predict.calibration.calibration import Calibration
    from stormwright.predict.calibration.from_files import FileFit
    from stormwright.predict.costs import InputWork

_MAX_TOPOLOGIES = 20


@click.command()
@click.argument("records", nargs=-1, type=options.PATH, metavar="[RECORDS]...")
@options.storm_home(
    "In place of RECORDS: run a word count of ours on the cluster that storm.yaml of this Storm names, "
    "for a minute and a half, and kill it."
)
@options.address("its workers", port=7071)
@click.option(
    "--rate",
    "rate_tps",
    default=1000.0,
    show_default=True,
    type=options.FiniteRange(1, 1e6),
    help="Rate of the built-in word count, in trees/s. Messages get cheaper per tuple as the rate grows: the "
    "higher, the closer to the costs on a full node.",
)
@click.option(
    "--measure",
    "measure_s",
    default=45.0,
    show_default=True,
    type=options.FiniteRange(10, 3600),
    help="Measurement time after the workers have warmed up, in seconds.",
)
@options.output("Output file, for --costs of predict and whatif.")
@options.as_json("Print them as JSON.")
def command(
    records: tuple[Path, ...],
    storm_home: Path | None,
    host: str,
    port: int,
    rate_tps: float,
    measure_s: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """RECORDS are files of the log or directories with such files (*.jsonl, *.parquet): the landing directory, or the
    state directory of a service. One minute of one placement is enough; more placements give better estimates. If
    nothing was measured yet, `--storm-home` runs a built-in topology.

    Costs that the records do not determine keep their defaults, and have wide intervals. Intervals contain the true
    cost 19 times in 20.
    """
    from stormwright.predict.calibration.document import costs_to_dict
    from stormwright.predict.calibration.from_files import from_files

    of_a_run = dict.fromkeys(("host", "port", "rate_tps", "measure_s"), "it needs --storm-home")
    faults = [] if storm_home else options.idle(of_a_run)
    if bool(records) == (storm_home is not None):
        faults.append(Fault("give either RECORDS or --storm-home", "RECORDS"))
    if faults:
        raise InputError("calibrate", faults)
    files = list(_files(records))
    prepare_output(output, *files)
    if storm_home is None:
        found = from_files(files)
    else:
        with TemporaryDirectory(prefix="stormwright-calibrate-") as directory, shown(err=True):
            file = Path(directory) / "records.jsonl"
            _run(storm_home, (host, port), file, rate_tps=rate_tps, seconds=measure_s)
            found = from_files([file])
    document = costs_to_dict(found.calibration)
    if output:
        write_json(output, document)
    if as_json:
        print_json(document)
    elif not output:
        _print(found.calibration)
    _print_remaining(found)


def _run(storm_home: Path, address: tuple[str, int], file: Path, *, rate_tps: float, seconds: float) -> None:
    from stormwright.storm.gateway import NimbusGateway, gateway_command
    from stormwright.storm.jvm import our_jar, storm_command
    from stormwright.storm.submitting import submission_properties, submit
    from stormwright.workbench.calibration_run import run_calibration

    def submitted(class_name: str, args: Sequence[str], conf: Mapping[str, Any]) -> None:
        properties = submission_properties(our_jar(storm_home), conf)
        flags = ("-Xmx256m", *(f"-D{name}={value}" for name, value in properties.items()))
        submit(storm_command(storm_home, class_name, *args, flags=flags), class_name)

    with NimbusGateway(gateway_command(storm_home)) as nimbus:
        run_calibration(submitted, nimbus, address, file, rate_tps=rate_tps, seconds=seconds)


def _files(given: Sequence[Path]) -> Iterator[Path]:
    from stormwright.perflog.landing import SUFFIXES

    for path in given:
        if not path.is_dir():
            yield path
            continue
        within = [path / "landing", path / "stream" / "raw"] if (path / "landing").is_dir() else [path]
        found = sorted(file for directory in within for suffix in SUFFIXES for file in directory.glob(f"*{suffix}"))
        if not found:
            raise InputError("records", [Fault(f"no file *{' or *'.join(SUFFIXES)} in this directory", str(path))])
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
    by_input = [
        f"{topology}/{component}: {_by_input(inputs)}"
        for topology, one in calibration.corrections.items()
        for component, inputs in one.inputs.items()
    ]
    for line in cut_short(by_input, _MAX_TOPOLOGIES, " components; --json has all"):
        say(line)


def _by_input(inputs: Sequence[InputWork]) -> str:
    """Return the work per tuple by stream, indistinguishable streams last."""
    lines = [f"{one.us:.3g} µs of a tuple of {one.source}/{one.stream}" for one in inputs if one.identified]
    rest = [one for one in inputs if not one.identified]
    if rest:
        part = sum(one.part for one in rest)
        mean_us = sum(one.part * one.us for one in rest) / part if part > 0 else 0.0
        names = ", ".join(f"{one.source}/{one.stream}" for one in rest)
        lines.append(f"{mean_us:.3g} µs of one of {names}{', not distinguishable' if len(rest) > 1 else ''}")
    return "; ".join(lines)


def _print_remaining(found: FileFit) -> None:
    lines = []
    if found.rejected:
        lines.append(f"{found.rejected:,} of {found.lines:,} lines are no records: {found.reason}")
    if found.twice:
        lines.append(f"{found.twice:,} records are there twice")
    for line in lines:
        click.echo(f"note: {line}", err=True)
