"""Printing of single lines, without importing the table library."""

from __future__ import annotations

import sys

import click

from stormwright.escaping import printable

#: Of a verb's context: standard output takes what is written, and nothing else.
TAKEN = "stormwright.output_is_stdout"


def say(line: object = "", *, err: bool = False) -> None:
    """Print one line; control characters from files or names are escaped.

    Where standard output takes what ``--output`` writes, it goes to standard error.
    """
    print(printable(str(line)), file=sys.stderr if err or output_is_stdout() else sys.stdout, flush=True)


def say_lines(text: str, *, err: bool = False) -> None:
    """Print a text of our own making that has several lines, such as all faults of a file."""
    for line in text.split("\n"):
        say(line, err=err)


def output_is_stdout() -> bool:
    """Whether the verb that runs writes its output to where lines would be printed."""
    context = click.get_current_context(silent=True)
    return bool(context and context.meta.get(TAKEN))
