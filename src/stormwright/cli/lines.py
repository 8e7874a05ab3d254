"""Printing of single lines, without importing the table library."""

from __future__ import annotations

import sys

import click

from stormwright.base.escaping import printable

#: Key of a verb's context: standard output is reserved for ``--output``.
TAKEN = "stormwright.output_is_stdout"

#: Key of a verb's context: ``--all`` was given.
ALL = "stormwright.all"


def say(line: object = "", *, err: bool = False) -> None:
    """Print one line; control characters from files or names are escaped.

    It goes to standard error if ``--output`` writes to standard output.
    """
    print(printable(str(line)), file=sys.stderr if err or output_is_stdout() else sys.stdout, flush=True)


def say_lines(text: str, *, err: bool = False) -> None:
    """Print a trusted text of several lines, such as all faults of a file."""
    for line in text.split("\n"):
        say(line, err=err)


def shows_all() -> bool:
    """Return whether the current verb prints long lists in full (``--all``)."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(ALL))


def output_is_stdout() -> bool:
    """Return whether the current verb writes its output to standard output."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(TAKEN))
