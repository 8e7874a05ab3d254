"""The Nimbus gateway's Python side, over stand-ins for its JVM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stormwright.errors import NimbusError
from stormwright.model import Supervisor
from stormwright.storm import gateway
from stormwright.storm.gateway import THRIFT_PORT_META, NimbusGateway

ECHO = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "result": request["args"]}), flush=True)
"""

SILENT_ONCE = """
import pathlib, sys
started = pathlib.Path(sys.argv[1])
silent = not started.exists()
started.touch()
for line in sys.stdin:
    if not silent:
        print("[warning][pagesize] a line that is no response", flush=True)
        print('{"id": 1, "result": {"supervisors": [], "topologies": []}}', flush=True)
        print('{"id": 2, "result": {"supervisors": [], "topologies": []}}', flush=True)
"""


@pytest.mark.slow
def test_unanswered_call_times_out_and_next_call_starts_new_jvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NimbusGateway([sys.executable, "-c", SILENT_ONCE, str(tmp_path / "started")]) as nimbus:
        monkeypatch.setattr(gateway, "CALL_LIMIT_S", 3.0)
        with pytest.raises(NimbusError, match=r"cluster: no answer from Nimbus within 3 s"):
            nimbus.cluster()
        monkeypatch.setattr(gateway, "CALL_LIMIT_S", 60)
        assert nimbus.cluster() == {"supervisors": [], "topologies": []}


def test_output_of_terminated_gateway_jvm_is_reported() -> None:
    with (
        NimbusGateway([sys.executable, "-c", "import sys; sys.exit('no storm.yaml')"]) as nimbus,
        pytest.raises(NimbusError, match=r"gateway has ended.*no storm.yaml"),
    ):
        nimbus.cluster()


def test_no_call_follows_the_end() -> None:
    nimbus = NimbusGateway([sys.executable, "-c", ECHO])
    nimbus.kill("t", 0)
    nimbus.close()
    with pytest.raises(NimbusError, match=r"kill: the Nimbus gateway has ended: it was closed"):
        nimbus.kill("t", 0)


def test_release_uses_thrift_port_of_supervisor_if_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[dict[str, object]] = []
    with NimbusGateway([sys.executable, "-c", ECHO]) as nimbus:
        monkeypatch.setattr(nimbus, "_call", lambda call, **args: requests.append({"call": call, **args}))
        nimbus.release("t", Supervisor("s1", "host1", (6700,), 1e9))
        nimbus.release("t", Supervisor("s2", "host2", (6700,), 1e9, scheduler_meta={THRIFT_PORT_META: "6629"}))
    assert [request["thrift_port"] for request in requests] == [None, 6629]
