"""Configuration file of ``stormwright serve``: every option of the command line as a key of TOML."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from stormwright.cli.options import ValidatedCommand
from stormwright.errors import Fault, nearest

#: Of variables. A Kubernetes service named ``stormwright`` sets STORMWRIGHT_PORT and others: none begins like this.
PREFIX = "STORMWRIGHT_SERVE_"

_FILE, _GIVEN = "stormwright.config", "stormwright.given"

#: Section → keys that may stand in it; they may stand above all sections, too.
SECTIONS: Mapping[str, Sequence[str]] = {
    "triggers": ("overload", "period", "objective", "gain", "least-measured", "trials", "cool-down", "alarm-after"),
    "budget": ("max-topologies", "max-executors", "most-missing"),
}

#: Section of the scheduler's parameters, where ``alpha = 0.5`` is ``--set alpha=0.5``.
PARAMETERS = "set"

#: Options that stand on the command line alone.
NOT_IN_FILE = ("config", "check")


class ConfigurableCommand(ValidatedCommand):
    """Reads the configuration file and environment variables, and reports all faults at once.

    The command line overrides the environment, that the file, and that the default.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for option in self._options():
            option.envvar = variable(option) if key_of(option) != "check" else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See click."""
        ctx.meta[_GIVEN] = tuple(args)
        config = ctx.meta[_FILE] = self._read(ctx, list(args))
        ctx.default_map = config.values
        rest = super().parse_args(ctx, args)
        if faults := [*config.faults, *self._unknown_variables()]:
            raise click.UsageError("\n  ".join(faults), ctx)
        return rest

    def _read(self, ctx: click.Context, args: list[str]) -> ConfigFile:
        named = self.make_parser(ctx).parse_args(args=args)[0].get("config_file")
        file = named if isinstance(named, str) else os.environ.get(f"{PREFIX}CONFIG")
        return read_config(Path(file), self._options()) if file else ConfigFile()

    def _wrong(self, ctx: click.Context, args: list[str]) -> Iterator[str]:
        yield from ctx.meta[_FILE].faults
        yield from self._unknown_variables()
        yield from super()._wrong(ctx, args)

    def _hint(self, ctx: click.Context, parameter: click.Parameter, source: ParameterSource) -> str | None:
        source_text = _source_of(ctx, parameter, source)
        return source_text and f"'{source_text}'"

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
    """Return the environment variable of an option: ``STORMWRIGHT_SERVE_STORM_HOME`` for ``--storm-home``."""
    return PREFIX + key_of(option).upper().replace("-", "_")


def given() -> tuple[str, ...]:
    """Return the command line of the current verb."""
    arguments: tuple[str, ...] = click.get_current_context().meta[_GIVEN]
    return arguments


def key_values(texts: Sequence[str], option: str, faults: list[Fault]) -> dict[str, str]:
    """Return the settings in ``KEY=VALUE`` texts of an option.

    Parameters
    ----------
    texts
        Values of the option.
    option
        Name of the option, for the messages of faults.
    faults
        Collects the faults, without values, which may be secrets.
    """
    faults += [Fault("should be KEY=VALUE", source_of(option)) for text in texts if "=" not in text]
    return dict(text.split("=", 1) for text in texts if "=" in text)


def source_of(option: str) -> str:
    """Return the origin of an option's value: the option, a variable, or file and key."""
    context = click.get_current_context()
    parameter = next(each for each in context.command.params if option in each.opts)
    source = context.get_parameter_source(parameter.name or "")
    return (source and _source_of(context, parameter, source)) or option


def _source_of(ctx: click.Context, parameter: click.Parameter, source: ParameterSource) -> str | None:
    """Return the origin of an option's value; None for the option itself."""
    config: ConfigFile | None = ctx.meta.get(_FILE)
    if config and source is ParameterSource.DEFAULT_MAP and parameter.name in config.keys:
        return f"{config.file}: {config.keys[parameter.name]}"
    if config and source is ParameterSource.ENVIRONMENT and isinstance(parameter, click.Option):
        return variable(parameter)
    return None


@dataclass
class ConfigFile:
    """Contents of a configuration file.

    Parameters
    ----------
    values
        Name of an option's parameter → value.
    keys
        Name of an option's parameter → key in the file, with its section.
    faults
        Faults of the file, a sentence each.
    """

    file: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def wrong(self, key: str, what: str) -> None:
        """Add a fault of a key."""
        self.faults.append(f"{self.file}: {key}: {what}")


def key_of(option: click.Option) -> str:
    """Return an option's name without leading dashes: ``storm-home`` for ``--storm-home``."""
    return max(option.opts, key=len).lstrip("-")


def read_config(path: Path, options: Sequence[click.Option]) -> ConfigFile:
    """Return the contents of a configuration file, with all its faults.

    Parameters
    ----------
    path
        Path of the TOML file.
    options
        Options that it may set.
    """
    config = ConfigFile(str(path))
    try:
        document = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        config.faults.append(f"{path}: cannot be read: {error.strerror}; pass another --config")
    except UnicodeDecodeError as error:
        config.faults.append(f"{path}: is not UTF-8 (byte {error.start})")
    except tomllib.TOMLDecodeError as error:
        config.faults.append(f"{path}: is not valid TOML: {error}")
    else:
        known = {key_of(option): option for option in options if key_of(option) not in NOT_IN_FILE}
        for section, key, value in _entries(document, config):
            _take(config, known, section, key, value)
    return config


def _entries(document: Mapping[str, Any], config: ConfigFile) -> Iterator[tuple[str, str, Any]]:
    """Yield section (empty for none), key and value of each line."""
    for key, value in document.items():
        if key == PARAMETERS and isinstance(value, dict):
            yield "", key, _assignments(value, config)
        elif key in SECTIONS and isinstance(value, dict):
            yield from ((key, inner, each) for inner, each in value.items())
        elif isinstance(value, dict):
            near = nearest(key, [*SECTIONS, PARAMETERS])
            there = ", ".join(f"[{name}]" for name in (*SECTIONS, PARAMETERS))
            meant = f"did you mean [{near}]?" if near else f"there are {there}"
            config.wrong(f"[{key}]", f"unknown section: {meant}")
        else:
            yield "", key, value


def _assignments(section: Mapping[str, Any], config: ConfigFile) -> list[str]:
    found = []
    for name, value in section.items():
        if isinstance(value, bool):
            found.append(f"{name}={str(value).lower()}")
        elif isinstance(value, str | int | float):
            found.append(f"{name}={value}")
        else:
            config.wrong(f"{PARAMETERS}.{name}", "should be a number, a text in quotes, true or false")
    return found


def _take(config: ConfigFile, known: Mapping[str, click.Option], section: str, key: str, value: Any) -> None:
    shown = f"{section}.{key}" if section else key
    option = known.get(key)
    if key in NOT_IN_FILE:
        config.wrong(shown, f"is allowed on the command line only: pass --{key}")
    elif option is None or (section and key not in SECTIONS[section]):
        config.wrong(shown, _unknown(section, key, known))
    elif what := _unfit(option, value):
        config.wrong(shown, f"{what}, got {_brief(value)}")
    elif option.name in config.keys:
        config.wrong(shown, f"{config.keys[option.name]} sets it, too: remove one of them")
    elif option.name:
        config.values[option.name], config.keys[option.name] = value, shown


def _unknown(section: str, key: str, known: Mapping[str, click.Option]) -> str:
    if key in known:
        return f"does not belong in [{section}]: write it above all sections"
    off = next((name for name, option in known.items() if f"--{key}" in option.secondary_opts), None)
    if off:
        return f"unknown key: write {off} = false"
    near = nearest(key.replace("_", "-"), known)
    return f"unknown key: did you mean {near}?" if near else "unknown key: `stormwright serve --help` lists them"


def _unfit(option: click.Option, value: Any) -> str:
    """Return the expected value of an option if it has another one."""
    if option.is_flag:
        return "" if isinstance(value, bool) else "should be true or false"
    if option.multiple:
        fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return "" if fits else f"should be a list of texts, or a section [{key_of(option)}] with a line each"
    # A bool is an int to Python, and click would cut 2.5 to 2.
    if isinstance(option.type, click.types.IntParamType):
        return "" if type(value) is int else "should be a whole number without quotes"
    if isinstance(option.type, click.types.FloatParamType):
        return "" if type(value) in (int, float) else "should be a number without quotes"
    return "" if isinstance(value, str) else "should be a text in quotes"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
