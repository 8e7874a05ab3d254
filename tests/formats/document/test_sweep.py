"""`stormwright-sweep/1`: what is read, and every fault with its path."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from stormwright.errors import InputError
from stormwright.formats.document.sweep import read_sweep
from tools.json_schemas import schema_text

SMALL = {
    "schema": "stormwright-sweep/1",
    "problems": ["*.json", "ready:top-storm-word-count-1"],
    "schedulers": {"even": None, "online": {"alpha": [0, 0.5], "gamma": 1}},
    "seeds": [1, 2],
    "repeats": 3,
}


def written(directory: Path, document: object, name: str = "sweep.json") -> Path:
    path = directory / name
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("name", ["sweep.json", "sweep.yaml", "sweep.yml"])
def test_yaml_and_json_are_read_alike(tmp_path: Path, name: str) -> None:
    sweep = read_sweep(written(tmp_path, SMALL, name))
    assert sweep.schedulers == {"even": {}, "online": {"alpha": [0, 0.5], "gamma": [1]}}
    assert (sweep.problems, sweep.seeds, sweep.repeats) == (SMALL["problems"], [1, 2], 3)
    assert sweep.time_limit_s is None


WRONG = [
    ({"problems": []}, ["$.problems"]),
    ({"problems": "x", "repeats": 0, "more": 1}, ["$.problems", "$.repeats", "$.more"]),
    ({"schedulers": {}}, ["$.schedulers"]),
    ({"schedulers": ["even"]}, ["$.schedulers"]),
    ({"schedulers": {"online": [1]}}, ["$.schedulers.online"]),
    (
        {"schedulers": {"online": {"alpha": [], "beta": [1, None], "gamma": {}}}},
        ["$.schedulers.online.alpha", "$.schedulers.online.beta[1]", "$.schedulers.online.gamma"],
    ),
    ({"seeds": [1, "2"], "time_limit_s": 0}, ["$.seeds[1]", "$.time_limit_s"]),
    ({"schema": "stormwright-sweep/2"}, ["$.schema"]),
]


@pytest.mark.parametrize(("change", "places"), WRONG)
def test_each_sweep_fault_has_its_path_and_fails_the_schema(
    tmp_path: Path, change: dict[str, object], places: list[str]
) -> None:
    document = {**SMALL, **change}
    with pytest.raises(InputError) as caught:
        read_sweep(written(tmp_path, document))
    assert sorted(fault.path for fault in caught.value.faults) == sorted(places)
    schema = jsonschema.Draft202012Validator(json.loads(schema_text("stormwright-sweep-1.json")))
    assert schema.is_valid(SMALL)
    assert not schema.is_valid(document)


def test_missing_required_sweep_fields_are_faults(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_sweep(written(tmp_path, {}))
    assert {fault.path for fault in caught.value.faults} == {"$.schema", "$.problems", "$.schedulers"}
