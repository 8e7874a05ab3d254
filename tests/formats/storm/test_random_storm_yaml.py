"""2,400 random ``storm.yaml`` files, half of them odd: accepted, refused and understood as by a supervisor of Storm.

``random_storm_yaml.json.gz`` has the files and the answers of Storm 2.8.3, both from ``tools/storm_yaml_answers.py``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from stormwright.errors import InputError
from stormwright.formats.storm.storm_yaml import read_storm_yaml, supervisors_of

CASES = json.loads(gzip.decompress((Path(__file__).parent / "random_storm_yaml.json.gz").read_bytes()))

#: Part that may be accepted where Storm refuses, or refused where it accepts.
MOST_OTHERWISE = 0.01


def read(tmp_path: Path, text: str) -> dict[str, object] | None:
    """A node as a supervisor registers it; None if the file is refused."""
    path = tmp_path / "storm.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        file = read_storm_yaml(path)
    except InputError:
        return None
    (node,) = supervisors_of([file])
    if file.layer.faults:
        assert all(fault.path and fault.message for fault in file.layer.faults.faults), text
        return None
    host = node.host if "storm.local.hostname" in file.layer.values else None
    return {
        "host": host if file.layer.values.get("storm.local.hostname") is not None else None,
        "ports": sorted(node.ports),
        "meta": node.scheduler_meta,
        "resources": dict(node.resources),
    }


def compared(node: dict[str, object]) -> dict[str, object]:
    return {**node, "ports": sorted(node["ports"])}


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_random_files_are_understood_as_by_storm(tmp_path, step):
    otherwise, cases = [], CASES[::step]
    for case in cases:
        ours, theirs = read(tmp_path, case["yaml"]), case.get("node")
        if (ours is None) != (theirs is None):
            otherwise.append((case["yaml"], case.get("error", "accepted by Storm")))
        elif theirs is not None:
            assert ours == compared(theirs), case["yaml"]
    assert len(CASES) > 2000
    assert len(otherwise) <= MOST_OTHERWISE * len(cases), otherwise
    accepted = sum("node" in case for case in cases)
    assert 0.3 < accepted / len(cases) < 0.7, "both kinds are drawn"
