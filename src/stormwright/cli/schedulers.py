"""``stormwright schedulers``: list the schedulers, or describe one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from textwrap import fill, indent

import click

from stormwright.cli import options
from stormwright.cli.lines import say, say_lines
from stormwright.cli.output import print_json
from stormwright.schedulers import scheduler_names
from stormwright.schedulers.toolkit.describe import Description, Parameter, describe_anyway, options_of_all
from stormwright.schedulers.toolkit.from_scratch import running_text
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.resolve import ANY_JAVA, describe_scheduler, is_java

#: Columns, as many as docstrings have.
_WIDTH = 116


@click.command()
@click.argument("name", required=False, shell_complete=options.scheduler_names)
@options.as_json("Print it as JSON.")
def command(name: str | None, as_json: bool) -> None:
    """With NAME: its rule, use, parameters and source."""
    if name is not None:
        description = describe_scheduler(name)
        if as_json:
            document = {"where_something_runs": _running_text(description)}
            print_json({**asdict(description), **document, "options_of_all": [asdict(each) for each in _options(name)]})
        else:
            _print(description)
        return
    rules = {known: describe_anyway(known).rule for known in scheduler_names()}
    rules[ANY_JAVA] = describe_scheduler(ANY_JAVA).rule
    if as_json:
        print_json({"schedulers": [{"name": known, "rule": rule} for known, rule in rules.items()]})
        return
    width = max(map(len, rules))
    for known, rule in rules.items():
        say(f"{known:<{width}}  {rule}")


def _print(description: Description) -> None:
    say(f"{description.name}: {description.rule}")
    if description.details:
        say_lines(f"\n{description.details}")
    for title, text in (
        ("When to use", description.when_to_use),
        ("Ignores", description.ignores),
        ("Honours", ", ".join(description.honours)),
        ("Where something runs", _running_text(description)),
    ):
        if text:
            say_lines("\n" + fill(f"{title}: {text}", _WIDTH, break_on_hyphens=False))
    if description.errors:
        say_lines(f"\nRaises:\n{indent(description.errors, '  ')}")
    say_lines("\nParameters:" if description.parameters else "\nIt has no parameters.")
    _print_parameters(description.parameters)
    if options_ := _options(description.name):
        say_lines("\nOptions of all schedulers:")
        _print_parameters(options_)
    say_lines("\n" + fill(f"Source: {description.source or 'none cited'}", _WIDTH, break_on_hyphens=False))
    say(f"Class: {description.implementation}")


def _running_text(description: Description) -> str:
    return running_text(traits_of(description.name)).replace("`", "")


def _options(name: str) -> tuple[Parameter, ...]:
    """Return the options common to all schedulers; Java classes have none."""
    return () if is_java(name) else options_of_all()


def _print_parameters(parameters: Iterable[Parameter]) -> None:
    for parameter in parameters:
        say_lines(f"  {parameter.name}={_default(parameter)}  ({parameter.allowed})\n      {parameter.text}")


def _default(parameter: Parameter) -> str:
    return str(parameter.default).lower() if isinstance(parameter.default, bool) else str(parameter.default)
