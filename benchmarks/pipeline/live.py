"""What the live stream costs: CPU and memory by number of workers, and how old its result is.

    python -m benchmarks.pipeline.live [--workers 3,100,1600] [--seconds 300] [--idle-s 60]

Each number of workers has a process of its own. Every worker writes a record a second; they are shipped ten times a
second. Once the JVM is warm nothing but the stream runs beside the feeder; then nothing lands for a while.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.kit.cpu_time import Spent, resident_mb
from benchmarks.kit.results import write_results
from benchmarks.pipeline.records import Workers
from stormwright.perflog.columns import RecordLanding, landed_table
from stormwright.pipeline.settings import StreamSettings

#: Most cores of Spark's JVM by number of workers, and without records.
ASKED = {3: 0.08, 100: 0.20, 1600: 0.8}
ASKED_IDLE = 0.05

#: Number of workers from which the service uses the settings for high rates.
HIGH = 500

#: Seconds until the JVM is warm.
WARM_S = 60

SHIP_S = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="3,100,1600")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--idle-s", type=float, default=60)
    parser.add_argument("--trigger", type=float)
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
    write_results("pipeline-live", "What the live stream costs", _rows(found), {"found": found})


def _apart(workers: int, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="stormwright-live-") as name:
        command = [sys.executable, "-m", __spec__.name, "--part", "stream", "--directory", name]
        command += ["--workers", str(workers), "--seconds", str(options.seconds), "--idle-s", str(options.idle_s)]
        command += ["--trigger", str(options.trigger)] if options.trigger else []
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result


def stream(options: argparse.Namespace) -> dict[str, Any]:
    """The stream of one number of workers, from its start to the end of the idle time."""
    from stormwright.pipeline.streaming.stream import LoadStream

    workers = int(options.workers)
    trigger = {"trigger_s": options.trigger} if options.trigger else {}
    settings = StreamSettings(rate="high" if workers >= HIGH else "low", **trigger)
    directory = options.directory
    with LoadStream(directory / "landing", directory / "state", settings) as running:
        arguments = ["--workers", options.workers, "--seconds", str(options.seconds), "--directory", str(directory)]
        feeder = subprocess.Popen([sys.executable, "-m", __spec__.name, "--part", "feed", *arguments])
        time.sleep(WARM_S)
        batch, then = running.progress()["batch"], Spent.now()
        feeder.wait()
        assert feeder.returncode == 0
        spent, batches = Spent.now() - then, running.progress()["batch"] - batch
        lag_ms, memory = running.progress()["lag_ms"], resident_mb()
        time.sleep(10)
        ledger, then = running.progress()["ledger"], Spent.now()
        time.sleep(options.idle_s)
        idle = Spent.now() - then
    assert ledger["used"] == ledger["read"] > 0, ledger
    return {
        "jvm_cores": spent.jvm_s / spent.wall_s,
        "python_cores": spent.python_s / spent.wall_s,
        "batch_s": spent.wall_s / batches,
        "jvm_ms_a_batch": 1000 * spent.jvm_s / batches,
        "lag_ms": lag_ms,
        "memory_mb": memory,
        "idle_jvm_cores": idle.jvm_s / idle.wall_s,
        "idle_python_cores": idle.python_s / idle.wall_s,
        "records": ledger["used"],
    }


def feed(options: argparse.Namespace) -> None:
    """Let workers write a record a second each, shipped ten times a second."""
    rate = int(options.workers)
    workers = Workers(rate, round(time.time() * 1000) - 1000)
    landing = RecordLanding(options.directory / "landing")
    begun, written = time.time(), 0
    while (elapsed := time.time() - begun) < options.seconds + WARM_S:
        due = int(elapsed * rate)
        now_ms = round(time.time() * 1000)
        lines = [workers.record(number % rate, number // rate, now_ms) for number in range(written, due)]
        landing.write(landed_table(lines, now_ms, StreamSettings.late_s))
        written = due
        time.sleep(max(0.0, SHIP_S - (time.time() - begun - elapsed)))


def _rows(found: dict[int, dict[str, Any]]) -> list[tuple[str, str, str]]:
    rows = []
    for workers, each in found.items():
        asked = f"≤ {ASKED[workers]:.2f} cores, p95 ≤ 1 s" if workers in ASKED else ""
        lag = each["lag_ms"]
        batches = f"every {each['batch_s']:.2f} s, {each['jvm_ms_a_batch']:.0f} ms of CPU"
        figure = f"{each['jvm_cores']:.3f} cores, p50 / p95 {lag['p50'] / 1000:.2f} / {lag['p95'] / 1000:.2f} s"
        rows.append((f"{workers} workers: CPU of Spark's JVM, written → result", asked, figure))
        rows.append((f"{workers} workers: a batch", "", batches))
        rows.append((f"{workers} workers: CPU of Python", "", f"{each['python_cores']:.3f} cores"))
        memory = each["memory_mb"]
        resident = f"{memory['java']:.0f} + {memory['python']:.0f} MB"
        rows.append((f"{workers} workers: resident, JVM + Python of the stream", "", resident))
        idle = f"{each['idle_jvm_cores']:.3f} cores, Python {each['idle_python_cores']:.3f}"
        rows.append((f"{workers} workers, nothing lands: CPU of Spark's JVM", f"≤ {ASKED_IDLE} cores", idle))
    return rows


if __name__ == "__main__":
    main()
