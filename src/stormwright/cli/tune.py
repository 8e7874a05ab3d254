"""``stormwright tune``: a better configuration of a running topology, found by trials or given by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import print_json, print_table, text_table
from stormwright.errors import Fault, InputError, StormwrightError

if TYPE_CHECKING:
    from stormwright.client import Client
    from stormwright.plans.figures import Range
    from stormwright.plans.tuning import Tuning, TuningAim

#: Options of a new tuning, and of earlier ones.
_OF_TRIALS = ("rate", "latency_ms", "p99_ms", "any_latency", "least_cores", "trials", "pauses", "dry_run")
_OF_EARLIER = ("stop", "show", "export")

#: Seconds from one look at a tuning to the next.
_POLL_S = 2.0


@click.command()
@click.argument("topology")
@options.service
@options.reason("a better configuration")
@click.option("--latency-ms", type=options.FiniteRange(0, min_open=True), help="Maximum mean complete latency.")
@click.option("--p99-ms", type=options.FiniteRange(0, min_open=True), help="Maximum 99th percentile of the latency.")
@click.option("--any-latency", is_flag=True, help="The latency may rise; by default it stays at most as it is.")
@click.option("--least-cores", is_flag=True, help="The least CPU at the rate that comes, not the highest rate.")
@click.option("--rate", type=options.FiniteRange(0, min_open=True), help="With --least-cores: minimum trees/s.")
@click.option("--trials", type=click.IntRange(1, 100), default=6, show_default=True, help="Maximum number of trials.")
@click.option(
    "--pauses",
    type=options.FiniteRange(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Maximum duration of all its pauses together, in seconds.",
)
@click.option("--dry-run", is_flag=True, help="Plan the first trial only.")
@click.option("--stop", is_flag=True, help="Stop its tuning: a trial under way is still evaluated.")
@click.option("--show", is_flag=True, help="Print its newest tuning.")
@click.option("--export", is_flag=True, help="Print all that its tunings have changed, as a part of a Flux file.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="By hand: a key of its configuration, and a value as JSON or text.",
)
@click.option(
    "--executors",
    multiple=True,
    metavar="COMPONENT=N",
    help="By hand: the number of executors of a component; __acker is one.",
)
@options.steps
@options.everything
@options.as_json("Print it as JSON.")
def command(
    topology: str,
    address: str,
    by: str,
    reason: str,
    rate: float | None,
    latency_ms: float | None,
    p99_ms: float | None,
    any_latency: bool,
    least_cores: bool,
    trials: int,
    pauses: float,
    dry_run: bool,
    stop: bool,
    show: bool,
    export: bool,
    settings: tuple[str, ...],
    executors: tuple[str, ...],
    steps: bool,
    as_json: bool,
) -> None:
    """TOPOLOGY is a name or an id. Its configuration is improved by trials: numbers of executors, ackers, pending
    trees, waits of idle threads, and the placement of the result. Each trial is a plan that stays only if it is
    measurably better; the next one is chosen by the model and the trials so far.

    With --set or --executors it is a single plan, which `stormwright apply` carries out. Values with which workers
    would end, or the topology would stand still, are refused, as Nimbus validates none. All workers restart in one
    pause, each with the new configuration; `stormwright revert` brings the former one back.
    """
    from stormwright.plans.tuning import TuningAim

    client = client_of(address, by)
    if settings or executors:
        _require_idle((*_OF_TRIALS, *_OF_EARLIER), "--set and --executors change it by hand")
        _by_hand(client, topology, reason, settings, executors, steps=steps, as_json=as_json)
        return
    if export:
        _require_idle((*_OF_TRIALS, "stop", "show"), "--export begins no tuning")
        _export(client, topology, as_json=as_json)
        return
    if stop or show:
        _require_idle(_OF_TRIALS, f"{'--stop' if stop else '--show'} begins no tuning")
        _print(client.stop_tuning(topology, reason) if stop else client.tuning(topology), as_json=as_json)
        return
    if rate is not None and not least_cores:
        raise InputError("tune", [Fault("has a meaning with --least-cores only", "--rate")])
    if any_latency and (latency_ms or p99_ms):
        raise InputError("tune", [Fault("contradicts --latency-ms and --p99-ms", "--any-latency")])
    aim = TuningAim("cores" if least_cores else "throughput", rate, latency_ms, p99_ms)
    found = _tuned(client, topology, reason, aim, any_latency, trials, pauses, dry_run, quiet=as_json)
    _print(found, as_json=as_json)


def _tuned(
    client: Client,
    topology: str,
    reason: str,
    aim: TuningAim,
    any_latency: bool,
    trials: int,
    pauses_s: float,
    dry_run: bool,
    *,
    quiet: bool,
) -> Tuning:
    """Begin a tuning, print its trials as they come, and return it once it has ended."""
    found = client.tune(
        topology, reason, aim, any_latency=any_latency, trials=trials, pauses_s=pauses_s, dry_run=dry_run
    )
    ends = "nothing is applied" if dry_run else f"`stormwright tune {found.name} --stop` ends it"
    say(f"tuning {found.id} of {found.name}: {found.aim}; {ends}", err=True)
    shown: dict[int, str] = {}
    while found.state == "running" or found.plan:
        for number, trial in enumerate(found.trials):
            if not quiet and shown.get(number) != trial.state:
                shown[number] = trial.state
                result = _multiple(trial.measured) if trial.measured else f"{_multiple(trial.predicted)} expected"
                say(f"trial {number + 1}, {trial.state}: {trial.change}: {result}", err=True)
        time.sleep(_POLL_S)
        found = client.tuning(found.id)
    return found


def _print(tuning: Tuning, *, as_json: bool) -> None:
    """Print a tuning as a table of its trials."""
    if as_json:
        print_json(tuning.model_dump(mode="json"))
        return
    say(f"tuning {tuning.id} of {tuning.name}, {tuning.state}: {tuning.aim}")
    quantity = "rate" if tuning.aim.quantity == "throughput" else "trees for its CPU"
    if tuning.trials:
        table = text_table("trial", "change", "expected", quantity, "latency", "pause", "outcome")
        for number, trial in enumerate(tuning.trials, 1):
            table.add_row(
                f"{number}",
                trial.change,
                _multiple(trial.predicted),
                _multiple(trial.measured),
                "–" if trial.latency is None else f"×{trial.latency:.2f}",
                "–" if trial.state in ("planned", "running") else f"{trial.pause_s:.1f} s",
                trial.state,
            )
        print_table(table)
        for number, trial in enumerate(tuning.trials, 1):
            if trial.why and shows_all():
                say(f"trial {number}: {trial.why}")
    improvements = tuning.improvements
    if improvements:
        say(f"{quantity} ×{tuning.gain:.2f}, latency ×{tuning.latency:.2f}, paused for {tuning.pause_s:.0f} s in all")
    if tuning.plan:
        say("the last trial stays only if it is measured as better; else it is being taken back")
    elif not improvements and tuning.state != "running":
        say("its configuration is as before")
    if tuning.why:
        say(f"{tuning.state}: {tuning.why}")


def _export(client: Client, topology: str, *, as_json: bool) -> None:
    """Print the changes by all tunings since its submission as a part of a Flux file; NotFoundError without any."""
    import yaml

    from stormwright.model.requests import ACKER

    newest = client.tuning(topology)
    tunings = [each for each in reversed(client.tunings().tunings) if each.topology == newest.topology]
    executors, conf = dict[str, int](), dict[str, Any]()
    for tuning in tunings:
        for trial in tuning.improvements:
            executors |= trial.executors
            conf |= trial.conf
    if not executors and not conf:
        raise StormwrightError(f"{newest.name} has its configuration of before: no trial of a tuning stayed")
    if ACKER in executors:
        conf["topology.acker.executors"] = executors.pop(ACKER)
    parts: dict[str, Any] = {"name": newest.name, "config": conf} if conf else {"name": newest.name}
    for kind in ("spouts", "bolts"):
        of = [each for each in executors if (each in newest.spouts) == (kind == "spouts")]
        if of:
            parts[kind] = [{"id": each, "parallelism": executors[each]} for each in of]
    if as_json:
        print_json(parts)
        return
    gain = prod(each.gain for each in tunings)
    say(f"# Changed by {len(tunings)} tuning(s), rate ×{gain:.2f}: a new submission of the topology has it not.")
    for line in yaml.safe_dump(parts, sort_keys=False).splitlines():
        say(line)


def _multiple(found: Range | None) -> str:
    if found is None or found.value is None:
        return "–"
    if found.low is None or found.high is None:
        return f"×{found.value:.2f}"
    return f"×{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _by_hand(
    client: Client,
    topology: str,
    reason: str,
    settings: Sequence[str],
    executors: Sequence[str],
    *,
    steps: bool,
    as_json: bool,
) -> None:
    from stormwright.cli.plans import next_lines, print_plan

    conf, counts = _conf(settings), _counts(executors)
    request = client.plan(reason, executors={topology: counts} if counts else {}, conf={topology: conf} if conf else {})
    plan = client.wait_until_planned(request.id)
    if as_json:
        print_json(plan.model_dump(mode="json"))
        return
    print_plan(plan, steps=steps or shows_all())
    for line in list(next_lines(plan))[:1]:
        say(line)


def _require_idle(names: Sequence[str], why: str) -> None:
    """Raise InputError if an option is given that has no effect."""
    if faults := options.idle(dict.fromkeys(names, why)):
        raise InputError("tune", faults)


def _pairs(texts: Sequence[str], option: str, wanted: str) -> dict[str, str]:
    """Return the values of an option by name; raises InputError for a text without a name or value."""
    found, faults = dict[str, str](), list[Fault]()
    for text in texts:
        name, equals, value = text.partition("=")
        if name and equals and value:
            found[name] = value
        else:
            faults.append(Fault(f"should be {wanted}, got {text!r}", option))
    if faults:
        raise InputError("tune", faults)
    return found


def _conf(texts: Sequence[str]) -> dict[str, Any]:
    """Return values by key; other values than JSON are texts."""
    conf = dict[str, Any]()
    for key, value in _pairs(texts, "--set", "KEY=VALUE").items():
        try:
            conf[key] = json.loads(value)
        except ValueError:
            conf[key] = value
    return conf


def _counts(texts: Sequence[str]) -> dict[str, int]:
    """Return numbers of executors by component."""
    pairs = _pairs(texts, "--executors", "COMPONENT=N")
    faults = [
        Fault(f"should be an integer of at least 1, got {value!r}", f"--executors {name}")
        for name, value in pairs.items()
        if not value.isdecimal() or int(value) < 1
    ]
    if faults:
        raise InputError("tune", faults)
    return {name: int(value) for name, value in pairs.items()}
