"""Java's hash order against what OpenJDK 17.0.15 and 25.0.3 printed for the same keys."""

from __future__ import annotations

import pytest

from stormwright.schedulers.even import java_string_hash, topologies_order

ORDERS = {
    1: [0],
    2: [1, 0],
    3: [1, 2, 0],
    4: [1, 3, 2, 0],
    5: [1, 3, 2, 0, 4],
    6: [5, 2, 4, 1, 3, 0],
    8: [5, 6, 2, 4, 1, 7, 3, 0],
    11: [5, 6, 8, 10, 2, 4, 1, 7, 9, 3, 0],
    12: [8, 10, 2, 7, 0, 5, 6, 4, 1, 9, 11, 3],
    13: [8, 10, 2, 7, 0, 12, 5, 6, 4, 1, 9, 11, 3],
}

#: Number of keys → the order as a number: long h = 31 * h + position.
ORDER_HASHES = {
    24: 5696077647043397190,
    25: -7889033678749525876,
    50: 5617217975618648011,
    100: 5224575900960905826,
    1000: -481929108612329500,
}

#: Where the order is another one from Java 19 on: numbers of keys, and the orders as numbers.
LATER_ORDER_HASHES = {
    6: 33338055,
    12: 132180258702184266,
    24: -1941648374768813010,
    96: 4485223405703274948,
}


def order_hash(order: list[int]) -> int:
    value = 0
    for position in order:
        value = (31 * value + position) % 2**64
    return value


def keys(count: int) -> list[str]:
    return [f"topology-{i * 7919 % 1000003}-{i}-1600000000" for i in range(count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello world", 1794106052),
        ("polygenelubricants", -2147483648),
        ("\U0001f600", 1772899),
        ("wc-1-1600000000", 1921301922),
    ],
)
def test_string_hash(text, expected):
    assert java_string_hash(text) == expected % 2**32


@pytest.mark.parametrize("count", ORDERS)
def test_order_of_a_copied_map(count):
    assert topologies_order(keys(count)) == ORDERS[count]


@pytest.mark.parametrize("count", ORDER_HASHES)
def test_order_of_a_large_copied_map(count):
    assert order_hash(topologies_order(keys(count))) == ORDER_HASHES[count] % 2**64


@pytest.mark.parametrize("count", LATER_ORDER_HASHES)
def test_order_of_a_copied_map_of_java_19_and_later(count):
    assert order_hash(topologies_order(keys(count), java=19)) == LATER_ORDER_HASHES[count] % 2**64
    assert (
        topologies_order(keys(count), java=18)
        == topologies_order(keys(count))
        != topologies_order(keys(count), java=19)
    )


@pytest.mark.parametrize("count", [1, 2, 4, 5, 8, 11, 13, 25, 50, 100, 1000])
def test_order_of_most_copied_maps_is_that_of_every_release_of_java(count):
    assert topologies_order(keys(count), java=25) == topologies_order(keys(count), java=17)


def test_nothing_to_order():
    assert topologies_order([]) == []
