"""A service in a process of its own, with all but Spark and Nimbus: ``serving.py HOSTS HOME PORT``."""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stormwright.cli.serve import end_at_signals
from stormwright.cli.serve.pair import Pair, paired
from stormwright.pipeline.streaming.stream import LoadStream
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings


class Nimbus:
    """Records its calls."""

    def __init__(self, calls: Path) -> None:
        self._calls = calls

    def __enter__(self) -> Nimbus:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cluster(self) -> dict[str, Any]:
        return {"supervisors": [], "topologies": []}

    def activate(self, name: str) -> None:
        with self._calls.open("a") as file:
            file.write(f"activate {name}\n")


def main(hosts: str, home: Path, port: int) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for name, stands in (
        ("__enter__", lambda self: self),
        *((each, lambda *_: None) for each in ("__exit__", "require_running")),
    ):
        setattr(LoadStream, name, stands)
    stop, settings = threading.Event(), ServiceSettings(home, "127.0.0.1", port)
    end_at_signals(stop)
    with ExitStack() as running:
        joined = running.enter_context(paired(Pair(hosts, "word", f"http://127.0.0.1:{port}"), settings, stop))
        if joined is not None:
            scheduler = make_scheduler("online")
            service = running.enter_context(Service(joined, scheduler, "online", Nimbus(home / "calls")))  # type: ignore[arg-type]
            end_at_signals(stop)
            service.run(stop)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
