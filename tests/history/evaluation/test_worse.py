"""Moves after which a topology does worse, by noise that is known: how often a verdict comes, and never for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stormwright.history.evaluation.regression import FALSE_ALARMS, LOOKS, worse
from stormwright.history.evaluation.verdict import Threshold, promised_for
from stormwright.history.evaluation.window import Sample
from stormwright.plans.plan import Promise

RUNS = 500


def windows(
    rng: np.random.Generator,
    count: int,
    rate: float = 1000.0,
    latency: float = 20.0,
    *,
    noise: float = 0.05,
    alike: float = 0.0,
    age_s: float = 600.0,
    failing: float = 0.0,
    **more: Any,
) -> list[Sample]:
    """Windows of 5 s in which as many trees are under way as Little's law says: slow ones are few ones."""
    found, off = [], float(rng.normal())
    for number in range(count):
        off = alike * off + np.sqrt(1 - alike**2) * rng.normal()
        slow = float(np.exp(noise * off))
        acked = round(5 * rate / slow)
        failed = round(acked * failing / (1 - failing))
        given: dict[str, Any] = {
            "start_ms": number * 5000, "length_s": 5.0, "age_s": age_s + 5 * number, "acked": acked, "failed": failed,
            "received": 10 * acked, "crossing": 0, "latency_ms": latency * slow, "pending": rate * latency / 1000,
            "compiling": 0.01,
        }  # fmt: skip
        found.append(Sample(**(given | more)))
    return found


def alarms(
    after: dict[str, Any], before: dict[str, Any] | None = None, bar: Threshold | None = None, runs: int = RUNS
) -> float:
    """How often a move is called worse by the last look."""
    rng, found = np.random.default_rng(5), 0
    for _ in range(runs):
        known = windows(rng, 48, **(before or {}))
        later = windows(rng, LOOKS[-1], **after)
        found += any(worse(known, [], later[:look], bar) is not None for look in LOOKS)
    return found / runs


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "alike"), [(0.02, 0.0), (0.1, 0.0), (0.3, 0.0), (0.1, 0.6), (0.3, 0.8)])
def test_neutral_move_is_rarely_reported_as_worse(noise: float, alike: float) -> None:
    """All looks together, windows that depend on each other included."""
    assert alarms({"noise": noise, "alike": alike}, {"noise": noise, "alike": alike}) <= FALSE_ALARMS


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_falling_load_raises_no_alarm(share: float) -> None:
    """Fewer trees come from outside; each takes as long as before, or a little less."""
    for latency in (20.0, 18.0, 21.0):
        assert alarms({"rate": 1000 * share, "latency": latency}, runs=30) == 0


def test_latency_growth_under_growing_load_raises_no_alarm() -> None:
    assert alarms({"rate": 1500, "latency": 60}, runs=30) == 0


def test_degradation_is_detected_sooner_the_larger_the_loss() -> None:
    rng = np.random.default_rng(7)
    for part, needed in ((0.3, 6), (0.5, 6), (0.7, 8), (0.8, 18)):
        found = 0
        for _ in range(60):
            before, after = windows(rng, 48), windows(rng, needed, rate=1000 * part, latency=20 / part)
            found += worse(before, [], after) is not None
        assert found >= 0.9 * 60, part


def test_a_loss_too_small_to_matter_is_left() -> None:
    assert alarms({"rate": 950, "latency": 20 / 0.95, "noise": 0.01}, {"noise": 0.01}, runs=30) == 0


def test_worse_reason_text_describes_throughput_and_latency_loss() -> None:
    rng = np.random.default_rng(1)
    before = windows(rng, 48, noise=0.001)
    assert worse(before, [], windows(rng, 6, 500, 40, noise=0.001)) == (
        "50% fewer tuple trees complete, and each takes 100% longer"
    )
    assert worse(before, [], windows(rng, 6, 1000, 40, noise=0.001)) == (
        "tuple trees take 100% longer, 20 ms, although no more of them come"
    )
    assert worse(before, [], windows(rng, 6, 1000, 20, failing=0.2)) == "20% of all tuple trees fail"
    stuck = windows(rng, 6, acked=0, latency_ms=None, pending=30.0)
    assert worse(before, [], stuck) == "no tuple tree completes any more"
    idle = windows(rng, 6, acked=0, latency_ms=None, pending=0.0)
    assert worse(before, [], idle) is None
    assert worse(before, [], windows(rng, 3, 100, 200)) is None, "too few to tell"


def test_promised_degradation_is_not_reported_as_worse() -> None:
    """Fewer nodes may take longer, and a little slower is what was wanted."""
    rng = np.random.default_rng(1)
    before, after = windows(rng, 48), windows(rng, 12, 1000, 40)
    assert worse(before, [], after) is not None
    assert worse(before, [], after, Threshold(latency=2.0)) is None
    assert worse(before, [], windows(rng, 12, 1000, 70), Threshold(latency=2.0)) is not None


def test_young_workers_are_compared_with_young_workers() -> None:
    """They do half as much for a minute, whatever the placement: that alone is no loss, and being worse still is."""
    rng = np.random.default_rng(3)
    before = windows(rng, 48)
    young = windows(rng, 24, 500, 40, age_s=0, compiling=0.5)
    as_usual = windows(rng, 6, 500, 40, age_s=12, compiling=0.5)
    assert worse(before, young, as_usual) is None
    assert worse(before, young, windows(rng, 6, 250, 80, age_s=12, compiling=0.5)) is not None
    assert worse(before, [], windows(rng, 6, 250, 80, age_s=12, compiling=0.5)) is None, "nothing to compare with"


def test_young_worker_baseline_counts_only_if_the_load_is_no_harder() -> None:
    rng = np.random.default_rng(3)
    harder = windows(rng, 48, 400, 50)
    young = windows(rng, 24, 500, 40, age_s=0, compiling=0.5)
    assert worse(harder, young, windows(rng, 6, 250, 80, age_s=12, compiling=0.5)) is None


def test_promise_is_scaled_to_the_observed_load() -> None:
    rng = np.random.default_rng(2)
    promise = Promise(
        sustained=2.0, latency=0.9, full_latency=0.5, pending_limit=20, sustained_tps=1000, wanted_tps=2000
    )
    assert promised_for(promise, windows(rng, 10)) == Threshold(2.0, 0.5), "all trees are pending that may be"
    assert promised_for(promise, windows(rng, 10, pending=5.0)) == Threshold(1.0, 0.9), "spouts have no more to emit"
    fewer = Promise(sustained=0.5, latency=1.5, sustained_tps=1800, wanted_tps=900)
    bar = promised_for(fewer, windows(rng, 10, noise=1e-9))
    assert (bar.throughput, bar.latency) == (pytest.approx(0.9), 1.5), "not sustained in the new place"
    assert promised_for(Promise(0.4), windows(rng, 10)) == Threshold()
