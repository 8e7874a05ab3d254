"""``stormwright doctor`` over a Storm installation laid out on disk, and something that answers as a service does."""

from __future__ import annotations

import json
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stormwright import __version__

PIPELINE = {"running": True, "error": None, "profile_age_s": 2.0, "ledger": {"read": 100, "quarantined": 0}}

DOCUMENTS = {
    "/": {"service": f"stormwright {__version__}"},
    "/v1/status": {"pipeline": PIPELINE, "waits": []},
    "/v1/problem": {},
}


class Answers(BaseHTTPRequestHandler):
    """What a service answers; its clock may be off."""

    ahead_s = 0.0
    documents = DOCUMENTS

    def do_GET(self):
        body = json.dumps(self.documents[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def date_time_string(self, timestamp=None):
        return formatdate(time.time() + self.ahead_s, usegmt=True)

    def log_message(self, *_):
        pass


@pytest.fixture
def listening():
    """Something that answers: as a service, and as far as connections go as Nimbus."""
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def storm(tmp_path, monkeypatch, listening):
    monkeypatch.delenv("STORM_CONF_DIR", raising=False)
    monkeypatch.setattr("stormwright.storm.jvm.STORMWRIGHT_JAR", tmp_path / "none.jar")
    for part in ("conf", "lib", "extlib-daemon"):
        (tmp_path / part).mkdir()
    (tmp_path / "lib" / "storm-client-2.8.3.jar").touch()
    (tmp_path / "extlib-daemon" / f"stormwright-storm-{__version__}.jar").touch()
    (tmp_path / "conf" / "storm.yaml").write_text(
        "storm.scheduler: stormwright.PlacementScheduler\n"
        "stormwright.service.url: http://s:7070\n"
        "topology.auto.task.hooks: [stormwright.ExecutorProbe]\n"
        "stormwright.probe.service.url: http://s:7070\n"
        f"nimbus.seeds: [127.0.0.1]\nnimbus.thrift.port: {listening}\n"
    )
    return tmp_path


def checked(run, storm, port):
    code, out, _ = run("doctor", "--storm-home", storm, "--service", f"127.0.0.1:{port}", "--json")
    report = json.loads(out)
    found = {each["check"]: each["verdict"] for each in report["checks"]}
    assert report["wrong"] == sum(verdict == "wrong" for verdict in found.values())
    assert code == (2 if report["wrong"] else 0)
    found.pop("compiled code")  # of the machine, not of what is laid out here
    return found


def test_all_is_well(run, storm, listening):
    assert set(checked(run, storm, listening).values()) == {"ok"}


def test_doctor_reports_faults_with_fixes_and_exits_with_code_2(run, storm, listening, monkeypatch):
    monkeypatch.setattr(Answers, "ahead_s", 30.0)
    next((storm / "extlib-daemon").iterdir()).unlink()
    (storm / "conf" / "storm.yaml").write_text("storm.scheduler: stormwright.PlacementSchedule\n")
    found = checked(run, storm, listening)
    assert {check for check, verdict in found.items() if verdict == "wrong"} >= {
        "jar in extlib-daemon",
        "class name",
        "clock skew",
    }
    code, out, _ = run("doctor", "--storm-home", storm, "--service", f"http://127.0.0.1:{listening}")
    lines = out.splitlines()
    assert code == 2
    assert all(lines[n + 1].startswith("        → ") for n, line in enumerate(lines) if line.startswith("wrong"))


def test_doctor_without_service_or_installation_reports_remaining_checks(run, tmp_path, monkeypatch):
    monkeypatch.delenv("STORM_CONF_DIR", raising=False)
    code, out, _ = run("doctor", "--storm-home", tmp_path, "--service", "http://127.0.0.1:1")
    assert code == 2
    assert "wrong   service reached: http://127.0.0.1:1: no answer" in out
    assert "unknown Storm: no lib/storm-client" in out
    assert f"unknown storm.yaml: {tmp_path}" in out
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "storm.yaml").write_text("a: [\n")
    _, out, _ = run("doctor", "--storm-home", tmp_path, "--service", "http://127.0.0.1:1")
    assert f"wrong   storm.yaml: {tmp_path}/conf/storm.yaml is not YAML: " in out
    assert "(line 2, column 1)" in out


def test_doctor_rejects_foreign_server_as_service(run, storm, listening, monkeypatch):
    monkeypatch.setattr(Answers, "documents", {"/": ["hello"]})
    assert checked(run, storm, listening)["service reached"] == "wrong"


@pytest.mark.parametrize("address", ["http://", "ftp://s:1", "http://s:port", "http://[::1"])
def test_doctor_exits_with_code_2_for_invalid_address(run, tmp_path, address):
    code, out, err = run("doctor", "--storm-home", tmp_path, "--service", address)
    assert (code, out) == (2, "")
    assert "should be an address such as http://127.0.0.1:7070" in err
