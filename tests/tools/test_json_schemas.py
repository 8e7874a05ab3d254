"""The published JSON Schemas: equal to the models, true of all cases, and as strict as the readers."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import orjson
import pytest

from stormwright.formats import assignment_to_dict, problem_to_dict
from stormwright.model import cost_of
from stormwright.schedulers import make_scheduler
from tests.case_files import case_files, case_name, case_problem, read_case
from tests.formats.documents import SMALL, TOPOLOGY, small
from tools.json_schemas import SCHEMAS, json_schema, schema_text, write_schemas

PUBLISHED = Path(__file__).parents[2] / "docs" / "schemas"


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(orjson.loads((PUBLISHED / name).read_bytes()))


@pytest.mark.parametrize("name", SCHEMAS)
def test_published_schema_equals_generated_schema(name):
    """If this fails: python tools/json_schemas.py docs/schemas."""
    assert (PUBLISHED / name).read_bytes() == schema_text(name)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_schemas(name):
    jsonschema.Draft202012Validator.check_schema(json_schema(SCHEMAS[name], name))


def test_command_writes_every_schema(tmp_path):
    write_schemas(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(SCHEMAS) == {p.name for p in PUBLISHED.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("path", case_files("peer") + case_files("placement"), ids=case_name)
def test_cases_and_our_answers_are_valid(path):
    problem_schema, assignment_schema = (
        validator("stormwright-problem-1.json"),
        validator("stormwright-assignment-1.json"),
    )
    problem_schema.validate(read_case(path)["problem"])
    problem = case_problem(path)
    problem_schema.validate(problem_to_dict(problem))
    answer = make_scheduler("even").schedule(problem)
    cost = cost_of(problem, answer.slot_of_executor)
    assignment_schema.validate(assignment_to_dict(problem, answer, cost))
    assignment_schema.validate(assignment_to_dict(problem, answer))


@pytest.mark.parametrize(
    "document",
    [
        small("extra", value=1),
        small("supervisors", 0, "ports", 0, value="6700"),
        small("supervisors", 0, "id", drop=True),
        small("topologies", 0, "num_workers", value=0),
        small("topologies", 0, "components", 0, "type", value="sprout"),
        small("topologies", 0, "components", 1, "inputs", 0, "grouping", value="x"),
        small("topologies", 0, "executor_runs", 0, value=[0, 1, 2]),
        small("load", TOPOLOGY, "pairs", 0, value=[0, 1]),
        small("load", TOPOLOGY, "cpu_hz", 0, value=-1),
        small("assignments", TOPOLOGY, "slot_of_executor", 0, value=-2),
    ],
)
def test_schema_rejects_documents_rejected_by_the_reader(document):
    problem_schema = validator("stormwright-problem-1.json")
    assert problem_schema.is_valid(SMALL)
    assert not problem_schema.is_valid(document)
