"""How good the default answer is where no load was measured: its reachable rate beside Even's, and the best of all.

    python -m benchmarks.schedulers.default_answer [--drawn 100] [--built-in 11] [--seed 1]

The inputs of questions that were asked in public (tests/cases/public), the built-in experiments of the TOP-Storm paper
and a generated cluster, and drawn topologies: Flux files of random acyclic graphs of components with shuffle,
local-or-shuffle and fields groupings, imported as `stormwright import flux` does.

Each is placed by `schedule` as it is by default, and by all schedulers of `compare` but `LEFT_OUT`. The figure is the
factor by which all rates can grow, by `stormwright predict`: the lower one of the default answer and of the winner of
the comparison, relative to Even's and to that of the best scheduler. Only placements of every executor within the
limits count, as in `compare`; Even's is not always one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import stormwright as sw
from benchmarks.kit.results import ROOT, write_results
from stormwright.formats.storm.conf import CLUSTER_KEYS
from stormwright.formats.storm.flux import read_flux
from stormwright.formats.storm.flux_files import Substitution
from stormwright.formats.storm.storm_yaml import DEFAULTS, cluster_conf, read_storm_yaml, supervisors_of
from stormwright.model import Problem
from stormwright.schedulers import scheduler_names
from stormwright.workbench.ready_problems import read_problem

#: Code that the page measures.
MEASURES = (
    "src/stormwright/schedulers/optimizer.py",
    "src/stormwright/schedulers/templates",
    "src/stormwright/optimize/throughput",
    "src/stormwright/predict",
    "src/stormwright/workbench/comparison.py",
)

#: What is asked for: relative to Even, and to the best of all schedulers.
MIN_BESIDE_EVEN, MIN_BESIDE_BEST = 1.0, 0.98

#: Schedulers that were trained or learn while they run, and the one that runs all others.
LEFT_OUT = frozenset({"learned", "model_free", "n_version"})

CASES = ROOT / "tests" / "cases" / "public"

#: Files of a case, its storm.yaml if it has one, and the number of supervisors.
PUBLIC = (
    ("01-default-answer-not-sustained/input/crawler.yaml", "", 4),
    ("01-default-answer-not-sustained/input/small.yaml", "", 2),
    ("02-whatif-same-parallelism/input/two.yaml", "", 2),
    ("18-isolation-uses-one-machine/input/topo1.yaml", "18-isolation-uses-one-machine/input/storm.yaml", 4),
)

#: Built-in problems.
READY = (
    *(f"top-storm-word-count-{number}" for number in range(1, 7)),
    *(f"top-storm-exclamation-{number}" for number in (1, 2, 4, 6)),
    "cluster-20",
)

#: Most executors of drawn topologies on a node, so that all of them find memory.
EXECUTORS_A_NODE = 12

GROUPINGS = ("SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS")


@dataclass(frozen=True)
class Answer:
    """Factors by which all rates can grow: by default, for the winner of the comparison, Even, and the best.

    That of Even is None if it breaks limits.
    """

    problem: str
    executors: int
    default: float
    winner: float
    winner_name: str
    even: float | None
    best: float
    best_name: str

    @property
    def beside_even(self) -> float | None:
        """Relative to Even."""
        return min(self.default, self.winner) / self.even if self.even else None

    @property
    def beside_best(self) -> float:
        """Relative to the best."""
        return min(self.default, self.winner) / self.best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawn", type=int, default=100, help="number of drawn topologies")
    parser.add_argument("--built-in", type=int, default=len(READY), help="number of built-in problems")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ready = READY[: options.built_in]
    groups = {
        "questions asked in public": list(_public()),
        "built-in problems": [(name, read_problem(Path(f"ready:{name}")).with_nothing_running()) for name in ready],
        "drawn topologies": [(f"drawn-{n}", drawn(options.seed * 1_000_000 + n)) for n in range(options.drawn)],
    }
    rows, details = [], {}
    for group, problems in groups.items():
        found: list[Answer] = []
        for name, problem in problems:
            found.append(_answer(name, problem))
            print(found[-1], found[-1].beside_even, found[-1].beside_best, flush=True)
        details[group] = [asdict(each) for each in found]
        rows += _rows(f"{len(found)} {group}", found) if found else ()
    write_results("default-answer", "The default answer where no load was measured", rows, details)


def _rows(group: str, found: list[Answer]) -> Iterator[tuple[str, str, str]]:
    beside_even = [each.beside_even for each in found if each.beside_even is not None]
    beside_best = [each.beside_best for each in found]
    yield (
        f"{group}: reachable rate by default ÷ Even's, of {len(beside_even)}",
        f"≥ {MIN_BESIDE_EVEN:g} each",
        f"{min(beside_even):.3f} to {max(beside_even):.2f}, median {np.median(beside_even):.2f}",
    )
    yield (
        f"{group}: reachable rate by default ÷ that of the best scheduler",
        f"≥ {MIN_BESIDE_BEST:g} each",
        f"{min(beside_best):.3f} to {max(beside_best):.2f}, median {np.median(beside_best):.3f}",
    )
    low = sum(each < MIN_BESIDE_BEST for each in beside_best)
    yield f"{group}: below {MIN_BESIDE_BEST:g} of the best", "0", f"{low}"


def _answer(name: str, problem: Problem) -> Answer:
    names = [each for each in scheduler_names() if each not in LEFT_OUT]
    found = sw.compare(problem, ",".join(names))
    # Of complete placements within the limits, as `compare` ranks.
    valid = {
        row.name: _factor(problem, row.assignment)
        for row in found
        if row.complete and row.figures is not None and row.assignment is not None and not row.figures.broken
    }
    best = max(valid, key=lambda each: valid[each])
    return Answer(
        problem=name,
        executors=problem.num_executors,
        default=_factor(problem, sw.place(problem)),
        winner=valid[found.rows[0].name],
        winner_name=found.rows[0].name,
        even=valid.get("even"),
        best=valid[best],
        best_name=best,
    )


def _factor(problem: Problem, placement: sw.Assignment) -> float:
    """The factor by which the rates of all topologies can grow, 0 if one is not placed."""
    return min(
        (one.reachable_tps.value / one.measured_tps if one.reachable_tps else 0.0)
        for one in sw.predict(problem, placement).topologies
    )


def _public() -> Iterator[tuple[str, Problem]]:
    for topology, cluster, supervisors in PUBLIC:
        yield topology, imported(CASES / topology, CASES / cluster if cluster else None, supervisors)


def imported(topology: Path, cluster: Path | None, supervisors: int) -> Problem:
    """A Flux file on some nodes, as `stormwright import flux` has it."""
    files = [read_storm_yaml(cluster) if cluster else DEFAULTS]
    conf = cluster_conf(files)
    found, errors = read_flux([topology], conf, Substitution({}, None))
    for error in errors:
        raise error
    return Problem(supervisors_of(files, supervisors), found, name=found[0].name, conf=conf.selected(CLUSTER_KEYS))


def drawn(seed: int) -> Problem:
    """A random topology: 1 to 4 spouts, 1 to 6 bolts, each fed by one or two earlier components."""
    rng = np.random.default_rng(seed)
    spouts = [(f"spout{n}", int(rng.integers(1, 9))) for n in range(int(rng.integers(1, 5)))]
    bolts = [(f"bolt{n}", int(rng.integers(1, 17))) for n in range(int(rng.integers(1, 7)))]
    earlier, streams = [name for name, _ in spouts], []
    for name, _ in bolts:
        for source in rng.choice(earlier, size=min(int(rng.integers(1, 3)), len(earlier)), replace=False):
            kind = str(rng.choice(GROUPINGS))
            args = ", args: [key]" if kind == "FIELDS" else ""
            streams.append(f"  - {{from: {source}, to: {name}, grouping: {{type: {kind}{args}}}}}")
        earlier.append(name)
    executors = sum(count for _, count in spouts + bolts)
    # A node of Storm's default size has memory for 24 executors; ackers, one a worker, come in addition.
    supervisors = max(int(rng.integers(2, 9)), -(-executors // EXECUTORS_A_NODE))
    workers = int(rng.integers(supervisors // 2, min(executors, 4 * supervisors) + 1))
    config = f"topology.workers: {workers}"
    if rng.random() < 0.3:
        config += ", topology.acker.executors: 0"
    lines = [f"name: drawn-{seed}", f"config: {{{config}}}", "spouts:"]
    lines += [f"  - {{id: {name}, className: x.S, parallelism: {count}}}" for name, count in spouts]
    lines += ["bolts:", *(f"  - {{id: {name}, className: x.B, parallelism: {count}}}" for name, count in bolts)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "topology.yaml"
        path.write_text("\n".join([*lines, "streams:", *streams]) + "\n", encoding="utf-8")
        return imported(path, None, supervisors)


if __name__ == "__main__":
    main()
