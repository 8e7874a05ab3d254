"""Spouts that begin fewer trees than they could, as recorded on a real cluster: what is predicted and chosen for it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pytest
from stormwright_lab.evaluations.lab.steady import with_load

from stormwright.formats import problem_from_dict
from stormwright.model import Problem
from stormwright.predict.answer import predict
from stormwright.workbench.what_if import Changes, what_if

RECORDS = Path(__file__).parents[2] / "docs" / "results" / "prediction-cells"

#: What nodes were held to in the stretch that is taken.
LIMIT = {"cores": 0.4, "link": "25mbit"}


class Recorded(NamedTuple):
    """A word count under Even with a required rate of 0.7 of what it could, which is `highest_tps`."""

    problem: Problem
    required_tps: float
    highest_tps: float


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    start = json.loads(gzip.decompress((RECORDS / "word-count.even.0.json.gz").read_bytes()))
    full, limited = (
        next(s for s in start["stretches"] if s["limit"] == LIMIT and bool(s["asked_tps"]) == limited_rate)
        for limited_rate in (False, True)
    )
    problem = with_load(
        problem_from_dict(start["problem"]), limited["records"], LIMIT["cores"], LIMIT["link"], following=True
    )
    assert problem.load.costs  # fitted to the same records
    return Recorded(problem, limited["asked_tps"], full["measured"]["acked_tps"])


def test_requested_rate_is_sustained_and_has_latency(recorded):
    (found,) = predict(recorded.problem).topologies
    assert found.rate_tps == pytest.approx(recorded.required_tps, rel=0.03)
    assert found.sustained in ("yes", "perhaps")
    assert found.pending_tps is not None
    assert found.pending_tps.value == pytest.approx(recorded.highest_tps, rel=0.35)
    assert found.pending_tps.value <= found.highest_tps.value * (1 + 1e-9)
    assert found.latency_ms.low <= found.latency_ms.value < found.p99_ms.value


@pytest.mark.long
def test_unsustainable_rates_have_no_latency(recorded):
    found = what_if(recorded.problem, Changes(rates={"": 3.0}))
    (today,), (then,) = found.today.topologies, found.then.topologies
    assert then.rate_tps == pytest.approx(3 * today.rate_tps)
    assert today.latency_ms is not None
    assert then.latency_ms is None
    assert then.no_latency
    assert then.sustained == "no"
    assert then.pending_tps.value == pytest.approx(today.pending_tps.value, rel=1e-6)
    slower = what_if(recorded.problem, Changes(rates={"": 0.5})).then.topologies[0]
    assert slower.latency_ms.value < today.latency_ms.value


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["exactly", "free"])
@pytest.mark.parametrize("from_scratch", [True, False])
def test_a_placement_for_latency_is_quicker_and_bears_the_rate(recorded, workers, from_scratch):
    """Messages of a tree that go at the same time are one: counted each alone, the search came out above Even."""
    settings = ("objective=latency", f"workers={workers}", "iterations=50000")
    found = what_if(recorded.problem, Changes(scheduler="optimizer", settings=settings, from_scratch=from_scratch))
    (today,), (then,) = found.today.topologies, found.then.topologies
    assert not found.assignment.unplaced
    assert then.sustained in ("yes", "perhaps")
    assert then.rate_tps == pytest.approx(today.rate_tps)
    assert then.latency_ms.value < 0.97 * today.latency_ms.value
