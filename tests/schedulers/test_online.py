"""The online scheduler: known optima, published-style baselines, what runs, and what cannot be placed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.model import UNPLACED, Problem, TopologyAssignment, WorkerSlot, cost_of, violations
from stormwright.model.problem import CHECKED
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.online import OnlineScheduler
from stormwright.testing import oracles
from tests.case_files import case_files, case_name, case_problem, read_case, small_cases
from tests.schedulers.builders import load, nodes, problem, running, topology
from tests.schedulers.search_problems import least, tiny


def schedule(of: Problem, **settings):
    return make_scheduler("online", settings).schedule(of)


@pytest.mark.parametrize("path", case_files("placement"), ids=case_name)
def test_valid_and_no_worse_than_the_aniello_baseline(path):
    placed = case_problem(path)
    answer = schedule(placed)
    assert violations(placed, answer.slot_of_executor) == []
    baseline = read_case(path)["reference"]["baselines"]["aniello"]["cost"]
    assert cost_of(placed, answer.slot_of_executor).total <= 1.02 * baseline


@pytest.mark.parametrize("path", small_cases(), ids=case_name)
def test_cost_and_validity_of_the_answer_by_the_oracle(path):
    placed = case_problem(path)
    slots = schedule(placed).slot_of_executor.tolist()
    assert oracles.is_valid(placed, slots)
    assert oracles.cost(placed, slots) >= read_case(path)["reference"]["lower_bound"] * (1 - 1e-9)


@pytest.mark.slow
def test_tiny_problems_against_the_optimum():
    """Places whatever can be placed, never claims less than the optimum, and is near it on the whole."""
    ratios = []
    for seed in range(40):
        of = tiny(seed, cpu_ghz=(1.0, 3.0))
        optimum = least(of, oracles.cost)
        answer = schedule(of)
        if optimum is None:
            assert answer.unplaced
            continue
        assert not answer.unplaced
        cost = oracles.cost(of, answer.slot_of_executor.tolist())
        assert cost >= optimum * (1 - 1e-9)
        ratios.append((cost + 1) / (optimum + 1))
    assert len(ratios) >= 20
    assert np.median(ratios) <= 1.3


def test_heaviest_pairs_share_a_worker_and_then_a_node():
    pairs = [(0, 1, 100), (2, 3, 90), (4, 5, 80), (1, 2, 50), (3, 4, 1)]
    of = problem(nodes(0.45, 0.45), (topology("t", 6, 3), load(6, pairs)))
    slots = schedule(of, alpha=0).slot_of_executor
    assert slots[0] == slots[1]
    assert slots[2] == slots[3]
    assert slots[4] == slots[5]
    node = of.slot_node[slots]
    assert node[0] == node[2] != node[4]


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 9])
def test_exactly_as_many_workers_as_wanted_or_executors(workers):
    """Even where all traffic pulls into one worker, and without any traffic."""
    for pairs in ([(0, i, 100) for i in range(1, 5)], []):
        of = problem(nodes(4, 4, 4), (topology("t", 5, workers), load(5, pairs)))
        assert len(set(schedule(of, gamma=9).slot_of_executor.tolist())) == min(workers, 5)


def test_alpha_zero_evens_out_the_number_of_executors():
    of = problem(nodes(4, 4), (topology("t", 8, 2), load(8, [(0, i, 10) for i in range(1, 8)])))
    sizes = np.unique(schedule(of, alpha=0, gamma=9).slot_of_executor, return_counts=True)[1]
    assert sizes.tolist() == [4, 4]
    sizes = np.unique(schedule(of, alpha=1, gamma=9).slot_of_executor, return_counts=True)[1]
    assert sorted(sizes.tolist()) == [1, 7]


def test_gamma_bounds_the_load_of_a_worker():
    of = problem(nodes(4, 4), (topology("t", 8, 2), load(8, [(0, i, 10) for i in range(1, 8)])))
    sizes = np.unique(schedule(of, gamma=1.25).slot_of_executor, return_counts=True)[1]
    assert max(sizes) == 5


def test_beta_bounds_the_nodes_of_a_topology():
    quiet = problem(nodes(4, 4, 4, 4), (topology("t", 4, 4), load(4)))
    used = {beta: len(np.unique(quiet.slot_node[schedule(quiet, beta=beta).slot_of_executor])) for beta in (0, 0.5, 1)}
    assert used == {0: 1, 0.5: 3, 1: 4}


def nodes_used(of: Problem, slots: np.ndarray) -> int:
    """By all topologies, each node once for each."""
    return len(set(zip(of.executor_topology.tolist(), of.slot_node[slots].tolist(), strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("path", case_files("placement"), ids=case_name)
def test_less_beta_never_takes_more_nodes(path):
    of = case_problem(path)
    used = [nodes_used(of, schedule(of, beta=beta).slot_of_executor) for beta in (0, 0.5, 1)]
    assert used == sorted(used)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, 50))
def test_lower_beta_never_uses_more_nodes(first):
    """Topologies that fill up to a half of the slots, and up to all CPU, of clusters of unequal nodes."""
    looked = 0
    for seed in range(first, first + 50):
        of = random_problem(seed)
        answers = [schedule(of, beta=beta) for beta in (0, 0.5, 1)]
        assert len({len(answer.unplaced) for answer in answers}) == 1
        if not answers[0].unplaced:
            used = [nodes_used(of, answer.slot_of_executor) for answer in answers]
            assert used == sorted(used)
            looked += 1
    assert looked >= 30


def random_problem(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    supervisors = nodes(*rng.uniform(1, 6, rng.integers(2, 9)), ports=int(rng.integers(2, 6)))
    if seed % 3 == 0:
        supervisors = tuple(replace(node, rack=f"r{n % 2}") for n, node in enumerate(supervisors))
    placed = []
    for number in range(rng.integers(1, 4)):
        count, wanted = int(rng.integers(2, 20)), int(rng.integers(1, 8))
        both = [(i, j) for i in range(count) for j in range(count) if i != j and rng.random() < 0.25]
        pairs = [(i, j, int(rng.integers(1, 100))) for i, j in both]
        measured = load(count, pairs, cpu_ghz=rng.uniform(0.02, 0.6, count))
        placed.append((topology(f"t{number}", count, wanted), measured))
    return problem(supervisors, *placed)


def test_beta_zero_takes_as_few_nodes_as_have_the_cpu():
    """Slots of one node would do; its CPU takes two of four workers of 1.6 GHz."""
    pairs = [(i, j, 10) for i in range(8) for j in range(i)]
    of = problem(nodes(4, 4, 4, 4), (topology("t", 8, 4), load(8, pairs, cpu_ghz=0.8)))
    used = {beta: nodes_used(of, schedule(of, beta=beta, gamma=1).slot_of_executor) for beta in (0, 1)}
    assert used == {0: 2, 1: 2}


def test_topology_settings_override_scheduler_parameters():
    own = {"stormwright.beta": 0, "stormwright.alpha": 0.0}
    pairs = [(0, i, 10) for i in range(1, 8)]
    configured, other = (topology("told", 8, 4, **own), load(8, pairs)), (topology("other", 8, 4), load(8, pairs))
    of = problem(nodes(4, 4, 4, 4), configured, other)
    slots = schedule(of, gamma=9).slot_of_executor
    assert np.unique(slots[:8], return_counts=True)[1].tolist() == [2, 2, 2, 2]
    assert sorted(np.unique(slots[8:], return_counts=True)[1].tolist()) == [1, 1, 1, 5]
    assert len(set(of.slot_node[slots[:8]].tolist())) == 1


def test_a_topology_s_own_gamma_and_delta():
    star = [(0, i, 10) for i in range(1, 8)]
    of = problem(nodes(4, 4), (topology("t", 8, 2, **{"stormwright.gamma": 1.25}), load(8, star)))
    assert max(np.unique(schedule(of, gamma=9).slot_of_executor, return_counts=True)[1]) == 5
    chain = [(i, i + 1, 10) for i in range(7)]
    for delta, most in ((0, 2), (0.5, 3), (1, 4)):
        of = problem(nodes(4, 4, 4, 4), (topology("t", 8, 8, **{"stormwright.delta": delta}), load(8, chain)))
        assert max(np.bincount(of.slot_node[schedule(of).slot_of_executor])) == most


def test_with_the_authors_variant_go_their_defaults():
    params = make_scheduler("online", {"variant": "authors", "delta": 0.5}).params
    assert (params.alpha, params.beta, params.delta) == (0.0, 1.0, 0.5)
    assert params.gamma >= 1e9
    assert make_scheduler("online").params.alpha == 1.0


@pytest.mark.parametrize(("beta", "least"), [(0, 1), (0.5, 3), (1, 4)])
def test_the_authors_beta_is_the_least_number_of_nodes(beta, least):
    """All workers exchange much, so that one node would be best; of delta 1 no bound is left but W - u + 1."""
    chain = [(i, i + 1, 10) for i in range(3)]
    of = problem(nodes(4, 4, 4, 4), (topology("t", 4, 4), load(4, chain)))
    slots = schedule(of, variant="authors", beta=beta, delta=1).slot_of_executor
    assert nodes_used(of, slots) == least
    # The ends of a chain are the cheapest to cut off: 10 tuples/s for each further node.
    assert cost_of(of, slots).inter_node == 10 * (least - 1)


@pytest.mark.parametrize(
    ("beta", "delta", "most", "least"), [(0, 0, 4, 3), (0, 0.5, 7, 3), (0, 1, 10, 3), (1, 0, 3, 5)]
)
def test_the_authors_delta_bounds_the_workers_on_a_node(beta, delta, most, least):
    """W = 12, N = 5: u = 3 or 5; from ⌈12/u⌉ to 12 - u + 1. The heaviest pairs pull all onto one node."""
    star = [(0, i, 100 - i) for i in range(1, 12)]
    of = problem(nodes(9, 9, 9, 9, 9, ports=12), (topology("t", 12, 12), load(12, star)))
    slots = schedule(of, variant="authors", beta=beta, delta=delta).slot_of_executor
    on_node = np.bincount(of.slot_node[slots])
    assert max(on_node) == most
    assert nodes_used(of, slots) >= least


def test_topology_rejected_by_the_authors_bounds_is_still_placed():
    """Two nodes, one with a single slot: by delta 0 each would take two of four workers."""
    few, many = nodes(9, 9)
    of = problem((replace(few, ports=few.ports[:1]), many), (topology("t", 4, 4), load(4, [(0, 1, 5)])))
    answer = schedule(of, variant="authors")
    assert not answer.unplaced
    assert violations(of, answer.slot_of_executor) == []


def test_delta_evens_out_the_slots_of_nodes():
    chain = [(i, i + 1, 10) for i in range(7)]
    of = problem(nodes(4, 4, 4, 4), (topology("t", 8, 8), load(8, chain)))
    for delta, most in ((0, 2), (0.5, 3), (1, 4)):
        slots = schedule(of, delta=delta).slot_of_executor
        assert max(np.bincount(of.slot_node[slots])) == most


def test_capacity_reserves_a_share_of_each_node():
    of = problem(nodes(1, 1), (topology("t", 8, 2), load(8, [(0, 1, 10)])))
    assert not schedule(of, capacity=80).unplaced
    reasons = schedule(of, capacity=30).unplaced[0].reasons
    assert reasons == ("CPU short by 0.2 GHz on 2 usable nodes together",)


def test_traffic_between_racks_counts_twice():
    """Two workers that do not fit on one node go to two nodes of one rack."""
    supervisors = tuple(replace(node, rack=f"r{n % 2}") for n, node in enumerate(nodes(1, 1, 1, 1)))
    of = problem(supervisors, (topology("t", 2, 2), load(2, [(0, 1, 5)], cpu_ghz=0.9)))
    first, second = of.slot_node[schedule(of).slot_of_executor]
    assert first != second
    assert of.node_rack[first] == of.node_rack[second]


def test_topologies_of_equal_load_do_not_pile_up():
    placed = [(topology(f"t{k}", 4, 2), load(4, [(0, 1, 9), (2, 3, 9)], cpu_ghz=0.2)) for k in range(3)]
    of = problem(nodes(1, 1, 1), *placed)
    assert violations(of, schedule(of).slot_of_executor) == []


TWO_BY_TWO = [(0, 1, 100), (2, 3, 100)]


def test_equally_good_placement_stays():
    of = problem(nodes(1, 1, 1), (topology("t", 4, 2), load(4, TWO_BY_TWO)))
    for slots in ([9, 9, 8, 8], [5, 5, 4, 4], [0, 0, 1, 1]):
        assert schedule(running(of, slots)).slot_of_executor.tolist() == slots


def test_worse_placement_is_left():
    of = problem(nodes(1, 1), (topology("t", 4, 2), load(4, TWO_BY_TWO)))
    after = schedule(running(of, [0, 4, 0, 4])).slot_of_executor
    assert cost_of(of, after).inter_node == 0


def test_only_the_topology_with_a_gain_moves():
    placed = [(topology(name, 4, 2), load(4, TWO_BY_TWO)) for name in ("good", "bad")]
    of = running(problem(nodes(2, 2, 2), *placed), [1, 1, 0, 0, 4, 8, 4, 8])
    after = schedule(of).slot_of_executor
    assert after[:4].tolist() == [1, 1, 0, 0]
    assert cost_of(of, after).inter_node == 0


def test_lost_worker_is_replaced_and_nothing_else_touched():
    of = problem(nodes(1, 1), (topology("t", 6, 3), load(6, [(0, 1, 9), (2, 3, 9), (4, 5, 9)])))
    after = schedule(running(of, [0, 0, 5, 5, UNPLACED, UNPLACED]), keep_running=True).slot_of_executor
    assert after[:4].tolist() == [0, 0, 5, 5]
    assert after[4] == after[5] not in (UNPLACED, 0, 5)


def test_new_topology_leaves_well_placed_topology_unchanged():
    old, new = topology("old", 4, 2), topology("new", 4, 2)
    of = problem(nodes(1, 1, 1), (old, load(4, TWO_BY_TWO)), (new, load(4, TWO_BY_TWO)))
    current = {"old": TopologyAssignment((WorkerSlot("s1", 6701), WorkerSlot("s1", 6703)), (0, 0, 1, 1))}
    after = schedule(of.with_current(current)).slot_of_executor
    assert after[:4].tolist() == [5, 5, 7, 7]
    assert violations(of, after) == []


def test_overloaded_node_is_relieved():
    of = problem(nodes(1, 1), (topology("t", 4, 2), load(4, TWO_BY_TWO, cpu_ghz=0.4)))
    after = schedule(running(of, [0, 0, 1, 1])).slot_of_executor
    assert violations(of, after) == []


def test_running_placement_stays_if_every_placement_is_invalid():
    """Better overloaded than not running."""
    of = problem(nodes(1, 1), (topology("t", 4, 2), load(4, TWO_BY_TWO, cpu_ghz=0.9)))
    answer = schedule(running(of, [0, 0, 4, 4]))
    assert answer.slot_of_executor.tolist() == [0, 0, 4, 4]
    assert not answer.unplaced


def test_running_workers_move_to_make_room_for_a_new_topology():
    """Both nodes are half full, the new one needs a whole one."""
    old = [(topology(f"o{k}", 1, 1), load(1, cpu_ghz=0.5)) for k in range(2)]
    new = (topology("new", 1, 1), load(1, cpu_ghz=0.9))
    of = problem(nodes(1, 1), *old, new)
    current = {
        "o0": TopologyAssignment((WorkerSlot("s0", 6700),), (0,)),
        "o1": TopologyAssignment((WorkerSlot("s1", 6700),), (0,)),
    }
    of = of.with_current(current)
    assert not schedule(of).unplaced
    stays = schedule(of, keep_running=True)
    assert stays.slot_of_executor.tolist() == [0, 4, UNPLACED]
    assert stays.unplaced[0].reasons == ("2 of 2 nodes: CPU short by at least 0.4 GHz",)


def reasons(of: Problem) -> tuple[str, ...]:
    return schedule(of).unplaced[0].reasons


def test_too_few_slots():
    of = problem(nodes(1, ports=2), (topology("t", 4, 3), load(4)))
    assert reasons(of) == ("3 worker slots wanted, 2 free on 1 usable node together",)


def test_blacklisted_and_greylisted_nodes_are_counted():
    of = problem(nodes(1, 1, 1, ports=1), (topology("t", 4, 3), load(4)))
    of = replace(of, blacklisted_hosts=frozenset({"h0"}), greylisted_supervisors=("s1",))
    assert reasons(of) == (
        "3 worker slots wanted, 1 free on 1 usable node together",
        "1 of 3 nodes: blacklisted",
        "1 of 3 nodes: greylisted",
    )


def test_greylisted_node_is_the_last_resort():
    of = problem(nodes(1, 1, ports=2), (topology("t", 4, 2), load(4)))
    grey = replace(of, greylisted_supervisors=("s0",))
    assert set(of.slot_node[schedule(grey).slot_of_executor]) == {1}
    wide = problem(nodes(1, 1, ports=2), (topology("t", 4, 4), load(4)))
    assert not schedule(replace(wide, greylisted_supervisors=("s0",))).unplaced


def test_memory_is_hard():
    """CPU in plenty; three executors of 100 MB on two nodes leave one with 200 MB."""
    roomy, tight = (
        problem(nodes(9, 9, memory_mb=memory_mb), (topology("t", 3, 2), load(3))) for memory_mb in (200.0, 150.0)
    )
    assert violations(roomy, schedule(roomy).slot_of_executor) == []
    why = "a worker has at least 2 of 3 executors: memory short by at least 50 MB on the largest usable node"
    assert reasons(tight) == (why,)


def test_executor_larger_than_any_node():
    of = problem(nodes(1, 1), (topology("t", 2, 2), load(2, cpu_ghz=np.array([1.5, 0.1]))))
    assert reasons(of) == ("one executor asks for 1.5 GHz of CPU, the largest usable node has 1.0 GHz",)


def test_own_limit_on_executors_per_worker():
    of = problem(nodes(9), (topology("t", 5, 2, **{MAX_EXECUTORS_PER_WORKER: 2}), load(5)))
    assert reasons(of) == ("2 workers of at most 2 executors cannot take 5",)


def test_workers_that_fit_only_in_sum_are_unplaced_with_a_reason():
    """Three workers of 0.6 for two nodes of 1: enough in sum, not for any two on one node."""
    of = problem(nodes(1, 1), (topology("t", 3, 3), load(3, cpu_ghz=0.6)))
    assert reasons(of) == ("2 of 2 nodes: room for its largest worker, but not for all 3 together",)


def test_the_next_topology_is_placed_nevertheless():
    of = problem(nodes(1, 1), (topology("big", 4, 2), load(4, cpu_ghz=0.9)), (topology("small", 2, 1), load(2)))
    answer = schedule(of)
    assert {executor.topology for executor in answer.unplaced} == {"big"}
    assert answer.status["big"].startswith("online: CPU short by")
    assert np.all(answer.slot_of_executor[4:] != UNPLACED)


def test_empty_cluster_and_empty_problem():
    assert schedule(Problem((), ())).slot_of_executor.tolist() == []
    assert (
        reasons(problem((), (topology("t", 2, 2), load(2))))[0]
        == "2 worker slots wanted, 0 free on 0 usable nodes together"
    )
    none = problem(nodes(1), (topology("none", 0, 2), load(0)), parts=CHECKED)
    assert OnlineScheduler().schedule(none).unplaced == ()
