"""The JSON Schemas of our formats, made from the models that read them.

``python tools/json_schemas.py docs/schemas`` writes them; a test keeps them equal.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel

from stormwright.formats.document.documents import AssignmentDocument, CostsDocument, ProblemDocument
from stormwright.formats.document.sweep import SweepDocument
from stormwright.formats.files.archives import ArraysDocument

#: File name → the model of the document.
SCHEMAS: Mapping[str, type[BaseModel]] = {
    "stormwright-assignment-1.json": AssignmentDocument,
    "stormwright-calibration-1.json": CostsDocument,
    "stormwright-problem-1.json": ProblemDocument,
    "stormwright-problem-arrays-1.json": ArraysDocument,
    "stormwright-sweep-1.json": SweepDocument,
}


def json_schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `model`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(),
        "title": title,
    }


def schema_text(name: str) -> bytes:
    """The contents of the schema file `name`, one of `SCHEMAS`."""
    title = name.removesuffix(".json").replace("-1", "/1")
    return orjson.dumps(json_schema(SCHEMAS[name], title), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def write_schemas(directory: Path) -> None:
    """Write every schema file into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in SCHEMAS:
        (directory / name).write_bytes(schema_text(name))


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
