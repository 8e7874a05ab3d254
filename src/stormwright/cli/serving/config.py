"""The file of ``stormwright serve``: every option of the command line as a key of TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from stormwright.errors import nearest

#: Section → keys that may stand in it; they may stand above all sections, too.
SECTIONS: Mapping[str, Sequence[str]] = {
    "triggers": ("overload", "period", "objective", "gain", "least-measured", "cool-down", "alarm-after"),
    "budget": ("max-topologies", "max-executors", "most-missing"),
}

#: Parameters of the scheduler; as a section, ``alpha = 0.5`` says what ``--set alpha=0.5`` does.
PARAMETERS = "set"

#: Options that stand on the command line alone.
NOT_IN_FILE = ("config", "check")


@dataclass
class FileTold:
    """What a file says.

    Parameters
    ----------
    values
        By the name of the option's parameter.
    keys
        The same names → key in the file, with its section.
    faults
        What is wrong with it, a sentence each.
    """

    file: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def wrong(self, key: str, what: str) -> None:
        """Note a fault of a key."""
        self.faults.append(f"{self.file}: {key}: {what}")


def key_of(option: click.Option) -> str:
    """An option's name without dashes before it: ``--storm-home`` is ``storm-home``."""
    return max(option.opts, key=len).lstrip("-")


def read_config(path: Path, options: Sequence[click.Option]) -> FileTold:
    """What a file says, with all that is wrong with it.

    Parameters
    ----------
    path
        In TOML.
    options
        That it may name.
    """
    told = FileTold(str(path))
    try:
        document = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        told.faults.append(f"{path}: cannot be read: {error.strerror}: name another with --config")
    except UnicodeDecodeError as error:
        told.faults.append(f"{path}: is no text in UTF-8 (byte {error.start}): write it as that")
    except tomllib.TOMLDecodeError as error:
        told.faults.append(f"{path}: is no TOML: {error}")
    else:
        known = {key_of(option): option for option in options if key_of(option) not in NOT_IN_FILE}
        for section, key, value in _entries(document, told):
            _take(told, known, section, key, value)
    return told


def _entries(document: Mapping[str, Any], told: FileTold) -> Iterator[tuple[str, str, Any]]:
    """Section (empty for none), key and value of each line."""
    for key, value in document.items():
        if key == PARAMETERS and isinstance(value, dict):
            yield "", key, _assignments(value, told)
        elif key in SECTIONS and isinstance(value, dict):
            yield from ((key, inner, each) for inner, each in value.items())
        elif isinstance(value, dict):
            near = nearest(key, [*SECTIONS, PARAMETERS])
            there = ", ".join(f"[{name}]" for name in (*SECTIONS, PARAMETERS))
            meant = f"did you mean [{near}]?" if near else f"there are {there}"
            told.wrong(f"[{key}]", f"unknown section: {meant}")
        else:
            yield "", key, value


def _assignments(section: Mapping[str, Any], told: FileTold) -> list[str]:
    found = []
    for name, value in section.items():
        if isinstance(value, bool):
            found.append(f"{name}={str(value).lower()}")
        elif isinstance(value, str | int | float):
            found.append(f"{name}={value}")
        else:
            told.wrong(f"{PARAMETERS}.{name}", "should be a number, a text in quotes, true or false")
    return found


def _take(told: FileTold, known: Mapping[str, click.Option], section: str, key: str, value: Any) -> None:
    shown = f"{section}.{key}" if section else key
    option = known.get(key)
    if key in NOT_IN_FILE:
        told.wrong(shown, f"stands on the command line alone: say --{key} there")
    elif option is None or (section and key not in SECTIONS[section]):
        told.wrong(shown, _unknown(section, key, known))
    elif what := _unfit(option, value):
        told.wrong(shown, f"{what}, got {_brief(value)}")
    elif option.name in told.keys:
        told.wrong(shown, f"{told.keys[option.name]} says it, too: leave one of them out")
    elif option.name:
        told.values[option.name], told.keys[option.name] = value, shown


def _unknown(section: str, key: str, known: Mapping[str, click.Option]) -> str:
    if key in known:
        return f"does not belong in [{section}]: write it above all sections"
    off = next((name for name, option in known.items() if f"--{key}" in option.secondary_opts), None)
    if off:
        return f"unknown key: write {off} = false"
    near = nearest(key.replace("_", "-"), known)
    return f"unknown key: did you mean {near}?" if near else "unknown key: `stormwright serve --help` lists them"


def _unfit(option: click.Option, value: Any) -> str:
    """What a value should be, where it is something else."""
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
