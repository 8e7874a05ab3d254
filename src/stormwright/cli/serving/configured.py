"""A verb whose options a file and variables of the environment say as well.

The command line goes before the environment, that before the file, that before the default.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from stormwright.cli.options import AllAtOnce
from stormwright.cli.serving.config import FileTold, key_of, read_config
from stormwright.errors import nearest

#: Of variables. A Kubernetes service named ``stormwright`` sets STORMWRIGHT_PORT and others: none begins like this.
PREFIX = "STORMWRIGHT_SERVE_"

_FILE, _GIVEN = "stormwright.config", "stormwright.given"


class Configured(AllAtOnce):
    """Reads the file that ``--config`` names, and variables; tells of all that is wrong with either at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for option in self._options():
            option.envvar = variable(option) if key_of(option) != "check" else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        ctx.meta[_GIVEN] = tuple(args)
        told = ctx.meta[_FILE] = self._read(ctx, list(args))
        ctx.default_map = told.values
        rest = super().parse_args(ctx, args)
        if faults := [*told.faults, *self._unknown_variables()]:
            raise click.UsageError("\n  ".join(faults), ctx)
        return rest

    def _read(self, ctx: click.Context, args: list[str]) -> FileTold:
        named = self.make_parser(ctx).parse_args(args=args)[0].get("config_file")
        file = named if isinstance(named, str) else os.environ.get(f"{PREFIX}CONFIG")
        return read_config(Path(file), self._options()) if file else FileTold()

    def _wrong(self, ctx: click.Context, args: list[str]) -> Iterator[str]:
        yield from ctx.meta[_FILE].faults
        yield from self._unknown_variables()
        yield from super()._wrong(ctx, args)

    def _hint(self, ctx: click.Context, parameter: click.Parameter, source: ParameterSource) -> str | None:
        said = _said_by(ctx, parameter, source)
        return said and f"'{said}'"

    def _options(self) -> list[click.Option]:
        return [each for each in self.params if isinstance(each, click.Option)]

    def _unknown_variables(self) -> Iterator[str]:
        known = {variable(option) for option in self._options() if key_of(option) != "check"}
        for name in sorted(os.environ):
            if name.startswith(PREFIX) and name not in known:
                near = nearest(name, known)
                meant = f"did you mean {near}?" if near else "unset it"
                yield f"{name}: there is no such variable: {meant}"


def variable(option: click.Option) -> str:
    """The variable that says an option: ``STORMWRIGHT_SERVE_STORM_HOME`` says ``--storm-home``."""
    return PREFIX + key_of(option).upper().replace("-", "_")


def given() -> tuple[str, ...]:
    """The command line of the verb that runs."""
    arguments: tuple[str, ...] = click.get_current_context().meta[_GIVEN]
    return arguments


def said_by(option: str) -> str:
    """What a user said an option with: itself, a variable, or file and key."""
    context = click.get_current_context()
    parameter = next(each for each in context.command.params if option in each.opts)
    source = context.get_parameter_source(parameter.name or "")
    return (source and _said_by(context, parameter, source)) or option


def _said_by(ctx: click.Context, parameter: click.Parameter, source: ParameterSource) -> str | None:
    """None where it was the option itself."""
    told: FileTold = ctx.meta[_FILE]
    if source is ParameterSource.DEFAULT_MAP and parameter.name in told.keys:
        return f"{told.file}: {told.keys[parameter.name]}"
    if source is ParameterSource.ENVIRONMENT and isinstance(parameter, click.Option):
        return variable(parameter)
    return None
