"""Generated pages of the documentation site: command line, configuration, errors, Python, file formats.

Commands come from click, options from those of ``stormwright serve``, errors and Python from docstrings, which
mkdocstrings reads without importing.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

import click

from stormwright import errors
from stormwright.cli import BAD_INPUT, BUG, VERBS, cli
from stormwright.cli.serve import command as serve
from stormwright.cli.serve.config import NOT_IN_FILE, PARAMETERS, SECTIONS, key_of, variable
from tools.storm_keys import OWN, STORMS, Key

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "stormwright"

#: Public package → its page's first sentence; its public names are those that its ``__init__`` imports.
PACKAGES = {
    "stormwright": "Problems, placements, comparisons and predictions: `import stormwright as sw`.",
    "stormwright.model": "Problems and their parts, as schedulers read them.",
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


def _commands() -> dict[str, str]:
    rows = [f"| [{name}]({name}.md) | {summary} |" for name, summary in VERBS.items()]
    lead = (
        "# Command line\n\nEvery command has `--help`, and those that print text have `--json`. Exit codes: 0 success, "
        f"{BAD_INPUT} a fault that you can act on ([errors](../errors/index.md)), {BUG} a bug.\n\n"
        "| command | |\n|---|---|\n"
    )
    pages = {"reference/commands/index.md": lead + "\n".join(rows) + "\n"}
    for name in VERBS:
        command = _existing(cli, click.Context(cli), name)
        context = click.Context(command, info_name=f"stormwright {name}")
        pages[f"reference/commands/{name}.md"] = "\n\n".join([f"# {name}", *_command(command, context, 2)]) + "\n"
    return pages


def _command(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    """Yield the blocks of one command, and of those below it."""
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "")
    if options := [each for each in command.params if isinstance(each, click.Option) and not each.hidden]:
        rows = [(_names(each), _value(each, context), *_default_and_meaning(each)) for each in options]
        yield _table(("option", "value", "default", "meaning"), rows)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = _existing(command, context, name)
            yield f"{'#' * level} {name}"
            yield from _command(below, click.Context(below, info_name=name, parent=context), level + 1)


def _existing(group: click.Group, context: click.Context, name: str) -> click.Command:
    command = group.get_command(context, name)
    if command is None:
        raise LookupError(f"{name} is listed, but is no command")
    return command


def _names(option: click.Option) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _value(option: click.Option, context: click.Context) -> str:
    if option.is_flag or option.count:
        return ""
    several = ", several times" if option.multiple else ""
    return f"`{option.make_metavar(context)}`{several}"


def _default_and_meaning(option: click.Option) -> tuple[str, str]:
    """Return an option's default and its meaning; the end of its help may state another default in brackets."""
    meaning, _, stated = (option.help or "").partition("  [")
    if stated:
        return stated.rstrip("]").removeprefix("default: "), meaning
    value = option.to_info_dict()["default"]
    if callable(value):  # computed when the command runs
        return (option.show_default if isinstance(option.show_default, str) else ""), meaning
    if option.multiple or value is None or (option.is_flag and not option.secondary_opts):
        return "", meaning
    return f"`{str(value).lower() if isinstance(value, bool) else value}`", meaning


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(each.replace("|", "\\|").split()) for each in row) + " |" for row in cells
    )


def options_page() -> str:
    """Return the page of the options of ``stormwright serve``: option, variable, key, default, meaning."""
    lead = (
        "# Options of the service\n\nEach option of [`stormwright serve`](commands/serve.md) is also an environment "
        "variable and a key of the TOML file of `--config`. The command line takes precedence over the environment, "
        "that over the file, that over the default. The keys of a section may stand above all sections, too; the "
        f"section `[{PARAMETERS}]` has the scheduler's parameters (`--set`)."
    )
    rows = []
    for option in serve.params:
        if isinstance(option, click.Option):
            key = key_of(option)
            section = next((f"[{name}] " for name, keys in SECTIONS.items() if key in keys), "")
            in_file = "" if key in NOT_IN_FILE else f"`{section}{key}`"
            in_environment = "" if key == "check" else f"`{variable(option)}`"
            rows.append((_names(option), in_environment, in_file, *_default_and_meaning(option)))
    return f"{lead}\n\n{_table(('option', 'environment variable', 'TOML key', 'default', 'meaning'), rows)}\n"


def storm_keys_page() -> str:
    """Return the page of the keys of storm.yaml and of topologies."""
    blocks = [
        "# Keys of storm.yaml and of topologies",
        (
            "*Cluster* keys are in storm.yaml of Nimbus, *node* keys in storm.yaml of a supervisor, *topology* keys in "
            "a topology's configuration; those of topologies may also stand in storm.yaml, for all topologies."
        ),
        "## Keys of stormwright",
        _keys(OWN),
        "## Keys of Storm that stormwright reads",
        "Defaults are those of Storm 2.8.3.",
        _keys(STORMS),
    ]
    return "\n\n".join(blocks) + "\n"


def _keys(keys: Iterable[Key]) -> str:
    rows = [(f"`{key.name}`", key.where, key.default_text, key.meaning) for key in keys]
    return _table(("key", "where", "default", "meaning"), rows)


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
        parts.append(
            f"{above}The command line prints its message and exits with {BAD_INPUT}; `--debug` adds the traceback."
        )
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
                f"## {name}\n\n::: stormwright.{name}.Callable{name.title()}.__call__\n"
                "    options:\n      heading_level: 3"
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


def _schemas() -> str:
    names = sorted(path.name for path in (ROOT / "docs" / "schemas").glob("*.json"))
    return "# File formats\n\nJSON Schemas:\n\n" + "\n".join(f"- [{name}](../schemas/{name})" for name in names) + "\n"
