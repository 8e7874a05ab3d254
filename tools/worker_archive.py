"""Makes a class data archive for Storm's workers, with which a worker starts on two thirds of the CPU time.

A JVM maps the classes of such an archive instead of reading, checking and linking them one by one. Which ones a worker
needs is seen on a worker: this runs a small topology on a cluster of one node. An archive that does not fit the JVM or
the jars is ignored by Java, so it can be missing or old without harm. The list of classes is left beside it, for
standby workers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stormwright.errors import StormwrightError
from stormwright.storm.jvm import FULL, STORM_HOME, WORKER_ARCHIVE, WORKER_CLASSES, require_java
from stormwright.storm.local_cluster import LocalCluster, LocalClusterConfig

TOPOLOGY = "stormwright.topologies.WordCount"
START_S = 60.0
RUN_S = 5.0


def main() -> None:
    """Run a worker that lists its classes, and dump these."""
    with tempfile.TemporaryDirectory(prefix="stormwright-") as directory:
        # A place of its own: another local cluster of this user may be up.
        os.environ["TMPDIR"] = tempfile.tempdir = directory
        listed = Path(directory) / "classes"
        record_classes(listed)
        dump(listed)


def record_classes(listed: Path) -> None:
    """Write the names of the classes that a worker loads to `listed`."""
    config = LocalClusterConfig(
        nodes=1,
        slots=1,
        network="loopback",
        standbys=0,
        scheduler=False,
        storm_conf={"worker.childopts": [*FULL, f"-XX:DumpLoadedClassList={listed}"]},
    )
    with LocalCluster(config) as cluster:
        cluster.run_topology(TOPOLOGY, ["name=archive"], {"topology.workers": 1})
        wait_for_worker(cluster.plan.work)
        time.sleep(RUN_S)


def wait_for_worker(work: Path) -> None:
    """Return when the worker has started to work."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if any("has finished loading" in log.read_text(errors="replace") for log in work.rglob("worker.log")):
            return
        time.sleep(0.2)
    raise StormwrightError(f"no worker started within {START_S:.0f} s")


def dump(listed: Path) -> None:
    """Make the archive; complete or not at all."""
    unfinished = WORKER_ARCHIVE.with_suffix(".unfinished")
    options = [f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={unfinished}", "-Xlog:disable"]
    command = [require_java(), "-Xshare:dump", *FULL, *options, "-cp", str(STORM_HOME / "lib-worker" / "*")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StormwrightError((done.stdout + done.stderr).strip() or f"java ended with exit code {done.returncode}")
    unfinished.replace(WORKER_ARCHIVE)
    shutil.copy(listed, WORKER_CLASSES)


if __name__ == "__main__":
    try:
        main()
    except StormwrightError as error:
        sys.exit(f"workers will start more slowly: no class archive could be made: {error}")
