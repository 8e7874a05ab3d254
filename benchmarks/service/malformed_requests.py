"""Whether malformed requests end the service, or leave anything of themselves in it.

    python -m benchmarks.service.malformed_requests [--requests 10000]

A service with a virtual Nimbus, on an address that is not the one of services by default, asks who is there. Whoever
sends has tokens of all roles among what he sends, so that much of it comes through the door. After a tenth of them, in
which caches are filled, open files, threads and memory are looked at, and once more at the end; both times with nothing
under way.
"""

from __future__ import annotations

import argparse
import collections
import gc
import random
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.kit.results import write_results
from stormwright.service.auth.middleware import TokenBucket
from tests.service.auth.guarded import HOST, Guarded, guarded
from tests.service.auth.malformed import malformed, send

#: Code that the page measures.
MEASURES = (
    "src/stormwright/service/http",
    "src/stormwright/service/auth",
)

#: Seconds until connections that were left open are closed, and more.
SETTLE_S = 12.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311 (no secret)
    with tempfile.TemporaryDirectory() as directory, guarded(Path(directory)) as service:
        service.door.failures = service.door.costly = TokenBucket(10**9, 1e-9)
        secrets = [*service.secrets.values(), "none"]
        found: collections.Counter[int] = collections.Counter()
        before: tuple[int, int, float] = (0, 0, 0.0)
        began_s = time.monotonic()
        for number in range(options.requests):
            if number == options.requests // 10:
                before = held(service)
            found[send((HOST, service.port), malformed(rng, secrets), 0.2)] += 1
        took_s = time.monotonic() - began_s - SETTLE_S
        after = held(service)
        alive = service.ask("GET", "/v1/health")[0] == 200
        asked = service.as_role("viewer", "GET", "/v1/modes")[0] == 200
    failed = sum(count for status, count in found.items() if status >= 500)
    told = ", ".join(f"{status or 'no answer'} {count:,}" for status, count in sorted(found.items()))
    rows = [
        ("requests answered with a status of 500 on", "0", str(failed)),
        ("the service answers afterwards", "yes", "yes" if alive and asked else "no"),
        ("open files, after a tenth and at the end", "as many", f"{before[0]} and {after[0]}"),
        ("threads", "as many", f"{before[1]} and {after[1]}"),
        ("memory, MB", "as much", f"{before[2]:.1f} and {after[2]:.1f}"),
        ("answers by status", "", told),
    ]
    title = f"{options.requests:,} malformed requests in {took_s:.0f} s"
    write_results("malformed-requests", title, rows, {"statuses": dict(found), "seed": options.seed})


def held(service: Guarded) -> tuple[int, int, float]:
    """Open files, threads, and MB of memory, with nothing under way."""
    time.sleep(SETTLE_S)
    assert service.ask("GET", "/v1/health")[0] == 200
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count(), kilobytes / 1024


if __name__ == "__main__":
    main()
