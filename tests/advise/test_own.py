"""Our own advice: never above what is allowed, and as little as an exhaustive search finds."""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stormwright_lab.evaluations.exhaustive_search import exhaustive_minimum

from stormwright.advise.search.advise import advised
from stormwright.advise.search.cheapest import CheapestSearch
from stormwright.advise.search.goals import AdviceGoals
from stormwright.advise.search.kinds import NodeKind, NodeMix, kinds_of, mixes
from stormwright.advise.search.trials import MixTrials
from stormwright.errors import InputError
from stormwright.formats.sketch import sketch
from stormwright.model import Assignment, Problem, TopologyAssignment
from stormwright.model.requests import CPU
from stormwright.schedulers import make_scheduler
from stormwright.testing.word_counts import WordCount, two_word_counts
from stormwright.workbench.ready_problems import read_problem
from tests.examples import examples


def chain(per_tuple_ms: dict[str, float], tasks: int = 6, rate_tps: float = 100.0, cores: float = 2.0) -> Problem:
    """A running chain whose components take so long for a tuple, each with an executor a task."""
    steps = " -> ".join(f"{name} {tasks}{' fields' if name.startswith('by') else ''}" for name in per_tuple_ms)
    made = sketch({"chain": steps}, nodes=4, cores=cores, rate_tps=rate_tps / tasks, memory_mb=65_536.0)
    topology, load = made.topologies[0], made.loads[0]
    each_ms = np.array([per_tuple_ms[component.id] for component in topology.components])
    cpu_hz = (each_ms * 1e-3 * rate_tps / tasks * made.core_hz)[topology.executor_component]
    assert made.load is not None
    made = made.with_load(replace(made.load, topologies={topology.id: replace(load, cpu_hz=cpu_hz)}))
    # In one worker, so that nothing of the CPU was for messages.
    return made.with_current(_on_one_slot(made))


def _on_one_slot(problem: Problem) -> dict[str, TopologyAssignment]:
    return {one.id: TopologyAssignment(problem.slots[:1], (0,) * one.num_executors) for one in problem.topologies}


def test_executor_count_is_work_divided_by_capacity_of_one_executor():
    """2 ms × 300/s = 0.6 cores is one executor at 80 %; 5 ms × 300/s = 1.5 cores are two; 3 ms = 0.9 cores, two."""
    advice = advised(chain({"in": 2.0, "work": 5.0, "out": 3.0}, cores=8.0), AdviceGoals(rates={"": 300.0}))
    assert {each.component: each.executors for each in advice.components} == {"in": 1, "work": 2, "out": 2}
    assert advice.mix == "1 × like node-1"
    assert any("work: 1 executor would be 150% busy at 300 tuples/s each" in step for step in advice.steps)


def end_of(steps: tuple[str, ...]) -> tuple[str, dict[str, int]]:
    """Nodes and executors to which steps lead, for one who reads them one after the other."""
    mix, counts = "", dict[str, int]()
    for step in steps:
        if found := re.match(r"chain: 1 executor is enough for (.*)", step):
            counts |= dict.fromkeys(found[1].split(" and for "), 1)
        elif found := re.match(r"chain/(\w+): .* so (\d+) at least", step):
            counts[found[1]] = int(found[2])
        elif step.endswith(": enough") or "these alone are used" in step:
            mix = step.partition(":")[0]
        elif found := re.search(r"(, so |; with |: (?=\d+ of \S+ are enough))(.*)", step):
            counts |= {name: int(number) for number, name in re.findall(r"(\d+) of chain/(\w+)", found[2])}
    return mix, counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cores", "goals"),
    [
        pytest.param(8.0, AdviceGoals(rates={"": 300.0}), id="one node of four"),
        pytest.param(1.0, AdviceGoals(rates={"": 300.0}), id="nodes that are too small"),
        pytest.param(
            8.0, AdviceGoals(rates={"": 150.0}, headroom=0.05, p95_ms=25.0), id="latency", marks=pytest.mark.slow
        ),
    ],
)
def test_advice_steps_lead_from_current_state_to_advised_state(cores, goals):
    advice = advised(chain({"in": 2.0, "work": 5.0, "out": 3.0}, cores=cores), goals, alternatives=False)
    assert advice.steps[0] == "now: 4 nodes, 1 of them in use, with 18 executors"
    assert end_of(advice.steps) == (advice.mix, {each.component: each.executors for each in advice.components})
    if cores == 1.0:
        assert "1 × like node-1: 0.77 such cores for executors, which are too few" in advice.steps


def test_fields_grouped_executors_are_sized_by_their_task_count():
    """1.5 cores on 4 tasks: of three executors one has two tasks, 0.75 cores; of two, too. So two are enough."""
    trials = MixTrials(
        chain({"in": 0.1, "by": 5.0}, tasks=4), AdviceGoals(rates={"": 300.0}), kinds_of(chain({"in": 0.1}))
    )
    size = trials.sizes[0, trials.base.topologies[0].component_index["by"]]
    assert [round(size.busiest(count), 3) for count in (1, 2, 3, 4)] == [1.5, 0.75, 0.75, 0.375]
    assert size.least(0.8) == 2
    assert size.more(2) == 4


def test_executor_capacity_is_limited_to_node_cpu_left_beside_the_worker():
    """1.5 cores on nodes of a quarter, 80 % of that less 0.031 for the worker: at 0.169 each that is 9 executors."""
    problem = chain({"in": 0.1, "work": 5.0}, tasks=36, cores=0.25)
    search = CheapestSearch(MixTrials(problem, AdviceGoals({"": 300.0}), kinds_of(problem)))
    cores = 0.8 * 0.25 - search.trials.known[0].worker_cores
    work = (0, problem.topologies[0].component_index["work"])
    assert search.least()[work] == ceil(1.5 / cores) == 9
    assert "chain/work: 8 executors would take 0.19 cores, of which a node has 0.17 for them, at" in search.steps[0]
    held = MixTrials(problem, search.trials.goals, kinds_of(problem), {work: 1.0})
    assert CheapestSearch(held).least()[work] == ceil(3.0 / 0.8), "what waits takes time of a thread, and no CPU"
    tiny = tuple(replace(kind, node=replace(kind.node, resources={CPU: 3.0})) for kind in kinds_of(problem))
    with pytest.raises(InputError, match="no kind of node has CPU for executors besides the"):
        CheapestSearch(MixTrials(problem, search.trials.goals, tiny)).least()


class Fluid:
    """What stands for an evaluated placement: work and messages are spread evenly, by formulas that can be checked."""

    def __init__(self, counts, mix, cores, least_each):
        self.counts, self.mix, self.used = counts, mix, mix
        self.total_use = cores / sum(k.cores * n for k, n in zip(mix.kinds, mix.counts, strict=True))
        self.component_use = {key: least_each[key] / count for key, count in counts.items()}
        self.complete = True

    @property
    def cpu_hz(self):
        return self.total_use * self.mix.cpu_hz

    def too_full(self, _, allowed):
        return [key for key, use in self.component_use.items() if use > allowed]

    def node_fault(self, allowed):
        return "the CPU of a node would be too full" if self.total_use > allowed else ""

    def fullest(self, _):
        return max(self.total_use, *self.component_use.values())


def fluid(monkeypatch, cores, each):
    """Result of a number of cores, and of numbers for threads of each component, on any nodes; mixes tried."""
    tried: list[int] = []

    def evaluated(_, counts, mix, **__):
        tried.append(mix.size)
        return Fluid(dict(counts), mix, cores, each)

    monkeypatch.setattr(MixTrials, "evaluated", evaluated)
    monkeypatch.setattr(MixTrials, "counts", lambda _, one: one.counts)
    monkeypatch.setattr(
        MixTrials,
        "has_headroom",
        lambda self, one: not (one.too_full(set(), self.allowed) or one.node_fault(self.allowed)),
    )
    return tried


@pytest.mark.parametrize("times", [1, 4])
def test_many_nodes_more_than_the_work_alone_takes_are_found(monkeypatch, times):
    """With messages it takes 400 cores, which are 500 nodes at 80 %; the work alone is enough for some hundred."""
    monkeypatch.setattr("stormwright.advise.search.cheapest._MAX_LOOKED_AT", 2_000)
    problem = chain({"in": 5.0, "work": 5.0}, tasks=400, cores=1.0)
    kinds = tuple(replace(kinds_of(problem)[0], name=f"k{n}", price=1.0 + 0.5 * n) for n in range(times))
    trials = MixTrials(problem, AdviceGoals({"": 8_000.0}), kinds)
    tried = fluid(monkeypatch, 400.0, dict.fromkeys(trials.sizes, 10.0))
    assert CheapestSearch(trials).best().mix.counts == (500, *[0] * (times - 1))
    assert len(set(tried)) < 60


def test_many_executors_more_than_their_work_alone_takes_are_found(monkeypatch):
    """Serialising makes of 80 cores 104, which are 130 executors at 80 %: an eighth more at once, and back by ones."""
    problem = chain({"in": 0.1, "work": 5.0}, tasks=400, cores=200.0)
    trials = MixTrials(problem, AdviceGoals({"": 16_000.0}), kinds_of(problem))
    work = (0, problem.topologies[0].component_index["work"])
    fluid(monkeypatch, 104.0, {key: 104.0 if key == work else 0.1 for key in trials.sizes})
    search = CheapestSearch(trials)
    assert search.least()[work] == 100
    assert trials.counts(search.best())[work] == 130


def test_error_reports_only_tried_node_mixes_as_too_small(monkeypatch):
    problem = chain({"in": 5.0, "work": 5.0}, tasks=40, cores=1.0)
    trials = MixTrials(problem, AdviceGoals({"": 800.0}), kinds_of(problem))
    fluid(monkeypatch, 8.0, dict.fromkeys(trials.sizes, 4.0))
    monkeypatch.setattr(Fluid, "node_fault", lambda *_: "a link would be 100% full")
    with pytest.raises(InputError, match="60 mixes of nodes were tried, and none was enough; the last one was "):
        CheapestSearch(trials).best()


def test_error_for_too_few_tasks_includes_their_maximum_rate():
    with pytest.raises(InputError, match=r"chain/work: its 6 tasks are too few: .* enough for 960 trees/s"):
        advised(chain({"in": 0.1, "work": 5.0}), AdviceGoals(rates={"": 5_000.0}))


def test_quotas_are_respected_or_reported_too_small():
    problem = chain({"in": 2.0, "work": 5.0})
    with pytest.raises(InputError, match="chain: needs 3 executors at least, and --max-executors allows 2"):
        advised(problem, AdviceGoals(rates={"": 300.0}, max_executors=2))
    with pytest.raises(InputError, match="no allowed number of nodes is sufficient"):
        advised(problem, AdviceGoals(rates={"": 800.0}, max_nodes=1))


@pytest.mark.slow
def test_the_cheaper_of_two_kinds_is_taken():
    def kind(name: str, cores: float, price: float) -> NodeKind:
        node = replace(problem.supervisors[0], id=name, host=name, cpu_hz=cores * 3e9)
        return NodeKind(name, replace(node, resources={CPU: 100 * cores, "memory.mb": 65_536.0}), price)

    problem = chain({"in": 2.0, "work": 5.0})
    kinds = (kind("small", 1.5, 1.0), kind("large", 8.0, 3.5))
    assert advised(problem, AdviceGoals(rates={"": 300.0}), kinds).mix == "2 × small"
    dear = (kind("small", 1.5, 2.0), kinds[1])
    assert advised(problem, AdviceGoals(rates={"": 300.0}), dear).mix == "1 × large"


def test_blocking_bolt_gets_threads_for_its_wait_time_as_well_as_its_cpu():
    problem = chain({"in": 0.1, "work": 1.0})
    work = problem.topologies[0].component_index["work"]
    of_cpu = advised(problem, AdviceGoals(rates={"": 300.0}))
    waiting = advised(
        problem, AdviceGoals(rates={"": 300.0}), held_cores={(0, work): 1.2}
    )  # at the 100 trees/s measured
    counts = [{each.component: each.executors for each in advice.components}["work"] for advice in (of_cpu, waiting)]
    assert counts == [1, 5]


@pytest.mark.slow
def test_latency_goal_adds_executors_or_is_reported_unreachable():
    problem = chain({"in": 1.0, "work": 5.0}, cores=8.0)
    plain = advised(problem, AdviceGoals(rates={"": 150.0}, headroom=0.05))
    quick = advised(problem, AdviceGoals(rates={"": 150.0}, headroom=0.05, p95_ms=0.6 * plain.topologies[0].p95_ms))
    assert quick.topologies[0].p95_ms <= 0.6 * plain.topologies[0].p95_ms
    assert sum(each.executors for each in quick.components) > sum(each.executors for each in plain.components)
    with pytest.raises(InputError, match=r"the 95th percentile would be .* above the requested 0\.01 ms"):
        advised(problem, AdviceGoals(rates={"": 150.0}, p95_ms=0.01))


@pytest.mark.slow
def test_alternatives_cost_at_most_one_node_more_than_a_search_with_their_headroom():
    problem = chain({"in": 2.0, "work": 5.0, "out": 3.0}, cores=1.0)
    goals = AdviceGoals(rates={"": 300.0})
    alternatives = advised(problem, goals).alternatives
    assert len(alternatives) >= 3
    for each in alternatives:
        searched = advised(problem, replace(goals, headroom=each.headroom - 1e-6), alternatives=False)
        assert searched.price <= each.price <= searched.price + 1.0


def test_other_topology_keeps_its_executors_and_uses_its_share_of_nodes():
    problem = two_word_counts(rate_tps=20_000.0, cores=2.0)
    problem = problem.with_current(make_scheduler("even").schedule(problem).by_topology(problem))
    advice = advised(problem, AdviceGoals(rates={"one": 20_000.0}), alternatives=False)
    assert {each.topology for each in advice.components} == {"one"}
    assert advice.problem.topologies[1].num_executors == 12


@pytest.mark.parametrize("counts", [(0,), (3,), (3, 2)])
def test_node_mixes_are_ordered_by_price_without_duplicates(counts):
    node = WordCount().problem().supervisors[0]
    kinds = tuple(NodeKind(f"k{number}", node, 1.0 + 0.7 * number) for number in range(len(counts)))
    found = list(mixes(kinds, 4))
    assert [mix.price for mix in found] == sorted(mix.price for mix in found)
    numbers = [mix.counts for mix in found]
    assert len(set(numbers)) == len(numbers)
    every = np.ndindex(*(5,) * len(counts))
    assert set(numbers) == {each for each in every if 1 <= sum(each) <= 4}


def test_beyond_the_mix_limit_only_single_kind_mixes_are_generated():
    node = WordCount().problem().supervisors[0]
    kinds = tuple(NodeKind(f"k{n}", node, 1.0 + n, most=None if n else 3) for n in range(3))
    found = list(mixes(kinds, 6, 10))
    assert found[:10] == list(mixes(kinds, 6))[:10]
    last = found[9].price
    assert [mix.counts for mix in found[10:]] == [
        mix.counts for mix in mixes(kinds, 6) if mix.price > last and sorted(mix.counts)[:2] == [0, 0]
    ]


@pytest.mark.long
def test_many_topologies_get_the_same_advice_with_fewer_searches(monkeypatch):
    """Of 13 topologies each was to have a worker a node, for which no four nodes have slots: five were searched, in
    vain, before the same two nodes came out, with an executor of each component and 20.1 % free.
    """
    placed, searches = MixTrials._placed, []  # noqa: SLF001
    monkeypatch.setattr(MixTrials, "_placed", lambda *given: searches.append(1) or placed(*given))
    advice = advised(read_problem(Path("ready:cluster-20")), AdviceGoals(), alternatives=False)
    assert (advice.mix, advice.price, len(advice.components)) == ("2 × like node-0001.example", 8.0, 52)
    assert {each.executors for each in advice.components} == {1}
    assert advice.headroom > 0.2
    assert len(searches) <= 2
    assert not any("finds a slot" in step for step in advice.steps)


@pytest.mark.long
def test_nothing_is_tried_with_fewer_executors_than_could_do(monkeypatch):
    problem = chain({"in": 2.0, "work": 5.0, "out": 3.0}, cores=1.0)
    trials = MixTrials(problem, AdviceGoals(rates={"": 300.0}), kinds_of(problem))
    least, evaluated, tried = CheapestSearch(trials).least(), MixTrials.evaluated, []
    monkeypatch.setattr(
        MixTrials,
        "evaluated",
        lambda self, counts, *rest, **how: tried.append(counts) or evaluated(self, counts, *rest, **how),
    )
    CheapestSearch(trials).best()
    assert tried
    assert all(counts[key] >= least[key] for counts in tried for key in least)


def test_a_mix_is_given_up_where_smaller_executors_leave_the_fullest_node_as_full(monkeypatch):
    """As where a topology is on one node, since all that it sends would cost more between two."""
    problem = chain({"in": 2.0, "work": 5.0, "out": 3.0}, tasks=60, cores=3.0)
    trials = MixTrials(problem, AdviceGoals(rates={"": 270.0}), kinds_of(problem))
    tried = []

    def on_one_node(self, counts, mix, *, thoroughly=False):
        tried.append(counts)
        made = replace(self.made(counts)[0], supervisors=mix.supervisors)
        return self.evaluated_at(made, mix, Assignment(np.zeros(made.num_executors, np.int32)), counts)

    monkeypatch.setattr(MixTrials, "evaluated", on_one_node)
    search = CheapestSearch(trials)
    why = search._enough(search.least(), NodeMix(trials.kinds, (2,)), [])  # noqa: SLF001
    assert why.startswith("the CPU of node-1 would be 9")
    assert why.endswith("% full, and smaller executors do not help")
    assert len(tried) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("rate_tps", [150.0, 260.0, 400.0, pytest.param(450.0, marks=pytest.mark.slow)])
def test_search_finds_the_same_advice_as_brute_force(rate_tps):
    problem = chain({"in": 0.5, "work": 4.0, "by": 2.0}, tasks=4, cores=1.0)
    trials = MixTrials(problem, AdviceGoals(rates={"": rate_tps}), kinds_of(problem))
    found, known = CheapestSearch(trials).best(), exhaustive_minimum(trials, 4, more=6)
    assert known is not None
    assert found.mix.size == known[0].mix.size
    assert trials.counts(found) in known[1]


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None)
@given(
    each_ms=st.tuples(*[st.floats(0.05, 6.0)] * 3),
    rate_tps=st.floats(10, 500),
    more=st.floats(1.05, 3.0),
    quota=st.integers(1, 12),
)
def test_limits_hold_and_more_trees_never_take_less(each_ms, rate_tps, more, quota):
    problem = chain(dict(zip(("in", "work", "by"), each_ms, strict=True)), tasks=5, cores=2.0)
    goals = AdviceGoals(rates={"": rate_tps}, max_nodes=4, max_executors=quota)
    found = []
    for rate in (rate_tps, rate_tps * more):
        trials = MixTrials(problem, replace(goals, rates={"": rate}), kinds_of(problem))
        try:
            least, best = CheapestSearch(trials).least(), CheapestSearch(trials).best()
        except InputError:
            found.append(None)
            continue
        counts = trials.counts(best)
        assert all(1 <= count <= trials.sizes[key].tasks for key, count in counts.items())
        assert sum(counts.values()) <= quota
        assert len(best.used_nodes()) <= 4
        assert trials.has_headroom(best)
        assert best.highest_tps(0) >= rate / trials.allowed * (1 - 1e-6)
        found.append((least, counts, best.mix.price))
    if found[0] is None:
        assert found[1] is None, "what is enough for more is enough for less"
    elif found[1] is not None:
        (least, _, price), (least_more, _, price_more) = found
        assert all(least[key] <= least_more[key] for key in least)
        assert price <= price_more
