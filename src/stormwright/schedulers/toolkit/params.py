"""Parameters of schedulers: frozen dataclasses whose ranges are checked on creation."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from math import inf, isfinite
from typing import Any, Self

from stormwright.errors import Fault, InputError, nearest
from stormwright.escaping import is_text, shown
from stormwright.model import Problem
from stormwright.model.topology_config import value_misfits

# Configuration of topologies and nodes ------------------------------------------------------------
# What topologies and nodes tell a scheduler in their own configuration, checked where it is read.


def topologies_tell(problem: Problem, key: str, otherwise: Any) -> list[Any]:
    """The value of `key` in the configuration of every topology, `otherwise` where it has none.

    Files are checked when they are read; a problem may come from elsewhere.

    Raises
    ------
    InputError
        Values that are not what the key stands for; all faults at once.
    """
    values = [topology.conf.get(key, otherwise) for topology in problem.topologies]
    faults = [
        Fault(f"{message}, got {value!r}", f"$.topologies[{index}].conf" + "".join(f'["{step}"]' for step in steps))
        for index, told in enumerate(values)
        for message, value, steps in value_misfits(key, told)
    ]
    if faults:
        raise InputError("configuration of topologies", faults)
    return values


def nodes_tell(problem: Problem, keys: Collection[str]) -> list[dict[str, float]]:
    """The numbers that every node tells under `keys` in its `supervisor.scheduler.meta`, as far as it does.

    Raises
    ------
    InputError
        Texts that are no finite numbers, or numbers below 0; all faults at once.
    """
    numbers: list[dict[str, float]] = []
    faults: list[Fault] = []
    for index, node in enumerate(problem.supervisors):
        meta = node.scheduler_meta or {}
        told = {key: _number(meta[key]) for key in keys if key in meta}
        for key, number in told.items():
            if not 0 <= number < math.inf:  # so written that NaN is a fault
                path = f'$.supervisors[{index}].scheduler_meta["{key}"]'
                faults.append(Fault(f"should be a number, at least 0, got {meta[key]!r}", path))
        numbers.append(told)
    if faults:
        raise InputError("supervisor.scheduler.meta of nodes", faults)
    return numbers


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


# Params -------------------------------------------------------------------------------------------

#: The largest seed: what JSON, Java and Spark can hold.
MOST_SEED = 2**63 - 1

#: The longest time, in seconds, that makes sense to any parameter: eleven days.
MOST_SECONDS = 1e6

#: The largest factor or weight: far beyond any that changes anything, and its products stay finite.
MOST_FACTOR = 1e9

#: Types that a parameter may have, and what they are called where another value was given.
KINDS = {float: "a number", int: "an integer", bool: "true or false", str: "a string"}


def param(
    default: float | int | str | bool,
    text: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """A field of a `Params` dataclass: its default, what it does, and its range, both ends included, or its choices.

    A number is finite unless `high` is infinite, an integer has at most 64 bits.

    Parameters
    ----------
    default
        Its type is that of the parameter.
    text
        What it does, in a few words; shown by the CLI and in the docs.
    low, high
        The least and the most that a number may be; None for no such end.
    choices
        What a string may be; none for any.
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
        """The parameters with `settings` laid over their defaults; values may be text, as from ``--set``.

        Raises
        ------
        InputError
            An unknown name, a value that is none of its type, or one out of its range; all faults at once.
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


@dataclass(frozen=True, kw_only=True)
class NoParams(Params):
    """Of a scheduler that has no parameters."""


def _parsed(parameter: Field[Any], text: str) -> object:
    """`text` as a value of the parameter's type; as it is where it is none, for `_wrong` to name."""
    kind: Callable[[str], object] = type(parameter.default)
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
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
    # Written so that NaN, which compares with nothing, is out of every range.
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        return f"should be {range_text(low, high)}, got {shown(value)}"
    return _unwritable(value, high)


def _unwritable(value: Any, high: float | None) -> str | None:
    """Why a number in range cannot be written as JSON."""
    if isinstance(value, float) and not (isfinite(value) or high == inf):
        return f"should be a number that one can count to, got {value}"
    if isinstance(value, int) and not -MOST_SEED <= value <= MOST_SEED:
        return f"should have at most 64 bits, got {shown(value)}"
    return None


def range_text(low: float | None, high: float | None) -> str:
    """A range in words; at least one bound is given."""
    if high is None:
        return f"at least {_bound(low)}"
    return f"at most {_bound(high)}" if low is None else f"from {_bound(low)} to {_bound(high)}"


def _bound(value: float | None) -> str:
    """Integers with all digits: who asks for one more than allowed has to see how many that are."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _unknown(name: str, known: Mapping[str, object]) -> str:
    if near := nearest(name, known):
        return f"unknown parameter; did you mean {near!r}?"
    return f"unknown parameter; there are {', '.join(known)}" if known else "unknown parameter; there are none"
