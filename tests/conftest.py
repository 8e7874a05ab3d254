"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Two busy cores make any deadline of a single example a coin toss; in CI the examples are the same every time.
# The contract suite is inherited: its tests run for several schedulers, and an example of one harms no other.
settings.register_profile(
    "stormwright",
    deadline=None,
    max_examples=60,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors],
)
settings.load_profile("stormwright")
