"""Events go where they are to go, in the form of that place, again where it fails, and without secrets."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from stormwright.errors import InputError
from stormwright.service.notifications import notifier
from stormwright.service.notifications.notifier import KINDS, MAX_WAITING, Notifier, ServiceEvent, Target
from stormwright.service.notifications.webhook import places

EVENT = ServiceEvent("slow-node", "n0", "CPU per tuple is up by <60 %> & more", at_ms=1_795_219_140_000)
SECRET = "T00/B00/very-secret"  # noqa: S105 (no password)


class Place:
    """An HTTP server that answers with some statuses in turn, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.got: list[tuple[str, Any]] = []
        left = list(statuses)
        place = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                place.got.append((self.path, body))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def wait(self, count: int) -> None:
        until = time.monotonic() + 20
        while len(self.got) < count:
            assert time.monotonic() < until, self.got
            time.sleep(0.005)

    def end(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "WAITS_S", (0.01, 0.01, 0.01))


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place(200)
    yield made
    made.end()


def send(targets: list[str], *events: ServiceEvent) -> None:
    with Notifier(places(targets)) as running:
        for event in events:
            running.notify(event)
        time.sleep(0.3)


@pytest.mark.long
def test_each_target_type_gets_its_payload_format(place: Place) -> None:
    send([f"all=slack:{place.url}/services/{SECRET}?x=1"], EVENT)
    ((path, body),) = place.got
    assert path == f"/services/{SECRET}?x=1"
    assert body == {
        "text": "*stormwright: n0: a node is slow*\nCPU per tuple is up by &lt;60 %&gt; &amp; more",
    }
    send([f"all=teams:{place.url}/hook"], EVENT)
    (card,) = place.got[1][1]["attachments"]
    assert place.got[1][1]["type"] == "message"
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert [block["text"] for block in card["content"]["body"]] == [EVENT.title, EVENT.text]
    send([f"all=json:{place.url}"], EVENT)
    assert place.got[2][1]["subject"] == "n0"


def test_an_alertmanager_gets_an_alert_and_its_end(place: Place) -> None:
    over = ServiceEvent("slow-node", "n0", "is over", over=True, at_ms=EVENT.at_ms + 60_000)
    send([f"all=alertmanager:{place.url}"], EVENT, over)
    (path, (one,)), (_, (other,)) = place.got
    assert path == "/api/v2/alerts"
    assert one["labels"] == other["labels"]
    assert one["labels"]["alertname"] == "StormwrightSlowNode"
    assert (one["startsAt"], other["endsAt"]) == ("2026-11-20T23:59:00+00:00", "2026-11-21T00:00:00+00:00")


def test_only_selected_event_kinds_are_notified(place: Place) -> None:
    send([f"plan,hold=json:{place.url}"], EVENT, ServiceEvent("hold", "missing", "3 of 4"))
    assert [body["kind"] for _, body in place.got] == ["hold"]


@pytest.mark.long
def test_failed_notification_is_retried_a_limited_number_of_times(caplog: pytest.LogCaptureFixture) -> None:
    for statuses, times, expected in (((503, 503, 200), 3, ""), ((500,), 4, "answers 500"), ((404,), 1, "answers 404")):
        made = Place(*statuses)
        caplog.clear()
        try:
            send([f"all=slack:{made.url}/{SECRET}"], EVENT)
            assert len(made.got) == times
            assert expected in caplog.text
            assert SECRET not in caplog.text
        finally:
            made.end()


def test_unreachable_target_blocks_no_other_notification(caplog: pytest.LogCaptureFixture) -> None:
    held, results = threading.Event(), []
    running = Notifier([Target(frozenset(KINDS), "a place", lambda _: results.append(held.wait(20)))])
    with running:
        for _ in range(MAX_WAITING + 50):
            running.notify(EVENT)
        assert results == [], "all have been told of, and the first still hangs"
        held.set()
    assert "was dropped, as 100 notifications are queued" in caplog.text
    caplog.clear()
    send([f"all=slack:http://127.0.0.1:9/{SECRET}"], EVENT)
    assert (
        "slack at 127.0.0.1: notification of stormwright: n0: a node is slow failed: cannot be reached" in caplog.text
    )
    assert SECRET not in caplog.text


def test_faulty_notification_target_affects_no_other(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    def bug(_: ServiceEvent) -> None:
        raise ValueError(SECRET)

    with Notifier([Target(frozenset(KINDS), "a place", bug), *places([f"all=json:{place.url}"])]) as running:
        running.notify(EVENT)
        place.wait(1)
        time.sleep(0.2)
    assert SECRET not in "".join(each.getMessage() for each in caplog.records if each.levelno > logging.DEBUG)


@pytest.mark.long
def test_a_program_and_a_function_get_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got = tmp_path / "got"
    program = tmp_path / "page"
    program.write_text(f"#!{sys.executable}\nimport sys\nopen({str(got)!r}, 'a').write(sys.stdin.read())\n")
    program.chmod(0o755)
    send([f"all=program:{program}"], EVENT)
    assert json.loads(got.read_text())["text"] == EVENT.text
    (tmp_path / "pager.py").write_text(f"def page(event):\n    open({str(got)!r}, 'w').write(event.title)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(sys.path)}")
    send(["all=python:pager:page"], EVENT)
    until = time.monotonic() + 20
    while got.read_text() != EVENT.title:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.long
def test_target_faults_are_reported_together_without_addresses(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("https://hooks.example/" + SECRET + "\n")
    (target,) = places([f"all=slack:@{file}"])
    assert target.shown == "slack at hooks.example"
    assert SECRET not in repr(target)
    wrong = [
        f"slack:https://hooks.example/{SECRET}",
        f"slow=slack:https://hooks.example/{SECRET}",
        f"all=slack:ftp://hooks.example/{SECRET}",
        f"all=slack:@{tmp_path}/none",
        "all=program:no-such-program",
        "all=python:no_such_module:f",
        "=slack:https://x",
    ]
    with pytest.raises(InputError) as error:
        places(wrong)
    assert SECRET not in str(error.value)
    assert len(error.value.faults) == len(wrong)
    assert "number 2: there is no event slow: there is all, slow-node" in str(error.value)


def test_changed_targets_apply_to_new_events_and_queued_ones_are_still_sent() -> None:
    before, after = Place(500, 200), Place(200)
    try:
        with Notifier(places([f"all=json:{before.url}"])) as running:
            running.notify(EVENT)
            running.change(places([f"all=json:{after.url}"]))
            running.notify(replace(EVENT, subject="n1"))
            after.wait(1)
            before.wait(2)
        assert {body["subject"] for _, body in before.got} == {"n0"}
        assert [body["subject"] for _, body in after.got] == ["n1"]
    finally:
        before.end()
        after.end()
