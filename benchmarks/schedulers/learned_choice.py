"""How well `learned` and `n_version` choose placements of problems that were not learned from.

    python -m benchmarks.schedulers.learned_choice measured [--records DIRECTORY,…] -o EXAMPLES
    python -m benchmarks.schedulers.learned_choice score --drawn EXAMPLES [--records DIRECTORY,…] [--cases DIRECTORY]

`measured` makes examples of what was measured on a real cluster, for ``stormwright learn --examples``. `score` learns
anew without what it is scored on, and writes the results:

- of placements that were measured (``prediction/real_cells.py run`` and ``storm/choices.py run``), each topology by a
  model that has seen none of its placements, measured or not; what `stormwright.predict` says of the same is beside it,
  from the load that Even's placement showed;
- of benchmark topologies of the literature and of the cases in ``DIRECTORY/placement``, by the model that comes with
  the package, which has seen none of them: here throughput is what is predicted, so that `n_version` is right by
  definition, and the question is what is lost by not asking it.

Regret is what the chosen placement has less of throughput than the best of those there are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau
from stormwright_lab.evaluations.learning.examples import Group, answer_of, read_examples, write_examples
from stormwright_lab.evaluations.learning.examples import measured as with_load
from stormwright_lab.evaluations.learning.recorded import as_measured
from stormwright_lab.evaluations.learning.training import trained

from benchmarks.cells.figures import spread
from benchmarks.cells.measured import Measured
from benchmarks.cells.ranked import Ranked, ranked
from benchmarks.kit.results import DIRECTORY, write_results
from benchmarks.optimizer.placement_cases import add_cases_argument, case_files, read_case
from benchmarks.schedulers.scale import SHAPES
from stormwright.formats.sketch import sketch
from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.learned import cheap_rules
from stormwright.schedulers.portfolio.evaluation import PlacementEvaluator
from stormwright.schedulers.portfolio.features import FeatureExtractor
from stormwright.schedulers.portfolio.model import OURS, Model, read_model

#: Code that the page measures.
MEASURES = (
    "src/stormwright/schedulers/learned.py",
    "src/stormwright/schedulers/n_version.py",
    "src/stormwright/schedulers/portfolio",
    "lab/src/stormwright_lab/evaluations/learning",
)

RECORDS = (DIRECTORY / "prediction-cells", DIRECTORY / "storm-choices")
CHOSEN = DIRECTORY / "storm-choices" / "chosen.json"

#: Who always chooses the same way, and what they are called where choices were noted.
ALWAYS = {"even": "even", "online": "online", "optimizer": "throughput"}

#: Sizes of the clusters on which each benchmark topology is placed: nodes, cores of each, speed of links in Gbit/s.
CLUSTERS = ((3, 1.0, 0.1), (5, 2.0, 1.0), (8, 4.0, 10.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measured", "score"))
    parser.add_argument("--records", default=",".join(map(str, RECORDS)), help="directories, separated by commas")
    parser.add_argument("--drawn", type=Path, help="score: examples of drawn problems, as `stormwright learn --keep`")
    parser.add_argument("-o", "--output", type=Path, help="measured: where the examples go")
    add_cases_argument(parser)
    options = parser.parse_args()
    directories = [Path(each) for each in options.records.split(",")]
    files = sorted(file for directory in directories for file in directory.glob("*.json.gz"))
    real = list(ranked([Measured.read(file) for file in files], CHOSEN))
    if options.what == "measured":
        write_examples(options.output, [each.as_group() for each in real], "placements measured on a real cluster")
        return
    drawn = read_examples(options.drawn)
    rows, details = of_measured(real, drawn)
    more, found = of_predicted(read_model(OURS), options.cases)
    write_results(
        "learned-choice",
        "What `learned` chooses among placements of problems that it has not seen",
        [*rows, *more],
        {"model": dict(read_model(OURS).data), "measured": details, "predicted": found},
    )


def of_measured(real: Sequence[Ranked], drawn: Sequence[Group]) -> tuple[list[tuple[str, str, str]], list[Any]]:
    """Who chooses how well among placements that were measured; each topology left out in turn."""
    groups = {each: each.as_group() for each in real}
    found: dict[str, list[tuple[Ranked, FloatArray]]] = {}
    by_drawn = trained(drawn, "drawn", 0)
    for topology in sorted({each.topology for each in real}):
        others = [group for each, group in groups.items() if each.topology != topology]
        model = trained([*drawn, *others], "all but one topology", 0)
        for each in (each for each in real if each.topology == topology):
            features = groups[each].features
            found.setdefault("learned", []).append((each, -model.trees.score(features)))
            found.setdefault("learned from drawn problems alone", []).append((each, -by_drawn.trees.score(features)))
            found.setdefault("predict itself", []).append((each, each.predicted()))
            for name, noted in ALWAYS.items():
                placement = name if name in each.placements else each.chosen.get(noted, "")
                found.setdefault(f"always {name}", []).append((each, only(each, placement)))
    rows = []
    for who, choices in found.items():
        regrets = [regret(each.measured, badness) for each, badness in choices if np.isfinite(badness).any()]
        rows.append((f"measured: regret, {who}", "", told(regrets)))
        if not who.startswith("always"):
            taus = [tau(each.measured, badness) for each, badness in choices]
            rows.append((f"measured: Kendall tau, {who}", "", f"median {np.median(taus):.2f}, lowest {min(taus):.2f}"))
    details = [
        {
            "topology": each.topology,
            "limit": str(each.limit),
            "placements": list(each.placements),
            "by": who,
            "badness": [None if not np.isfinite(one) else round(float(one), 4) for one in badness],
            "measured": np.round(each.measured, 4).tolist(),
        }
        for who, choices in found.items()
        for each, badness in choices
    ]
    return rows, details


def told(regrets: Sequence[float]) -> str:
    """Regrets of many choices."""
    return f"mean {np.mean(regrets):.1%}, {spread(regrets)}, {len(regrets)} choices"


def only(of: Ranked, name: str) -> FloatArray:
    """Badness of whoever has one choice."""
    return np.array([0.0 if placement == name else np.inf for placement in of.placements])


def regret(measured: FloatArray, badness: FloatArray) -> float:
    """What the placement of least badness has less than the best."""
    return float(1 - np.exp(-measured[int(np.argmin(badness))]))


def tau(measured: FloatArray, badness: FloatArray) -> float:
    """Kendall's, 0 where all are the same to one of them."""
    found = float(kendalltau(badness, measured).statistic)
    return found if np.isfinite(found) else 0.0


def of_predicted(model: Model, cases: Path) -> tuple[list[tuple[str, str, str]], list[Any]]:
    """What is lost by choosing among cheap rules' answers by what was learned, and not by the prediction."""
    rows, details = [], []
    for kind, problems in (("literature", literature()), ("cases", of_cases(cases))):
        regrets: dict[str, list[float]] = {}
        taus, seconds = [], {"learned": 0.0, "predict": 0.0}
        for problem in problems:
            answers = distinct(problem)
            if len(answers) < 2:
                continue
            begin = time.process_time()
            describing = FeatureExtractor(problem)
            scores = model.trees.score(np.array([describing.features(slots) for slots in answers.values()]))
            seconds["learned"] += time.process_time() - begin
            begin = time.process_time()
            evaluator = PlacementEvaluator(problem, "throughput")
            badness = np.array([evaluator.badness(slots) / 1.1 for slots in answers.values()])
            seconds["predict"] += time.process_time() - begin
            worse, chosen = badness - badness.min(), {"learned": -scores}
            chosen |= {f"always {name}": one_answer(problem, answers, name) for name in ("even", "online", "r_storm")}
            for who, each in chosen.items():
                if np.isfinite(each).any():
                    regrets.setdefault(who, []).append(regret(worse, each))
            taus.append(tau(worse, -scores))
            details.append(
                {
                    "problem": problem.name,
                    "worse": dict(zip(answers, np.round(worse, 4).tolist(), strict=True)),
                    "scores": np.round(scores, 4).tolist(),
                }
            )
        for who, each in regrets.items():
            rows.append((f"{kind}: regret, {who}", "", told(each)))
        if not taus:
            continue
        rows.append((f"{kind}: Kendall tau, learned", "", f"median {np.median(taus):.2f}, lowest {min(taus):.2f}"))
        took = ", ".join(f"{who} {each:.1f} s" for who, each in seconds.items())
        rows.append((f"{kind}: CPU time of judging all answers", "", took))
    return rows, details


def distinct(problem: Problem) -> Mapping[str, IntArray]:
    """Who first gave each answer that places everything → the answer; even's among them, as what runs."""
    empty = problem.with_nothing_running()
    found: dict[bytes, tuple[str, IntArray]] = {}
    if np.all(problem.current_slot >= 0):
        found[problem.current_slot.tobytes()] = ("even", problem.current_slot)
    for name in cheap_rules(problem.num_executors):
        slots = answer_of(name, empty)
        if slots is not None and np.all(slots >= 0):
            found.setdefault(slots.tobytes(), (name, slots))
    return dict(found.values())


def one_answer(problem: Problem, answers: Mapping[str, IntArray], name: str) -> FloatArray:
    """Badness for whoever has one choice."""
    slots = problem.current_slot if name == "even" else answer_of(name, problem.with_nothing_running())
    return np.array([0.0 if slots is not None and np.array_equal(slots, each) else np.inf for each in answers.values()])


def literature() -> Iterator[Problem]:
    """Benchmark topologies of the literature on clusters of three sizes, with work and tuples of two draws each."""
    for number, shape in enumerate(SHAPES):
        chains = [f"c{a} {shape.parallelism[a]} -> c{b} {shape.parallelism[b]} {kind}" for a, b, kind in shape.streams]
        for nodes, cores, gbit in CLUSTERS:
            for draw in range(2):
                of = sketch({shape.name: chains}, nodes=nodes, cores=cores, memory_mb=262_144.0, slots=6)
                linked = tuple(replace(node, link_bps=gbit * 1e9) for node in of.supervisors)
                rng = np.random.default_rng([7, number, nodes, draw])
                yield replace(
                    with_load(replace(of, supervisors=linked), rng), name=f"{shape.name}, {nodes} nodes, {draw}"
                )


def of_cases(directory: Path) -> Iterator[Problem]:
    """The cases, measured as they run, or as Storm's own would have them."""
    for path in case_files(directory):
        problem, _ = read_case(path)
        problem = as_measured(problem)
        if problem.num_executors <= 2_000:
            if np.all(problem.current_slot < 0):
                problem = problem.with_current(make_scheduler("even").schedule(problem).by_topology(problem))
            yield problem


if __name__ == "__main__":
    main()
