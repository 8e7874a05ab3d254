"""The endpoints as routes: bodies are checked, and whatever goes wrong is answered as JSON."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stormwright import __version__
from stormwright.client.shapes import ErrorResponse, FieldError, Overview
from stormwright.errors import ConflictError, Fault, InputError, NotAllowedError, NotFoundError, StormwrightError
from stormwright.formats.document.faults import join_path
from stormwright.service.auth.middleware import visitor_of
from stormwright.service.auth.roles import Visitor
from stormwright.service.http.asgi import Bodies, from_here
from stormwright.service.http.endpoints import ENDPOINTS, GUARDING, Endpoint, EndpointRequest
from stormwright.service.plans.plan_service import PlanService

log = logging.getLogger(__name__)


# OpenAPI ------------------------------------------------------------------------------------------
# The description of the API, made of its endpoints, so that it says what they do.

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
    given.append((ErrorResponse, "serialization"))
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
                **{
                    code: _content(text, references[ErrorResponse, "serialization"]) for code, text in _REFUSALS.items()
                },
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


# Origin -------------------------------------------------------------------------------------------
# Whether what a browser sends comes from a page of this service: another site must not act in a visitor's name.


# Routes -------------------------------------------------------------------------------------------

#: Of a body; the largest that means something names some thousand topologies.
MAX_BODY_BYTES = 2**20

#: All that there are.
EVERY_ENDPOINT: Sequence[Endpoint] = (*ENDPOINTS, *GUARDING)

#: Path of the overview.
OVERVIEW = "/v1/overview"

_JSON = "application/json"


def api_routes(plan_service: PlanService, overview: Callable[[], Overview]) -> list[Route]:
    """All of `EVERY_ENDPOINT`, the overview, and ``/v1/openapi.json`` that describes them.

    Parameters
    ----------
    plan_service
        Service that the endpoints call to answer a request.
    overview
        Answers with the overview.
    """
    text = "Health, proposed changes, latest changes, and plans that wait for approval."
    every = (*EVERY_ENDPOINT, Endpoint("GET", OVERVIEW, text, Overview, lambda *_: overview()))
    described = orjson.dumps(openapi(every))

    async def describe(_: Request) -> Response:
        return Response(described, media_type=_JSON)

    return [*routes_of(plan_service, every), Route("/v1/openapi.json", describe, methods=["GET"])]


def routes_of(plan_service: PlanService, endpoints: Sequence[Endpoint]) -> list[Route]:
    """Return endpoints as routes that a plan service answers."""
    bodies = Bodies(MAX_BODY_BYTES, 16 * MAX_BODY_BYTES)
    return [Route(each.path, _answering(plan_service, each, bodies), methods=[each.method]) for each in endpoints]


def _answering(
    plan_service: PlanService, endpoint: Endpoint, bodies: Bodies
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if endpoint.method != "GET" and not from_here(request):
            return _shaped(ErrorResponse(error="refused: a page of another site asked for this"), 403)
        body = await bodies.read(request) if endpoint.takes else b""
        return await run_in_threadpool(_answered, plan_service, endpoint, request, body)

    return answer


def _answered(plan_service: PlanService, endpoint: Endpoint, request: Request, body: bytes) -> Response:
    try:
        visitor = visitor_of(request.scope)
        taken = _read(endpoint.takes, body, visitor) if endpoint.takes else None
        noted: dict[str, str] = request.scope.get("noted", {})
        noted |= {name: message for name in ("by", "reason") if (message := getattr(taken, name, ""))}
        _check_query(endpoint, request)
        asking = EndpointRequest(request.path_params, request.query_params.multi_items(), taken, visitor)
        return _shaped(endpoint.call(plan_service, asking), endpoint.status)
    except InputError as error:
        faults = tuple(FieldError(path=fault.path, message=fault.message) for fault in error.faults)
        return _shaped(ErrorResponse(error=str(error), faults=faults), 400)
    except NotFoundError as error:
        return _shaped(ErrorResponse(error=str(error)), 404)
    except NotAllowedError as error:
        return _shaped(ErrorResponse(error=str(error)), 403)
    except ConflictError as error:
        return _shaped(ErrorResponse(error=str(error)), 409)
    except (sqlite3.Error, StormwrightError) as error:
        log.warning("%s %s: %s", endpoint.method, endpoint.path, error)
        return _shaped(ErrorResponse(error=f"cannot be done now: {error}"), 503)


def _check_query(endpoint: Endpoint, request: Request) -> None:
    if unknown := [name for name in request.query_params if name not in endpoint.query]:
        known = f"there is {', '.join(endpoint.query)}" if endpoint.query else "there is none here"
        raise InputError("query", [Fault(f"unknown parameter; {known}", f"$.{name}") for name in unknown])


def _read(shape: type[BaseModel], body: bytes, visitor: Visitor | None) -> BaseModel:
    """Return the body of a request; the author is the authenticated user."""
    try:
        return shape.model_validate_json(_signed(body, visitor.name) if visitor else body)
    except ValidationError as invalid:
        found: Sequence[Fault] = [
            Fault(error["msg"], join_path("$", *error["loc"])) for error in invalid.errors(include_url=False)
        ]
        raise InputError("request", found) from invalid


def _signed(body: bytes, name: str) -> bytes:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:  # whoever reads it next says what is wrong with it
        return body
    return orjson.dumps(document | {"by": name}) if isinstance(document, dict) else body


def _shaped(answer: BaseModel, status: int) -> Response:
    return Response(answer.model_dump_json(), status, media_type=_JSON)
