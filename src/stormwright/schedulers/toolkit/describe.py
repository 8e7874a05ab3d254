"""Descriptions of schedulers: rule, use and source from the class docstring, parameters from their fields."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import cast

from stormwright.schedulers.toolkit.params import ParameterSet, Params, range_text
from stormwright.schedulers.toolkit.queue_rules import QueueRules
from stormwright.schedulers.toolkit.registry import scheduler_type, variants_of

#: Marks of a citation: a URL, a year of publication, or Storm's own class.
_CITES = re.compile(r"https?://|\b(?:19|20)\d\d\b|\borg\.apache\.storm\b")

#: End of a citation: that of its address, or, if it has none, what the source goes on with.
_ADDRESS, _GOES_ON = re.compile(r"https?://[^\s;,]*[^\s;,.]"), re.compile(r";|, of which|[.]$")

#: Beginning of the text of a scheduler without a published source.
_UNCITED = re.compile(r"(?:Generic|Own|After)\b.*?[.](?=\s|$)", re.DOTALL)

#: A section of a docstring: its title, underlined.
_SECTION = re.compile(r"^(\S[^\n]*)\n-{3,}\n", re.MULTILINE)

_WHEN, _IGNORES, _HONOURS = "When to use", "Ignores", "Honours"

_KINDS = {float: "number", int: "integer", bool: "true or false", str: "text"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a scheduler, with bounds `low` and `high`, both inclusive; None is no bound."""

    name: str
    kind: str
    default: float | int | str | bool
    text: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """Its range or choices as text."""
        if self.choices:
            return " | ".join(self.choices)
        if self.low is None and self.high is None:
            return self.kind
        return f"{self.kind} {range_text(self.low, self.high)}"


@dataclass(frozen=True)
class Description:
    """Description of a scheduler.

    Parameters
    ----------
    rule
        Summary in one line.
    text
        The rest of the docstring before its sections.
    when_to_use, ignores
        Sections ``When to use`` and ``Ignores``, each as one paragraph; empty if missing.
    honours
        Section ``Honours``: constraints that it satisfies, and other inputs that it uses.
    errors
        Section ``Raises`` of the docstring, unchanged; empty if missing.
    source
        The paragraph that cites the source of the rule, or the sentence that calls it generic; empty if there is
        neither.
    implementation
        Class of the scheduler as ``module:class``, to find its source.
    variants
        Named parameter sets, for the setting ``variant``.
    """

    name: str
    rule: str
    text: str
    when_to_use: str
    ignores: str
    honours: tuple[str, ...]
    errors: str
    source: str
    implementation: str
    parameters: tuple[Parameter, ...]
    variants: Mapping[str, ParameterSet] = field(default_factory=dict)

    @property
    def details(self) -> str:
        """Text without the source, which is its beginning or one of its paragraphs."""
        paragraphs = []
        for paragraph in self.text.split("\n\n"):
            flat = _one_line(paragraph)
            cited = bool(self.source) and flat.startswith(self.source)
            paragraphs.append(flat.removeprefix(self.source).strip() if cited else paragraph)
        return "\n\n".join(filter(None, paragraphs))


def describe(name: str) -> Description:
    """Describe the scheduler of this name.

    Raises
    ------
    InputError
        No such scheduler.
    MissingDependencyError
        It belongs to another package, and needs a package that is not installed.
    SchedulerError
        It belongs to another package, and is broken.
    """
    kind = scheduler_type(name)
    return describe_class(name, kind, kind.params_type)


def citation(name: str) -> str:
    """Return the publication of a scheduler's rule: authors, title, where and when, and its address if there is one.

    Raises
    ------
    InputError
        No such scheduler.
    """
    source = describe(name).source.removeprefix("After ")
    address = _ADDRESS.search(source)
    return source[: address.end()] if address else _GOES_ON.split(source)[0]


def describe_anyway(name: str) -> Description:
    """Describe the scheduler of this name; of a broken one the rule is the error, and the rest is empty."""
    try:
        return describe(name)
    except Exception as error:  # third-party code may raise anything; the others are still listed
        return Description(name, f"broken: {error}", "", "", "", (), "", "", "", ())


def describe_class(name: str, kind: object, params: type[Params]) -> Description:
    """Describe the scheduler class `kind` under a name."""
    rule, _, rest = (inspect.getdoc(kind) or "").partition("\n\n")
    text, *parts = _SECTION.split(rest)
    sections = {title: section.strip() for title, section in zip(parts[::2], parts[1::2], strict=True)}
    return Description(
        name=name,
        rule=_one_line(rule),
        text=text.strip(),
        when_to_use=_one_line(sections.get(_WHEN, "")),
        ignores=_one_line(sections.get(_IGNORES, "")),
        honours=tuple(filter(None, _one_line(sections.get(_HONOURS, "")).split(", "))),
        errors=sections.get("Raises", ""),
        source=_source(text),
        implementation=f"{getattr(kind, '__module__', '')}:{getattr(kind, '__qualname__', name)}",
        parameters=tuple(_parameters(params)),
        variants=variants_of(kind),
    )


def options_of_all() -> tuple[Parameter, ...]:
    """Return the options that ``--set`` accepts for every scheduler besides its own parameters."""
    return tuple(_parameters(QueueRules))


def _source(text: str) -> str:
    cited = next((part for part in text.split("\n\n") if _CITES.search(part)), None)
    uncited = _UNCITED.match(text)
    return _one_line(cited or (uncited[0] if uncited else ""))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _parameters(params: type[Params]) -> Iterator[Parameter]:
    for each in fields(params):
        known, default = each.metadata, cast(float | int | str | bool, each.default)
        yield Parameter(
            name=each.name,
            kind=_KINDS[type(default)],
            default=default,
            text=known["text"],
            low=known["low"],
            high=known["high"],
            choices=known["choices"],
        )
