"""What tuples of one stream take, from records that count how many came by each, if their mix varies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from stormwright.perflog.records import RejectedLine, encode, parse
from stormwright.perflog.schema import sample_record
from stormwright.predict.calibration.calibration import Calibration, calibrated, learn
from stormwright.predict.calibration.document import costs_from_dict, costs_to_dict
from stormwright.predict.calibration.evidence import Evidence
from stormwright.predict.calibration.windows import Windows
from stormwright.predict.costs import InputWork
from tests.predict.calibration.log import SPREAD, START_MS, Log

STREAMS = [["quick", "default", "bolt", "shuffle"], ["slow", "default", "bolt", "shuffle"]]
QUICK_US, SLOW_US = 2.0, 20.0


def records(seed: int, slow_parts: list[float], *, inputs: bool = True, us=(QUICK_US, SLOW_US)) -> list[dict[str, Any]]:
    """A minute of a bolt in two workers, of 40,000 tuples/s each; the part of slow ones changes every five seconds."""
    rng, found = np.random.default_rng(seed), []
    for second in range(60):
        for worker in range(2):
            slow = slow_parts[(second // 5 + worker) % len(slow_parts)]
            tuples = [int(rng.poisson(40_000 * part)) for part in (1 - slow, slow)]
            cpu_ns = int(1e3 * (np.array(tuples) @ us) * (1 + 0.05 * rng.standard_normal()))
            found.append(record(worker, second, tuples, cpu_ns, inputs=inputs))
    return found


def record(worker: int, second: int, tuples: list[int], cpu_ns: int, *, inputs: bool) -> dict[str, Any]:
    executor = {
        "component": "bolt", "type": "bolt", "first_task": worker + 1, "last_task": worker + 1, "cpu_ns": cpu_ns,
        "received": sum(tuples), "emitted": 0, "trees": 0, "acked": sum(tuples), "failed": 0, "execute_ns": 0,
        "queue": 0.0, "pending": 0, "waited_ns": 0,
    }  # fmt: skip
    if inputs:
        executor["inputs"] = [[stream, count, 0] for stream, count in enumerate(tuples) if count]
    identity = {"topology": "t-1-0", "supervisor": f"n{worker}", "host": f"n{worker}", "port": 6700, "pid": worker}
    return sample_record(START_MS + second * 1000, optional=False) | {
        "worker": {**identity, "start_ms": START_MS - 120_000, "last": 0},
        "seq": second,
        "process_cpu_ns": cpu_ns,
        "executors": [executor],
        "streams": STREAMS,
        "pairs": [],
        "complete_latency": {"counts": []},
        "threads": {"messaging_ns": 0, "gc_ns": 0, "compiler_ns": 0, "other_ns": 0},
        "gc": {"collections": 0, "ms": 0},
        "node": {"millicores": 2000, "core_hz": 2_500_000_000},
    }


def known_of(*minutes: list[dict[str, Any]]) -> Evidence:
    known = Evidence()
    for minute in minutes:
        windows = Windows()
        windows.add(minute)
        learn(known, windows.closed(all_of_them=True))
    return known


def inputs_of(found: Calibration) -> dict[str, InputWork]:
    return {one.source: one for one in found.corrections["t-1-0"].inputs["bolt"]}


VARIES = [0.1, 0.5, 0.9, 0.3]


def test_generated_records_are_valid():
    for one in records(0, VARIES)[:4]:
        assert not isinstance(parse(encode(one)), RejectedLine)


@pytest.mark.parametrize("seed", range(3))
def test_tenfold_stream_cost_difference_is_identified_under_varying_mix(seed):
    found = inputs_of(calibrated(known_of(records(seed, VARIES))))
    assert found["quick"].us == pytest.approx(QUICK_US, rel=0.25, abs=0.2)
    assert found["slow"].us == pytest.approx(SLOW_US, rel=0.05)
    assert found["quick"].identified
    assert found["slow"].identified
    assert found["slow"].part == pytest.approx(np.mean(VARIES), abs=0.02)


def test_stream_costs_reduce_the_work_error():
    errors = [
        calibrated(known_of(records(1, VARIES, inputs=inputs))).corrections["t-1-0"].error for inputs in (False, True)
    ]
    assert errors[0] > 0.3
    assert errors[1] < 0.06


def test_constant_mix_yields_one_common_cost_for_all_streams():
    found = inputs_of(calibrated(known_of(*(records(seed, [0.3]) for seed in range(3)))))
    mean_us = 0.7 * QUICK_US + 0.3 * SLOW_US
    for one in found.values():
        assert one.us == pytest.approx(mean_us, rel=0.1)  # what idle threads burn is not told apart either
        assert not one.identified


@pytest.mark.parametrize("seed", range(5))
def test_noise_does_not_separate_streams_of_equal_cost(seed):
    found = inputs_of(calibrated(known_of(records(seed, VARIES, us=(QUICK_US, QUICK_US)))))
    assert found["quick"].us == found["slow"].us == pytest.approx(QUICK_US, rel=0.3)
    assert not found["quick"].identified


def test_cost_of_a_free_stream_is_not_negative():
    found = inputs_of(calibrated(known_of(records(1, VARIES, us=(0.0, SLOW_US)))))
    assert 0 <= found["quick"].us < 0.5
    assert found["slow"].us == pytest.approx(SLOW_US, rel=0.05)


def test_older_records_yield_no_stream_costs_and_unchanged_other_costs():
    before, today = (calibrated(known_of(records(1, VARIES, inputs=inputs))) for inputs in (False, True))
    assert before.corrections["t-1-0"].inputs == {}
    assert replace(before.costs, work_error=0.0) == replace(today.costs, work_error=0.0)
    assert before.corrections["t-1-0"].work == today.corrections["t-1-0"].work


def test_worker_with_older_probe_is_excluded_from_stream_costs():
    """From half of what came in a window nothing follows for all."""
    both = [
        one if one["worker"]["supervisor"] == "n0" else other
        for one, other in zip(records(1, VARIES), records(1, VARIES, inputs=False), strict=True)
    ]
    assert inputs_of(calibrated(known_of(both)))["slow"].us == pytest.approx(SLOW_US, rel=0.1)


@pytest.mark.parametrize("inputs", [None, [], [[7, 10, 0]], [[0, 0, 0], [1, 0, 0]], [[0, 10**15, 0], [1, 10**15, 0]]])
def test_strange_inputs_do_no_harm(inputs):
    strange = records(1, VARIES)
    for one in strange:
        one["executors"][0]["inputs"] = inputs
    found = calibrated(known_of(strange))
    assert all(np.isfinite(each.us) for of in found.corrections["t-1-0"].inputs.values() for each in of)


def test_stream_costs_survive_json_and_document_round_trip():
    known = known_of(records(1, VARIES), records(2, VARIES))
    again = Evidence.from_dict(orjson.loads(orjson.dumps(known.as_dict())))
    found = calibrated(again)
    assert found.as_dict() == calibrated(known).as_dict()
    document = orjson.loads(orjson.dumps(costs_to_dict(found)))
    assert costs_from_dict(document).corrections == found.corrections


def test_evidence_saved_without_stream_costs_is_readable():
    document = known_of(Log(SPREAD).records(1)).as_dict()
    for one in document["topologies"].values():
        del one["by_input"]
    assert calibrated(Evidence.from_dict(document)).as_dict() == calibrated(known_of(Log(SPREAD).records(1))).as_dict()


def test_evidence_of_two_placements_identifies_stream_costs():
    """Under each the mix is always the same, and another one."""
    apart = [
        [{**one, "worker": {**one["worker"], "port": 6700 + number}} for one in records(number, [slow])]
        for number, slow in enumerate((0.2, 0.8))
    ]
    found = inputs_of(calibrated(known_of(*apart)))
    assert found["quick"].us == pytest.approx(QUICK_US, rel=0.3, abs=0.3)
    assert found["slow"].us == pytest.approx(SLOW_US, rel=0.08)
