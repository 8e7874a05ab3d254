"""The endpoints of the API: parameters, bodies and handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel

from stormwright.client import shapes
from stormwright.client.shapes import ChangeRequest
from stormwright.errors import Fault, InputError, NotAllowedError
from stormwright.plans.modes import Modes
from stormwright.plans.plan import Plan
from stormwright.plans.states import PlanState
from stormwright.plans.tuning import Tuning
from stormwright.service.auth.roles import Visitor
from stormwright.service.plans.plan_service import PlanService

#: Entries of one answer at most.
MAX = 1000


@dataclass(frozen=True)
class EndpointRequest:
    """A request: path and query parameters, validated body, and user."""

    path: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    body: Any = None
    visitor: Visitor | None = None


@dataclass(frozen=True)
class Endpoint:
    """One way to ask.

    Parameters
    ----------
    method, path
        Of HTTP; names in braces stand for a part of the path.
    text
        Description of its effect, for the OpenAPI document.
    answers, status
        Shape and status of the answer.
    call
        Returns the answer for a request, from the plan service.
    takes
        Shape of the body; None for no body.
    query
        Name of a parameter → what it means.
    """

    method: str
    path: str
    text: str
    answers: type[BaseModel]
    call: Callable[[PlanService, EndpointRequest], BaseModel]
    takes: type[BaseModel] | None = None
    status: int = 200
    query: Mapping[str, str] = field(default_factory=dict)


def _plans(plan_service: PlanService, asking: EndpointRequest) -> BaseModel:
    states = [value for name, value in asking.query if name == "state"]
    known: dict[str, PlanState] = {state: state for state in get_args(PlanState)}
    if wrong := [state for state in states if state not in known]:
        given = f"should be one of {', '.join(known)}"
        raise InputError("plans", [Fault(f"{given}; got {state}", "$.state") for state in wrong])
    return plan_service.plans([known[state] for state in states], _number(asking, "limit", 100, 1))


def _history(plan_service: PlanService, asking: EndpointRequest) -> BaseModel:
    return plan_service.history(_number(asking, "limit", 50, 1), _number(asking, "before", None, 0))


def _explain(plan_service: PlanService, asking: EndpointRequest) -> BaseModel:
    topology = next((value for name, value in reversed(asking.query) if name == "topology"), None)
    return plan_service.explain(topology, _number(asking, "executor", None, 0))


def _revert(plan_service: PlanService, asking: EndpointRequest) -> BaseModel:
    text = asking.path["n"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError("history", [Fault(f"should be the number of an entry, got {text}", "$.n")])
    return plan_service.revert(int(text), asking.body)


def _change_modes(plan_service: PlanService, asking: EndpointRequest) -> BaseModel:
    """Change the modes; only an approver may disable two-person approval."""
    if asking.visitor is not None:
        before, wanted = plan_service.modes(), asking.body
        differing = {name for name in Modes.model_fields if getattr(before, name) != getattr(wanted, name)}
        if asking.visitor.role == "approver" and differing - {"two_people", "version", "warnings"}:
            raise NotAllowedError("an approver changes two_people alone: an operator changes modes")
        if asking.visitor.role == "operator" and before.two_people and not wanted.two_people:
            raise NotAllowedError("two people are needed for a plan: an approver ends that, not an operator")
    return plan_service.change_modes(asking.body)


def _number(asking: EndpointRequest, name: str, default: Any, least: int) -> Any:
    given = [value for key, value in asking.query if key == name]
    if not given:
        return default
    if not (given[-1].isascii() and given[-1].isdigit() and len(given[-1]) < 19 and int(given[-1]) >= least):
        raise InputError("query", [Fault(f"should be a number from {least} on, got {given[-1]}", f"$.{name}")])
    return min(int(given[-1]), MAX) if name == "limit" else int(given[-1])


def _of_plan(what: str) -> Callable[[PlanService, EndpointRequest], BaseModel]:
    return lambda plan_service, asking: getattr(plan_service, what)(asking.path["plan"], asking.body)


_LIMIT = {"limit": f"maximum number of items, up to {MAX}"}

ENDPOINTS: Sequence[Endpoint] = (
    Endpoint(
        "POST",
        "/v1/plans",
        "Create a plan. Its first state is `planning`: poll it by its id, or discard it to cancel.",
        Plan,
        lambda plan_service, asking: plan_service.request(asking.body),
        shapes.PlanRequest,
        202,
    ),
    Endpoint(
        "GET",
        "/v1/plans",
        "List plans, newest first.",
        shapes.Plans,
        _plans,
        query={"state": "only plans in this state; may be repeated", **_LIMIT},
    ),
    Endpoint(
        "GET",
        "/v1/plans/{plan}",
        "Return a plan with all its steps.",
        Plan,
        lambda plan_service, asking: plan_service.plan(asking.path["plan"]),
    ),
    Endpoint(
        "POST",
        "/v1/plans/{plan}/apply",
        "Start to apply a plan in evaluated stages; 409 if the cluster has changed since.",
        Plan,
        _of_plan("apply"),
        shapes.ChangeRequest,
        202,
    ),
    Endpoint(
        "POST",
        "/v1/plans/{plan}/stop",
        "Stop a plan after the moves in progress.",
        Plan,
        _of_plan("stop"),
        shapes.ChangeRequest,
        202,
    ),
    Endpoint(
        "POST",
        "/v1/plans/{plan}/resume",
        "Resume a stopped or waiting plan; completed stages count as accepted.",
        Plan,
        _of_plan("resume"),
        shapes.ChangeRequest,
        202,
    ),
    Endpoint(
        "POST",
        "/v1/plans/{plan}/discard",
        "Discard a plan, or cancel its computation; completed moves stay.",
        Plan,
        _of_plan("discard"),
        shapes.ChangeRequest,
    ),
    Endpoint(
        "POST",
        "/v1/tunings",
        "Begin to tune a topology: trials of configurations, each a plan that stays only if it is measurably better.",
        Tuning,
        lambda plan_service, asking: plan_service.tunings.start(asking.body),
        shapes.TuningRequest,
        202,
    ),
    Endpoint(
        "GET",
        "/v1/tunings",
        "List tunings, newest first.",
        shapes.Tunings,
        lambda plan_service, _: plan_service.tunings.all(),
    ),
    Endpoint(
        "GET",
        "/v1/tunings/{tuning}",
        "Return a tuning by its id, or the newest one of a topology by its name or id.",
        Tuning,
        lambda plan_service, asking: plan_service.tunings.find(asking.path["tuning"]),
    ),
    Endpoint(
        "POST",
        "/v1/tunings/{tuning}/stop",
        "Stop a tuning; a trial under way is still evaluated.",
        Tuning,
        lambda plan_service, asking: plan_service.tunings.stop(asking.path["tuning"], asking.body),
        shapes.ChangeRequest,
        202,
    ),
    Endpoint(
        "GET",
        "/v1/history",
        "List changes with author, reason, promise and measured result, newest first.",
        shapes.History,
        _history,
        query={"before": "only entries with a lower number", **_LIMIT},
    ),
    Endpoint(
        "POST",
        "/v1/history/{n}/revert",
        "Start to restore the placement before an entry; returns the plan.",
        Plan,
        _revert,
        shapes.ChangeRequest,
        202,
    ),
    Endpoint(
        "GET",
        "/v1/explain",
        "Explain why executors have no slot; of a topology that has all its slots, or of one executor, why there.",
        shapes.Explanations,
        _explain,
        query={"topology": "its id or name", "executor": "its number within the topology, from 0"},
    ),
    Endpoint(
        "GET",
        "/v1/modes",
        "Return the modes: which moves the service makes automatically.",
        Modes,
        lambda plan_service, _: plan_service.modes(),
    ),
    Endpoint(
        "PUT",
        "/v1/modes",
        "Replace the modes.",
        Modes,
        _change_modes,
        shapes.ModesChange,
    ),
)


GUARDING: Sequence[Endpoint] = (
    Endpoint(
        "GET",
        "/v1/drains",
        "List drained nodes, with the number of workers still on each.",
        shapes.DrainedHosts,
        lambda plan_service, _: plan_service.nodes.drained(),
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{node}/drain",
        "Cordon a node (a host, or the id of a supervisor on it) and plan to move its workers away. The plan starts "
        "automatically unless `wait` is set.",
        shapes.DrainResponse,
        lambda plan_service, asking: plan_service.nodes.drain(asking.path["node"], asking.body),
        shapes.DrainRequest,
        202,
    ),
    Endpoint(
        "POST",
        "/v1/nodes/{node}/uncordon",
        "Make a drained node schedulable again.",
        shapes.DrainedHost,
        lambda plan_service, asking: plan_service.nodes.uncordon(asking.path["node"], asking.body),
        ChangeRequest,
    ),
)
