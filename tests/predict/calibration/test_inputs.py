"""What tuples of one stream take, from records that tell how many came by each: told apart where their mix varies."""

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


def test_what_the_generator_writes_are_records():
    for one in records(0, VARIES)[:4]:
        assert not isinstance(parse(encode(one)), RejectedLine)


@pytest.mark.parametrize("seed", range(3))
def test_costs_ten_times_as_high_are_told_apart_where_the_mix_varies(seed):
    found = inputs_of(calibrated(known_of(records(seed, VARIES))))
    assert found["quick"].us == pytest.approx(QUICK_US, rel=0.25, abs=0.2)
    assert found["slow"].us == pytest.approx(SLOW_US, rel=0.05)
    assert found["quick"].identified
    assert found["slow"].identified
    assert found["slow"].part == pytest.approx(np.mean(VARIES), abs=0.02)


def test_what_is_explained_is_no_error_of_the_work_any_more():
    errors = [
        calibrated(known_of(records(1, VARIES, inputs=inputs))).corrections["t-1-0"].error for inputs in (False, True)
    ]
    assert errors[0] > 0.3
    assert errors[1] < 0.06


def test_where_the_mix_is_always_the_same_one_value_holds_for_all():
    found = inputs_of(calibrated(known_of(*(records(seed, [0.3]) for seed in range(3)))))
    mean_us = 0.7 * QUICK_US + 0.3 * SLOW_US
    for one in found.values():
        assert one.us == pytest.approx(mean_us, rel=0.1)  # what idle threads burn is not told apart either
        assert not one.identified


@pytest.mark.parametrize("seed", range(5))
def test_what_costs_the_same_is_not_told_apart_by_noise(seed):
    found = inputs_of(calibrated(known_of(records(seed, VARIES, us=(QUICK_US, QUICK_US)))))
    assert found["quick"].us == found["slow"].us == pytest.approx(QUICK_US, rel=0.3)
    assert not found["quick"].identified


def test_a_stream_that_costs_nothing_is_not_below_it():
    found = inputs_of(calibrated(known_of(records(1, VARIES, us=(0.0, SLOW_US)))))
    assert 0 <= found["quick"].us < 0.5
    assert found["slow"].us == pytest.approx(SLOW_US, rel=0.05)


def test_records_of_before_tell_of_no_streams_and_all_else_as_they_did():
    before, today = (calibrated(known_of(records(1, VARIES, inputs=inputs))) for inputs in (False, True))
    assert before.corrections["t-1-0"].inputs == {}
    assert replace(before.costs, work_error=0.0) == replace(today.costs, work_error=0.0)
    assert before.corrections["t-1-0"].work == today.corrections["t-1-0"].work


def test_a_worker_whose_probe_is_of_before_is_left_out_of_it():
    """Of half of what came in a window nothing can be said of all."""
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


def test_it_survives_as_json_and_as_a_document():
    known = known_of(records(1, VARIES), records(2, VARIES))
    again = Evidence.from_dict(orjson.loads(orjson.dumps(known.as_dict())))
    found = calibrated(again)
    assert found.as_dict() == calibrated(known).as_dict()
    document = orjson.loads(orjson.dumps(costs_to_dict(found)))
    assert costs_from_dict(document).corrections == found.corrections


def test_what_was_known_before_streams_were_told_is_still_read():
    told = known_of(Log(SPREAD).records(1)).as_dict()
    for one in told["topologies"].values():
        del one["by_input"]
    assert calibrated(Evidence.from_dict(told)).as_dict() == calibrated(known_of(Log(SPREAD).records(1))).as_dict()


def test_another_placement_tells_more_and_is_not_forgotten():
    """Under each the mix is always the same, and another one."""
    apart = [
        [{**one, "worker": {**one["worker"], "port": 6700 + number}} for one in records(number, [slow])]
        for number, slow in enumerate((0.2, 0.8))
    ]
    found = inputs_of(calibrated(known_of(*apart)))
    assert found["quick"].us == pytest.approx(QUICK_US, rel=0.3, abs=0.3)
    assert found["slow"].us == pytest.approx(SLOW_US, rel=0.08)
