"""2,000 random Flux files, half of them odd: accepted, refused and understood as by Flux and Storm themselves.

``flux/random.json.gz`` has the files and the answers of the classes of Flux 2.8.3 and Storm 2.8.3, both from
``tools/flux_answers.py``.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from stormwright.formats.document.topology import topology_to_dict
from stormwright.formats.storm.flux import read_flux
from stormwright.formats.storm.storm_yaml import DEFAULTS, cluster_conf

CASES = json.loads(gzip.decompress((Path(__file__).parent / "flux" / "random.json.gz").read_bytes()))

#: Resources that every executor requests.
ALWAYS = {"cpu.pcore.percent", "onheap.memory.mb", "offheap.memory.mb"}

#: Part that may be accepted where Storm refuses, or refused where it accepts: SnakeYAML takes yes for a name and a
#: quoted text with a tag for none, and what a null does to the requests of ackers depends on who reads it.
MOST_OTHERWISE = 0.01


def read(tmp_path: Path, text: str) -> dict[str, object] | None:
    """A topology as compared; None if the file is refused."""
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    topologies, errors = read_flux([path], cluster_conf([DEFAULTS]))
    if errors:
        assert all(fault.path and fault.message for error in errors for fault in error.faults), text
        return None
    return compared(topology_to_dict(topologies[0]))


def compared(topology: dict[str, object]) -> dict[str, object]:
    # Storm knows the names of generic resources process-wide: where they are not requested it says 0.
    components = [
        {**each, "resources": {name: x for name, x in each["resources"].items() if x or name in ALWAYS}}
        for each in topology["components"]
    ]
    components = [{k: v for k, v in each.items() if k != "conf" and v != []} for each in components]
    return {**{k: topology[k] for k in ("name", "num_workers", "executor_runs")}, "components": components}


@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.slow)])
def test_random_files_are_understood_as_by_storm(tmp_path, step):
    otherwise, cases = [], CASES[::step]
    for case in cases:
        ours, theirs = read(tmp_path, case["flux"]), case.get("topology")
        if (ours is None) != (theirs is None):
            otherwise.append((case["flux"], case.get("error", "accepted by Storm")))
        elif theirs is not None:
            assert ours == compared(theirs), case["flux"]
    assert len(CASES) > 2000
    assert len(otherwise) <= MOST_OTHERWISE * len(cases), otherwise
    accepted = sum("topology" in case for case in cases)
    assert 0.3 < accepted / len(cases) < 0.7, "both kinds are drawn"
