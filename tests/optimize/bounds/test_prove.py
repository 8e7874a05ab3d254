"""Bounds against every placement of small problems, and against the best that is known of large ones."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult
from threadpoolctl import threadpool_limits

from stormwright.formats.sketch import sketch
from stormwright.model import UNPLACED, CostWeights, Problem, cost_of, violations
from stormwright.model.humanize import proof_text
from stormwright.optimize.bounds.prove import bound_cost
from stormwright.optimize.bounds.relaxation.certificate import Certificate
from stormwright.optimize.bounds.relaxation.relaxed_bound import RelaxedBound
from stormwright.optimize.bounds.relaxation.semidefinite import best_certificate, certificates
from stormwright.optimize.bounds.relaxed import Relaxation
from stormwright.optimize.bounds.sets import combinations, exact
from stormwright.schedulers import make_scheduler
from stormwright.testing import oracles
from stormwright.testing.word_counts import two_word_counts
from tests.case_files import case_files, case_name, case_problem, read_case
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, topology
from tests.schedulers.search_problems import least, tiny

FOREVER = float("inf")
CASES = [path for path in case_files("placement") if case_name(path)[0] in "sml"]


@st.composite
def small_problems(draw):
    """One or two topologies of up to six executors in all, on two or three nodes in one or two racks."""
    sizes = draw(st.sampled_from([(3,), (4,), (5,), (2, 2), (3, 2), (2, 3)]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    placed = []
    for number, size in enumerate(sizes):
        workers = int(rng.integers(1, min(size, 3) + 1))
        most = int(rng.integers(-(-size // workers), size + 1))
        pairs = [(a, b, int(rng.integers(0, 100))) for a in range(size) for b in range(size) if a != b]
        placed.append(
            (
                topology(f"t{number}", size, workers, **{"stormwright.max.executors.per.worker": most}),
                load(size, pairs, cpu_ghz=rng.uniform(0.2, 1.0, size), memory_mb=rng.uniform(100, 900, size)),
            )
        )
    count = draw(st.integers(2, 3))
    supervisors = nodes(*rng.uniform(1.0, 4.0, count), ports=2, memory_mb=2048.0)
    racks = draw(st.integers(1, 2))
    ports = rng.integers(1, 3, count).tolist()
    supervisors = tuple(
        replace(node, rack=f"r{n % racks}", ports=node.ports[: ports[n]]) for n, node in enumerate(supervisors)
    )
    return problem(supervisors, *placed)


def best_slots(of):
    """A valid placement of least cost, by trying them all; None if none is valid."""
    every = itertools.product(range(len(of.slots)), repeat=of.num_executors)
    valid = (slots for slots in every if oracles.is_valid(of, slots))
    return min(valid, key=lambda slots: oracles.cost(of, slots), default=None)


@pytest.mark.slow
@settings(max_examples=examples(13), deadline=None)
@given(small_problems())
def test_no_placement_costs_less_than_a_bound(of):
    best = best_slots(of)
    assume(best is not None)
    slots = np.array(best, np.int32)
    optimum = oracles.cost(of, best)
    proof = bound_cost(of, slots, FOREVER)
    assert proof.cost <= optimum + 1e-9
    if len(set(of.node_rack.tolist())) == 1:
        assert proof.optimal, "small problems in one rack are solved exactly"
        assert proof.cost == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    assert RelaxedBound(Relaxation.of(of, CostWeights())).run(0.3) <= optimum + 1e-5


@pytest.mark.parametrize("ways", [pytest.param(1, marks=pytest.mark.slow), 2_000])
@settings(max_examples=examples(60), deadline=None)
@given(of=small_problems(), seed=st.integers(0, 2**32 - 1))
def test_combinations_of_sets_are_the_optimum(of, seed, ways):
    """From any valid placement and the first prices that come, with numbers of workers apart or not."""
    every = itertools.product(range(len(of.slots)), repeat=of.num_executors)
    valid = [slots for slots in every if oracles.is_valid(of, slots)]
    assume(valid and len(set(of.node_rack.tolist())) == 1)
    slots = valid[seed % len(valid)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_ENOUGH", FOREVER)
        patch.setattr(combinations, "_WAYS", ways)
        proof = bound_cost(of, np.array(slots, np.int32), FOREVER)
    least_cost = min(oracles.cost(of, other) for other in valid)
    assert proof.cost == pytest.approx(least_cost, rel=1e-6, abs=1e-6)
    assert proof.optimal == (oracles.cost(of, slots) <= least_cost + 1e-6)


def test_first_prices_above_the_total_traffic_still_lead_to_a_proof(monkeypatch):
    """Were their bound not stored, nothing could be enumerated, and the bound would stay at what is proven by then."""
    monkeypatch.setattr(exact, "_ENOUGH", FOREVER)
    tps = [[66, 97, 47], [8, 90, 71], [98, 20, 37], [42, 34, 80]]
    pairs = [(a, b, tps[a][b - (b > a)]) for a in range(4) for b in range(4) if a != b]
    placed = topology("t0", 4, 2, **{"stormwright.max.executors.per.worker": 3})
    measured = load(4, pairs, cpu_ghz=np.array([0.81, 0.77, 0.38, 0.97]), memory_mb=np.array([516.0, 319, 347, 725]))
    of = problem(nodes(1.687, 1.592, ports=2, memory_mb=2048.0), (placed, measured))
    best = best_slots(of)
    proof = bound_cost(of, np.array(best, np.int32), FOREVER)
    assert (proof.optimal, proof.cost) == (True, pytest.approx(oracles.cost(of, best)))


def crowded(seed):
    """Three topologies of twelve executors in all, in two or three workers each, on four nodes with 1 to 3 ports."""
    rng = np.random.default_rng(seed)
    placed = []
    for number, size in enumerate((5, 4, 3)):
        pairs = [(a, b, int(rng.integers(1, 6))) for a in range(size) for b in range(a) if rng.random() < 0.7]
        workers = int(rng.integers(2, 4))
        cpu_ghz = rng.uniform(0.5, 1.5, size)
        placed.append((topology(f"t{number}", size, workers), load(size, pairs, cpu_ghz=cpu_ghz)))
    supervisors = nodes(*[4.5] * 4, ports=3)
    ports = rng.permutation([1, 2, 3, 3]).tolist()
    return problem(tuple(replace(node, ports=node.ports[: ports[n]]) for n, node in enumerate(supervisors)), *placed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 8, 17, 24, 30, 31])
def test_bound_from_poor_placement_is_at_most_that_of_a_better_one(seed, monkeypatch):
    monkeypatch.setattr(exact, "_ENOUGH", FOREVER)
    monkeypatch.setattr(combinations, "_WAYS", 1)
    of = crowded(seed)
    poor, good = (
        make_scheduler("optimizer", {"iterations": steps}).schedule(of).slot_of_executor for steps in (0, 20_000)
    )
    if violations(of, poor) or violations(of, good):
        pytest.skip("there is no room")
    assert bound_cost(of, poor, FOREVER).cost <= oracles.cost(of, good.tolist()) + 1e-9


@pytest.mark.slow
@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 3), st.booleans())
def test_certificates_hold_for_every_partition(seed, count, groups, triangles):
    """No groups keep more than a certificate says, whether it was made for their limit or not."""
    rng = np.random.default_rng(seed)
    tps = np.triu(rng.integers(0, 50, (count, count)), 1).astype(float)
    tps, size = tps + tps.T, rng.uniform(0.5, 2.0, count)
    limit = float(rng.uniform(size.max(), size.sum() + 0.1))
    saved = {}
    for groups_of in itertools.product(range(groups), repeat=count):
        same = np.equal.outer(groups_of, groups_of)
        largest = max(size[np.array(groups_of) == group].sum() for group in range(groups))
        saved[largest] = max(saved.get(largest, 0.0), (tps * same).sum() / 2)
    for certificate in itertools.islice(certificates(tps, size, limit, groups, triangles=triangles), 40):
        for largest, most in saved.items():
            assert certificate.most_saved(largest) >= most - 1e-9


@pytest.mark.slow
def test_triangle_constraints_tighten_the_certificate():
    """Of what lies between the bound without and the most that a search keeps, more than a tenth."""
    rng = np.random.default_rng(1)
    tps = np.triu(rng.integers(0, 50, (24, 24)) * (rng.random((24, 24)) < 0.3), 1).astype(float)
    tps, size = tps + tps.T, rng.uniform(0.5, 2.0, 24)
    without, within = (
        best_certificate(tps, size, 6.0, 8, FOREVER, triangles=triangles).most_saved(6.0) for triangles in (False, True)
    )
    found = max(_filled(tps, size, 6.0, 8, rng) for _ in range(2_000))
    assert found <= within < without - 0.1 * (without - found)


def _filled(tps, size, limit, groups, rng):
    """What groups keep that are filled one executor after the other where most of what it exchanges is."""
    group = np.full(len(tps), -1)
    for executor in rng.permutation(len(tps)).tolist():
        used = np.array([size[group == other].sum() for other in range(groups)])
        gained = np.array([tps[executor, group == other].sum() for other in range(groups)])
        if not (open_to := used + size[executor] <= limit).any():
            return 0.0
        group[executor] = int(np.where(open_to, gained + rng.random(groups), -np.inf).argmax())
    return float(tps[np.equal.outer(group, group)].sum() / 2)


def test_bound_margin_covers_rounding_errors_of_sums():
    """Little is between workers beside what is within them; the bound is not further off than sums of rates are."""
    of = problem(
        nodes(4.0, ports=2),
        (
            topology("t", 4, 2, **{"stormwright.max.executors.per.worker": 2}),
            load(4, [(0, 1, 5000), (2, 3, 5000), (1, 2, 4)], cpu_ghz=0.1, memory_mb=10.0),
        ),
    )
    proof = bound_cost(of, np.array([0, 0, 1, 1], np.int32), FOREVER)
    assert proof.optimal
    assert proof.cost == pytest.approx(0.8, rel=1e-6, abs=1e-6)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e308])
def test_certificates_end_where_numbers_do(wrong):
    tps = np.array([[0.0, 1.0, wrong], [1.0, 0.0, 1.0], [wrong, 1.0, 0.0]])
    with np.errstate(all="ignore"):
        assert len(list(certificates(tps, np.ones(3), 2.0, 2))) == 1, "the one that is found at once"
        best_certificate(tps, np.ones(3), 2.0, 2, FOREVER)


def clustered(count):
    """A topology that exchanges tuples in groups, none of which fits on a node as a whole."""
    rng = np.random.default_rng(0)
    pairs = [
        (a, b, int(rng.integers(1, 50))) for a in range(count) for b in rng.integers(0, count, 4).tolist() if a != b
    ]
    return problem(nodes(*[8.0] * 40, ports=4), (topology("t", count, 40), load(count, pairs, cpu_ghz=0.2)))


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, 300, pytest.param(1000, marks=pytest.mark.slow)])
def test_bound_computation_respects_its_time_limit(count):
    """Half a second more, and what the largest step takes on this machine: the eigenvalues of a matrix."""
    of = clustered(count)
    slots = make_scheduler("optimizer", {"iterations": 1}).schedule(of).slot_of_executor
    bound_cost(of, slots, 0.1)  # what is imported or compiled is so now
    symmetric = np.ones((count, count)) + np.eye(count)
    with threadpool_limits(1):  # CPU is compared with a limit of time
        begun_s = time.process_time()
        np.linalg.eigh(symmetric)
        step_s = time.process_time() - begun_s
        begun_s = time.process_time()
        bound_cost(of, slots, 1.0)
        used_s = time.process_time() - begun_s
    assert used_s < 1.5 + 4 * step_s


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=case_name)
def test_no_bound_is_above_the_best_known(path):
    of, reference = case_problem(path), read_case(path)["reference"]
    assert 0 < RelaxedBound(Relaxation.of(of, CostWeights())).run(1.0) <= reference["cost"] * (1 + 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("prefix", ["s01", "s03", "s08"])
def test_known_optima_are_proven(prefix):
    path = next(path for path in CASES if case_name(path).startswith(prefix))
    of, reference = case_problem(path), read_case(path)["reference"]
    settings = {"objective": "traffic", "iterations": 2_000_000}
    slots = make_scheduler("optimizer", settings).schedule(of).slot_of_executor
    proof = bound_cost(of, slots, 60.0)
    assert proof.optimal
    assert proof.cost == pytest.approx(reference["cost"], rel=1e-6)


@pytest.mark.long
def test_a_worse_placement_is_not_proven_but_the_optimum_found():
    of = next(of for of in map(tiny, range(30)) if (least(of, oracles.cost) or 0) > 0)
    optimum = least(of, oracles.cost)
    every = itertools.product(range(len(of.slots)), repeat=of.num_executors)
    worst = max((s for s in every if oracles.is_valid(of, s)), key=lambda s: oracles.cost(of, s))
    proof = bound_cost(of, np.array(worst, np.int32), FOREVER)
    assert not proof.optimal
    assert proof.cost == pytest.approx(optimum, rel=1e-6)


@pytest.mark.long
def test_executors_with_negligible_cpu_are_counted_in_pieces():
    """Together they take more than a step of the sizes of pieces, each less than a solver distinguishes from 0."""
    tiny = 0.9e-9
    cpu_ghz = np.array([(1 + 2e-9) / 24 - 0.97 * 200 * tiny] + [tiny] * 200)
    pairs = [(0, other, 1.0) for other in range(1, 201)]
    of = problem(nodes(1.0, 1.0, ports=2), (topology("t", 201, 2), load(201, pairs, cpu_ghz=cpu_ghz, memory_mb=0.0)))
    slots = np.zeros(201, np.int32)
    slots[-1] = 1
    assert not violations(of, slots)
    assert RelaxedBound(Relaxation.of(of, CostWeights())).run(2.0) <= cost_of(of, slots).total + 1e-4


def test_inter_topology_traffic_and_certificate_values_are_computed_once(monkeypatch):
    of = two_word_counts()
    made, valued, alive = [], [], []
    between, rows_saved = Relaxation.tps_between, Certificate._rows_saved  # noqa: SLF001
    monkeypatch.setattr(Relaxation, "tps_between", lambda self, *span: made.append(span) or between(self, *span))

    def value(self, limit):
        alive.append(self)  # so that no other one gets its id
        valued.append((id(self), limit))
        return rows_saved(self, limit)

    monkeypatch.setattr(Certificate, "_rows_saved", value)
    assert RelaxedBound(Relaxation.of(of, CostWeights())).run(0.5) >= 0
    assert len(made) == len(set(made)) == 2
    assert len(valued) == len(set(valued)) > 0


def test_invalid_placement_is_reported_as_unproven():
    """All in one slot costs nothing, but is one worker where two are wanted."""
    of = problem(nodes(4, 4), (topology("t", 4, 2), load(4, [(0, 1, 10), (1, 2, 10), (2, 3, 10)])))
    slots = np.zeros(4, np.int32)
    assert violations(of, slots)
    proof = bound_cost(of, slots, 5.0)
    assert not proof.optimal
    assert cost_of(of, slots).total == 0.0
    assert proof.cost <= 0.2 * 10


@pytest.mark.parametrize("cpu_ghz", [(), (0.0,), (0.0, 4.0), (FOREVER,), (FOREVER, 4.0), (0.1, 0.1)])
@pytest.mark.parametrize("requested_ghz", [0.0, 1.0])
def test_relaxed_bound_is_valid_for_nodes_with_zero_or_unlimited_cpu(cpu_ghz, requested_ghz):
    """Against every placement where there is a valid one; memory is no limit."""
    supervisors = tuple(replace(node, resources={}) for node in nodes(*cpu_ghz, ports=2))
    of = problem(supervisors, (topology("t", 4, 2), load(4, [(0, 1, 7), (1, 2, 5), (2, 3, 3)], cpu_ghz=requested_ghz)))
    best = best_slots(of)
    found = RelaxedBound(Relaxation.of(of, CostWeights())).run(0.05)
    assert np.isfinite(found)
    assert found <= (oracles.cost(of, best) if best else FOREVER) + 1e-9
    proof = bound_cost(of, np.array(best or [-1] * 4, np.int32), FOREVER if best else 0.1)
    assert proof.optimal == (best is not None)


@pytest.mark.long
def test_failed_linear_program_leaves_the_previous_bound():
    """As HiGHS does with a few numbers far apart."""
    of = next(of for of in map(tiny, range(30)) if (least(of, oracles.cost) or 0) > 0)
    slots = make_scheduler("optimizer", {"iterations": 0}).schedule(of).slot_of_executor
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "linprog", lambda *_args, **_options: OptimizeResult(status=4))
        proof = bound_cost(of, slots, FOREVER)
    assert proof.cost <= least(of, oracles.cost) + 1e-9


def test_nothing_costs_nothing():
    proof = bound_cost(Problem((), ()), np.empty(0, np.int32), 1.0)
    assert proof.optimal
    assert proof.cost == 0


def test_placement_with_unplaced_executors_has_no_gap():
    of = problem(nodes(1.0, ports=1), (topology("t", 2, 1), load(2, [(0, 1, 10)], cpu_ghz=[1.0, 1.0])))
    slots = np.full(2, UNPLACED, np.int32)
    figures = bound_cost(of, slots, 1.0).figures(of, slots)
    assert figures["gap"] is None
    assert figures["bound"] <= 10
    assert not figures["optimal"]
    assert "not all have a slot" in proof_text(figures)


def test_zero_bound_text_explains_that_shuffled_traffic_is_free():
    of = sketch("lines 2 -> split 4 -> count 4 fields")
    slots = np.repeat([0, 1, 2], [4, 3, 3]).astype(np.int32)
    figures = bound_cost(of, slots, 1.0).figures(of, slots)
    assert (figures["bound"], figures["flows"]) == (0.0, 0.5), "half of all is from lines to split"
    assert proof_text(figures).endswith("was not proven: 50% of the traffic is shuffled, which counts as free")


def test_a_bound_of_nothing_is_called_none():
    """That no placement costs less than 0 is no information."""
    nothing = proof_text({"cost": 175.0, "bound": 0.0, "gap": 1.0, "optimal": False})
    assert nothing == "cost 175; how much less another placement could cost was not proven"
    some = proof_text({"cost": 100.0, "bound": 75.0, "gap": 0.25, "optimal": False})
    assert some == "cost 100; no placement costs less than 75, 25.0% below"
