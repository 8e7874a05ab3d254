"""Benchmark topologies by the names that `--topology` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stormwright.errors import Fault, InputError, nearest

#: Those that one class builds, from a description that its argument ``shape`` names.
SHAPES = ("linear", "diamond", "star", "page-load", "processing", "advertising", "sol")

TOPOLOGIES = {
    "word-count": "stormwright.topologies.WordCount",
    "exclamation": "stormwright.topologies.Exclamation",
    "rolling-top-words": "stormwright.topologies.RollingTopWords",
    "reference": "stormwright.topologies.Reference",
    **dict.fromkeys(SHAPES, "stormwright.topologies.Shaped"),
}


@dataclass(frozen=True)
class Submission:
    """A topology to submit: its main class and ``key=value`` arguments."""

    name: str
    main_class: str
    args: dict[str, str] = field(default_factory=dict)

    def arguments(self, **others: str) -> list[str]:
        """Return the arguments of the class, with `others` as defaults."""
        return [f"{key}={value}" for key, value in {"name": self.name, **others, **self.args}.items()]


def parse_submissions(specs: Sequence[str], source: str = "--topology") -> list[Submission]:
    """Read ``KIND[:key=value,…]`` texts; a topology that gives no ``name`` is called after its kind and number.

    Parameters
    ----------
    specs
        Specifications as given on the command line.
    source
        Source for error messages.

    Raises
    ------
    InputError
        An unknown kind, an argument without ``=`` or two topologies of one name, all reported at once.
    """
    faults: list[Fault] = []
    submissions: list[Submission] = []
    for number, spec in enumerate(specs):
        kind, _, rest = spec.partition(":")
        path = f"{source}[{number}]"
        if kind not in TOPOLOGIES:
            near = nearest(kind, TOPOLOGIES)
            hint = f"; did you mean {near}?" if near else f"; there are {', '.join(TOPOLOGIES)}"
            faults.append(Fault(f"no topology called {kind!r}{hint}", path))
            continue
        args = {"shape": kind} if kind in SHAPES else {}
        for part in filter(None, rest.split(",")):
            key, equals, value = part.partition("=")
            if not equals:
                faults.append(Fault(f"{part!r} is not key=value", path))
            args[key] = value
        name = args.pop("name", f"{kind}-{number + 1}")
        if any(name == other.name for other in submissions):
            faults.append(Fault(f"a second topology called {name!r}", path))
        submissions.append(Submission(name, TOPOLOGIES[kind], args))
    if faults:
        raise InputError(source, faults)
    return submissions
