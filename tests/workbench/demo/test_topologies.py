"""Which topologies `--topology` knows, and the message on others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stormwright.errors import InputError
from stormwright.workbench.demo.topologies import SHAPES, TOPOLOGIES, parse_submissions

_JAVA = Path(__file__).parents[3] / "java/src/main/java"


def test_every_topology_is_a_class_and_every_shape_is_known():
    for name in TOPOLOGIES.values():
        assert (_JAVA / f"{name.replace('.', '/')}.java").exists()
    in_java = re.findall(r"^    ([A-Z_]+)\(", (_JAVA / "stormwright/topologies/Shape.java").read_text(), re.MULTILINE)
    assert [name.lower().replace("_", "-") for name in in_java] == list(SHAPES)


def test_a_shape_is_an_argument_of_its_class():
    (found,) = parse_submissions(["page-load:rate=500,bytes=1000"])
    assert (found.name, found.main_class) == ("page-load-1", "stormwright.topologies.Shaped")
    assert found.args == {"shape": "page-load", "rate": "500", "bytes": "1000"}
    (other,) = parse_submissions(["word-count"])
    assert other.args == {}


def test_all_topology_argument_faults_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        parse_submissions(["page-lode", "sol:rate", "star:name=one", "linear:name=one"])
    assert [fault.message for fault in caught.value.faults] == [
        "no topology called 'page-lode'; did you mean page-load?",
        "'rate' is not key=value",
        "a second topology called 'one'",
    ]
