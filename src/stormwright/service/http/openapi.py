"""The description of the API, made of its endpoints, so that it says what they do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from stormwright import __version__
from stormwright.client.shapes import Refused
from stormwright.service.http.endpoints import Endpoint

#: A shape, and which way it goes.
_Use = tuple[type[BaseModel], Literal["validation", "serialization"]]

_REFERENCE = "#/components/schemas/{model}"

#: Status → what it means, of answers that do not do what was asked.
_REFUSALS = {
    "400": "what was asked has faults, each with its path",
    "401": "nobody has said who asks, or a token that is none",
    "403": "who asks may not, or a page of another site asked for it",
    "404": "there is no such plan or entry",
    "409": "it cannot be done as things are now",
    "413": "the body is too large",
    "429": "it was asked too often",
    "503": "the state of the service cannot be read or written now",
}


def openapi(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """An OpenAPI 3.1 document of endpoints."""
    known = list(endpoints)
    taken: list[_Use] = [(each.takes, "validation") for each in known if each.takes]
    given: list[_Use] = [(each.answers, "serialization") for each in known]
    given.append((Refused, "serialization"))
    references, schemas = models_json_schema(list(dict.fromkeys([*taken, *given])), ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for each in known:
        operation: dict[str, Any] = {
            "summary": each.text,
            "operationId": re.sub(r"\W+", "_", f"{each.method} {each.path[4:]}").strip("_").lower(),
            "parameters": [
                *(_parameter(name, "path", "") for name in re.findall(r"{(\w+)}", each.path)),
                *(_parameter(name, "query", text) for name, text in each.query.items()),
            ],
            "responses": {
                str(each.status): _content("as asked", references[each.answers, "serialization"]),
                **{code: _content(text, references[Refused, "serialization"]) for code, text in _REFUSALS.items()},
            },
        }
        if each.takes:
            schema = references[each.takes, "validation"]
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths.setdefault(each.path, {})[each.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "stormwright", "version": __version__},
        # Neither is needed where a service runs without authentication.
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _parameter(name: str, place: str, text: str) -> dict[str, Any]:
    kind = "integer" if name in ("n", "limit", "before", "executor") else "string"
    return {"name": name, "in": place, "required": place == "path", "description": text, "schema": {"type": kind}}


def _content(text: str, schema: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
