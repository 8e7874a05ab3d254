"""Parameters of schedulers: frozen dataclasses with ranges, validated on creation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from math import inf, isfinite
from typing import Any, Self

from stormwright.base.escaping import is_text, shown
from stormwright.errors import Fault, InputError, nearest

#: Largest seed that JSON, Java and Spark can represent.
MAX_SEED = 2**63 - 1

#: Longest reasonable time of any parameter, in seconds: eleven days.
MAX_SECONDS = 1e6

#: Largest factor or weight: beyond any useful value, and its products stay finite.
MAX_FACTOR = 1e9

#: Types of parameters, and their names in error messages.
KINDS = {float: "a number", int: "an integer", bool: "true or false", str: "a string"}


def param(
    default: float | int | str | bool,
    text: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """Return a field of a `Params` dataclass with default, help text, and range (both ends included) or choices.

    A number is finite unless `high` is infinite, an integer has at most 64 bits.

    Parameters
    ----------
    default
        Default value; its type is that of the parameter.
    text
        Short description for the CLI and the docs.
    low, high
        Minimum and maximum of a number; None for no bound.
    choices
        Allowed strings; empty for any.
    """
    return field(default=default, metadata={"text": text, "low": low, "high": high, "choices": tuple(choices)})


@dataclass(frozen=True, kw_only=True)
class Params:
    """Base of every scheduler's parameters.

    Raises
    ------
    InputError
        On creation: a value of the wrong type or out of its range; all faults at once.
    """

    def __post_init__(self) -> None:
        faults = [Fault(wrong, f.name) for f in fields(self) if (wrong := _wrong(f, getattr(self, f.name)))]
        if faults:
            raise InputError("scheduler parameters", faults)

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> Self:
        """Return the parameters with `settings` over the defaults; values may be text, as from ``--set``.

        Raises
        ------
        InputError
            An unknown name, or a value of the wrong type or out of range; all faults at once.
        """
        known = {f.name: f for f in fields(cls)}
        faults = []
        values = {}
        for name, setting in settings.items():
            if name not in known:
                faults.append(Fault(_unknown(name, known), name))
                continue
            value = _parsed(known[name], setting) if isinstance(setting, str) else setting
            if wrong := _wrong(known[name], value):
                faults.append(Fault(wrong, name))
            else:
                values[name] = value
        if faults:
            raise InputError("scheduler parameters", faults)
        return cls(**values)


@dataclass(frozen=True)
class ParameterSet:
    """Named values of a scheduler's parameters, as its class lists them by name in `variants`.

    Parameters
    ----------
    text
        Whose values they are, and which are not known.
    values
        Values by parameter; others have their defaults.
    """

    text: str
    values: Mapping[str, float | int | str | bool]


@dataclass(frozen=True, kw_only=True)
class NoParams(Params):
    """Parameters of a scheduler without any."""


def _parsed(parameter: Field[Any], text: str) -> object:
    """Return `text` as a value of the parameter's type; unchanged if invalid, for `_wrong` to report."""
    kind: Callable[[str], object] = type(parameter.default)
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind is not str and not text.isascii():
        return text  # Python reads digits of all scripts
    try:
        return kind(text)
    except ValueError:
        return text


def _wrong(parameter: Field[Any], value: object) -> str | None:
    kind = type(parameter.default)
    wanted = KINDS[kind]
    if not (type(value) is kind or (kind is float and type(value) is int)):
        return f"should be {wanted}, got {shown(value)}"
    choices = parameter.metadata["choices"]
    if choices and value not in choices:
        return f"should be one of {', '.join(choices)}, got {shown(value)}"
    if isinstance(value, str):
        return None if is_text(value) else f"should be text in UTF-8, got {shown(value)}"
    low, high = parameter.metadata["low"], parameter.metadata["high"]
    # Written so that NaN is out of every range.
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        return f"should be {range_text(low, high)}, got {shown(value)}"
    return _unwritable(value, high)


def _unwritable(value: Any, high: float | None) -> str | None:
    """Return why a number in range cannot be written as JSON, or None."""
    if isinstance(value, float) and not (isfinite(value) or high == inf):
        return f"should be a number that one can count to, got {value}"
    if isinstance(value, int) and not -MAX_SEED <= value <= MAX_SEED:
        return f"should have at most 64 bits, got {shown(value)}"
    return None


def range_text(low: float | None, high: float | None) -> str:
    """Return a range as text; at least one bound is given."""
    if high is None:
        return f"at least {_bound(low)}"
    return f"at most {_bound(high)}" if low is None else f"from {_bound(low)} to {_bound(high)}"


def _bound(value: float | None) -> str:
    """Return a bound as text, integers with all digits so that off-by-one errors are visible."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _unknown(name: str, known: Mapping[str, object]) -> str:
    if near := nearest(name, known):
        return f"unknown parameter; did you mean {near!r}?"
    return f"unknown parameter; there are {', '.join(known)}" if known else "unknown parameter; there are none"
