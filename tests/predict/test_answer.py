"""The prediction of a placement: figures with intervals, bottlenecks by name, notes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stormwright as sw
from stormwright.errors import InputError
from stormwright.model import UNPLACED
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.costs import Correction, CostRange, Costs, FitRange
from stormwright.testing.word_counts import SPOUTS, WordCount, two_word_counts

APART = np.array([0, 2, 0, 2, 4, 0, 2, 4, 0, 2, 4, 0], np.int32)


def only(prediction):
    (topology,) = prediction.topologies
    return topology


@pytest.mark.parametrize(
    ("word_count", "slots", "expected"),
    [
        (WordCount(cores=0.4), None, "the CPU of node n0"),
        (WordCount(link_bps=1e6), APART, "the link into node n1"),
        (WordCount(cores=64.0), None, "the thread of executor 10 (component spout) in n0:6700"),
        (WordCount(cores=64.0, pending=1, link_bps=None), APART, "topology.max.spout.pending"),
    ],
)
def test_the_bottleneck_is_named(word_count, slots, expected):
    assert str(only(predict(word_count.problem(), slots)).bottleneck).startswith(expected)


def test_intervals_hold_their_values_and_widen_with_the_errors():
    problem = WordCount(cores=0.4).problem()
    narrow, wide = (
        only(predict(problem, APART, Assumptions(Costs(message_error=e, work_error=e, delay_error=e))))
        for e in (0.01, 0.3)
    )
    for one in (narrow, wide):
        for interval in (one.highest_tps, one.pending_tps, one.latency_ms, one.p99_ms):
            assert interval.low <= interval.value <= interval.high
    assert wide.highest_tps.low < narrow.highest_tps.low < narrow.highest_tps.high < wide.highest_tps.high
    assert narrow.highest_tps.value == wide.highest_tps.value


def test_prediction_without_errors_has_zero_width_interval():
    one = only(predict(WordCount().problem(), None, Assumptions(Costs(message_error=0, work_error=0, delay_error=0))))
    assert one.highest_tps.low == one.highest_tps.value == one.highest_tps.high


def test_utilisation_is_proportional_to_the_rate():
    problem = WordCount(cores=0.4).problem()
    topology = problem.topologies[0].id
    costs = Costs(worker_cores=0.0)
    once, twice = (predict(problem, APART, Assumptions(costs, rate_tps={topology: rate})) for rate in (500, 1000))
    for one, two in zip(once.nodes, twice.nodes, strict=True):
        assert two.cpu.value == pytest.approx(2 * one.cpu.value)
        assert two.link_out.value == pytest.approx(2 * one.link_out.value)
    assert only(once).headroom == pytest.approx(2 * only(twice).headroom)
    assert twice.fullest_use == pytest.approx(1 / only(twice).headroom)


def test_unequal_spout_shares_raise_headroom_above_inverse_of_peak_use():
    """At highest rates they begin unlike shares; at a requested rate they are even."""
    problem = WordCount(cores=0.4).problem()
    costs = Costs(serialise_us=2.5, send_us=2.5, receive_us=4.0, overhead_bytes=30.0, worker_cores=0.0)
    found = predict(problem, APART, Assumptions(costs, {}, {problem.topologies[0].id: 1000}))
    assert found.fullest_use > 1.001 / only(found).headroom


def test_equal_spout_shares_give_headroom_equal_to_inverse_of_peak_use():
    problem = WordCount(cores=0.4).problem()
    together = np.where(np.isin(np.arange(12), SPOUTS), APART[SPOUTS[0]], APART).astype(np.int32)
    found = predict(problem, together, Assumptions(Costs(worker_cores=0.0), {}, {problem.topologies[0].id: 1000}))
    assert found.fullest_use == pytest.approx(1 / only(found).headroom)


def test_unsustainable_rate_has_no_latency():
    problem = WordCount(cores=0.4).problem()
    found = predict(problem, None, Assumptions(rate_tps={problem.topologies[0].id: 1e6}))
    assert only(found).latency_ms is None
    assert only(found).p99_ms is None
    assert found.fullest_use > 1


def test_corrections_of_a_topology_count():
    problem = WordCount(cores=0.4).problem()
    topology = problem.topologies[0].id
    costs = Costs(worker_cores=0.0)
    plain, twice = (
        only(predict(problem, None, Assumptions(costs, {topology: Correction(work=w)}))).highest_tps.value
        for w in (1, 2)
    )
    assert plain == pytest.approx(2 * twice)


def test_unplaced_executors_are_reported_in_notes():
    slots = np.where(np.arange(12) == 3, UNPLACED, 0).astype(np.int32)
    one = only(predict(WordCount().problem(), slots))
    assert one.highest_tps.value == 0
    assert one.notes == ("1 executor has no slot: not predicted, and assumed to use nothing",)


def test_assumed_load_is_reported_in_notes():
    problem = WordCount().problem()
    one = only(predict(replace(problem, load=None)))
    assert "not measured" in one.notes[0]


def test_shuffled_tuples_spill_only_where_queues_may_fill():
    """Splits beside the spouts are the limit; four more nodes have one split each that no other executor is near to."""
    problem = WordCount(nodes=5, cores=1.0, link_bps=None).problem()
    free = WordCount(nodes=5, cores=1.0, link_bps=None, pending=None).problem()
    slots = np.array([6, 8, 4, 4, 6, 8, 0, 2, 4, 6, 0, 0], np.int32)
    costs = Costs(serialise_us=0, send_us=0, receive_us=0, worker_cores=0)
    costs = replace(costs, serialise_us_per_kb=0, send_us_per_kb=0, receive_us_per_kb=0)
    near, far = (only(predict(one, slots, Assumptions(costs))) for one in (problem, free))
    # On the first node 14 µs of spout and split for every tree; with half of them split elsewhere 10 µs.
    assert near.highest_tps.value == pytest.approx(1 / 14e-6)
    assert far.highest_tps.value > near.highest_tps.value * 1.2
    assert any("further than near" in note for note in far.notes)
    assert not any("further than near" in note for note in near.notes)


def test_single_node_prediction_has_no_spill_note():
    one = only(predict(WordCount(nodes=1, cores=0.4, pending=None).problem()))
    assert not one.notes


def test_prediction_outside_of_the_fitted_cost_range_is_reported():
    problem = WordCount(cores=0.4).problem()
    topology = problem.topologies[0].id
    fitted = FitRange(CostRange(0.1, 0.5), {topology: CostRange(500, 2_000)})
    answers = [
        predict(problem, None, Assumptions(Costs(fitted_in=fitted), rate_tps={topology: rate}))
        for rate in (1_000, 9_000)
    ]
    assert not answers[0].notes
    assert not only(answers[0]).notes
    assert any("outside of what costs were fitted in: 10% to 50%" in note for note in answers[1].notes)
    assert "9,000 trees/s are outside of what was measured: 500 to 2,000" in only(answers[1]).notes


def test_invalid_prediction_input_is_rejected():
    problem = WordCount().problem()
    with pytest.raises(InputError, match="no current placement"):
        predict(problem.with_current({}))
    with pytest.raises(InputError, match="nobody: no such topology"):
        predict(problem, None, Assumptions(rate_tps={"nobody": 1.0}))
    with pytest.raises(InputError, match="should be a number above 0, got -1"):
        predict(problem, None, Assumptions(weights={problem.topologies[0].id: -1}))
    with pytest.raises(InputError, match="send_us: should be a number from 0"):
        Costs(send_us=-1.0)
    with pytest.raises(InputError, match="work_error: should be a number from 0 to below 1, got nan"):
        Costs(work_error=float("nan"))


def weighted(problem, weight):
    topology = problem.topologies[-1]
    heavy = replace(topology, conf={**topology.conf, "stormwright.weight": weight})
    return replace(problem, topologies=(*problem.topologies[:-1], heavy))


def test_configured_weight_scales_predicted_rate_of_a_topology():
    problem, slots = two_word_counts(cores=0.4), np.repeat([0, 1], 12).astype(np.int32)
    costs = Costs(worker_cores=0.0)
    even, uneven = (predict(each, slots, Assumptions(costs)) for each in (problem, weighted(problem, 3)))
    one, other = (each.highest_tps.value for each in uneven.topologies)
    assert other == pytest.approx(3 * one)
    assert one + other == pytest.approx(sum(each.highest_tps.value for each in even.topologies))
    answer = predict(weighted(problem, 3), slots, Assumptions(costs, weights={problem.topologies[1].id: 1.0}))
    assert answer == even


@pytest.mark.parametrize("weight", [0, -1, "2", True, float("nan"), float("inf"), None])
def test_a_wrong_weight_is_refused(weight):
    path = r'\$\.topologies\[1\]\.conf\["stormwright\.weight"\]'
    with pytest.raises(InputError, match=rf"should be a number above 0, at most 1,000,000,000, got .* @ {path}"):
        predict(weighted(two_word_counts(), weight))


def test_at_a_prompt():
    problem = WordCount(cores=0.4).problem()
    text = str(sw.predict(problem, rates={problem.topologies[0].id: 2_000}))
    assert "limited by the CPU of node n0; at 2,000 trees/s" in text
    placed = sw.place(problem, "even")
    assert only(sw.predict(problem, placed)).highest_tps.value > 0


def test_problems_without_anything_in_them():
    problem = sw.sketch("a 1 -> b 1", nodes=1)
    found = sw.predict(problem, sw.place(problem, "even"))
    assert only(found).highest_tps.value > 0
    silent = sw.sketch("a 1 -> b 1", nodes=1, rate_tps=1e-300)
    assert sw.predict(silent, sw.place(silent, "even"))
