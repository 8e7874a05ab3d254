"""The pages of ``docs/schedulers``: what each scheduler is, and where it puts one and the same word count.

``python tools/scheduler_pages.py docs/schedulers`` (or ``make docs``) writes them from the docstrings
and from what the schedulers answer on ``word-count.json`` there; a test keeps them equal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stormwright.defaults import BASELINE
from stormwright.explain.drawing import component_colours, component_legend, draw
from stormwright.explain.svg import placement_svg
from stormwright.formats import read_problem
from stormwright.model import CostWeights, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.humanize import amount
from stormwright.predict.throughput import ThroughputPredictor
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.describe import Description, Parameter, options_of_all
from stormwright.schedulers.toolkit.from_scratch import running_text
from stormwright.schedulers.toolkit.params import ParameterSet
from stormwright.schedulers.toolkit.registry import SCHEDULERS, traits_of
from stormwright.schedulers.toolkit.resolve import ANY_JAVA, SOME_JAVA, describe_scheduler
from stormwright.workbench.comparison import PlacementFigures, measure

PROBLEM = "word-count.json"

_INDEX, _JAVA = "index.md", "java"

_MADE = "<!-- Made by `make docs`; what it says is in the docstring of the scheduler. -->"

#: Author, title in quotes, and what follows of a citation.
_CITATION = re.compile(r'(?P<who>[^"]+), "(?P<title>[^"]+)"(?P<rest>.*)')

_ABOUT = """\
Each has a page: where its rule comes from, the rule, when to use it, what it ignores, and a picture of where it puts
the executors of one word count. *Trees/s* is the rate that this placement can reach, by
[prediction](../predict.md#highest-rates); *cost* is its traffic, weighted by how far it goes. `stormwright compare`
shows both for a problem of yours, and sorts by the rates.

- All of ours keep to free worker slots and stay away from blacklisted hosts. All but `even` give a topology exactly as
  many workers as it asks for (`tag_aware` may need more), place it as a whole or not at all, and keep
  [generic resources, constraints on components and isolation](../how-it-works.md#limits-that-every-scheduler-keeps).
- What runs stays where it is, except with `n_version`, `online` and `optimizer` and, with `move_running`, `annealing`,
  `ant_colony` and `genetic`.
- Loads and traffic are as measured; of a topology that was not measured, what its components ask for and what its
  streams suggest. Shuffled traffic follows the placement: the costs here count that; of the rules only
  `annealing` and `optimizer` do."""

_OPTIONS = """\
These options set the order of topologies and the limits of users. They apply to every scheduler, including plug-ins;
set them by `--set` or in the cluster's configuration. A service applies those of `--set` to `--initial`, too."""

_ORDERS = """\
**Order.** What runs, and what of it was lost, comes first; under `--from-scratch` nothing runs. Then, ties as in
the problem:

- `given`: as the scheduler has it, which is in most the problem's order.
- `priority`: lowest `topology.priority` first (0 to 29, 29 where a topology says nothing).
- `first_come`: the longest launched first.
- `shortest_first`: least CPU divided by the topology's `stormwright.weight` first
  ([Smith](https://doi.org/10.1002/nav.3800030106)).
- `fair_share`: of the user with least CPU so far for his `weight`, the most urgent; a topology's CPU counts divided by
  its `stormwright.weight` ([Demers, Keshav, Shenker](https://doi.org/10.1145/75246.75248)).
- `pools`: as Storm's ResourceAwareScheduler has it, of the user least above what
  `resource.aware.scheduler.user.pools` guarantees, the most urgent, then the oldest.

Without `backfill` everything behind the first topology without room waits; with it, later ones go ahead only where that
one has no room beside those ahead of it: the scheduler is asked again about these alone, so one that has a time budget
may take several times that where not all find room.

**Users.** `stormwright.users` in the cluster's configuration says what all topologies of a user
(`topology.submitter.user`) may have together; `*` stands for all other users:

    stormwright.users:
      "*": {executors: 200, slots: 20}
      ann: {cpu: 1600, memory: 65536, weight: 2}   # CPU 100 a core, memory in MB

Loads are as measured, or else as asked for. A topology that is too much for its user waits, with the limit and by how
much in its status, and holds up nobody else. What runs is never taken back, and gets back what it has lost; under
`--from-scratch` it counts as new. Nor does a scheduler in `stormwright.fallback` give a user more, by what executors
ask for.
Limits of `--set`, `order` and `backfill` are the service's alone: with `stormwright.fallback: none` what has to wait is
given to nobody else.

**Weights of nodes.** `stormwright.weight` in a node's `supervisor.scheduler.meta`, a number of at least 0 (1 where it
says nothing): the node is given the part of its CPU that this is of the largest weight, by every scheduler. It is a
wish: where something finds no room so, the whole CPU counts."""

_LEFT_OUT = """\
## Published, and not here

- WG-Storm (R. Ali, A. Muhammad, M. Aleem, O. Shafiq, [2025](https://doi.org/10.7717/peerj-cs.2767)): its
  abstract and introduction, which were to be had, do not give the rules by which executors are grouped and nodes are
  chosen. `top_storm` is of the same group.
- [A scheduling algorithm to maximize storm throughput in heterogeneous
  cluster](https://doi.org/10.1186/s40537-023-00771-y), 2023: it changes how many executors components have, which no
  scheduler here may. Its model of CPU, linear in the rate of a component by kind of node, is the one that `predict` and
  `stormwright advise` go beyond."""


def write_pages(directory: Path) -> None:
    """Write every page and picture into `directory`, which has the problem, and remove those of schedulers gone."""
    made = pages(read_problem(directory / PROBLEM))
    for path in (*directory.glob("*.md"), *directory.glob("*.svg")):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (directory / name).write_text(text, encoding="utf-8")


def pages(problem: Problem) -> dict[str, str]:
    """File name → text: a page and a picture for each scheduler of ours, a page for Java's, and the index.

    Raises
    ------
    MissingDependencyError
        A scheduler needs a package that is not installed.
    """
    descriptions = {name: describe_scheduler(name) for name in SCHEDULERS}
    slots = {name: make_scheduler(name).schedule(problem).slot_of_executor for name in SCHEDULERS}
    rates = ThroughputPredictor(problem)
    figures = {name: measure(problem, of, rates) for name, of in slots.items()}
    made = {_INDEX: _index(problem, descriptions, figures)}
    for name, description in descriptions.items():
        columns = {known: figures[known] for known in dict.fromkeys((name, BASELINE))}
        made[f"{name}.md"] = _text(_page(description, columns))
        made[f"{name}.svg"] = _picture(problem, name, figures[name], slots[name])
    made[f"{_JAVA}.md"] = _text(_java_page(describe_scheduler(ANY_JAVA)))
    return made


def _picture(problem: Problem, name: str, figures: PlacementFigures, slots: IntArray) -> str:
    colours = component_colours(problem)
    lead = f"{_rate(figures)} trees/s, cost {figures.cost.total:,.0f}, {figures.nodes} nodes, {figures.workers} workers"
    return placement_svg(draw(problem, name, lead, slots, colours), list(component_legend(problem, colours)))


def _text(blocks: Iterator[str]) -> str:
    return "\n\n".join([_MADE, *blocks]) + "\n"


def _page(description: Description, figures: Mapping[str, PlacementFigures]) -> Iterator[str]:
    name = description.name
    yield from _head(description)
    yield f"![Where {name} puts the executors of the word count]({name}.svg)"
    yield _figures_table(figures)
    yield (
        f"The problem is [{PROBLEM}](index.md#the-word-count); "
        f"`stormwright schedule docs/schedulers/{PROBLEM} --scheduler {name}` places it."
    )
    yield from _use(description)
    yield from _rule(description)
    yield "## Parameters\n\n" + _parameters_table(description.parameters)
    yield "Options of all schedulers, such as `order`, are [here](index.md#options-of-all)."
    if description.variants:
        yield "## Variants\n\n" + _variants_table(description.variants)


def _java_page(description: Description) -> Iterator[str]:
    yield from _head(description)
    yield from _use(description)
    yield from _rule(description)
    yield "## Parameters\n\n" + _parameters_table(description.parameters)
    yield (
        "## Its placement\n\nIt takes Java and Storm's jars to draw one, which `make setup` fetches:\n\n"
        f"    stormwright compare docs/schedulers/{PROBLEM} \\\n"
        f"        --schedulers {BASELINE},{SOME_JAVA} --output report.html"
    )


def _head(description: Description) -> Iterator[str]:
    yield f"# {description.name}"
    yield description.rule
    yield f"Source: {description.source.rstrip(':')}"


def _use(description: Description) -> Iterator[str]:
    yield f"**When to use.** {description.when_to_use}"
    yield f"**Ignores.** {description.ignores}"
    yield f"**Honours.** {_honours(description)}."
    yield f"**Where something runs.** {running_text(traits_of(description.name))}"


def _rule(description: Description) -> Iterator[str]:
    """Without the source: the page has that at its top."""
    yield "\n\n".join(filter(None, ["## Rule", description.details]))


def _figures_table(figures: Mapping[str, PlacementFigures]) -> str:
    weights = CostWeights()
    rows: list[tuple[str, list[str]]] = [
        ("trees/s that can be reached", [f"**{_rate(of)}**" for of in figures.values()]),
        ("cost", [f"**{of.cost.total:,.0f}**" for of in figures.values()]),
        ("in a worker", [f"{of.cost.same_executor + of.cost.same_worker:,.0f}" for of in figures.values()]),
        (f"in a node, × {weights.inter_worker:g}", [f"{of.cost.inter_worker:,.0f}" for of in figures.values()]),
        (f"in a rack, × {weights.inter_node:g}", [f"{of.cost.inter_node:,.0f}" for of in figures.values()]),
        (f"between racks, × {weights.inter_rack:g}", [f"{of.cost.inter_rack:,.0f}" for of in figures.values()]),
        ("nodes used", [str(of.nodes) for of in figures.values()]),
        ("workers used", [str(of.workers) for of in figures.values()]),
        ("limits", ["; ".join((*(of.broken or ("kept",)), *map(str, of.worker_counts))) for of in figures.values()]),
    ]
    head = [f"| tuples/s | {' | '.join(figures)} |", "|---|" + "---:|" * len(figures)]
    return "\n".join([*head, *(f"| {label} | {' | '.join(cells)} |" for label, cells in rows)])


def _parameters_table(parameters: Sequence[Parameter]) -> str:
    if not parameters:
        return "It has none."
    lines = ["| `--set` | default | allowed | |", "|---|---|---|---|"]
    for parameter in parameters:
        default = str(parameter.default).lower() if isinstance(parameter.default, bool) else str(parameter.default)
        lines.append(f"| `{parameter.name}` | {default} | {_cell(parameter.allowed)} | {_cell(parameter.text)} |")
    return "\n".join(lines)


def _variants_table(variants: Mapping[str, ParameterSet]) -> str:
    lines = ["| `--set` | stands for | |", "|---|---|---|"]
    for name, variant in variants.items():
        values = ", ".join(
            f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in variant.values.items()
        )
        lines.append(f"| `variant={name}` | {values} | {_cell(variant.text)} |")
    return "\n".join(lines)


def _index(problem: Problem, descriptions: Mapping[str, Description], figures: Mapping[str, PlacementFigures]) -> str:
    lines = ["| name | rule | source | honours | trees/s | cost |", "|---|---|---|---|---:|---:|"]
    for name, description in descriptions.items():
        lines.append(_index_row(name, f"{name}.md", description, figures[name]))
    lines.append(_index_row(ANY_JAVA, f"{_JAVA}.md", describe_scheduler(ANY_JAVA), None))
    about = ["# The schedulers", _ABOUT, "\n".join(lines), _LEFT_OUT, *_about_options(), *_about_problem(problem)]
    return _text(iter(about))


def _about_options() -> Iterator[str]:
    yield "## Options of all"
    yield _OPTIONS
    yield _parameters_table(options_of_all())
    yield _ORDERS


def _index_row(name: str, page: str, description: Description, figures: PlacementFigures | None) -> str:
    cells = (description.rule, _short_source(description.source), _honours(description))
    measured = ("–", "–") if figures is None else (_rate(figures), f"{figures.cost.total:,.0f}")
    return f"| [{name}]({page}) | {' | '.join(map(_cell, cells))} | {' | '.join(measured)} |"


def _rate(figures: PlacementFigures) -> str:
    """The reachable rate of the word count."""
    return figures.throughput.brief if figures.throughput else "–"


def _about_problem(problem: Problem) -> Iterator[str]:
    (topology,) = problem.topologies
    parts = ", ".join(f"{component.parallelism} {component.id}" for component in topology.components)
    yield "## The word count"
    yield (
        f"[{PROBLEM}]({PROBLEM}) has one topology of {topology.num_executors} executors ({parts}) that asks for "
        f"{topology.num_workers} workers. Spouts send sentences, shuffled, to split; words go by field to count, and "
        "as words do, some come far more often than others. Nothing runs yet. `count` is tagged `ssd`, which only "
        "`tag_aware` looks at."
    )
    lines = ["| node | rack | CPU | memory | slots | scheduler meta |", "|---|---|---:|---:|---:|---|"]
    for node in problem.supervisors:
        told = ", ".join(f"{key} {value}" for key, value in (node.scheduler_meta or {}).items())
        lines.append(
            f"| {node.host} | {node.rack} | {amount(node.cpu_hz, 'Hz')} | {node.memory_mb / 1024:g} GiB "
            f"| {len(node.ports)} | {told} |"
        )
    yield "\n".join(lines)


def _short_source(source: str) -> str:
    """Who wrote what and when, with a link where the source has an address."""
    match = _CITATION.match(source)
    if match is None:
        return source.rstrip(":")
    year = re.search(r"\b(?:19|20)\d\d\b", match["rest"])
    address = re.search(r"https?://[^\s;,]*[^\s;,.]", match["rest"])
    title = f"[{match['title']}]({address[0]})" if address else f"“{match['title']}”"
    return f"{match['who']}, {title}" + (f", {year[0]}" if year else "")


def _honours(description: Description) -> str:
    return ", ".join(description.honours)


def _cell(text: str) -> str:
    """`text` as part of a table, in which a bar would end the cell."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
