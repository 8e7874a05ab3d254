"""`stormwright-sweep/1`: schedulers with parameters to try on problems; YAML or JSON."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from stormwright.formats.document.documents import FormatDocument, Name, Positive
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.formats.files.json_files import read_json
from stormwright.formats.files.yaml_files import read_yaml

#: The longest time limit of a cell, eleven days; timers take no more than some years.
MAX_SECONDS = 1e6

#: A value of a parameter.
Setting = bool | int | float | str

#: Parameter → the values that are tried.
Grid = dict[str, list[Setting]]

_SETTING = {"type": ["boolean", "integer", "number", "string"]}
_GRID = {
    "type": ["object", "null"],
    "additionalProperties": {"anyOf": [_SETTING, {"type": "array", "items": _SETTING, "minItems": 1}]},
}


class SimulateDocument(FormatDocument):
    """Every placement runs for `seconds` of virtual time, without a trace and under each of the given ones.

    A trace is a file (from the directory of this one) with lines ``SECONDS,FACTOR`` or ``SECONDS,FACTOR,TOPOLOGY``.
    """

    seconds: Annotated[float, Field(gt=0, le=MAX_SECONDS)]
    traces: list[Annotated[Name, Field(pattern=r"^[^\x00]*$")]] = Field(default=[])


class SweepDocument(FormatDocument):
    """Every problem, placed by every scheduler with every combination of its parameters, seeds and repeats.

    A problem is a file (from the directory of this one; ``*``, ``?`` and ``**`` stand for any number of them) or
    ``ready:NAME``. A parameter has one value or a list of those to try. Seeds are tried with schedulers that draw
    random numbers; the others have one seed, none, but where placements are simulated. A cell that takes longer than
    `time_limit_s` fails.
    """

    schema_name: Literal["stormwright-sweep/1"] = Field(alias="schema")
    problems: Annotated[list[Annotated[Name, Field(pattern=r"^[^\x00]*$")]], Field(min_length=1)]
    schedulers: Annotated[Any, WithJsonSchema({"type": "object", "additionalProperties": _GRID, "minProperties": 1})]
    seeds: list[Annotated[int, Field(ge=-(2**63), lt=2**63)]] = Field(default=[])
    repeats: Positive = 1
    time_limit_s: Annotated[float, Field(gt=0, le=MAX_SECONDS)] | None = None
    simulate: SimulateDocument | None = None


def read_sweep(path: Path) -> SweepDocument:
    """Read the sweep in a YAML file (``*.yaml``, ``*.yml``) or a JSON file; its `schedulers` are `Grid`s by name.

    Raises
    ------
    InputError
        The file cannot be read or is not a sweep; all its faults.
    """
    raw = read_yaml(path) if path.suffix in (".yaml", ".yml") else read_json(path)
    faults = FaultList()
    document = faults.parse(SweepDocument, raw, "$")
    grids = {name: _grid(grid, at, faults) for name, grid, at in faults.entries(raw, "schedulers", "$")}
    if document is not None and not grids and not len(faults):
        faults.add("names no scheduler", "$.schedulers")
    if document is None or len(faults):
        raise faults.error(str(path))
    return document.model_copy(update={"schedulers": grids})


def _grid(raw: object, path: str, faults: FaultList) -> Grid:
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        faults.add(f"should be an object of parameters, got {shown(raw)}", path)
        return {}
    return {key: _values(values, join_path(path, key), faults) for key, values in raw.items()}


def _values(raw: object, path: str, faults: FaultList) -> list[Setting]:
    if isinstance(raw, list):
        if not raw:
            faults.add("is an empty list: no value to try", path)
        places = [(value, join_path(path, position)) for position, value in enumerate(raw)]
    else:
        places = [(raw, path)]
    values: list[Setting] = []
    for value, at in places:
        if isinstance(value, float) and not isfinite(value):
            faults.add(f"should be a number that one can count to, got {value}", at)
        elif isinstance(value, (bool, int, float, str)):
            values.append(value)
        else:
            faults.add(f"should be a number, a text, true or false, got {shown(value)}", at)
    return values
