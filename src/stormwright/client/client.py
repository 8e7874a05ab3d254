"""Asks a running service over HTTP, with nothing but the standard library and the shapes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from pydantic import BaseModel, ValidationError

from stormwright.client import shapes
from stormwright.client.shapes import Overview
from stormwright.errors import ClusterError, ConflictError, Fault, InputError, NotFoundError
from stormwright.model.assignment import TopologyAssignment
from stormwright.plans.json import placement_to_dict
from stormwright.plans.modes import Modes, MoveKind
from stormwright.plans.plan import Goal, Plan
from stormwright.plans.states import PlanState
from stormwright.plans.tuning import FASTER, Tuning, TuningAim

_Answer = TypeVar("_Answer", bound=BaseModel)

#: Seconds that one call may take, and from one look at a plan that is being made to the next.
LIMIT_S, POLL_S = 30.0, 0.2


class Client:
    """A service's API.

    Parameters
    ----------
    address
        Address of the service without a path, as in ``http://127.0.0.1:7070``; plain HTTP by default.
    by
        Who asks, for the history; where a token is needed, its name counts instead.
    token
        Says who asks, to a service that wants to know; None for none.
    limit_s
        Seconds that one call may take.

    Raises
    ------
    InputError
        From every call: the request is invalid. From the constructor: the address is invalid.
    NotFoundError, ConflictError
        There is no such plan or entry; it cannot be done as things are now.
    ClusterError
        The service cannot be reached, or does not answer as it should.
    """

    def __init__(self, address: str, by: str, limit_s: float = LIMIT_S, token: str | None = None) -> None:
        scheme, self._host, self._port = _address(address)
        self._connect = HTTPSConnection if scheme == "https" else HTTPConnection
        self._limit_s = limit_s
        self._headers = bearing(token)
        self.address, self._by = (address if "//" in address else f"http://{address}").strip().rstrip("/"), by

    def plan(
        self,
        reason: str,
        *,
        goals: Iterable[Goal] = (),
        only: str | None = None,
        topologies: Iterable[str] = (),
        nodes: Iterable[str] = (),
        least_gain_percent: float | None = None,
        allow: Iterable[MoveKind] = (),
        placements: Mapping[str, TopologyAssignment] | None = None,
        executors: Mapping[str, Mapping[str, int]] | None = None,
        conf: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Plan:
        """Begin to make a plan; `wait_until_planned` waits for it.

        Parameters
        ----------
        reason, goals, only, topologies, nodes, least_gain_percent, allow, placements, executors, conf
            As `shapes.PlanRequest` has them.
        """
        request: dict[str, Any] = {
            "reason": reason,
            "goals": list(goals),
            "only": only,
            "topologies": list(topologies),
            "nodes": list(nodes),
            "least_gain_percent": least_gain_percent,
            "allow": list(allow),
        }
        # Only where they are given: services of before know neither.
        if placements:
            request["placements"] = {topology: placement_to_dict(each) for topology, each in placements.items()}
        if executors:
            request["executors"] = {topology: dict(each) for topology, each in executors.items()}
        if conf:
            request["conf"] = {topology: dict(each) for topology, each in conf.items()}
        return self._ask("POST", "/v1/plans", Plan, request)

    def wait_until_planned(self, plan: str, limit_s: float = 600.0, waits: Callable[[], None] | None = None) -> Plan:
        """Wait for the service to compute a plan, and return it.

        Parameters
        ----------
        plan
            Id of the plan, from `plan`.
        limit_s
            Maximum time to wait, in seconds.
        waits
            Called once if the plan is not ready at the first request.

        Raises
        ------
        ConflictError
            The plan failed, or is not ready in time.
        """
        until = time.monotonic() + limit_s
        while (found := self.show(plan)).state == "planning":
            if waits is not None:
                waits()
                waits = None
            if time.monotonic() > until:
                raise ConflictError(f"plan {plan} is still being made after {limit_s:g} s")
            time.sleep(POLL_S)
        if found.state == "failed":
            raise ConflictError(f"plan {plan} could not be made: {found.why}")
        return found

    def show(self, plan: str) -> Plan:
        """Return a plan with all its steps."""
        return self._ask("GET", f"/v1/plans/{_id(plan)}", Plan)

    def explain(self, topology: str | None = None, executor: int | None = None) -> shapes.Explanations:
        """Explain why executors (of one topology) have no slot, or the slot of one executor."""
        request = {"topology": topology, "executor": executor}
        query = urlencode({name: value for name, value in request.items() if value is not None})
        return self._ask("GET", f"/v1/explain?{query}" if query else "/v1/explain", shapes.Explanations)

    def plans(self, states: Iterable[PlanState] = (), limit: int = 100) -> shapes.Plans:
        """Return plans, newest first; those in some states, or all."""
        query = urlencode([*(("state", state) for state in states), ("limit", limit)])
        return self._ask("GET", f"/v1/plans?{query}", shapes.Plans)

    def apply(self, plan: str, reason: str) -> Plan:
        """Start to apply a plan."""
        return self._change_plan(plan, "apply", reason)

    def stop(self, plan: str, reason: str) -> Plan:
        """Stop a plan after the moves in progress."""
        return self._change_plan(plan, "stop", reason)

    def resume(self, plan: str, reason: str) -> Plan:
        """Resume a stopped or waiting plan."""
        return self._change_plan(plan, "resume", reason)

    def discard(self, plan: str, reason: str) -> Plan:
        """Discard a plan, or cancel its computation."""
        return self._change_plan(plan, "discard", reason)

    def history(self, limit: int = 50, before: int | None = None) -> shapes.History:
        """Return entries of the history, newest first."""
        query = {"limit": limit} | ({} if before is None else {"before": before})
        return self._ask("GET", f"/v1/history?{urlencode(query)}", shapes.History)

    def revert(self, n: int, reason: str) -> Plan:
        """Start to restore the placement before an entry of the history."""
        return self._ask("POST", f"/v1/history/{n}/revert", Plan, {"reason": reason})

    def tune(
        self,
        topology: str,
        reason: str,
        aim: TuningAim = FASTER,
        *,
        any_latency: bool = False,
        trials: int = 6,
        pauses_s: float = 600.0,
        dry_run: bool = False,
    ) -> Tuning:
        """Begin to tune a topology; `tuning` shows how far it has come.

        Parameters
        ----------
        topology, reason, aim, any_latency, trials, pauses_s, dry_run
            As `shapes.TuningRequest` has them.
        """
        limits = {name: value for name, value in asdict(aim).items() if value is not None}
        request = {"any_latency": any_latency, "trials": trials, "pauses_s": float(pauses_s), "dry_run": dry_run}
        return self._ask(
            "POST", "/v1/tunings", Tuning, {"topology": topology, "reason": reason, "aim": limits, **request}
        )

    def tuning(self, tuning: str) -> Tuning:
        """Return a tuning by its id, or the newest one of a topology by its name or id."""
        return self._ask("GET", f"/v1/tunings/{quote(tuning, safe='')}", Tuning)

    def tunings(self) -> shapes.Tunings:
        """Return all tunings, newest first."""
        return self._ask("GET", "/v1/tunings", shapes.Tunings)

    def stop_tuning(self, tuning: str, reason: str) -> Tuning:
        """Stop a tuning; a trial under way is still evaluated."""
        return self._ask("POST", f"/v1/tunings/{quote(tuning, safe='')}/stop", Tuning, {"reason": reason})

    def overview(self) -> Overview:
        """Return the health of the service, its next and last changes, and pending approvals."""
        try:
            return self._ask("GET", "/v1/overview", Overview)
        except NotFoundError as error:
            raise ClusterError(f"{self.address} has no overview: it is an older version") from error

    def modes(self) -> Modes:
        """Return the modes: which moves the service makes automatically."""
        return self._ask("GET", "/v1/modes", Modes)

    def change_modes(self, modes: Modes, reason: str) -> Modes:
        """Replace the modes: which moves the service makes automatically.

        Raises
        ------
        ConflictError
            `modes` has a version, and they were changed since.
        """
        body = modes.model_dump(mode="json", exclude=set() if "version" in modes.model_fields_set else {"version"})
        return self._ask("PUT", "/v1/modes", Modes, body | {"reason": reason})

    def drains(self) -> shapes.DrainedHosts:
        """Return the drained nodes."""
        return self._ask("GET", "/v1/drains", shapes.DrainedHosts)

    def drain(self, node: str, reason: str, *, only_cordon: bool = False, wait: bool = False) -> shapes.DrainResponse:
        """Drain a node.

        Parameters
        ----------
        node
            A host, or the id of a supervisor.
        reason
            Reason for the drain, stored in the history.
        only_cordon, wait
            What runs there stays; or what leaves is only planned.
        """
        request = {"reason": reason, "only_cordon": only_cordon, "wait": wait}
        return self._ask("POST", f"/v1/nodes/{quote(node, safe='')}/drain", shapes.DrainResponse, request)

    def uncordon(self, node: str, reason: str) -> shapes.DrainedHost:
        """Make a drained node schedulable again."""
        return self._ask("POST", f"/v1/nodes/{quote(node, safe='')}/uncordon", shapes.DrainedHost, {"reason": reason})

    def _change_plan(self, plan: str, what: str, reason: str) -> Plan:
        return self._ask("POST", f"/v1/plans/{_id(plan)}/{what}", Plan, {"reason": reason})

    def _ask(self, method: str, path: str, shape: type[_Answer], body: dict[str, Any] | None = None) -> _Answer:
        content = None if body is None else _content(body | {"by": self._by})
        connection = self._connect(self._host, self._port, timeout=self._limit_s)
        try:
            kind = {"content-type": "application/json"} if content else {}
            connection.request(method, path, content, kind | self._headers)
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except (OSError, HTTPException) as error:
            # Python's text begins with the number of the error, which says nothing to people.
            why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            otherwise = "`stormwright serve` starts one, --service names another"
            raise ClusterError(f"{self.address}: no service answers there ({why}): {otherwise}") from error
        finally:
            connection.close()
        if status >= 400:
            raise self._refusal(status, answer)
        try:
            return shape.model_validate_json(answer, strict=False)
        except ValidationError as error:
            raise ClusterError(f"{self.address} sent no {shape.__name__}: is it stormwright?") from error

    def _refusal(self, status: int, answer: bytes) -> Exception:
        try:
            body = shapes.ErrorResponse.model_validate_json(answer)
        except ValidationError:
            return ClusterError(f"{self.address} answers with status {status}: is it stormwright?")
        if body.faults:
            return InputError(self.address, [Fault(fault.message, fault.path) for fault in body.faults])
        return {404: NotFoundError, 409: ConflictError}.get(status, ClusterError)(body.error)


def bearing(token: str | None) -> dict[str, str]:
    """The header that says who asks.

    Raises
    ------
    InputError
        The token is none, and is not shown: it may be one with something to it.
    """
    if token is None:
        return {}
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError("token", [Fault("should be one word, as `stormwright token create` prints it", "$")])
    return {"authorization": f"Bearer {token}"}


def _address(body: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address; whatever else it had would be left out without a word."""
    try:
        parts = urlsplit(body if "//" in body else f"http://{body}")
        more = parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None
        if parts.scheme in ("http", "https") and parts.hostname and not more and body.isascii():
            return parts.scheme, parts.hostname, parts.port
    except ValueError:  # half an IPv6 address, or a port that is none
        pass
    raise InputError("service", [Fault("should be an address such as http://127.0.0.1:7070, without a path", body)])


def _id(plan: str) -> str:
    """An id as part of a path; another text would name another path, or none."""
    if not (plan.isascii() and plan.isalnum()):
        raise NotFoundError(f"there is no plan {plan!r}; `stormwright plan --list` lists them")
    return plan


def _content(body: dict[str, Any]) -> bytes:
    faults = []
    for name, value in body.items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # of a command line, say, whose bytes are something else
            faults.append(Fault("is no text in UTF-8", f"$.{name}"))
    if faults:
        raise InputError("request", faults)
    return json.dumps(body).encode()
