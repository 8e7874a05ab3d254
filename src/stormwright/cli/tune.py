"""``stormwright tune``: other executors and another configuration of a running topology."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from stormwright.cli import options
from stormwright.cli.asking import client_of
from stormwright.cli.lines import say, shows_all
from stormwright.cli.output import print_json
from stormwright.errors import Fault, InputError


@click.command()
@click.argument("topology")
@options.service
@options.reason("tuned by hand")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Value of a key of its configuration: JSON, or a text.",
)
@click.option(
    "--executors", multiple=True, metavar="COMPONENT=N", help="Number of executors of a component; __acker is one."
)
@options.steps
@options.everything
@options.as_json("Print it as JSON.")
def command(
    topology: str,
    address: str,
    by: str,
    reason: str,
    settings: tuple[str, ...],
    executors: tuple[str, ...],
    steps: bool,
    as_json: bool,
) -> None:
    """TOPOLOGY is a name or an id. The changes are a plan like any other: `stormwright apply` carries it out.

    Values with which workers would end, or the topology would stand still, are refused, as Nimbus validates none. All
    workers restart in one pause, each with the new configuration; `stormwright revert` brings the former one back.
    """
    from stormwright.cli.plans import next_lines, print_plan

    conf, counts = _conf(settings), _counts(executors)
    if not conf and not counts:
        raise InputError(
            "tune", [Fault("nothing to change: give --set KEY=VALUE or --executors COMPONENT=N", topology)]
        )
    client = client_of(address, by)
    request = client.plan(reason, executors={topology: counts} if counts else {}, conf={topology: conf} if conf else {})
    plan = client.wait_until_planned(request.id)
    if as_json:
        print_json(plan.model_dump(mode="json"))
        return
    print_plan(plan, steps=steps or shows_all())
    for line in list(next_lines(plan))[:1]:
        say(line)


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
