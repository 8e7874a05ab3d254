"""What the live stream costs: CPU and memory by number of workers, and how old its result is.

    python -m benchmarks.pipeline.live [--workers 3,100,1600] [--seconds 300] [--unwatched-s 60] [--idle-s 30]

Each number of workers has a process of its own. Every worker writes a record a second; they are shipped ten times a
second. Once the JVM is warm nothing but the stream runs beside the feeder. First results are prompt, as while a page of
the dashboard is open or a plan is carried out, then nobody watches them, then nothing lands.

Last, a whole service beside a Nimbus: memory of its process and of Spark's JVM, after five minutes in which 100 workers
delivered their records over HTTP, a cluster of 1,000 executors was asked for every ten seconds, and a page was open.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

from benchmarks.kit.cpu_time import Spent, resident_mb
from benchmarks.kit.results import write_results
from benchmarks.pipeline.records import Workers
from stormwright.perflog.columns import RecordLanding, landed_table
from stormwright.pipeline.settings import StreamSettings
from stormwright.pipeline.streaming.stream import LoadStream
from stormwright.storm.local_cluster.network import free_ports

#: Code that the page measures.
MEASURES = (
    "src/stormwright/pipeline/measurement",
    "src/stormwright/pipeline/streaming",
    "src/stormwright/perflog",
)

#: Most cores of Spark's JVM by number of workers, and without records.
ASKED = {3: 0.08, 100: 0.20, 1600: 0.8}
ASKED_IDLE = 0.05

#: Most MB of a whole service, and its workers.
ASKED_SERVICE_MB, SERVICE_WORKERS = 900, 100

#: Seconds between two questions of Nimbus (Storm's default), and between two updates of an open page.
ASK_S, PAGE_S = 10, 2

#: Seconds until the JVM is warm.
WARM_S = 60

SHIP_S = 0.1

#: Seconds between two looks at the progress; as the dashboard's.
LOOK_S = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="3,100,1600")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--unwatched-s", type=float, default=60)
    parser.add_argument("--idle-s", type=float, default=30)
    parser.add_argument("--part", choices=["stream", "feed"], help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part == "feed":
        feed(options)
        return
    if options.part == "stream":
        print(json.dumps(stream(options)))
        return
    found = {}
    for workers in map(int, options.workers.split(",")):
        found[workers] = _apart(workers, options)
        print(f"{workers} workers: {json.dumps(found[workers])}", file=sys.stderr, flush=True)
    service = serve(options.seconds)
    print(f"service: {json.dumps(service)}", file=sys.stderr, flush=True)
    rows = [*_rows(found), _service_row(service)]
    write_results("pipeline-live", "What the live stream costs", rows, {"found": found, "service": service})


def _apart(workers: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stormwright-live-") as name:
        command = [sys.executable, "-m", __spec__.name, "--part", "stream", "--directory", name]
        command += ["--workers", str(workers), "--seconds", str(options.seconds)]
        command += ["--unwatched-s", str(options.unwatched_s), "--idle-s", str(options.idle_s)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result


def stream(options: argparse.Namespace) -> dict[str, Any]:
    """The stream of one number of workers, from its start to the end of the idle time."""
    directory = options.directory
    with LoadStream(directory / "landing", directory / "state") as running:
        landing_s = WARM_S + options.seconds + options.unwatched_s
        feeder = start_feeder(int(options.workers), landing_s, directory)
        phase(running, WARM_S, watch=True)
        watched = phase(running, options.seconds, watch=True)
        memory = resident_mb()
        unwatched = phase(running, options.unwatched_s)
        feeder.wait()
        assert feeder.returncode == 0
        time.sleep(10)
        ledger, idle = running.progress()["ledger"], phase(running, options.idle_s)
    assert ledger["used"] == ledger["read"] > 0, ledger
    return {"watched": watched, "unwatched": unwatched, "idle": idle, "memory_mb": memory, "records": ledger["used"]}


def phase(stream: LoadStream, seconds: float, watch: bool = False) -> dict[str, Any]:
    """Cost and lag of a stream for a while; of the records between two looks the quantiles, of these the median."""
    batch, begun, lags = stream.progress()["batch"], Spent.now(), []
    while (spent := Spent.now() - begun).wall_s < seconds:
        if watch:
            stream.measure_promptly()
        # None before the first batch.
        if lag := stream.progress()["lag_ms"]:
            lags.append(lag)
        time.sleep(LOOK_S)
    batches = stream.progress()["batch"] - batch
    return {
        "jvm_cores": spent.jvm_s / spent.wall_s,
        "python_cores": spent.python_s / spent.wall_s,
        "batch_s": spent.wall_s / batches if batches else None,
        "jvm_ms_a_batch": 1000 * spent.jvm_s / batches if batches else None,
        "lag_s": {name: median(lag[name] for lag in lags) / 1000 for name in ("p50", "p95")},
    }


def start_feeder(workers: int, seconds: float, directory: Path) -> subprocess.Popen[bytes]:
    """Start a process in which workers write into the landing directory of another one."""
    arguments = ["--workers", str(workers), "--seconds", str(seconds), "--directory", str(directory)]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.pipeline.live", "--part", "feed", *arguments])


def feed(options: argparse.Namespace) -> None:
    """Let workers write a record a second each, shipped ten times a second."""
    rate = int(options.workers)
    workers = Workers(rate, round(time.time() * 1000) - 1000)
    landing = RecordLanding(options.directory / "landing")
    begun, written = time.time(), 0
    while (elapsed := time.time() - begun) < options.seconds:
        due = int(elapsed * rate)
        now_ms = round(time.time() * 1000)
        lines = [workers.record(number % rate, number // rate, now_ms) for number in range(written, due)]
        landing.write(landed_table(lines, now_ms, StreamSettings.late_s))
        written = due
        time.sleep(max(0.0, SHIP_S - (time.time() - begun - elapsed)))


def serve(seconds: float) -> dict[str, float]:
    """Memory of a whole service in MB, and records used, after some time of deliveries."""
    # Not in a process whose memory is that of a stream.
    from benchmarks.service.nimbus_question import Cluster
    from benchmarks.service.scale import Delivering, Load, answered_s, await_port

    (port,) = free_ports(1, first=27_000)
    question = Cluster(SERVICE_WORKERS // 10, 10 * SERVICE_WORKERS, SERVICE_WORKERS // 4).question(0)
    stormwright = [sys.executable, "-m", "stormwright", "cluster"]
    up = [*stormwright, "up", "--nodes", "1", "--standbys", "0", "--service-port", str(port), "--json"]
    address = json.loads(subprocess.run(up, check=True, stdout=subprocess.PIPE).stdout)["service"]
    host = urlsplit(address).hostname
    service = subprocess.Popen([*stormwright, "serve"], stdout=subprocess.DEVNULL)
    try:
        await_port(port, host)
        delivering, load, begun = Delivering(port, SERVICE_WORKERS, host), Load(), time.monotonic()
        while (elapsed := time.monotonic() - begun) < seconds:
            if len(load.asked_s) <= elapsed / ASK_S:
                load.asked_s.append(answered_s(port, question, host))
            _get(f"{address}/")
            delivering.go_on(PAGE_S, load)
        memory = resident_mb(service.pid)
        ledger = json.loads(_get(f"{address}/v1/status"))["pipeline"]["ledger"]
        delivering.close()
    finally:
        service.send_signal(signal.SIGINT)
        service.wait()
        subprocess.run([*stormwright, "down"], check=True, stdout=subprocess.DEVNULL)
    assert not load.refused, f"{load.refused} deliveries refused"
    assert ledger["used"] == ledger["read"] > 0, ledger
    return {**memory, "records": ledger["used"]}


def _get(url: str) -> bytes:
    with urlopen(url) as answer:  # noqa: S310  # of our own service
        content: bytes = answer.read()
    return content


def _service_row(memory: dict[str, float]) -> tuple[str, str, str]:
    name = f"{SERVICE_WORKERS} workers: resident, the whole service with Spark"
    total = f"{memory['java'] + memory['python']:.0f} MB: JVM {memory['java']:.0f}, Python {memory['python']:.0f}"
    return name, f"≤ {ASKED_SERVICE_MB} MB", total


def _rows(found: dict[int, dict[str, Any]]) -> list[tuple[str, str, str]]:
    rows = []
    for workers, each in found.items():
        asked = f"≤ {ASKED[workers]:.2f} cores, p95 ≤ 1 s" if workers in ASKED else ""
        memory = each["memory_mb"]
        resident = f"{memory['java']:.0f} + {memory['python']:.0f} MB"
        rows += [
            (f"{workers} workers, watched: CPU of Spark's JVM, written → result", asked, _cost(each["watched"])),
            (f"{workers} workers, not watched", "", _cost(each["unwatched"])),
            (f"{workers} workers: resident, JVM + Python of the stream", "", resident),
            (f"{workers} workers, nothing lands", f"≤ {ASKED_IDLE} cores", _cores(each["idle"])),
        ]
    return rows


def _cost(phase: dict[str, Any]) -> str:
    batch = f"a batch each {phase['batch_s']:.2f} s, {phase['jvm_ms_a_batch']:.0f} ms of CPU"
    lag = phase["lag_s"]
    return f"{_cores(phase)}; p50 / p95 {lag['p50']:.2f} / {lag['p95']:.2f} s; {batch}"


def _cores(phase: dict[str, Any]) -> str:
    return f"{phase['jvm_cores']:.3f} cores, Python {phase['python_cores']:.3f}"


if __name__ == "__main__":
    main()
