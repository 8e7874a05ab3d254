"""How long topologies were measured: not while workers warm up, nor before they go on after a pause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stormwright.history.evaluation.measured import MIN_WINDOWS, MeasuredTopologies, MeasurementWait, wait_texts
from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.model import Problem
from tests.controller.builders import on, problem, record, topology

T = topology("t")
NOW: Problem = problem([T], current={T.id: on("n0", "n1")})

#: A new worker closes its windows some seconds later.
CLOSED_S = 11


def seconds(start_s: int, end_s: int, born_s: int, compiler_share: float | None = 0.0) -> list[dict[str, Any]]:
    """Records of both workers, each started when it says."""
    found = []
    for second in range(start_s, end_s):
        for number, node in enumerate(("n0", "n1")):
            one = record(T.id, node, second, tasks=(1 + 2 * number, 2 + 2 * number), start_ms=second * 1000, trees=9)
            one["worker"]["start_ms"] = born_s * 1000
            one["executors"][0]["received"] = 9
            one["process_cpu_ns"] = 1_000_000
            if compiler_share is not None:
                threads = dict.fromkeys(("messaging_ns", "gc_ns", "other_ns"), 0)
                one["threads"] = threads | {"compiler_ns": round(1_000_000 * compiler_share)}
            found.append(one)
    return found


def waits(measured: MeasuredTopologies, least_s: float = 30) -> str | None:
    measured.update(NOW)
    wait = measured.waits(NOW, least_s).get(T.id)
    return None if wait is None else str(wait)


def test_wait_reason_includes_the_remaining_measurement_time() -> None:
    observed = ObservedTraffic(5)
    measured = MeasuredTopologies(observed)
    assert waits(measured) == "0 of 30 s measured since its workers started and warmed up"
    observed.add(seconds(100, 115 + CLOSED_S, born_s=90))
    assert waits(measured) == "15 of 30 s measured since its workers started and warmed up"
    observed.add(seconds(115 + CLOSED_S, 130 + CLOSED_S, born_s=90))
    assert waits(measured) is None
    assert waits(measured, least_s=31) is not None


def test_few_windows_are_not_enough_however_long() -> None:
    observed = ObservedTraffic(60)
    measured = MeasuredTopologies(observed)
    observed.add(seconds(1200, 1320 + 66, born_s=0))
    assert waits(measured) == f"2 of {MIN_WINDOWS} windows measured since its workers started and warmed up"


@pytest.mark.parametrize(("share", "from_s"), [(0.0, 110), (0.5, 220), (None, 120)])
def test_warm_up_of_workers_is_excluded_from_measured_time(share: float | None, from_s: int) -> None:
    """Not in their first 10 s, nor as long as they compile, for 120 s at most; 20 s where that is not reported."""
    observed = ObservedTraffic(5)
    measured = MeasuredTopologies(observed)
    observed.add(seconds(100, from_s + 25 + CLOSED_S, born_s=100, compiler_share=share))
    assert waits(measured) == "25 of 30 s measured since its workers started and warmed up"


def test_worker_restart_resets_the_measured_time() -> None:
    observed = ObservedTraffic(5)
    measured = MeasuredTopologies(observed)
    observed.add(seconds(100, 200, born_s=0))
    assert waits(measured) is None
    observed.add(seconds(200, 230 + CLOSED_S, born_s=200))
    assert waits(measured) == "20 of 30 s measured since its workers started and warmed up"


def test_pause_resets_the_measured_time() -> None:
    """A service that was killed in the middle of a move resumes the topology, and decides no more 10 s later."""
    observed = ObservedTraffic(5)
    measured = MeasuredTopologies(observed)
    observed.add(seconds(100, 200, born_s=0))
    assert waits(measured) is None
    measured.reset_topology(T.id, 200_000)
    observed.add(seconds(200, 210 + CLOSED_S, born_s=0))
    assert waits(measured) == "10 of 30 s measured since its workers started and warmed up"


def test_a_restart_of_the_service_forgets_nothing() -> None:
    observed = ObservedTraffic(5)
    measured = MeasuredTopologies(observed)
    observed.add(seconds(100, 120 + CLOSED_S, born_s=0))
    assert waits(measured) == "20 of 30 s measured since its workers started and warmed up"
    stored = json.loads(json.dumps(measured.state()))
    observed = ObservedTraffic(5)
    again = MeasuredTopologies(observed, stored)
    assert waits(again) == "20 of 30 s measured since its workers started and warmed up"
    observed.add(seconds(300, 310 + CLOSED_S, born_s=0))
    assert waits(again) is None
    # Workers that were started meanwhile are others.
    other = ObservedTraffic(5)
    again = MeasuredTopologies(other, stored)
    other.add(seconds(300, 315 + CLOSED_S, born_s=290))
    assert waits(again) == "15 of 30 s measured since its workers started and warmed up"


def test_every_worker_has_to_report() -> None:
    observed = ObservedTraffic(5)
    measured = MeasuredTopologies(observed)
    observed.add([each for each in seconds(100, 200, born_s=0) if each["worker"]["supervisor"] == "n0"])
    assert waits(measured) == "0 of 30 s measured since its workers started and warmed up"


def test_many_waiting_topologies_are_one_sentence() -> None:
    waits: dict[str, MeasurementWait | str] = {f"clicks-{n}": MeasurementWait(8.0 + n % 3, 30.0) for n in range(135)}
    assert wait_texts(waits) == ["135 topologies are being measured, about 22 s to go"]
    assert wait_texts(dict(list(waits.items())[:2])) == ["clicks-0, clicks-1 are being measured, about 22 s to go"]
    unfit = {f"orders-{n}": "costs are not fitted yet" for n in range(5)}
    assert wait_texts(unfit) == ["orders-0, orders-1, orders-2 and 2 more: costs are not fitted yet"]
