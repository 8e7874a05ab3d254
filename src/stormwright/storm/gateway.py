"""Calls to Nimbus through Storm's own Java client, kept warm in one helper JVM.

Storm's client brings every authentication that Storm has (SASL, Kerberos, TLS) and reads the storm.yaml that the
operator already maintains; the price is one small JVM.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from stormwright.errors import NimbusError
from stormwright.model import Supervisor

#: Key in a supervisor's `supervisor.scheduler.meta`: the port of its Thrift server where storm.yaml of Nimbus has
#: another, as when several supervisors share a machine.
THRIFT_PORT_META = "stormwright.thrift.port"

#: Seconds that Nimbus has for one call.
CALL_LIMIT_S = 60.0

#: The same where a call of ours is several of Nimbus for each topology.
_LONG_LIMIT_S = {"problem": 600.0}


def gateway_command(storm_home: Path) -> list[str]:
    """Argument vector that starts the gateway from a Storm installation, with the storm.yaml in its ``conf/``."""
    parts = ("lib/*", "extlib/*", "extlib-daemon/*", "conf")
    class_path = ":".join(str(storm_home / part) for part in parts)
    # A JVM prints warnings to standard output, which is for responses here.
    log = ("-Xlog:disable", "-Xlog:all=warning:stderr")
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    return [java, "-Xmx256m", *log, f"-Dstorm.home={storm_home}", "-cp", class_path, "stormwright.NimbusGateway"]


class NimbusGateway:
    """Nimbus as Python calls; safe to use from several threads.

    Parameters
    ----------
    command
        Argument vector that starts ``stormwright.NimbusGateway``; once more when its JVM has ended.

    Raises
    ------
    NimbusError
        From every call: Nimbus refused it (with Storm's reason) or did not answer, or the JVM ended.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._next_id = 0
        # A file, not a pipe: nobody reads the JVM's log while it runs, and a full pipe would stop it.
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._command = list(command)
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the JVM."""
        self._end()
        self._log.close()

    def _start(self) -> subprocess.Popen[bytes]:
        self._unread = b""
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log)

    def _end(self) -> None:
        """It stops by itself when its input closes."""
        if self._process.stdin:
            with suppress(BrokenPipeError):  # it has ended already
                self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def cluster(self) -> dict[str, Any]:
        """Supervisors and topologies as Nimbus sees them."""
        return dict(self._call("cluster"))

    def problem(self) -> dict[str, Any]:
        """The cluster with its topologies and where they run, as a `stormwright-problem/1` document without load."""
        return dict(self._call("problem"))

    def topology(self, topology_id: str) -> dict[str, Any]:
        """Status and executors of one topology."""
        return dict(self._call("topology", id=topology_id))

    def activate(self, name: str) -> None:
        """Let the spouts of a topology emit."""
        self._call("activate", name=name)

    def deactivate(self, name: str) -> None:
        """Pause the spouts of a topology."""
        self._call("deactivate", name=name)

    def rebalance(self, name: str, wait_s: int) -> None:
        """Drop a topology's assignment after `wait_s` seconds and have it scheduled again."""
        self._call("rebalance", name=name, wait_s=wait_s)

    def release(self, topology_id: str, supervisor: Supervisor) -> bool:
        """Tell a supervisor that a topology has left it; False as long as Nimbus has it there.

        Nimbus itself tells only the supervisors that a topology goes to; the others ask every 10 seconds.
        """
        port = (supervisor.scheduler_meta or {}).get(THRIFT_PORT_META)
        thrift_port = int(port) if port else None
        where = {"supervisor": supervisor.id, "host": supervisor.host, "thrift_port": thrift_port}
        return bool(self._call("release", id=topology_id, **where))

    def kill(self, name: str, wait_s: int) -> None:
        """End a topology after `wait_s` seconds."""
        self._call("kill", name=name, wait_s=wait_s)

    def _call(self, call: str, **args: Any) -> Any:
        with self._lock:
            if self._process.poll() is not None and not self._log.closed:
                self._end()
                self._process = self._start()
            self._next_id += 1
            response = self._exchange(call, json.dumps({"id": self._next_id, "call": call, "args": args}))
        if "error" in response:
            raise NimbusError(f"Nimbus refused {call}: {response['error']} ({response.get('type', 'unknown error')})")
        return response.get("result")

    def _exchange(self, call: str, request: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:  # both are pipes; the type checker cannot know
            raise NimbusError(f"{call}: the Nimbus gateway has no pipes")
        try:
            stdin.write(request.encode() + b"\n")
            stdin.flush()
            limit_s = _LONG_LIMIT_S.get(call, CALL_LIMIT_S)
            response = self._response(stdout, self._next_id, limit_s)
        except (OSError, ValueError) as error:
            raise NimbusError(f"{call}: the Nimbus gateway has ended ({error}): {self._log_tail()}") from error
        if response is None:
            # An answer that came later would be taken for that of another call.
            self._process.kill()
            self._process.wait()
            raise NimbusError(f"{call}: no answer from Nimbus within {limit_s:g} s")
        if not response:
            raise NimbusError(f"{call}: the Nimbus gateway has ended: {self._log_tail()}")
        return response

    def _response(self, stdout: IO[bytes], request_id: int, limit_s: float) -> dict[str, Any] | None:
        """The response to a request, None if none comes in time, empty if the stream has ended.

        Other lines, whoever printed them, are passed over.
        """
        deadline = time.monotonic() + limit_s
        while True:
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                with suppress(ValueError):
                    response = json.loads(line)
                    if isinstance(response, dict) and response.get("id") == request_id:
                        return response
            if not select.select([stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
                return None
            more = os.read(stdout.fileno(), 1 << 16)
            if not more:
                return {}
            self._unread += more

    def _log_tail(self) -> str:
        if self._log.closed:
            return "it was closed"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.poll()}"
