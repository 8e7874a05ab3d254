"""Published results, one module per paper: figures and tables as rows, and their reproduction."""

from __future__ import annotations

from stormwright.errors import Fault, InputError, nearest
from stormwright_lab.evaluations.definitions import Paper
from stormwright_lab.evaluations.papers import (
    adaptive,
    ant_colony,
    at_most_once,
    other_schedulers,
    r_storm,
    storm_at_twitter,
    tag_aware,
    top_storm,
)

#: What stands for every experiment.
ALL = "all"

#: Name → paper, in the order in which all are run: those that take longest come last.
PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        tag_aware.PAPER,
        at_most_once.PAPER,
        storm_at_twitter.PAPER,
        ant_colony.PAPER,
        other_schedulers.PAPER,
        r_storm.PAPER,
        adaptive.PAPER,
        top_storm.PAPER,
    )
}


def papers_named(name: str) -> list[Paper]:
    """Return the paper `name`, or every one for ``all``.

    Raises
    ------
    InputError
        There is none of this name.
    """
    if name == ALL:
        return list(PAPERS.values())
    if name not in PAPERS:
        near = nearest(name, [*PAPERS, ALL])
        hint = f"did you mean {near}?" if near else f"there are {', '.join(PAPERS)}, and {ALL}"
        raise InputError("experiment", [Fault(f"no such experiment; {hint}", name)])
    return [PAPERS[name]]
