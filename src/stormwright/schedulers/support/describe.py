"""What a scheduler is, from its class: rule and source from the docstring, parameters from their fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import cast

from stormwright.schedulers.support.params import Params, range_text
from stormwright.schedulers.support.registry import scheduler_type

#: What makes a paragraph a citation: an address, a year of publication, or Storm's own class.
_CITES = re.compile(r"https?://|\b(?:19|20)\d\d\b|\borg\.apache\.storm\b")

#: How the text of one begins whose rule is common knowledge or our own.
_UNCITED = re.compile(r"(?:Generic|Own|After)\b.*?[.](?=\s|$)", re.DOTALL)

_KINDS = {float: "number", int: "integer", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a scheduler; `low` and `high` belong to the range, None is no bound."""

    name: str
    kind: str
    default: float | int | str | bool
    text: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """Its range or choices in words."""
        if self.choices:
            return " | ".join(self.choices)
        if self.low is None and self.high is None:
            return self.kind
        return f"{self.kind} {range_text(self.low, self.high)}"


@dataclass(frozen=True)
class Description:
    """What there is to say of a scheduler.

    Parameters
    ----------
    rule
        What it does, in one line.
    text
        The rest of what its docstring says.
    source
        The paragraph of it that cites where the rule comes from, or the sentence that says that it is generic; empty
        where there is neither.
    implementation
        ``module:class``.
    """

    name: str
    rule: str
    text: str
    source: str
    implementation: str
    parameters: tuple[Parameter, ...]


def describe(name: str) -> Description:
    """Describe the scheduler of this name.

    Raises
    ------
    InputError
        There is none.
    MissingDependencyError
        It is another package's, and cannot be imported.
    """
    kind = scheduler_type(name)
    rule, _, text = (inspect.getdoc(kind) or "").partition("\n\n")
    return Description(
        name=name,
        rule=" ".join(rule.split()),
        text=text,
        source=_source(text),
        implementation=f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', name)}",
        parameters=tuple(_parameters(kind.params_type)),
    )


def _source(text: str) -> str:
    cited = next((part for part in text.split("\n\n") if _CITES.search(part)), None)
    uncited = _UNCITED.match(text)
    return " ".join((cited or (uncited[0] if uncited else "")).split())


def _parameters(params: type[Params]) -> Iterator[Parameter]:
    for field in fields(params):
        known, default = field.metadata, cast(float | int | str | bool, field.default)
        yield Parameter(
            name=field.name,
            kind=_KINDS[type(default)],
            default=default,
            text=known["text"],
            low=known["low"],
            high=known["high"],
            choices=known["choices"],
        )
