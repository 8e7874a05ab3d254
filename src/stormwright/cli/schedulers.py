"""``stormwright schedulers``: list the schedulers, or describe one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from textwrap import fill, indent

import click

from stormwright.cli import options
from stormwright.cli.lines import say, say_lines, shows_all
from stormwright.cli.output import print_json
from stormwright.schedulers import scheduler_names
from stormwright.schedulers.toolkit.describe import Description, Parameter, describe_anyway, options_of_all
from stormwright.schedulers.toolkit.from_scratch import running_text
from stormwright.schedulers.toolkit.registry import traits_of
from stormwright.schedulers.toolkit.resolve import ANY_JAVA, describe_scheduler, is_java

#: Columns, as many as docstrings have.
_WIDTH = 116

#: Maximum number of schedulers with their rules, without ``--all``.
_MAX_RULES = 14


@click.command()
@click.argument("name", required=False, shell_complete=options.scheduler_names)
@options.everything
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
    shown = list(rules) if shows_all() else list(rules)[:_MAX_RULES]
    for known in shown:
        say(f"{known:<{width}}  {rules[known]}")
    if left := list(rules)[len(shown) :]:
        say_lines(_filled(f"and {len(left):,} more (--all shows their rules): {', '.join(left)}"))


def _print(description: Description) -> None:
    say(f"{description.name}: {description.rule}")
    if not shows_all():
        _print_briefly(description)
        return
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
    if description.variants:
        say_lines("\nVariants:")
    for name, variant in description.variants.items():
        values = ", ".join(f"{key}={_text(value)}" for key, value in variant.values.items())
        say_lines(f"  variant={name}  ({values})\n      {variant.text}")
    if options_ := _options(description.name):
        say_lines("\nOptions of all schedulers:")
        _print_parameters(options_)
    say_lines("\n" + fill(f"Source: {description.source or 'none cited'}", _WIDTH, break_on_hyphens=False))
    say(f"Class: {description.implementation}")


def _print_briefly(description: Description) -> None:
    """Print when to use a scheduler, and the names and defaults of its parameters."""
    if description.when_to_use:
        say_lines(_filled(f"When to use: {description.when_to_use}"))
    for title, text in (("Ignores", description.ignores), ("Honours", ", ".join(description.honours))):
        if text:
            say_lines(_filled(f"{title}: {text}", 2))
    parameters = ", ".join(f"{each.name}={_default(each)}" for each in description.parameters)
    say_lines(_filled(f"Parameters: {parameters}" if parameters else "It has no parameters.", 5))
    if description.variants:
        say_lines(_filled(f"Variants: {', '.join(f'variant={name}' for name in description.variants)}", 2))
    say_lines(_filled(f"Source: {description.source or 'none cited'}", 2))
    say(f"--all describes every parameter; `stormwright schedule FILE --scheduler {description.name}` uses it")


def _filled(text: str, most: int = 3) -> str:
    """Return a text in lines of `_WIDTH` characters, at most `most` of them."""
    return fill(text, _WIDTH, max_lines=most, placeholder=" …", break_on_hyphens=False)


def _running_text(description: Description) -> str:
    return running_text(traits_of(description.name)).replace("`", "")


def _options(name: str) -> tuple[Parameter, ...]:
    """Return the options common to all schedulers; Java classes have none."""
    return () if is_java(name) else options_of_all()


def _print_parameters(parameters: Iterable[Parameter]) -> None:
    for parameter in parameters:
        say_lines(f"  {parameter.name}={_default(parameter)}  ({parameter.allowed})\n      {parameter.text}")


def _default(parameter: Parameter) -> str:
    return _text(parameter.default)


def _text(value: float | int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
