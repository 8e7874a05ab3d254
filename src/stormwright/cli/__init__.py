"""The command line: one module a verb, imported when it is used."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from typing import NoReturn

import click

from stormwright import __version__
from stormwright.errors import StormwrightError

#: Verb → what it does. Each is `command` in the module of its name.
VERBS = {
    "schedule": "Place the executors of a problem file.",
    "cluster": "Boot, show or end a real Storm cluster on this machine.",
    "demo": "Show on a real cluster what a better placement gains.",
    "serve": "Run beside a Storm cluster and keep its placement good.",
}

#: Exit codes: what a user can act on, what is a bug, Ctrl-C, and a reader that went away (as a shell shows these two).
BAD_INPUT, BUG, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141

#: First part of a missing module's name → the extra that brings it.
_EXTRAS = {
    "pandas": "spark",
    "pyarrow": "spark",
    "pyspark": "spark",
    "jinja2": "service",
    "matplotlib": "service",
    "starlette": "service",
    "uvicorn": "service",
    "yaml": "service",
}


class _Verbs(click.Group):
    """Imports a verb's module when the verb is used, and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature, here and below)
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"stormwright.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=_Verbs)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="stormwright")
def cli(debug: bool) -> None:
    """Decide where the executors of Apache Storm topologies run, and keep that placement good."""


def main() -> NoReturn:
    """Run the command line; every failure ends in one message and an exit code."""
    try:
        sys.exit(_run(sys.argv[1:]))
    except BrokenPipeError:
        # Nobody reads on. Python flushes standard output at exit and must not fail there once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)


def _run(arguments: list[str]) -> int:
    debug = "--debug" in arguments
    try:
        code = cli.main(arguments, prog_name="stormwright", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
            return BAD_INPUT if isinstance(error, StormwrightError) else BUG
        if isinstance(error, StormwrightError):
            click.echo(f"stormwright: {error}", err=True)
            return BAD_INPUT
        extra = _EXTRAS.get((error.name or "").partition(".")[0]) if isinstance(error, ModuleNotFoundError) else None
        if extra:
            click.echo(f"stormwright: {error}; install it with: pip install 'stormwright[{extra}]'", err=True)
            return BAD_INPUT
        click.echo(f"stormwright: {type(error).__name__}: {error} (a bug; --debug shows the traceback)", err=True)
        return BUG
    return code if isinstance(code, int) else 0
