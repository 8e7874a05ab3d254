"""Two services in processes of their own at a real ZooKeeper: one is killed, or stands still and wakes."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from stormwright.client import Client
from stormwright.errors import ClusterError
from stormwright.formats import problem_to_dict
from stormwright.storm.local_cluster.network import free_ports
from tests.schedulers.builders import load, nodes, problem, topology
from tests.service.leader_election import serving
from tests.service.leader_election.zookeepers import zookeeper

#: Within so many seconds another service answers Nimbus.
TAKEN_OVER_S = 15.0


class Process:
    def __init__(self, hosts: str, home: Path, port: int) -> None:
        home.mkdir()
        self.home, self.url = home, f"http://127.0.0.1:{port}"
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with (home / "log").open("wb") as log:
            command = [sys.executable, serving.__file__, hosts, str(home), str(port)]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def ask(self, path: str, body: Mapping[str, Any] | None = None, accept: str = "*/*") -> tuple[int, bytes]:
        """Status, 0 without an answer, and the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, {"content-type": "application/json", "accept": accept})  # noqa: S310
        try:
            with urlopen(request, timeout=2) as answer:  # noqa: S310
                return answer.status, answer.read()
        except HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return 0, b""

    @property
    def places(self) -> bool:
        return self.ask("/v1/schedule", QUESTION)[0] == 200

    def log(self) -> str:
        return (self.home / "log").read_text()


QUESTION = {"problem": problem_to_dict(problem(nodes(2), (topology("t", 1, 1), load(1))))}

Start = Callable[[], Process]


pytestmark = pytest.mark.zookeeper


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture
def start(server: str, tmp_path: Path) -> Iterator[Start]:
    begun: list[Process] = []
    hosts, ports = f"{server}/{secrets.token_hex(4)}", free_ports(2, first=23_000)

    def process() -> Process:
        begun.append(Process(hosts, tmp_path / str(len(begun)), ports[len(begun)]))
        return begun[-1]

    yield process
    for each in begun:
        with suppress(ProcessLookupError):
            each.process.kill()
        each.process.wait()


def until(happens: Callable[[], bool], process: Process, limit_s: float = 60.0) -> float:
    """Seconds until something happens."""
    began = time.monotonic()
    while not happens():
        assert time.monotonic() - began < limit_s, process.log()
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.fixture
def both(start: Start) -> tuple[Process, Process]:
    """One that leads and one that stands by."""
    one = start()
    until(lambda: one.places, one)
    other = start()
    until(lambda: other.ask("/v1/health")[0] == 200, other)
    until(lambda: json.loads(other.ask("/v1/status")[1])["pair"]["leads"] == one.url, other)
    return one, other


def test_standby_shows_decisions_and_rejects_changes(both: tuple[Process, Process]) -> None:
    one, other = both
    asks = Client(one.url, by="anna")
    asks.change_modes(asks.modes().model_copy(update={"frozen": "the sale"}), "before the sale")
    code, refused = other.ask("/v1/schedule", QUESTION)
    assert (code, json.loads(refused)["leader"]) == (503, one.url)
    assert other.ask("/v1/perflog", {})[0] == 503
    operator = Client(other.url, by="otto")
    for ask in (lambda: operator.plan("now"), lambda: operator.apply("x", "now"), lambda: operator.revert(1, "now")):
        with pytest.raises(ClusterError, match=f"this service stands by: ask {one.url}, which leads"):
            ask()
    until(lambda: operator.modes().frozen == "the sale", other, 5)
    assert operator.history() == asks.history()
    status = json.loads(other.ask("/v1/status")[1])["pair"]
    assert (status["leads"], status["stands_by"]) == (one.url, True)
    leads = json.loads(one.ask("/v1/status")[1])["pair"]
    assert (leads["leads"], leads["epoch"]) == (one.url, status["epoch"])
    code, page = other.ask("/plans?page=2", accept="text/html")
    assert code == 503
    assert f'href="{one.url}/plans?page=2"'.encode() in page
    assert b"before the sale" in page
    assert b"stormwright_leads 0.0" in other.ask("/metrics")[1]
    assert b"stormwright_leads 1.0" in one.ask("/metrics")[1]


def test_standby_takes_over_in_time_after_leader_is_killed(both: tuple[Process, Process]) -> None:
    one, other = both
    epoch = json.loads(one.ask("/v1/schedule", QUESTION)[1])["epoch"]
    one.process.kill()
    assert until(lambda: other.places, other) < TAKEN_OVER_S
    assert json.loads(other.ask("/v1/schedule", QUESTION)[1])["epoch"] > epoch


def test_standby_takes_over_at_once_after_orderly_shutdown(both: tuple[Process, Process]) -> None:
    one, other = both
    one.process.terminate()
    assert until(lambda: other.places, other) < TAKEN_OVER_S
    assert one.process.wait(30) == 0


def test_suspended_leader_process_exits_on_wakeup(both: tuple[Process, Process]) -> None:
    one, other = both
    one.process.send_signal(signal.SIGSTOP)
    taken_s = until(lambda: other.places, other)
    assert taken_s < TAKEN_OVER_S
    one.process.send_signal(signal.SIGCONT)
    assert not one.places
    assert one.process.wait(60) != 0
    assert "this service has lost its leadership" in one.log()
    assert other.places
