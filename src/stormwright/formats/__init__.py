"""Files and wire documents to and from the model; each fault of an input comes with its JSON path."""

from stormwright.formats.document.assignment import (
    assignment_from_dict,
    assignment_to_dict,
    placement_to_dict,
    read_assignment,
    write_assignment,
)
from stormwright.formats.document.problem import problem_from_dict, problem_to_dict
from stormwright.formats.files.json_files import parse_json, read_json, write_json
from stormwright.formats.files.problem_files import read_problem, write_problem
from stormwright.formats.nimbus_snapshot import snapshot_from_dict

__all__ = [
    "assignment_from_dict",
    "assignment_to_dict",
    "parse_json",
    "placement_to_dict",
    "problem_from_dict",
    "problem_to_dict",
    "read_assignment",
    "read_json",
    "read_problem",
    "snapshot_from_dict",
    "write_assignment",
    "write_json",
    "write_problem",
]
