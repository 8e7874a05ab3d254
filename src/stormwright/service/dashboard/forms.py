"""Actions of the pages' forms; each returns the path of the page with the result."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qs, quote

from pydantic import BaseModel, ValidationError

from stormwright.client import shapes
from stormwright.client.shapes import DrainRequest
from stormwright.errors import ConflictError, Fault, InputError, NotAllowedError, NotFoundError
from stormwright.model import Problem
from stormwright.plans.tuning import TuningAim
from stormwright.service.auth.roles import Visitor
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.trials import Change, Trials
from stormwright.service.plans.plan_service import PlanService
from stormwright.service.plans.tunings import TuningService

#: Fields of a form, each with all of its values.
Form = Mapping[str, Sequence[str]]

#: Buttons of a plan.
BUTTONS = ("apply", "stop", "resume", "discard")

_MAX_FIELDS = 200

#: The field that only a page of the same visitor can send.
KEY = "key"

_Shape = TypeVar("_Shape", bound=BaseModel)


def form_of(body: bytes) -> Form:
    """The fields of a body.

    Raises
    ------
    InputError
        It is none that a form makes.
    """
    try:
        return parse_qs(body.decode(), max_num_fields=_MAX_FIELDS, strict_parsing=bool(body), keep_blank_values=True)
    except ValueError as error:
        raise InputError("form", [Fault(f"cannot be read: {error}", "$")]) from error


def signed(form: Form, visitor: Visitor | None) -> Form:
    """A form as its visitor has sent it, with the name that he has by his token.

    Raises
    ------
    NotAllowedError
        It comes from no page that this visitor was shown.
    """
    if visitor is None:
        return form
    if visitor.form_key and not compare_digest(_one(form, KEY).encode(), visitor.form_key.encode()):
        raise NotAllowedError("this form is not of a page that you were shown since you logged in: load it again")
    return {**form, "by": [visitor.name]}


def noted(form: Form) -> dict[str, str]:
    """Return author and reason from a form."""
    return {name: text for name, text in _author_and_reason(form).items() if text}


def ask_for_plan(known: DashboardState, form: Form) -> str:
    """Begin to make a plan."""
    request = {
        "goals": tuple(filter(None, (_one(form, "goal"), _one(form, "then")))),
        "only": _one(form, "only") or None,
        "topologies": tuple(_one(form, "topologies").split()),
        "nodes": tuple(_one(form, "nodes").split()),
        **_author_and_reason(form),
    }
    plan = _plan_service(known).request(_shaped(shapes.PlanRequest, request))
    return f"/plans/{quote(plan.id)}"


def press(known: DashboardState, plan: str, button: str, form: Form) -> str:
    """Apply, stop, resume or discard a plan.

    Parameters
    ----------
    known
        Holds the plan service.
    plan, button
        Its id, and one of `BUTTONS`.
    form
        Fields ``by`` and ``reason``: author and reason for the history.
    """
    plan_service = _plan_service(known)
    if button not in BUTTONS:
        raise NotFoundError(f"unknown action for a plan: {button}")
    if button != "discard" and known.sources.status() is None:
        raise ConflictError("no cluster is connected: a plan from a file cannot be applied")
    getattr(plan_service, button)(plan, _shaped(shapes.ChangeRequest, _author_and_reason(form)))
    return f"/plans/{quote(plan)}"


def press_node(known: DashboardState, node: str, button: str, form: Form) -> str:
    """Drain a node, or make it schedulable again.

    Parameters
    ----------
    known
        Holds the plan service.
    node, button
        Id of a supervisor, and ``drain`` or ``uncordon``.
    form
        Fields ``by`` and ``reason``: author and reason for the history.
    """
    nodes = _plan_service(known).nodes
    if button not in ("drain", "uncordon"):
        raise NotFoundError(f"unknown action for a node: {button}")
    if known.sources.status() is None:
        raise ConflictError("no cluster is connected: nodes cannot be drained")
    if button == "uncordon":
        nodes.uncordon(node, _shaped(shapes.ChangeRequest, _author_and_reason(form)))
        return f"/cluster/nodes/{quote(node, safe='')}"
    begun = nodes.drain(node, _shaped(DrainRequest, _author_and_reason(form)))
    return f"/plans/{quote(begun.plan.id)}" if begun.plan else f"/cluster/nodes/{quote(node, safe='')}"


def tune(known: DashboardState, topology: str, form: Form) -> str:
    """Begin to tune a topology."""
    tunings = _tunings(known)
    limit = _one(form, "latency_ms")
    if limit and not re.fullmatch(r"0*[1-9]\d{0,8}(\.\d{1,6})?", limit):
        raise InputError("form", [Fault(f"should be a number of ms from 1 on, got {limit}", "latency")])
    quantity: Literal["throughput", "cores"] = "cores" if _one(form, "quantity") == "cores" else "throughput"
    aim = TuningAim(quantity, latency_ms=float(limit) if limit else None)
    request = {"topology": topology, "aim": aim, **_author_and_reason(form)}
    tunings.start(_shaped(shapes.TuningRequest, request))
    return f"/topologies/{quote(topology, safe='')}"


def stop_tuning(known: DashboardState, topology: str, form: Form) -> str:
    """Stop the tuning of a topology."""
    _tunings(known).stop(topology, _shaped(shapes.ChangeRequest, _author_and_reason(form)))
    return f"/topologies/{quote(topology, safe='')}"


def _tunings(known: DashboardState) -> TuningService:
    if known.sources.status() is None:
        raise ConflictError("no cluster is connected: topologies cannot be tuned")
    return _plan_service(known).tunings


def revert(known: DashboardState, n: str, form: Form) -> str:
    """Begin to restore the placement as it was before an entry of the history."""
    if not (n.isascii() and n.isdigit() and len(n) < 19):
        raise NotFoundError(f"the history has no entry {n}")
    if known.sources.status() is None:
        raise ConflictError("no cluster is connected: there is nothing to revert")
    plan = _plan_service(known).revert(int(n), _shaped(shapes.ChangeRequest, _author_and_reason(form)))
    return f"/plans/{quote(plan.id)}"


def ask_to_compare(known: DashboardState, form: Form) -> str:
    """Start a comparison of schedulers on the current problem."""
    trials, problem = _ready(known)
    names = [name for name in form.get("scheduler", ()) if name]
    there = trials.schedulers()
    faults = [Fault(f"there is no scheduler {name}", "scheduler") for name in names if name not in there]
    if faults or not names:
        raise InputError("compare", faults or [Fault("tick at least one scheduler", "scheduler")])
    command = shlex.join(["stormwright", "compare", "problem.json", "--schedulers", ",".join(names)])
    title = f"Compare {', '.join(names)}"
    return f"/try/{known.trials.ask(title, command, lambda: trials.compare(problem, names)).id}"


def ask_what_if(known: DashboardState, form: Form) -> str:
    """Begin to predict a change."""
    trials, problem = _ready(known)
    nodes = _one(form, "add_nodes") or "0"
    if not (nodes.isascii() and nodes.isdigit() and len(nodes) < 6):
        raise InputError("what if", [Fault(f"should be a number from 0 to 99,999, got {nodes}", "nodes to add")])
    texts = {name: _one(form, name) for name in ("rate", "kill_node", "parallelism", "link", "scheduler")}
    change = Change(**texts, add_nodes=int(nodes))
    options = {"--rate": change.rate, "--add-nodes": str(change.add_nodes or ""), "--kill-node": change.kill_node}
    options |= {"--parallelism": change.parallelism, "--link": change.link, "--scheduler": change.scheduler}
    arguments = [word for option, value in options.items() if value for word in (option, value)]
    if not arguments:
        raise InputError("what if", [Fault("nothing to change: fill in at least one field", "form")])
    title = f"What if {' '.join(arguments)}"
    command = shlex.join(["stormwright", "whatif", "problem.json", *arguments])
    return f"/try/{known.trials.ask(title, command, lambda: trials.what_if(problem, change)).id}"


def _ready(known: DashboardState) -> tuple[Trials, Problem]:
    if known.sources.trials is None:
        raise ConflictError("this service was started without trials")
    scene = known.scene()
    if scene is None:
        raise ConflictError("Nimbus has not polled the service yet: try again in 10 s")
    return known.sources.trials, scene.problem


def _plan_service(known: DashboardState) -> PlanService:
    if known.sources.plan_service is None:
        raise ConflictError("no cluster is connected: there are no plans")
    return known.sources.plan_service


def _author_and_reason(form: Form) -> dict[str, Any]:
    return {"by": _one(form, "by"), "reason": _one(form, "reason")}


def _one(form: Form, name: str) -> str:
    return form.get(name, [""])[-1].strip()


def _shaped(shape: type[_Shape], values: Mapping[str, Any]) -> _Shape:
    try:
        return shape.model_validate(values)
    except ValidationError as invalid:
        names = {"by": "your name", "reason": "why"}
        faults = []
        for error in invalid.errors(include_url=False):
            field = str(error["loc"][0]) if error["loc"] else "form"
            short = error["type"] == "string_too_short"
            faults.append(Fault("fill this in" if short else error["msg"], names.get(field, field)))
        raise InputError("form", faults) from invalid
