"""Kinds of nodes as people write them."""

from __future__ import annotations

import pytest

from stormwright.advise.search.kinds import duplicate_faults, parse_kind, read_kinds
from stormwright.errors import Fault, InputError


def test_a_kind_in_a_line():
    faults: list[Fault] = []
    kind = parse_kind("large=2500:8:32768:0.40", faults)
    assert kind is not None
    assert not faults
    assert (kind.name, kind.cores, kind.core_hz, kind.price) == ("large", 8, 2.5e9, 0.4)
    assert kind.node.memory_mb == 32_768
    assert [node.id for node in kind.nodes(2)] == ["large-1", "large-2"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("large", "should be NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE"),
        ("large=1:2:3", "should be NAME=CORE_MHZ:CORES:MEMORY_MB:PRICE"),
        ("large=2500:8:32768:free", "--node-kind large.price: should be a number"),
        ("large=2500:0:32768:1", "--node-kind large.cores: should be a number from 0.01"),
        ("la/rge=2500:8:32768:1", "should be NAME="),
        ("large=nan:8:32768:1", "should be a number from 1"),
    ],
)
def test_invalid_node_kind_is_rejected(text, why):
    faults: list[Fault] = []
    assert parse_kind(text, faults) is None
    assert why in "\n".join(map(str, faults))


TOML = """[large]
core_mhz = 2500
cores = 8
memory_mb = 32768
price = 0.4
slots = 2
most = 3
link = "1gbit"
"""

JSON = """{"large": {"core_mhz": 2500, "cores": 8, "memory_mb": 32768, "price": 0.4,
                     "slots": 2, "most": 3, "link": "1gbit"}}"""


@pytest.mark.parametrize(("name", "text"), [("kinds.toml", TOML), ("kinds.json", JSON)])
def test_a_file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    (kind,) = read_kinds(path)
    assert (len(kind.node.ports), kind.most, kind.node.link_bps) == (2, 3, 1e9)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "should hold kinds of nodes by name"),
        ('{"large": 3}', r"should be a kind of nodes.* @ \$.large"),
        ('{"large": {"cores": 8, "memory_mb": 1, "price": 1}}', r"is missing @ \$.large.core_mhz"),
        ('{"a": {"core_mhz": 1, "cores": 1, "memory_mb": 1, "price": 1, "cpu": 2}}', r"unknown key; .* @ \$.a.cpu"),
        ('{"a": {"core_mhz": 1, "cores": 1, "memory_mb": 1, "price": 1, "slots": 1.5}}', "should be a whole number"),
        ('{"a": {"core_mhz": 1, "cores": 1, "memory_mb": 1, "price": 1, "link": "fast"}}', "should be a speed"),
    ],
)
def test_a_file_with_faults(tmp_path, text, why):
    path = tmp_path / "kinds.json"
    path.write_text(text)
    with pytest.raises(InputError, match=why):
        read_kinds(path)


def test_no_toml(tmp_path):
    path = tmp_path / "kinds.toml"
    path.write_text("large = ")
    with pytest.raises(InputError, match="is not valid TOML"):
        read_kinds(path)


def test_duplicate_node_kind_name_is_reported_once():
    faults: list[Fault] = []
    kind = parse_kind("a=1000:1:1:1", faults)
    assert kind is not None
    assert [str(fault) for fault in duplicate_faults([kind, kind])] == ["node kind a: is given twice"]
