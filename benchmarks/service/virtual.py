"""The service over a virtual cluster of thousands of nodes: how soon it serves, what it takes, how fast its pages are.

    python -m benchmarks.service.virtual [--file ready:cluster-5000] [--seconds 60] [--speed 1] [--write]

`stormwright serve --simulated` runs in a process of its own. Somebody reads its pages one after the other, a tenth of
a second apart, while virtual time passes; then a topology is planned and moved over HTTP. Wall times are those of who
looks; CPU times are beside them, as other work on the machine makes the former longer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.kit.results import write_results
from stormwright.client.client import Client
from stormwright.model.problem import size_of
from stormwright.workbench.ready_problems import read_problem
from stormwright.workbench.simulated.served_cluster import profile_every_s

HOST, PORT = "127.0.0.1", 7396

#: What somebody reads; TOPOLOGY and NODE stand for one.
PAGES = ("/cluster", "/topologies", "/topologies/TOPOLOGY", "/cluster/nodes/NODE", "/traffic", "/timeline", "/plans",
         "/history", "/v1/status")  # fmt: skip

#: What is asked for.
MAX_READ_S = 0.2

#: Seconds from one read to the next, that a service has until it serves, and that a move may take.
PAUSE_S, START_S, MOVE_S = 0.1, 300.0, 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default="ready:cluster-5000")
    parser.add_argument("--seconds", type=float, default=60.0, help="for which pages are read")
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--write", action="store_true", help="write docs/results/service-virtual.*")
    options = parser.parse_args()
    problem = read_problem(Path(options.file))
    rows: list[tuple[str, str, str]] = []
    details: dict[str, Any] = {"load average": os.getloadavg(), "speed": options.speed}
    with service(options.file, options.speed) as (process, started_s):
        rows.append(("until it serves", "within seconds", f"{started_s:.1f} s, {cpu_s(process.pid):.1f} CPU s"))
        names = {"TOPOLOGY": problem.topologies[0].id, "NODE": problem.supervisors[0].id}
        every_s = profile_every_s(problem.num_executors)
        reads, virtual = read(process.pid, options.seconds, names, every_s)
        every = np.concatenate(list(reads.values()))
        details["reads"] = {page: [round(each, 4) for each in seconds] for page, seconds in reads.items()}
        rows.append((f"p99 of {len(every):,} reads", f"≤ {MAX_READ_S * 1000:g} ms", ms(np.percentile(every, 99))))
        rows += [(f"{page}, median and slowest", "", f"{ms(np.median(s))}, {ms(max(s))}") for page, s in reads.items()]
        rows.append(("virtual seconds a second meanwhile", f"{options.speed:g}", f"{virtual[0]:.2f}"))
        rows.append(("CPU of it all meanwhile", "", f"{virtual[1]:.2f} of a core"))
        rows += moved(problem.topologies[0].name)
        rows.append(("memory at most", "", f"{peak_mb(process.pid):,.0f} MB"))
    for row in rows:
        print(*row, sep=" | ")
    if options.write:
        write_results("service-virtual", f"The service over a virtual cluster: {size_of(problem)}", rows, details)


@contextmanager
def service(file: str, speed: float) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """A service that serves, and how long it took until then."""
    command = [sys.executable, "-m", "stormwright", "serve", "--simulated", file, "--port", str(PORT)]
    begun_s = time.monotonic()
    with subprocess.Popen([*command, "--speed", str(speed)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "serving at" in line:
                    break
            yield process, time.monotonic() - begun_s
        finally:
            process.terminate()
            process.communicate(timeout=60)


def read(
    pid: int, seconds: float, names: dict[str, str], every_s: float
) -> tuple[dict[str, list[float]], tuple[float, float]]:
    """Seconds of every read by page; virtual seconds and CPU seconds in a second.

    A profile is made every so many virtual seconds.
    """
    taken: dict[str, list[float]] = {page: [] for page in PAGES}
    with closing(HTTPConnection(HOST, PORT, timeout=60)) as connection:
        first, begun_s, cpu = status(connection), time.monotonic(), cpu_s(pid)
        while time.monotonic() < begun_s + seconds:
            for page in PAGES:
                path = page
                for word, name in names.items():
                    path = path.replace(word, name)
                at_s = time.perf_counter()
                code = get(connection, path)[0]
                taken[page].append(time.perf_counter() - at_s)
                assert code == 200, (path, code)
                time.sleep(PAUSE_S)
        last, passed_s = status(connection), time.monotonic() - begun_s
    virtual_s = (last["batch"] - first["batch"]) * every_s + last["profile_age_s"] - first["profile_age_s"]
    return taken, (virtual_s / passed_s, (cpu_s(pid) - cpu) / passed_s)


def moved(topology: str) -> Iterator[tuple[str, str, str]]:
    """How long a plan for a topology and its move take."""
    client = Client(f"http://{HOST}:{PORT}", "benchmark", limit_s=60.0)
    begun_s = time.monotonic()
    plan = client.wait_until_planned(client.plan("a look", goals=["traffic"], topologies=[topology]).id)
    yield f"plan of one topology: {plan.topologies} would move", "", f"{time.monotonic() - begun_s:.1f} s"
    if not plan.topologies:
        return
    begun_s = time.monotonic()
    client.apply(plan.id, "to see")
    while client.show(plan.id).steps_completed == 0 and time.monotonic() < begun_s + MOVE_S:
        time.sleep(0.5)
    move = client.history(1).entries[0].moves[0]
    yield "until it has moved", "", f"{time.monotonic() - begun_s:.1f} s, {move.failure or 'whole'}"


def get(connection: HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path, headers={"Accept": "text/html" if not path.startswith("/v1") else "*/*"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def status(connection: HTTPConnection) -> dict[str, Any]:
    """Of what measures loads, once there are pages."""
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        if get(connection, "/cluster")[0] == 200:
            found: dict[str, Any] = json.loads(get(connection, "/v1/status")[1])["pipeline"]
            return found
        time.sleep(0.5)
    raise SystemExit("there was never a page")


def cpu_s(pid: int) -> float:
    about = Path(f"/proc/{pid}/stat").read_text()
    user, system = about[about.rindex(")") + 2 :].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def peak_mb(pid: int) -> float:
    told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(told["VmHWM"].split()[0]) / 1e3


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


if __name__ == "__main__":
    main()
