"""The sample of `stormwright pipeline sample`: ten minutes of a local cluster, as a service records them.

python tools/record_sample.py src/stormwright/history/sample.zip
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import threading
import zipfile
from pathlib import Path

import pyarrow as pa

from stormwright.perflog.columns import as_file, read_landed_file
from stormwright.perflog.landing import COLUMNS_SUFFIX
from stormwright.pipeline.settings import StreamSettings
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.service.storage.history import HistorySettings
from stormwright.storm.local_cluster import LocalCluster
from stormwright.workbench.demo.run import LIMITS, demo_cluster
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import submit
from stormwright.workbench.demo.submissions import parse_submissions

MINUTES = 10.0
TOPOLOGIES = [f"word-count:name=words-{number},workers=4" for number in (1, 2)]

#: Parts of a state directory that tables are read from.
_TABLES = ("stream/raw/*", "stream/*/panes/**/*", "history/tables/**/*", "history/staging/**/*")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory)
        record(state, options.minutes)
        join_minutes(state / "stream" / "raw")
        with zipfile.ZipFile(options.archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in sorted({path for part in _TABLES for path in state.glob(part) if path.is_file()}):
                archive.write(path, path.relative_to(state).as_posix())
    print(f"{options.archive}: {options.archive.stat().st_size / 1e6:.1f} MB")


def record(state: Path, minutes: float) -> None:
    """Let a service decide about two topologies, and keep all that it records."""
    config = demo_cluster(nodes=4, slots=4, cores_per_node=0.4, racks=("a", "a", "b", "b"))
    demo = DemoSettings(config, parse_submissions(TOPOLOGIES), make_scheduler("optimizer"), "optimizer")
    with LocalCluster(config) as cluster:
        settings = ServiceSettings(
            state,
            cluster.service_host,
            cluster.service_port,
            mode="auto",
            objective="throughput",
            limits=LIMITS,
            triggers=TriggerParams(period_s=60, cool_down_s=60),
            stream=StreamSettings(keep_raw_s=3600),
            history=HistorySettings(ingest_every_s=60),
        )
        with Service(settings, demo.scheduler, "optimizer", cluster.gateway_command()) as service:
            submit(demo, cluster, service)
            stop = threading.Event()
            threading.Timer(60 * minutes, stop.set).start()
            service.run(stop)


def join_minutes(raw: Path) -> None:
    """Replace the landed files of each minute by one; the landing time of a record is in its row."""
    by_minute: dict[int, list[Path]] = {}
    for path in sorted(raw.glob(f"*{COLUMNS_SUFFIX}")):
        by_minute.setdefault(path.stat().st_mtime_ns // (60 * 10**9), []).append(path)
    for minute, paths in by_minute.items():
        content = as_file(pa.concat_tables(map(read_landed_file, paths)))
        for path in paths:
            path.unlink()
        (raw / f"{minute * 60 * 10**9:020d}-1{COLUMNS_SUFFIX}").write_bytes(content)


if __name__ == "__main__":
    main()
