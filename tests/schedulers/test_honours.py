"""What a scheduler says to honour has an influence on its answer, and nothing else has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stormwright import sketch
from stormwright.formats import read_problem
from stormwright.model import LoadProfile, Problem
from stormwright.model.constraints.optional import TAGS
from stormwright.model.topology_config import FORECAST_GROWTH, MAX_EXECUTORS_PER_WORKER, WEIGHT
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.cost_aware import PRICE_PER_HOUR
from stormwright.schedulers.toolkit.describe import describe
from stormwright.schedulers.toolkit.registry import SCHEDULERS
from stormwright.schedulers.top_storm import CORES, GHZ
from stormwright.testing.shared import SharedExamples, for_any
from stormwright.testing.strategies import problems
from tests.case_files import case_files, case_name, case_problem
from tests.examples import examples

WORD_COUNT = Path(__file__).parents[2] / "docs" / "schedulers" / "word-count.json"

#: Fewer steps, so that the tests are fast.
SETTINGS = {
    "annealing": {"sweeps": 5},
    "ant_colony": {"ants": 4, "iterations": 3},
    "genetic": {"generations": 5},
    "learned": {"variants": 16},
    # What others go by, too, can decide between their answers.
    "n_version": {"schedulers": "online,binpack,round_robin"},
    "optimizer": {"iterations": 20_000},
}


def no_traffic(problem: Problem) -> Problem:
    none, no_rate = np.empty(0, np.int32), np.empty(0)
    nothing = {"pair_source": none, "pair_target": none, "pair_tps": no_rate, "pair_bytes_per_s": None}
    return _with_loads(problem, lambda load: replace(load, **nothing))


def no_streams(problem: Problem) -> Problem:
    """What was measured stays."""
    topologies = [
        replace(topology, components=tuple(replace(component, inputs=()) for component in topology.components))
        for topology in problem.topologies
    ]
    return replace(problem, topologies=tuple(topologies))


def one_rack(problem: Problem) -> Problem:
    return _with_nodes(problem, lambda _, node: replace(node, rack="rack"))


def no_cpu(problem: Problem) -> Problem:
    return _with_loads(problem, lambda load: replace(load, cpu_hz=np.zeros(len(load.cpu_hz))))


def no_memory(problem: Problem) -> Problem:
    return _with_loads(problem, lambda load: replace(load, memory_mb=np.zeros(len(load.memory_mb))))


def no_limit_on_executors(problem: Problem) -> Problem:
    return _with_conf(problem, lambda _, conf: {k: v for k, v in conf.items() if k != MAX_EXECUTORS_PER_WORKER})


def growth(problem: Problem) -> Problem:
    return _with_conf(problem, lambda index, conf: {**conf, FORECAST_GROWTH: 5 * (index % 2)})


def weights(problem: Problem) -> Problem:
    return _with_conf(problem, lambda index, conf: {**conf, WEIGHT: 1 + 8 * (index % 2)})


def prices(problem: Problem) -> Problem:
    return _with_nodes(problem, lambda n, node: replace(node, scheduler_meta={PRICE_PER_HOUR: str(9 - n)}))


def processors(problem: Problem) -> Problem:
    return _with_nodes(problem, lambda n, node: replace(node, scheduler_meta={CORES: str(2**n), GHZ: "3"}))


def tags(problem: Problem) -> Problem:
    return _with_nodes(problem, lambda n, node: replace(node, scheduler_meta={TAGS: "ssd"} if n % 2 else None))


#: What may be honoured → a problem that differs in nothing else.
CHANGES = {
    "CPU": no_cpu,
    "memory": no_memory,
    "executors per worker": no_limit_on_executors,
    "traffic": no_traffic,
    "streams": no_streams,
    "racks": one_rack,
    "tags": tags,
    "prices": prices,
    "processors": processors,
    "forecast growth": growth,
    "weights": weights,
}

#: Honoured, and of a kind that cannot be changed alone, or said in other words.
OTHERS = {"hosts", "worker slots", "CPU where it can"}

#: Two start from the answer of `online`, which looks at racks; one keeps to CPU where it can. So their pages say.
EXCEPTIONS = {("ant_colony", "racks"), ("genetic", "racks"), ("r_storm", "CPU")}
#: One decides between the answers of rules that look at more than it does. So its page says.
EXCEPTIONS |= {("learned", what) for what in ("prices", "processors", "forecast growth", "streams", "tags")}

#: That these are kept is in the contract.
LIMITS = {"CPU", "memory", "executors per worker"}

HONOURED = [
    (name, what) for name in SCHEDULERS for what in CHANGES if what in describe(name).honours and what not in LIMITS
]
IGNORED = [
    (name, what)
    for name in SCHEDULERS
    for what in CHANGES
    if what not in describe(name).honours and (name, what) not in EXCEPTIONS
]


def tagged():
    """Problems in which every other component has a tag, so that tags of nodes can have an influence."""

    def tag(problem: Problem) -> Problem:
        topologies = [
            replace(t, components=tuple(replace(c, tags=("ssd",) * (n % 2)) for n, c in enumerate(t.components)))
            for t in problem.topologies
        ]
        return replace(problem, topologies=tuple(topologies))

    return problems(flows=False).map(tag)


def answer(name: str, problem: Problem) -> list[int]:
    return make_scheduler(name, SETTINGS.get(name, {})).schedule(problem).slot_of_executor.tolist()


class MemberAnswer:
    """One scheduler's answers to problems that are changed in several ways each."""

    def __init__(self) -> None:
        self._name = ""
        self._answers: dict[int, tuple[Problem, list[int]]] = {}

    def answer(self, name: str, problem: Problem) -> list[int]:
        if name != self._name:
            self._name, self._answers = name, {}
        if id(problem) not in self._answers:
            self._answers[id(problem)] = problem, answer(name, problem)
        return self._answers[id(problem)][1]


ANSWERED = MemberAnswer()


#: Of a problem that several schedulers are asked about: what it is when something of it is changed.
changed = SharedExamples(lambda problem, what: CHANGES[what](problem))


def has_influence(name: str, what: str, problem: Problem) -> bool:
    return ANSWERED.answer(name, problem) != answer(name, changed(problem, what))


@pytest.mark.slow
@pytest.mark.parametrize(
    # Those of one scheduler in one process: what it says of the problem as it is, is asked once.
    ("name", "what"),
    [pytest.param(*each, marks=pytest.mark.xdist_group(f"honours {each[0]}")) for each in IGNORED],
)
@for_any(examples(15), problem=tagged())
def test_unhonored_setting_does_not_affect_the_placement(name, what, problem):
    assert not has_influence(name, what, problem)


@pytest.mark.parametrize(("name", "what"), HONOURED)
def test_honored_setting_affects_the_placement(name, what):
    """On the word count of the pages, on five topologies on two racks, or on two that share two small nodes."""
    cases = [path for path in case_files("placement") if case_name(path) == "m03_5topo100_n12_r2"]
    small = sketch({"x": "a 1 -> b 4 -> c 3", "y": "d 2 -> e 5 fields"}, nodes=2, cores=2, rate_tps=500)
    assert any(has_influence(name, what, of) for of in (read_problem(WORD_COUNT), *map(case_problem, cases), small))


@pytest.mark.parametrize("name", SCHEDULERS)
def test_honored_settings_are_known_names(name):
    honours = describe(name).honours
    assert honours
    assert set(honours) <= {*CHANGES, *OTHERS}
    assert len(set(honours)) == len(honours)


def _with_loads(problem, change):
    return problem.with_load(
        LoadProfile({t.id: change(load) for t, load in zip(problem.topologies, problem.loads, strict=True)})
    )


def _with_nodes(problem, change):
    return replace(problem, supervisors=tuple(change(n, node) for n, node in enumerate(problem.supervisors)))


def _with_conf(problem, change):
    topologies = [replace(t, conf=change(index, t.conf)) for index, t in enumerate(problem.topologies)]
    return replace(problem, topologies=tuple(topologies))
