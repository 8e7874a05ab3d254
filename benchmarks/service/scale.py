"""How long Nimbus waits for the service: CPU of an answer, and its delay while thousands of workers deliver.

    python -m benchmarks.service.scale [--workers 5000] [--seconds 30] [--write]

An answer is all of it: the bytes of Nimbus's question, as its plug-in writes them, to the bytes of the answer, on one
core; the median of several. Where topologies wait, `even` places them. "Never seen" is the first question after the
service has started, all others are of a cluster that it has seen before, in which something else changed since.

For the delay the service's HTTP endpoints run in a process of their own with landing, live counts and the traffic
between nodes; this process opens a connection a worker, delivers a record a second on each, and asks Nimbus's
question of the large cluster twice a second besides.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import os
import selectors
import socket
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.kit.results import write_results
from benchmarks.pipeline.records import Workers
from benchmarks.service.nimbus_question import TOPOLOGY_ID, Cluster
from stormwright.base.documents import FileDocument
from stormwright.controller.tally import Tally
from stormwright.explain.obstacles import status_texts
from stormwright.history.evaluation.observed_traffic import ObservedTraffic
from stormwright.perflog.columns import RecordLanding
from stormwright.schedulers import make_scheduler
from stormwright.service.http.app import NimbusRequests, make_app
from stormwright.service.http.connections import most_connections
from stormwright.service.http.server import HttpServer
from stormwright.service.intake import Intake
from stormwright.service.storage.calibration import CostCalibration
from stormwright.storm.bridge import Bridge

#: Code that the page measures.
MEASURES = (
    "src/stormwright/storm/bridge.py",
    "src/stormwright/service/intake.py",
    "src/stormwright/service/http",
    "src/stormwright/controller/tally.py",
)

HOST = "127.0.0.1"
#: Topologies, executors, nodes.
SIZES = ((200, 9_534, 1_000), (1_000, 100_000, 5_000))
ASKED_S = {"all": 1.0, "1": 0.05, "none": 0.02}
MAX_MORE_S = 0.2
ASK_EVERY_S = 0.5
#: Of deliveries before anything is measured.
WARM_UP_S = 3.0
TIMES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=5_000, help="that deliver a record each second")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each of the two runs, with and without")
    parser.add_argument("--write", action="store_true", help="write docs/results/service-scale.*")
    options = parser.parse_args()
    rows: list[tuple[str, str, str]] = []
    details: dict[str, Any] = {}
    for size in SIZES:
        for what, wanted, cpu_s in answers(*size):
            name = f"{size[0]:,} topologies, {size[1]:,} executors, {size[2]:,} nodes: {what}"
            asked = f"≤ {wanted:g} CPU s" if wanted and size == SIZES[-1] else ""
            rows.append((name, asked, f"{np.median(cpu_s):.3f} CPU s"))
            details[name] = cpu_s
            print(*rows[-1], sep=" | ", flush=True)
    for name, asked, found, detail in delays(options.workers, options.seconds):
        rows.append((name, asked, found))
        details[name] = detail
        print(*rows[-1], sep=" | ", flush=True)
    if options.write:
        write_results("service-scale", "Nimbus's question at the size of large clusters", rows, details)


def answers(topologies: int, executors: int, nodes: int) -> list[tuple[str, float | None, list[float]]]:
    """What is asked, CPU seconds it may take, and those that it took, time after time."""
    cluster = Cluster(topologies, executors, nodes)
    none, one, everything = (cluster.question(waiting) for waiting in (0, 1, topologies))
    first = [cpu_s(_questions(), everything) for _ in range(TIMES)]
    # The last but one is what the service saw before.
    return [
        ("all waiting, never seen", ASKED_S["all"], first),
        ("all waiting", ASKED_S["all"], _again(none, everything)),
        ("1 waiting", ASKED_S["1"], _again(none, one)),
        ("none waiting, 1 placed since", None, _again(one, none)),
        ("none waiting", ASKED_S["none"], _again(none, none)),
    ]


def _again(before: bytes, question: bytes) -> list[float]:
    questions = _questions()
    taken = []
    for _ in range(TIMES):
        cpu_s(questions, before)
        taken.append(cpu_s(questions, question))
    return taken


def _questions() -> NimbusRequests:
    return NimbusRequests(Bridge(make_scheduler("even"), "even", None, status_texts))


def cpu_s(questions: NimbusRequests, body: bytes) -> float:
    """CPU seconds of all threads for one answer."""
    begin = time.process_time()
    # A minute to answer in, however busy the machine: CPU is what counts here.
    code, _ = questions.answer_now(body, time.monotonic() + 60)
    assert code == 200
    return time.process_time() - begin


@dataclass
class Load:
    """What workers and Nimbus have seen, in seconds."""

    asked_s: list[float] = field(default_factory=list)
    delivered_s: list[float] = field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0
    service_cpu_s: float = 0.0
    own_cpu_s: float = 0.0


def delays(workers: int, seconds: float) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Rows of the delay without and with deliveries."""
    question = Cluster(*SIZES[-1]).question(0)
    idle, busy = run(question, 0, seconds), run(question, workers, seconds)
    before, after = (float(np.quantile(load.asked_s, 0.99)) for load in (idle, busy))
    cores = f"service {busy.service_cpu_s / busy.seconds:.2f} cores, workers {busy.own_cpu_s / busy.seconds:.2f}"
    rate = len(busy.delivered_s) / busy.seconds
    kept_s = float(np.quantile(busy.delivered_s or [0.0], 0.99))
    kept = f"{rate:,.0f} a second, p99 {kept_s * 1000:.0f} ms, {busy.refused} refused; {cores}"
    rows = [
        ("p99 of Nimbus's question, nobody delivers", "", f"{before * 1000:.0f} ms", idle),
        (
            f"p99 of Nimbus's question, {workers:,} workers deliver each second",
            f"≤ {MAX_MORE_S * 1000:.0f} ms more",
            f"{after * 1000:.0f} ms ({(after - before) * 1000:+.0f} ms)",
            busy,
        ),
        ("deliveries kept meanwhile", f"{workers:,} a second", kept, busy),
    ]
    return [(name, asked, found, _figures(load)) for name, asked, found, load in rows]


def _figures(load: Load) -> dict[str, Any]:
    quantiles = (0.5, 0.9, 0.99, 1.0)
    told = {"asked": load.asked_s, "delivered": load.delivered_s or [0.0]}
    return {name: dict(zip(map(str, quantiles), np.quantile(s, quantiles), strict=True)) for name, s in told.items()}


def run(question: bytes, workers: int, seconds: float) -> Load:
    """Ask, and deliver from `workers` workers, for so many seconds."""
    most_connections()  # raises the limit of this process too
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    stop = multiprocessing.get_context("spawn").Event()
    with tempfile.TemporaryDirectory() as state:
        service = multiprocessing.get_context("spawn").Process(target=serve, args=(port, state, stop))
        service.start()
        await_port(port)
        assert service.pid
        load, over = Load(), threading.Event()
        asking = threading.Thread(target=_ask, args=(port, question, load, over))
        # What a service does once in its life is none of what is measured here.
        answered_s(port, question)
        delivering = Delivering(port, workers)
        delivering.go_on(WARM_UP_S, Load())
        asking.start()
        before_s, own_s = _cpu_s(service.pid), time.process_time()
        begin = time.monotonic()
        delivering.go_on(seconds, load)
        load.seconds = time.monotonic() - begin
        load.service_cpu_s, load.own_cpu_s = _cpu_s(service.pid) - before_s, time.process_time() - own_s
        over.set()
        asking.join()
        delivering.close()
        stop.set()
        service.join()
    return load


def serve(port: int, state: str, stop: Any) -> None:
    """The service's endpoints, with everything that a delivery goes through before it is answered."""
    observed = ObservedTraffic(60.0)
    history = SimpleNamespace(count=observed.add)
    landing = RecordLanding(Path(state) / "landing")
    calibration = CostCalibration(FileDocument(Path(state) / "costs.json"))
    intake = Intake(landing, Tally(), history, calibration)  # type: ignore[arg-type]  # a history that only counts
    bridge = Bridge(make_scheduler("even"), "even", None, status_texts)
    app = make_app(bridge, intake, dict)  # type: ignore[arg-type]  # no status
    with HttpServer(app, HOST, port):
        while not stop.wait(1.0):
            for path in landing.files():
                path.unlink()


def await_port(port: int, host: str = HOST) -> None:
    """Wait until a service listens, for a minute at most."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        try:
            socket.create_connection((host, port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nothing listens on port {port}")


def _ask(port: int, question: bytes, load: Load, over: threading.Event) -> None:
    while not over.is_set():
        load.asked_s.append(answered_s(port, question))
        over.wait(ASK_EVERY_S)


def answered_s(port: int, question: bytes, host: str = HOST) -> float:
    begin = time.monotonic()
    nimbus = http.client.HTTPConnection(host, port)
    nimbus.request("POST", "/v1/schedule", question)
    answer = nimbus.getresponse()
    answer.read()
    assert answer.status == 200, answer.status
    nimbus.close()
    return time.monotonic() - begin


class Delivering:
    """A record each second from each worker, spread over the second; one still under way is not sent again."""

    def __init__(self, port: int, workers: int, host: str = HOST) -> None:
        self._connections = [socket.create_connection((host, port)) for _ in range(workers)]
        self._workers = Workers(workers, int(time.time() * 1000), TOPOLOGY_ID)
        self._waiting = selectors.DefaultSelector()
        for number, connection in enumerate(self._connections):
            connection.setblocking(False)
            self._waiting.register(connection, selectors.EVENT_READ, number)
        self._sent_s = [0.0] * workers
        self._due = 0
        self._begin = time.monotonic()

    def go_on(self, seconds: float, load: Load) -> None:
        """Deliver for so many seconds."""
        if not self._connections:
            time.sleep(seconds)
            return
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            self._send(now)
            for key, _ in self._waiting.select(0.005):
                if self._connections[key.data].recv(4096).startswith(b"HTTP/1.1 204"):
                    load.delivered_s.append(time.monotonic() - self._sent_s[key.data])
                else:
                    load.refused += 1
                self._sent_s[key.data] = 0.0

    def _send(self, now: float) -> None:
        before, self._due = self._due, int((now - self._begin) * len(self._connections))
        for delivery in range(before, self._due):
            second, number = divmod(delivery, len(self._connections))
            if not self._sent_s[number]:
                self._connections[number].sendall(_request(self._workers.record(number, second)))
                self._sent_s[number] = now

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections:
            connection.close()


def _request(record: bytes) -> bytes:
    """As a worker's `HttpURLConnection` sends it."""
    return (
        b"POST /v1/perflog HTTP/1.1\r\nContent-Type: application/x-ndjson\r\nUser-Agent: Java/17.0.9\r\n"
        b"Host: 127.0.0.1:7070\r\nAccept: */*\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%s\n"
    ) % (len(record) + 1, record)


def _cpu_s(pid: int) -> float:
    about = Path(f"/proc/{pid}/stat").read_text()
    user, system = about[about.rindex(")") + 2 :].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
