"""Weight and first paint of the dashboard's pages, and the time of /metrics and /v1/status, for a large cluster.

    python -m benchmarks.service.pages [--problem ready:cluster-5000] [--runs 5]

A service over a virtual cluster, whose time passes as on a real one, runs as a process of its own and is read from
outside: pages in Chromium, each in a new context, so without a cache; metrics and status by a program.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from benchmarks.kit.results import write_results

#: Code that the page measures.
MEASURES = (
    "src/stormwright/service/dashboard",
    "src/stormwright/service/http",
)

#: Seconds until the service has to answer, and until it has to have measured loads.
START_S, MEASURED_S = 120, 300

#: Seconds from one request of a program to the next: longer than a text is used again.
PAUSE_S = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", default="ready:cluster-5000")
    parser.add_argument("--runs", type=int, default=5, help="of each page and answer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, serving(options.problem, Path(directory)) as address:
        overview = httpx.get(f"{address}/v1/overview", timeout=60).json()
        rows = programs(address, options.runs) + pages(address, options.runs)
    size = f"{overview['topologies']:,} topologies, {overview['executors']:,} executors, {overview['nodes']:,} nodes"
    write_results("dashboard-pages", f"Dashboard, metrics and status of {size}", rows, {})


@contextmanager
def serving(problem: str, directory: Path) -> Iterator[str]:
    """Run a service, and yield its address once it has measured loads."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "stormwright", "serve", "--simulated", problem, "--speed", "1"]
    command += ["--state", str(directory / "state"), "--port", str(port), "--without-authentication"]
    address = f"http://127.0.0.1:{port}"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until_s = time.monotonic() + MEASURED_S
            while not _is_measured(address):
                if process.poll() is not None or time.monotonic() > until_s:
                    raise SystemExit((directory / "log").read_text(encoding="utf-8"))
                time.sleep(1)
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _is_measured(address: str) -> bool:
    try:
        overview = httpx.get(f"{address}/v1/overview", timeout=10).json()
        return None not in (overview["load_age_s"], overview["nodes"])
    except httpx.HTTPError:
        return False


def programs(address: str, runs: int) -> list[tuple[str, str, str]]:
    """Return the times of answers for programs."""
    rows = []
    for path, asked in (("/metrics", "≤ 1 s"), ("/v1/status", "≤ 0.3 s"), ("/v1/overview", "")):
        seconds, size = [], 0
        for _ in range(runs):
            time.sleep(PAUSE_S)
            begin = time.perf_counter()
            size = len(httpx.get(address + path, timeout=60).raise_for_status().content)
            seconds.append(time.perf_counter() - begin)
        times = f"median {median(seconds):.2f} s, slowest {max(seconds):.2f} s"
        rows.append((path, asked, f"{times}, {size / 1e3:,.0f} kB"))
        print(*rows[-1], flush=True)
    return rows


def pages(address: str, runs: int) -> list[tuple[str, str, str]]:
    """Return weight and first paint of the pages."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path in _paths(address):
            size, paints = 0, []
            for _ in range(runs):
                context = browser.new_context()
                size, paint_ms = _painted(context.new_page(), address + path)
                paints.append(paint_ms)
                context.close()
            row = (
                f"page {path}",
                "≤ 200 kB, ≤ 1 s",
                f"{size / 1e3:,.0f} kB, first paint {median(paints) / 1e3:.2f} s, slowest {max(paints) / 1e3:.2f} s",
            )
            rows.append(row)
            print(*row, flush=True)
        browser.close()
    return rows


def _paths(address: str) -> list[str]:
    problem: dict[str, Any] = httpx.get(f"{address}/v1/problem", timeout=120).json()
    topology, node = problem["topologies"][0]["id"], problem["supervisors"][0]["id"]
    of_one = [f"/topologies/{topology}", f"/cluster/nodes/{node}"]
    return ["/", "/cluster", "/topologies", *of_one, "/traffic", "/timeline", "/plans", "/history"]


def _painted(page: Any, url: str) -> tuple[int, float]:
    """Return the bytes of a page and of all that it loads, and the ms until its first contentful paint."""
    page.goto(url, wait_until="load")
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    while (paint_ms := page.evaluate(paint)) is None:
        time.sleep(0.05)
    sizes = "performance.getEntries().reduce((sum, each) => sum + (each.decodedBodySize ?? 0), 0)"
    return page.evaluate(sizes), float(paint_ms)


if __name__ == "__main__":
    main()
