"""The command line: one module a verb, imported when it is used."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, NoReturn

import click

from stormwright import __version__
from stormwright.base.gc_pause import collection_paused
from stormwright.cli.lines import say_lines
from stormwright.cli.options import Verbs
from stormwright.cli.progress import compilation_shown
from stormwright.errors import MissingDependencyError, StormwrightError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Group of verbs that come with a distribution of their own, ``stormwright-lab``.
LABORATORY = "Laboratory"

#: Group of verbs → verb → its summary: in the list of verbs, in completions, and as the first sentence of its own help,
#: which the docstring of its function continues. Each is `command` in the module of its name, with ``_`` for ``-``.
GROUPS = {
    "Place and compare": {
        "schedule": "Place the executors of a problem file.",
        "compare": "Compare the placements of several schedulers.",
        "explain": "Explain why executors have no slot, or their cost elsewhere.",
        "bound": "Prove a bound that no placement can beat.",
        "tradeoff": "Show the gain of moving few executors, and of moving more.",
        "sweep": "Run many scheduling decisions with many parameters on Spark.",
        "schedulers": "List the schedulers, or describe one.",
        "new-scheduler": "Create a package with a scheduler of your own.",
        "import": "Create a problem file from Flux files, a running Nimbus, stored topologies, or recorded loads.",
        "export": "Write a topology with its load as a recorded load, which Storm's load generator replays.",
        "convert": "Convert a problem file between JSON and NumPy arrays.",
    },
    "Predict": {
        "predict": "Predict rate, latency and bottleneck of a placement.",
        "whatif": "Predict the effect of a change: rates, nodes, parallelism, links, scheduler.",
        "advise": "Find how many executors, workers and nodes a rate or an objective needs.",
        "simulate": "Simulate a placement in virtual time, tuple by tuple.",
        "calibrate": "Fit message and worker costs from a performance log.",
    },
    "Operate": {
        "serve": "Run the service that keeps the placement of a Storm cluster good.",
        "status": "Show the health of a running service, its next change, and pending approvals.",
        "plan": "Preview moves, their gain and their pauses.",
        "tune": "Plan other executors and another configuration of a running topology.",
        "apply": "Apply a plan in evaluated stages; stop or resume it.",
        "revert": "Restore the placement before an entry of the history.",
        "drain": "Cordon a node and move its workers elsewhere.",
        "uncordon": "Make a drained node schedulable again.",
        "mode": "Show or set the automation mode.",
        "history": "Query past changes, decisions and loads.",
        "replay": "Replay recorded decisions with another scheduler.",
        "pipeline": "Process landed performance logs: backfill, quarantine.",
        "token": "Create, list and revoke access tokens of a service.",
        "install": "Install the jar and the keys of storm.yaml into a Storm installation, or remove them.",
        "doctor": "Diagnose an installation and suggest fixes.",
    },
    "Run here": {
        "demo": "Show the gain of a better placement on a real cluster.",
        "cluster": "Start, show or stop a real Storm cluster on this machine.",
        "dashboard": "Show the dashboard for a problem file, without a cluster.",
        "docs": "Open the documentation in a browser.",
        "completion": "Print the shell completion script.",
    },
    LABORATORY: {
        "experiment": "Repeat published evaluations on a real cluster.",
        "chaos": "Test moves with faults, on a local cluster or in virtual time.",
        "learn": "Train the model of the `learned` scheduler.",
    },
}

#: Verb → its summary.
VERBS = {verb: summary for verbs in GROUPS.values() for verb, summary in verbs.items()}

#: Verbs to begin with.
FIRST = ("demo", "schedule", "compare", "predict", "serve")

#: Verb → its module, where that has another name.
_MODULES = {"import": "importing", "export": "exporting"}

#: Exit codes: what a user can act on, what is a bug, Ctrl-C, and a reader that went away (as a shell shows these two).
BAD_INPUT, BUG, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141

#: Names the program and, for a shell that completes, the environment variable by which it asks.
PROGRAM, COMPLETION_VARIABLE = "stormwright", "_STORMWRIGHT_COMPLETE"

#: First part of a missing module's name → the extra that brings it.
EXTRAS = {
    "delta": "delta",
    "google": "spark",
    "grpc": "connect",
    "httptools": "service",
    "hypothesis": "testing",
    "jinja2": "report",
    "kazoo": "service",
    "markupsafe": "service",
    "matplotlib": "report",
    "networkx": "graph",
    "pandas": "spark",
    "prometheus_client": "service",
    "py4j": "spark",
    "pyarrow": "spark",
    "pymetis": "metis",
    "pyspark": "spark",
    "pytest": "testing",
    "sklearn": "learn",
    "starlette": "service",
    "uvicorn": "service",
}


def _loaded(verb: str) -> click.Command:
    """Return a verb; raises MissingDependencyError for one of the laboratory without it."""
    command: click.Command
    if verb not in GROUPS[LABORATORY]:
        command = import_module(f"stormwright.cli.{_MODULES.get(verb, verb.replace('-', '_'))}").command
        return command
    from importlib.metadata import entry_points

    found = entry_points(group="stormwright.verbs", name=verb)
    if not found:
        raise MissingDependencyError(f"{verb} is a verb of the laboratory: pip install 'stormwright[lab]'")
    (command,) = (each.load() for each in found)
    return command


class _Verbs(Verbs):
    """Imports a verb's module when the verb is used, and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature, here and below)
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        # Imports make much that stays and little that does not: to look for it in between costs a twentieth.
        with collection_paused():
            command = _loaded(cmd_name)
        summary = VERBS[cmd_name]
        if not (command.help or "").startswith(summary):  # called several times
            command.help = "\n\n".join(filter(None, (summary, cleandoc(command.help or ""))))
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=text) for name, text in VERBS.items() if name.startswith(incomplete)]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        formatter.write_paragraph()
        formatter.write_text(f"To begin with: {', '.join(FIRST)}.")
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(list(verbs.items()))


@click.group(cls=_Verbs)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name=PROGRAM)
def cli(debug: bool) -> None:
    """Decide where the executors of Apache Storm topologies run, and keep that placement good."""


def main() -> NoReturn:
    """Run the command line; every failure ends in one message and an exit code."""
    _open_standard_streams()
    try:
        requested = os.environ.get(COMPLETION_VARIABLE)
        code = _complete(requested) if requested else run(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:  # standard output: its reader has ended, or its disk is full
        code = BROKEN_PIPE if isinstance(error, BrokenPipeError) else BAD_INPUT
        if code != BROKEN_PIPE:
            with suppress(OSError):  # standard error may be full as well
                say_lines(f"stormwright: {_message(error)[0]}", err=True)
        # Python flushes at exit, and must not fail again there.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
                continue
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _open_standard_streams() -> None:
    """Make sure that all three standard streams exist, and that standard output accepts any text.

    If one is closed, as by ``>&-``, the next file that is opened would get its number, and with it the output of child
    processes.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def run(arguments: Sequence[str]) -> int:
    """Run the verb that `arguments` name; return its exit code."""
    debug = "--debug" in arguments
    try:
        with compilation_shown(), cli.make_context(PROGRAM, list(arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as finished:
        return finished.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        message, code = _message(error)
        say_lines(traceback.format_exc() if debug else f"stormwright: {message}", err=True)
        return code
    return 0


def _complete(requested: str) -> int:
    """Answer a completion request of a shell (`stormwright.cli.completion`)."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(cli, {}, PROGRAM, COMPLETION_VARIABLE, requested)
    except OSError:
        raise
    except Exception:  # a message would appear in the line that the user types
        return BUG


def _message(error: Exception) -> tuple[str, int]:
    """Return the message for a user, and the exit code, of an error."""
    if isinstance(error, StormwrightError):
        return str(error), BAD_INPUT
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        return f"{error.filename}: {why}" if error.filename else why, BAD_INPUT
    if isinstance(error, ModuleNotFoundError) and error.name:
        extra = EXTRAS.get(error.name.partition(".")[0])
        if extra:
            return f"{error}; install it with: pip install 'stormwright[{extra}]'", BAD_INPUT
    if isinstance(error, MemoryError):
        return "there is not enough memory for this", BAD_INPUT
    return f"{type(error).__name__}: {error} (a bug; --debug shows the traceback)", BUG
