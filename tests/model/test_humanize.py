"""Numbers as people read them."""

from __future__ import annotations

import pytest

from stormwright.model.humanize import amount, amount_of, amount_range, counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "executor", "0 executors"),
        (1, "executor", "1 executor"),
        (2, "topology", "2 topologies"),
        (1, "topology", "1 topology"),
        (100_000, "slot", "100,000 slots"),
    ],
)
def test_a_noun_agrees_with_its_count(count, noun, text):
    assert counted(count, noun) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (6.1e9, "Hz", "6.1 GHz"),
        (4e9, "Hz", "4.0 GHz"),
        (0, "Hz", "0.0 GHz"),
        (1e6, "Hz", "0.001 GHz"),
        (-2.5e9, "Hz", "-2.5 GHz"),
        (12_345.6e9, "Hz", "12,346.0 GHz"),
        (float("inf"), "Hz", "inf GHz"),
        (512, "MB", "512 MB"),
        (131_072, "MB", "131,072 MB"),
        (0.5, "MB", "0.5 MB"),
    ],
)
def test_an_amount_is_short(value, unit, text):
    assert amount(value, unit) == text


def test_overused_amount_is_formatted_as_more_than_available():
    assert amount_of(6.1e9, 4e9, "Hz") == "6.1 of 4.0 GHz"
    assert amount_of(4.00001e9, 4e9, "Hz") == "4.00001 of 4.0 GHz"
    assert amount_of(1e9, 1e9, "Hz") == "1.0 of 1.0 GHz"
    assert amount_of(2048.5, 1024, "MB") == "2,048 of 1,024 MB"


def test_a_range_has_its_unit_once():
    assert amount_range(5e8, 1.25e9, "Hz") == "0.5 to 1.25 GHz"
    assert amount_range(512, 512, "MB") == "512 MB"
