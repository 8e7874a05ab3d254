"""Costs from records: those that made the records come out, and what records do not show is as before."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from stormwright.perflog.records import RejectedLine, encode, parse
from stormwright.predict.calibration.calibration import Calibration, calibrated, learn
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import Windows
from stormwright.predict.costs import Costs
from tests.predict.calibration.log import SPREAD, STREAMS, TOGETHER, Log, distributed

NAMES = (
    "send_us",
    "send_us_per_kb",
    "receive_us",
    "receive_us_per_kb",
    "worker_cores",
    "serialise_us",
    "serialise_us_per_kb",
    "spin_share",
    "overhead_bytes",
)

#: As was measured before, cores half as fast, and others with idle threads that spin.
OTHERS = (
    {},
    {"send_us": 2.0, "receive_us": 3.8, "serialise_us": 4.0, "worker_cores": 0.06, "overhead_bytes": 40.0},
    {"spin_share": 0.05, "send_us": 0.7, "receive_us": 1.4, "serialise_us": 1.5},
)


def fitted(*minutes) -> Calibration:
    known = Evidence()
    for records in minutes:
        windows = Windows()
        windows.add(records)
        learn(known, windows.closed(all_of_them=True))
    return calibrated(known)


def test_generated_records_are_valid():
    for record in Log(SPREAD).records(0, seconds=2):
        assert not isinstance(parse(encode(record)), RejectedLine)


@pytest.mark.slow
@pytest.mark.parametrize("costs", OTHERS)
def test_one_minute_of_records_yields_costs_within_their_intervals(costs):
    seeds, log = 20, Log(SPREAD, **costs)
    held = dict.fromkeys((*NAMES, "message"), 0)
    for seed in range(seeds):
        found = fitted(log.records(seed))
        # What messaging threads take whatever they carry is counted to the worker.
        true = {name: getattr(log, name) for name in NAMES}
        true["worker_cores"] += log.messaging_cores
        for name in NAMES:
            held[name] += found.figures[name].low <= true[name] <= found.figures[name].high
        message = sum(getattr(found.costs, f"{part}_us") for part in ("send", "receive", "serialise"))
        whole = log.send_us + log.receive_us + log.serialise_us
        held["message"] += abs(message / whole - 1) <= found.costs.message_error
    assert min(held.values()) >= 0.9 * seeds, held


def test_costs_are_accurate_after_one_minute():
    found = fitted(Log(SPREAD, serialise_us=4.0).records(1))
    assert found.costs.receive_us == pytest.approx(1.9, rel=0.1)
    assert found.costs.serialise_us == pytest.approx(4.0, rel=0.1)
    assert found.costs.overhead_bytes == pytest.approx(17.0, rel=0.1)
    assert found.costs.message_error < 0.15
    assert found.figures["receive_us"].learned > 0.5
    assert found.costs.fitted_in.rate_tps["words-1-0"].holds(8_000)
    assert found.costs.fitted_in.node_utilisation.most < 0.3


def test_cost_of_a_poll_is_fitted_from_counted_polls():
    found = fitted(Log(SPREAD, poll_us=14.0, serialise_us=4.0).records(1))
    assert found.costs.poll_us == pytest.approx(14.0, rel=0.05)
    assert found.figures["poll_us"].low <= 14.0 <= found.figures["poll_us"].high
    assert found.costs.serialise_us == pytest.approx(4.0, rel=0.1)
    # A full node polls no less than one with CPU to spare.
    assert 0.02 < found.costs.spin_share < 0.05
    assert fitted(Log(SPREAD).records(1)).figures["poll_us"].learned < 0.01


def test_evidence_from_before_polls_were_counted_is_preserved():
    known = Evidence()
    windows = Windows()
    windows.add(Log(SPREAD, serialise_us=4.0).records(1))
    learn(known, windows.closed(all_of_them=True))
    old = known.as_dict()
    for one in [*old["topologies"].values()]:
        for moments in one["placements"].values():
            xtx, xty, *rest = moments[2]
            moments[2] = [[row[:-1] for row in xtx[:-1]], xty[:-1], *rest]
        one["by_input"] = {}
    xtx, xty, *rest = old["of_gone"][2]
    old["of_gone"][2] = [[row[:-1] for row in xtx[:-1]], xty[:-1], *rest]
    assert calibrated(Evidence.from_dict(old)).costs == calibrated(known).costs


def test_without_messages_nothing_is_learned_of_them():
    found, default = fitted(Log(TOGETHER, worker_cores=0.06).records(1)), Costs()
    for name in ("send_us", "receive_us", "serialise_us", "overhead_bytes"):
        assert getattr(found.costs, name) == pytest.approx(getattr(default, name), rel=1e-2)
        assert found.figures[name].learned < 0.01
        assert found.figures[name].high > 1.2 * getattr(default, name)
    assert found.costs.message_error > 0.2
    assert found.costs.worker_cores == pytest.approx(0.06, rel=0.1)


@pytest.mark.slow
def test_second_placement_narrows_cost_intervals():
    apart, together = Log(SPREAD, serialise_us=3.0), Log(TOGETHER, serialise_us=3.0)
    one = fitted(apart.records(1))
    both = fitted(apart.records(1), together.records(2))
    width = [c.figures["serialise_us"].high - c.figures["serialise_us"].low for c in (one, both)]
    assert width[1] < 0.7 * width[0]
    assert both.figures["serialise_us"].low <= 3.0 <= both.figures["serialise_us"].high
    # An hour of one placement does not make the other one forgotten.
    hour = fitted(together.records(2), *(apart.records(seed) for seed in range(20)))
    assert hour.figures["serialise_us"].high - hour.figures["serialise_us"].low <= width[1]


@pytest.mark.slow
def test_fitted_costs_follow_changed_costs():
    before, after = Log(SPREAD, serialise_us=2.0), Log(SPREAD, serialise_us=5.0)
    found = fitted(*(before.records(s) for s in range(3)), *(after.records(s) for s in range(25)))
    assert found.costs.serialise_us == pytest.approx(5.0, rel=0.1)


@pytest.mark.slow
def test_minutes_of_high_rates_count():
    """Of few messages each costs more; what they cost where many come is what a highest rate goes by."""
    high, low = Log(SPREAD, receive_us=1.5), Log(SPREAD, receive_us=4.0, rate_tps=2_000.0)
    for minutes in ((high, low, low, low), (low, low, low, high)):
        found = fitted(*(log.records(seed) for seed, log in enumerate(minutes)))
        assert found.costs.receive_us == pytest.approx(1.5, rel=0.15)


@pytest.mark.long
def test_records_without_ackers_still_count_towards_the_fit():
    streams = [[source, name.strip("_"), *rest] for source, name, *rest in STREAMS]
    silent = [
        [
            {**one, "streams": streams, "executors": [{**each, "trees": 0} for each in one["executors"]]}
            for one in Log(SPREAD, serialise_us=4.0).records(seed)
        ]
        for seed in range(3)
    ]
    found = fitted(*silent)
    assert found.figures["receive_us"].learned > fitted(silent[0]).figures["receive_us"].learned
    assert found.costs.serialise_us == pytest.approx(4.0, rel=0.1)


def test_slow_cores_take_longer_for_the_same():
    """Costs are in the time of the core that most nodes have."""
    log = Log(SPREAD, core_hz={"n2": 1.25e9}, serialise_us=4.0)
    found = fitted(log.records(1))
    assert found.reference_hz == 2.5e9
    assert found.speeds == {"n0": 1.0, "n1": 1.0, "n2": 0.5}
    assert found.costs.serialise_us == pytest.approx(4.0, rel=0.05)
    assert found.costs.receive_us == pytest.approx(1.9, rel=0.1)


@pytest.mark.long
def test_quota_period_is_that_of_most_nodes():
    assert fitted(Log(SPREAD).records(1)).costs.quota_period_ms == 0  # a probe of before tells none
    held = {"quota_period_us": 50_000, "processors": 8}
    found = fitted(Log(SPREAD, held=held).records(1))
    assert (found.costs.quota_period_ms, found.costs.machine_cores) == (50, 8)
    one = Log(SPREAD, held=held).records(2)
    for record in one:
        if record["worker"]["supervisor"] != "n0":
            record["node"]["quota_period_us"] = None
    assert fitted(one).costs.quota_period_ms == 0


def test_evidence_from_removed_topologies_on_message_costs_remains():
    known, windows = Evidence(), Windows()
    windows.add(Log(SPREAD, serialise_us=4.0).records(1))
    learn(known, windows.closed(all_of_them=True))
    before = calibrated(known)
    known.forget(())
    after = calibrated(known)
    assert not after.corrections
    for name in ("send_us", "receive_us", "serialise_us"):
        assert getattr(after.costs, name) == pytest.approx(getattr(before.costs, name), rel=0.05)
    assert after.costs.serialise_us == pytest.approx(4.0, rel=0.1)


def test_evidence_survives_json_round_trip():
    known, windows = Evidence(), Windows()
    windows.add(Log(SPREAD, held={"quota_period_us": 100_000, "processors": 4}).records(1))
    learn(known, windows.closed(all_of_them=True))
    again = Evidence.from_dict(orjson.loads(orjson.dumps(known.as_dict())))
    assert calibrated(again).as_dict() == calibrated(known).as_dict()


def test_nothing_known_is_the_default():
    assert calibrated(Evidence()).costs == Costs()


def test_last_records_are_skipped():
    """A worker's last record is cut short: with it costs would come out wrong."""
    records = Log(SPREAD).records(1)
    ends = [replace_in(r, last=1) | {"process_cpu_ns": 10**9, "threads": torn(r)} for r in Log(SPREAD).records(2)]
    assert fitted(ends).costs == Costs()
    assert fitted([*records, *ends]).as_dict() == fitted(records).as_dict()


def replace_in(record, **worker):
    return {**record, "worker": {**record["worker"], **worker}}


def torn(record):
    return {**record["threads"], "messaging_ns": 50 * record["threads"]["messaging_ns"]}


@pytest.mark.parametrize(
    "change",
    [
        {"threads": None},  # of a probe of before
        {"node": None},
        {"node": {"quota_period_us": 10**15, "processors": 10**15}},
        {"executors": []},
        {"pairs": [], "streams": []},
        {"length_ns": 1},
        {"length_ns": 3_600_000_000_000},
        {"process_cpu_ns": 0, "threads": dict.fromkeys(("messaging_ns", "gc_ns", "compiler_ns", "other_ns"), 0)},
        {"threads": dict.fromkeys(("messaging_ns", "gc_ns", "compiler_ns", "other_ns"), 10**15)},
        {"pairs": [[1, 2**31 - 1, 0, 10**15, 10**15], [-1, 3, 0, 1, 1], [5, -1, 0, 7, 7]]},
    ],
)
def test_strange_records_do_no_harm(change):
    strange = [{**record, **change} for record in Log(SPREAD).records(1, seconds=30)]
    for records in (strange, [*Log(SPREAD).records(2, seconds=30), *strange]):
        found = fitted(records)
        assert all(np.isfinite(getattr(found.costs, name)) for name in NAMES)
        assert found.costs.message_error < 1


def test_cold_workers_are_excluded_from_the_fit():
    log = Log(SPREAD)
    assert fitted(log.records(1, seconds=20, begin_s=2.0)).workers == 0
    compiling = [
        {**r, "threads": {**r["threads"], "compiler_ns": r["process_cpu_ns"]}} for r in log.records(1, seconds=20)
    ]
    assert fitted(compiling).workers == 0


def test_two_workers_on_one_node_yield_message_costs_but_no_link_costs():
    log = Log(distributed(("n0", 6700), ("n0", 6701), ("n1", 6700)), serialise_us=4.0)
    found = fitted(log.records(1))
    assert found.costs.serialise_us == pytest.approx(4.0, rel=0.1)
    assert found.costs.overhead_bytes == pytest.approx(17.0, rel=0.1)  # by the other node


@pytest.mark.long
def test_two_topologies_share_message_cost_evidence():
    one, other = Log(SPREAD), Log(distributed(("n1", 6701), ("n0", 6701)), topology="other-2-0")
    alone, both = fitted(one.records(1)), fitted([*one.records(1), *without_links(other.records(2))])
    width = [c.figures["receive_us"].high - c.figures["receive_us"].low for c in (alone, both)]
    assert both.figures["receive_us"].low <= 1.9 <= both.figures["receive_us"].high
    assert width[1] < width[0]
    assert set(both.corrections) == {"words-1-0", "other-2-0"}


def without_links(records):
    """Without the report of the node: with two topologies on it, each generator knows only its own part."""
    return [{**record, "node": {**record["node"], "sent_bytes": None, "received_bytes": None}} for record in records]
