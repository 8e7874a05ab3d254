"""Calls to Nimbus through Storm's own Java client, in a persistent helper JVM.

Storm's client brings every authentication that Storm has (SASL, Kerberos, TLS) and reads the storm.yaml that the
operator already maintains; the price is one small JVM.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stormwright.errors import NimbusError
from stormwright.model import Supervisor
from stormwright.storm.helper_jvm import BusyError, HelperJvm, JvmEndedError, NoAnswerError
from stormwright.storm.jvm import storm_command

#: Key in a supervisor's `supervisor.scheduler.meta`: the port of its Thrift server where storm.yaml of Nimbus has
#: another, as when several supervisors share a machine.
THRIFT_PORT_META = "stormwright.thrift.port"

#: Time limit of Nimbus for one call, in seconds.
CALL_LIMIT_S = 60.0

#: Time limit of a call that needs several calls to Nimbus per topology.
_LONG_LIMIT_S = {"problem": 600.0}

#: Calls that change nothing.
_READING = ("cluster", "configuration", "problem", "topology")


def gateway_command(storm_home: Path) -> list[str]:
    """Return the command that starts the gateway from a Storm installation with its ``conf/storm.yaml``.

    Raises
    ------
    MissingDependencyError
        Java, Storm's jars or our jar are missing.
    """
    # A JVM prints warnings to standard output, which is for responses here.
    flags = ("-Xmx256m", "-Xlog:disable", "-Xlog:all=warning:stderr")
    return storm_command(storm_home, "stormwright.NimbusGateway", flags=flags)


class CallInProgress(NamedTuple):
    """A call without an answer so far: its name, the host of a call about a supervisor (else empty), and its age."""

    call: str
    host: str
    age_s: float


class NimbusGateway(HelperJvm):
    """Python interface of Nimbus; thread-safe.

    Parameters
    ----------
    command
        Argument vector that starts ``stormwright.NimbusGateway``; once more when its JVM has ended.
    not_after_ns
        Until when what changes anything may reach Nimbus, by `time.monotonic_ns`, which is the JVM's clock as well;
        None for any time. So a process that is stopped right before a call makes none later.

    Raises
    ------
    NimbusError
        From every call: Nimbus refused it (with Storm's reason) or did not answer, or the JVM ended.
    """

    def __init__(self, command: Sequence[str], not_after_ns: Callable[[], int | None] = lambda: None) -> None:
        super().__init__(command)
        self._not_after_ns = not_after_ns

    def cluster(self) -> dict[str, Any]:
        """Return supervisors and topologies as known to Nimbus."""
        return dict(self._call("cluster"))

    def cluster_unless_busy(self, limit_s: float) -> dict[str, Any] | None:
        """Return the same as `cluster`, or None if another call is in progress, which is not waited for.

        Parameters
        ----------
        limit_s
            Time limit in seconds.
        """
        try:
            return dict(self._answered("cluster", {}, limit_s, waits=False))
        except BusyError:
            return None

    def in_progress(self) -> CallInProgress | None:
        """Return the call that Nimbus has not answered yet; None if there is none."""
        found = self._in_progress
        if found is None:
            return None
        request, begun_s = found
        return CallInProgress(request["call"], request["args"].get("host", ""), time.monotonic() - begun_s)

    def problem(self) -> dict[str, Any]:
        """Return the cluster with its placements as a `stormwright-problem/1` document without load."""
        return dict(self._call("problem"))

    def topology(self, topology_id: str) -> dict[str, Any]:
        """Return status and executors of one topology."""
        return dict(self._call("topology", id=topology_id))

    def activate(self, name: str) -> None:
        """Activate the spouts of a topology."""
        self._call("activate", name=name)

    def deactivate(self, name: str) -> None:
        """Pause the spouts of a topology."""
        self._call("deactivate", name=name)

    def configuration(self, topology_id: str) -> str:
        """Return the digest of a topology's stored configuration, which workers that run with it report."""
        return str(self._call("configuration", id=topology_id))

    def rebalance(
        self,
        name: str,
        wait_s: int,
        num_workers: int | None = None,
        executors: Mapping[str, int] | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """Drop a topology's assignment and have it scheduled again.

        Parameters
        ----------
        name
            Name of the topology.
        wait_s
            Seconds for which spouts are paused before Nimbus assigns new slots.
        num_workers
            New number of workers; None for the requested number.
        executors
            New number of executors per component; Nimbus limits it to the number of tasks.
        conf
            New values by key of its configuration, which Nimbus does not validate.
        """
        given: dict[str, Any] = {} if num_workers is None else {"num_workers": num_workers}
        if executors:
            given["executors"] = dict(executors)
        if conf:
            given["conf"] = dict(conf)
        self._call("rebalance", name=name, wait_s=wait_s, **given)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """Notify a supervisor that a topology has left it; return False while Nimbus has it there.

        Nimbus itself only notifies the supervisors that a topology moves to; the others poll every 10 seconds.
        """
        port = (supervisor.scheduler_meta or {}).get(THRIFT_PORT_META)
        thrift_port = int(port) if port else None
        where = {"supervisor": supervisor.id, "host": supervisor.host, "thrift_port": thrift_port}
        return bool(self._call("release", id=topology_id, **where))

    def kill(self, name: str, wait_s: int) -> None:
        """Kill a topology after `wait_s` seconds."""
        self._call("kill", name=name, wait_s=wait_s)

    def _call(self, call: str, **args: Any) -> Any:
        return self._answered(call, args, _LONG_LIMIT_S.get(call, CALL_LIMIT_S))

    def _answered(self, call: str, args: Mapping[str, Any], limit_s: float, *, waits: bool = True) -> Any:
        not_after_ns = None if call in _READING else self._not_after_ns()
        request = {"call": call, "args": args} | ({} if not_after_ns is None else {"not_after_ns": not_after_ns})
        try:
            response = self._ask(request, limit_s, waits=waits)
        except NoAnswerError as error:
            raise NimbusError(f"{call}: no answer from Nimbus within {limit_s:g} s") from error
        except JvmEndedError as error:
            raise NimbusError(f"{call}: the Nimbus gateway has ended: {error}") from error
        if "error" in response:
            kind = response.get("type", "unknown error")
            raise NimbusError(f"Nimbus refused {call}: {response['error']} ({kind})", kind)
        return response.get("result")
