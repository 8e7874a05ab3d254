"""Generated pages of the documentation site: command line, configuration, errors, Python, file formats.

Commands come from click, options from those of ``stormwright serve``, errors and Python from docstrings, which
mkdocstrings reads without importing.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import click

from stormwright import errors
from stormwright.cli import BAD_INPUT, VERBS, cli
from stormwright.cli.serve import command as serve
from stormwright.cli.serve.config import NOT_IN_FILE, PARAMETERS, SECTIONS, key_of, variable
from tools.storm_keys import OWN, STORMS, Key

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "stormwright"

#: Public package → its page's first sentence; its public names are those that its ``__init__`` imports.
PACKAGES = {
    "stormwright": "Problems, placements, comparisons and predictions: `import stormwright as sw`.",
    "stormwright.model": "Problems and their parts, as schedulers read them.",
    "stormwright.simulator": "Queueing networks in virtual time.",
    "stormwright.client": "A client of a running service.",
    "stormwright.formats": "Problem files and placements.",
}

#: Public module → its page's first sentence.
MODULES = {
    "stormwright.model.scheduler": "The interface of a scheduler.",
    "stormwright.schedulers.toolkit.params": "Parameters of a scheduler of your own.",
    "stormwright.schedulers.toolkit.traits": "Traits that a scheduler declares.",
    "stormwright.testing.contract": "The contract suite that every scheduler passes.",
}


@cache
def generated_pages() -> dict[str, str]:
    """Return the generated pages by path."""
    return {
        **_commands(),
        "reference/options.md": options_page(),
        "reference/storm-keys.md": storm_keys_page(),
        **_errors(),
        **_python(),
        "reference/schemas.md": _schemas(),
    }


# Command line -------------------------------------------------------------------------------------


def _commands() -> dict[str, str]:
    rows = [f"| [{name}]({name}.md) | {summary} |" for name, summary in VERBS.items()]
    lead = (
        "# Command line\n\nEvery command that prints text has `--json`, and `--help`. Exit codes: 0 success, "
        f"{BAD_INPUT} a fault that you can act on ([errors](../errors/index.md)), 70 a bug.\n\n| command | |\n|---|---|\n"
    )
    pages = {"reference/commands/index.md": lead + "\n".join(rows) + "\n"}
    for name, summary in VERBS.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        module = command.callback.__module__ if command.callback else f"stormwright.cli.{name}"
        pages[f"reference/commands/{name}.md"] = (
            f"# {name}\n\n{summary}\n\n"
            f"::: mkdocs-click\n    :module: {module}\n    :command: command\n    :prog_name: stormwright {name}\n"
            "    :depth: 1\n    :style: table\n    :list_subcommands: True\n"
        )
    return pages


# Configuration ------------------------------------------------------------------------------------


def options_page() -> str:
    """Return the page of the options of ``stormwright serve``: option, variable, key, default, meaning."""
    context = click.Context(serve)
    lines = [
        "# Options of the service",
        "Each option of [`stormwright serve`](commands/serve.md) is also an environment variable and a key of the TOML "
        "file of `--config`. The command line takes precedence over the environment, that over the file, that over "
        f"the default. The file's section `[{PARAMETERS}]` has the scheduler's parameters (`--set`).",
        "| option | environment variable | TOML key | default | meaning |\n|---|---|---|---|---|",
    ]
    rows = []
    for option in serve.params:
        if not isinstance(option, click.Option):
            continue
        key = key_of(option)
        section = next((name for name, keys in SECTIONS.items() if key in keys), "")
        in_file = "" if key in NOT_IN_FILE else f"`{key}`" + (f", also in `[{section}]`" if section else "")
        record = option.get_help_record(context)
        meaning = (option.help or "").partition("  [")
        default = meaning[2].rstrip("]").removeprefix("default: ") or _default(option)
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        in_environment = f"`{variable(option)}`" if key != "check" else ""
        assert record is not None
        cells = (names, in_environment, in_file, default, meaning[0])
        rows.append("| " + " | ".join(_cell(each) for each in cells) + " |")
    return "\n\n".join([*lines[:-1], "\n".join([lines[-1], *rows])]) + "\n"


def _default(option: click.Option) -> str:
    value = option.default
    if option.multiple or value is None or "UNSET" in repr(value):
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def storm_keys_page() -> str:
    """Return the page of the keys of storm.yaml and of topologies."""
    blocks = [
        "# Keys of storm.yaml and of topologies",
        "*Cluster* keys are in storm.yaml of Nimbus, *node* keys in storm.yaml of a supervisor, *topology* keys in a "
        "topology's configuration; those of topologies may also stand in storm.yaml, for all topologies.",
        "## Keys of stormwright",
        _table(OWN),
        "## Keys of Storm that stormwright reads",
        "Defaults are those of Storm 2.8.3.",
        _table(STORMS),
    ]
    return "\n\n".join(blocks) + "\n"


def _table(keys: tuple[Key, ...]) -> str:
    rows = (f"| `{key.name}` | {key.where} | {_cell(key.default_text)} | {_cell(key.meaning)} |" for key in keys)
    return "\n".join(["| key | where | default | meaning |", "|---|---|---|---|", *rows])


# Errors -------------------------------------------------------------------------------------------


def error_classes() -> list[type[errors.StormwrightError]]:
    """Return the classes of `stormwright.errors`, as they stand there."""
    return [
        each
        for each in vars(errors).values()
        if inspect.isclass(each) and issubclass(each, errors.StormwrightError) and each.__module__ == errors.__name__
    ]


def _errors() -> dict[str, str]:
    raised = _raised_in()
    rows = []
    pages = {}
    for error in error_classes():
        name, summary = error.__name__, (inspect.getdoc(error) or "").partition("\n")[0]
        rows.append(f"| [{name}]({name}.md) | {summary} |")
        base = error.__bases__[0]
        parts = [f"# {name}", f"::: stormwright.errors.{name}\n    options:\n      show_root_heading: false"]
        parts.append("## Where it belongs")
        above = f"A kind of [{base.__name__}]({base.__name__}.md). " if base in error_classes() else ""
        parts.append(f"{above}The command line prints its message and exits with {BAD_INPUT}; `--debug` adds the traceback.")
        if raised.get(name):
            parts.append("Raised in " + ", ".join(f"`{module}`" for module in raised[name]) + ".")
        pages[f"reference/errors/{name}.md"] = "\n\n".join(parts) + "\n"
    tree = (errors.__doc__ or "").partition("::\n")[2].strip("\n")
    lead = "# Errors\n\nEverything that a user can act on is an exception of one tree:\n\n```text\n"
    table = "\n| class | meaning |\n|---|---|\n" + "\n".join(rows) + "\n"
    pages["reference/errors/index.md"] = lead + inspect.cleandoc(tree) + "\n```\n" + table
    return pages


def _raised_in() -> dict[str, list[str]]:
    """Return error class → packages that raise it."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
                package = ".".join(("stormwright", *path.relative_to(SOURCES).with_suffix("").parts[:1]))
                found.setdefault(node.exc.func.id, set()).add(package)
    return {name: sorted(packages) for name, packages in found.items()}


# Python -------------------------------------------------------------------------------------------


def public_names(package: str) -> Iterator[tuple[str, str]]:
    """Yield name and module of each public name of a package, as its ``__init__`` imports them."""
    tree = ast.parse((SOURCES.parent / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8"))
    exported = set(import_module(package).__all__)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((each.name, node.module) for each in node.names if each.name in exported)


def _python() -> dict[str, str]:
    pages, rows = {}, []
    for package, summary in PACKAGES.items():
        blocks = [f"# {package}", summary]
        blocks += [f"::: {module}.{name}" for name, module in sorted(set(public_names(package)))]
        if package == "stormwright":
            blocks += [
                f"## {name}\n\n::: stormwright.{name}.CallablePackage.__call__\n    options:\n      heading_level: 3"
                for name in ("advise", "predict", "schedulers")
            ]
        pages[f"reference/python/{package}.md"] = "\n\n".join(blocks) + "\n"
        rows.append(f"| [{package}]({package}.md) | {summary} |")
    for module, summary in MODULES.items():
        text = f"# {module}\n\n{summary}\n\n::: {module}\n    options:\n      show_root_heading: false\n"
        pages[f"reference/python/{module}.md"] = text
        rows.append(f"| [{module}]({module}.md) | {summary} |")
    lead = "# Python\n\nBegin with [From Python](../../python.md).\n\n| | |\n|---|---|\n"
    return {"reference/python/index.md": lead + "\n".join(rows) + "\n", **pages}


# File formats -------------------------------------------------------------------------------------


def _schemas() -> str:
    names = sorted(path.name for path in (ROOT / "docs" / "schemas").glob("*.json"))
    return "# File formats\n\nJSON Schemas:\n\n" + "\n".join(f"- [{name}](../schemas/{name})" for name in names) + "\n"
