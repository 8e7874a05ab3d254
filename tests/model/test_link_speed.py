"""Speeds of links, of a cluster as of a question what if."""

from __future__ import annotations

import pytest

from stormwright.model.link_speed import link_bits_per_s


@pytest.mark.parametrize(
    ("link", "bits"),
    [
        ("40mbit", 40e6),
        ("2.5mbit", 2.5e6),
        ("512kbit", 512e3),
        ("1gbit", 1e9),
        ("1Gbit", 1e9),
        ("800bit", 800),
        ("40", 0),
        ("mbit", 0),
        ("٤mbit", 0),
        ("9" * 400 + "gbit", 0),
    ],
)
def test_link_speeds(link, bits):
    assert link_bits_per_s(link) == bits
