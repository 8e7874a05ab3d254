"""The state of the stream of loads in the driver, as in the service, beside the same state in Spark.

    python -m benchmarks.pipeline.spark_state [--records 400000] [--live-s 45] [--kills 4] [--kinds driver,spark]

==========  ==========================================================================================================
driver      `LoadStream`, the stream of the service
spark       `StructuredStream`: `dropDuplicatesWithinWatermark`, state in memory, in the session of `pipeline stream`
processor   `transformWithState` with RocksDB (`benchmarks.pipeline.state_queries`)
==========  ==========================================================================================================

Takes about 20 minutes. Each part runs in a process of its own. Only the driver also measures each batch, and stores the
quarantine as files for a service.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.kit.cpu_time import Spent, python_workers_s
from benchmarks.kit.results import write_results
from benchmarks.pipeline import live, speed
from benchmarks.pipeline.records import FACTS, Workers
from benchmarks.pipeline.state_queries import OPTIONS, processor_result, results_of, start_query
from stormwright.perflog.columns import RecordLanding, landed_table
from stormwright.pipeline.measurement.measurement import measure
from stormwright.pipeline.measurement.windows import PANES, worker_seconds
from stormwright.pipeline.parsing.clean import LineCounts
from stormwright.pipeline.parsing.source import rows_in, stream_landed
from stormwright.pipeline.settings import KafkaTopic, StreamSettings
from stormwright.pipeline.spark.file_systems import with_jars
from stormwright.pipeline.spark.session import spark_session, working_session
from stormwright.pipeline.spark.target import SparkTarget
from stormwright.pipeline.streaming import sink
from stormwright.pipeline.streaming.kafka import stream_topic
from stormwright.pipeline.streaming.kafka_connector import connector_jars
from stormwright.pipeline.streaming.stream import LoadStream
from stormwright.pipeline.streaming.structured import ROWS, StructuredStream
from tests.perflog.samples import RECORD
from tests.pipeline.generator import dice, encoded, land
from tests.pipeline.kafka_broker import CONNECTOR, Broker, Topic
from tests.pipeline.kills import Supply, booked, supply
from tests.pipeline.oracle import assert_equal, expected_outcome, expected_profile, found_profile
from tests.pipeline.standalone import Standalone
from tests.pipeline.victim import SETTINGS as KILLS

#: Code that the page measures.
MEASURES = (
    "src/stormwright/pipeline/measurement",
    "src/stormwright/pipeline/streaming",
    "src/stormwright/perflog",
)

#: The state as it is, and in Spark.
DRIVER, SPARK, PROCESSOR = "driver", "spark", "processor"
KINDS = (DRIVER, SPARK, PROCESSOR)

WORKERS, SECONDS_PER_FILE = 400, 50
BULK = replace(speed.BULK, max_files_per_batch=2, keep_raw_s=0)
ROWS_PER_BATCH = WORKERS * SECONDS_PER_FILE * BULK.max_files_per_batch

#: Records a second, live.
RATES = (3, 1600)

#: Settings of the session of a cluster.
CLUSTER = ("spark.sql.shuffle.partitions=4", "spark.executor.memory=1g", "spark.executor.cores=1")

#: A life lasts as long after its first commit, or a start that is cut short, at most.
LIFE_S, START_S = 3.0, 8.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--live-s", type=int, default=45)
    parser.add_argument("--cluster-s", type=int, default=90)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--kind", default=DRIVER, help=argparse.SUPPRESS)
    parser.add_argument("--rate", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--until-empty", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if 0 < options.records < (least := 3 * ROWS_PER_BATCH):
        parser.error(f"--records {options.records}: at least {least}, three batches, for one of a warm JVM")
    if options.part:
        print(json.dumps(PARTS[options.part](options)))
        return
    kinds = options.kinds.split(",")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="stormwright-state-") as name:
        if options.records:
            fill(Path(name) / "columns", options.records)
            found["bulk"] = {kind: apart("bulk", options, Path(name) / kind, kind) for kind in kinds}
            found["kafka"] = {SPARK: apart("kafka", options, Path(name) / "kafka", SPARK)}
        found["late"] = {kind: apart("late", options, Path(name) / f"late-{kind}", kind) for kind in kinds}
        for rate in RATES if options.live_s else ():
            found[f"live_{rate}"] = {
                kind: apart("live", options, Path(name) / f"live-{kind}-{rate}", kind, rate) for kind in kinds
            }
        if options.cluster_s:
            directory = Path(name) / "cluster"
            given = argparse.Namespace(**{**vars(options), "live_s": options.cluster_s})
            found["cluster"] = {SPARK: apart("cluster", given, directory, SPARK, max(RATES))}
        if options.kills:
            # Of the driver: `benchmarks.pipeline.kills`.
            found["kills"] = {
                kind: kills(kind, Path(name) / f"kills-{kind}", options) for kind in kinds if kind != DRIVER
            }
    write_results(
        "pipeline-state", "State of the stream in the driver and in Spark", _rows(found, options), {"found": found}
    )


def apart(part: str, options: argparse.Namespace, directory: Path, kind: str, rate: int = 0) -> dict[str, Any]:
    """The result of a part in a process of its own."""
    directory.mkdir()
    load = os.getloadavg()[0]
    given = {"records": options.records, "live-s": options.live_s, "kind": kind, "rate": rate, "directory": directory}
    command = [sys.executable, "-m", __spec__.name, "--part", part, *(f"--{n}={v}" for n, v in given.items())]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(printed.splitlines()[-1]) | {"load_before": load}
    print(f"{part} {kind} {rate or ''}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


class Running(NamedTuple):
    """A stream: its session, the last batch that counts (-1 before), and its figures of the batches since then."""

    spark: SparkSession
    batch: Callable[[], int]
    progress: Callable[[], Any]


@contextmanager
def running(
    kind: str, landing: Path, directory: Path, settings: StreamSettings, *, until_empty: bool = False
) -> Iterator[Running]:
    """A stream of one kind over a landing directory."""
    landing.mkdir(exist_ok=True)
    with ExitStack() as ending:
        if kind == DRIVER:
            stream = ending.enter_context(LoadStream(landing, directory, settings))
            yield Running(stream.spark, lambda: last_batch(kind, directory), stream.progress)
            return
        if kind == SPARK:
            spark = ending.enter_context(working_session())
            rows = stream_landed(spark, landing, settings, delete=not settings.keep_raw_s)
            StructuredStream(rows, directory, settings).start(until_empty=until_empty)
            (query,) = spark.streams.active
        else:
            spark = spark_session(directory / "spark", settings, OPTIONS)
            ending.callback(spark.stop)
            query = start_query(spark, landing, directory, settings, until_empty=until_empty)

        def batch() -> int:
            if error := query.exception():
                raise error
            return last_batch(kind, directory)

        ending.callback(query.stop)
        yield Running(spark, batch, lambda: query)


def stored(directory: Path) -> tuple[pa.Table, LineCounts]:
    """`PANES` and ledger from the batches of a `StructuredStream`."""
    with working_session() as spark:
        stream = StructuredStream(stream_landed(spark, directory.parent / "landing", KILLS), directory)
        return stream.panes().toArrow().select(PANES.names).cast(PANES), stream.counts()


def last_batch(kind: str, directory: Path) -> int:
    """The last batch that counts; -1 for none."""
    if kind == DRIVER:
        found = [json.loads(path.read_bytes())["batch"] for path in directory.glob("*/panes/state.json")]
    else:
        found = [int(path.name) for path in (directory / "checkpoint" / "commits").glob("[0-9]*")]
    return max(found, default=-1)


def spent() -> tuple[Spent, float]:
    """Time until now: of this process and the JVM, and of the JVM's Python workers."""
    return Spent.now(), python_workers_s()


def fill(directory: Path, records: int) -> None:
    """Land all records in files of columns, as they would have over hours."""
    landing, step_ms = RecordLanding(directory), SECONDS_PER_FILE * 1000
    workers = Workers(WORKERS, speed.START_MS)
    lines = [line for second in range(SECONDS_PER_FILE) for line in workers.second(second)]
    first = landed_table(lines, speed.START_MS + step_ms + 2000, BULK.late_s)
    for number in range(records // len(lines)):
        table = first
        for name in ("seq", "start_ms", "written_ms", "landed_ms"):
            step = number * (SECONDS_PER_FILE if name == "seq" else step_ms)
            table = table.set_column(
                table.schema.get_field_index(name), table.schema.field(name), pc.add(table[name], step)
            )
        path = landing.write(table)
        assert path is not None
        os.utime(path, ns=((landed_ms := table["landed_ms"][0].as_py()) * 10**6, landed_ms * 10**6))


def bulk_part(options: argparse.Namespace) -> dict[str, Any]:
    """All files that have landed, from a cold start on."""
    directory, landing = options.directory, options.directory / "landing"
    landing.mkdir()
    for path in (directory.parent / "columns").iterdir():
        os.link(path, landing / path.name)
    last = options.records // ROWS_PER_BATCH - 1
    with running(options.kind, landing, directory / "state", BULK) as stream:
        reached = [(-1, spent())]
        while reached[-1][0] < last:
            if (batch := stream.batch()) > reached[-1][0]:
                reached.append((batch, spent()))
            time.sleep(0.05)
        size_mb, files = on_disk(options.kind, directory / "state")
    # The JVM warms up with the first batches.
    (before, (then, workers_then)), (after, (now, workers_now)) = reached[len(reached) // 2], reached[-1]
    steady, rows = now - then, (after - before) * ROWS_PER_BATCH
    workers_us = (workers_now - workers_then) / rows * 1e6
    return {
        "per_s": rows / steady.wall_s,
        "cpu_us": steady.cpu_s / rows * 1e6 + workers_us,
        "python_us": steady.python_s / rows * 1e6,
        "workers_us": workers_us,
        "state_mb": size_mb,
        "state_files": files,
    }


def live_part(options: argparse.Namespace) -> dict[str, Any]:
    """Records that land as they are written, ten times a second."""
    directory = options.directory
    settings = StreamSettings(trigger_s=1, heap_mb=2000)
    with running(options.kind, directory / "landing", directory / "state", settings) as stream:
        feeder = live.start_feeder(options.rate, options.live_s, directory)
        # Half of the time for the JVM to warm up.
        time.sleep(options.live_s / 2)
        batch, (then, workers_then), jobs = stream.batch(), spent(), jobs_of(stream.spark)
        feeder.wait()
        batches, (now, workers_now) = stream.batch() - batch, spent()
        stages = [count for job, count in jobs_of(stream.spark).items() if job not in jobs]
        time.sleep(3)
        if options.kind == DRIVER:
            p95_ms = stream.progress()["lag_ms"]["p95"]
        else:
            p95_ms = float(np.percentile(lags_ms(directory / "state", batch), 95))
        size_mb, files = on_disk(options.kind, directory / "state")
    took = now - then
    workers_cores = (workers_now - workers_then) / took.wall_s
    return {
        "cores": took.cpu_s / took.wall_s + workers_cores,
        "python_cores": took.python_s / took.wall_s,
        "workers_cores": workers_cores,
        "p95_ms": p95_ms,
        "batch_s": took.wall_s / batches,
        "jobs": len(stages) / batches,
        "stages": sum(stages) / batches,
        "state_mb": size_mb,
        "state_files": files,
    }


def cluster_part(options: argparse.Namespace) -> dict[str, Any]:
    """The stream on a standalone cluster of two executors, one of which is killed in the middle."""
    landing, state = options.directory / "landing", options.directory / "state"
    landing.mkdir()
    settings = StreamSettings(trigger_s=1)
    with Standalone(options.directory / "spark") as cluster:
        target = SparkTarget.parsed(cluster.master, CLUSTER)
        with working_session(target) as spark:
            stream = StructuredStream(stream_landed(spark, landing, settings), state, settings)
            stream.start()
            feeder = live.start_feeder(options.rate, options.live_s, options.directory)
            time.sleep(options.live_s / 2)
            before, killed_s = cluster.executors(), time.time()
            os.kill(before[0], signal.SIGKILL)
            feeder.wait()
            written = rows_in(list(landing.glob("*.parquet")))
            deadline = time.monotonic() + 120
            while (counts := stream.counts()).read < written and time.monotonic() < deadline:
                time.sleep(1)
            after = cluster.executors()
            stream.stop()
    committed_s = sorted(path.stat().st_mtime for path in (state / ROWS).glob("batch=*/_SUCCESS"))
    at = next(place for place, moment_s in enumerate(committed_s) if moment_s > killed_s)
    steady = np.diff(committed_s[:at])
    return {
        "written": written,
        "ledger": asdict(counts),
        "executors": [len(before), len(after), len(set(after) - set(before))],
        "batch_s": float(steady[-1]),
        "pause_s": float(np.diff(committed_s[at - 1 :])[:5].max()),
        "caught_up_s": committed_s[-1] - killed_s,
    }


def kafka_part(options: argparse.Namespace) -> dict[str, Any]:
    """Messages that wait in two partitions, from a cold start on."""
    directory, settings = options.directory, replace(BULK, late_s=10**9)
    workers, seconds = Workers(WORKERS, speed.START_MS), options.records // WORKERS
    with (directory / "lines.jsonl").open("wb") as file:
        for second in range(seconds):
            file.writelines(line + b"\n" for line in workers.second(second))
    target = with_jars(SparkTarget(), (), (), connector_jars(CONNECTOR))
    with Broker(directory / "kafka") as broker, working_session(target) as spark:
        topic = Topic(spark, broker, "records", partitions=2)
        partition = (F.monotonically_increasing_id() % 2).cast("int").alias("partition")
        lines = spark.read.text(str(directory / "lines.jsonl")).select("value", partition)
        servers = {"kafka.bootstrap.servers": broker.address}
        lines.write.format("kafka").options(**servers, topic=topic.name).save()
        most = {"maxOffsetsPerTrigger": str(ROWS_PER_BATCH)}
        stream = StructuredStream(
            stream_topic(spark, KafkaTopic(broker.address, topic.name, most), settings), directory / "state", settings
        )
        reached = [(-1, spent()[0])]
        stream.start(until_empty=True)
        (query,) = spark.streams.active
        while query.isActive:
            if (batch := last_batch(SPARK, directory / "state")) > reached[-1][0]:
                reached.append((batch, spent()[0]))
            time.sleep(0.05)
        counts = stream.counts()
    assert counts.used == counts.read == seconds * WORKERS, counts
    # The JVM warms up with the first batches, and the last one is not full.
    (before, then), (after, now) = reached[len(reached) // 2], reached[-2]
    steady, rows = now - then, (after - before) * ROWS_PER_BATCH
    return {"per_s": rows / steady.wall_s, "cpu_us": steady.cpu_s / rows * 1e6}


def jobs_of(spark: SparkSession) -> dict[int, int]:
    """Number of stages of each job that Spark remembers."""
    tracker = spark.sparkContext.statusTracker()
    groups = [None, *(str(query.runId) for query in spark.streams.active)]
    jobs = {job: tracker.getJobInfo(job) for group in groups for job in tracker.getJobIdsForGroup(group)}
    return {job: len(about.stageIds) for job, about in jobs.items() if about}


def lags_ms(directory: Path, after: int) -> list[float]:
    """Time from landing until the result is there, for each file of the batches after one; names begin with ns.

    Of the last batches, as Spark's log of files is compacted.
    """
    batches = {}
    for path in (directory / "checkpoint" / "sources" / "0").glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            batches[Path(entry["path"]).name] = entry["batchId"]
    results = {int(path.stem): path.stat().st_mtime_ns for path in (directory / "results").glob("[0-9]*")}
    for path in (directory / ROWS).glob("batch=*/_SUCCESS"):
        results[int(path.parent.name.partition("=")[2])] = path.stat().st_mtime_ns
    return [
        (results[batch] - int(name.partition("-")[0])) / 1e6
        for name, batch in batches.items()
        if batch > after and batch in results
    ]


def on_disk(kind: str, directory: Path) -> tuple[float, int]:
    """Size in MB and number of the files of the state."""
    roots = directory.glob("*/panes") if kind == DRIVER else [directory / "checkpoint"]
    sizes = []
    for path in (path for root in roots for path in root.rglob("*")):
        with suppress(FileNotFoundError):
            sizes += [path.stat().st_size] if path.is_file() else []
    return sum(sizes) / 1e6, len(sizes)


def late_part(options: argparse.Namespace) -> dict[str, Any]:
    """How four records of before, in a file that landed long ago by its columns, and two duplicates are counted."""
    settings = replace(KILLS, max_files_per_batch=1, keep_raw_s=10**9)
    landing, state, start_ms = options.directory / "landing", options.directory / "state", 1_690_000_000_000
    # The watermark that Spark compares with is that of the batch before the last one.
    files = [range(10), range(200, 210), [210], range(20, 24), [200, 201]]
    for number, file in enumerate(files):
        bodies = [encoded(RECORD | {"seq": second, "start_ms": start_ms + second * 1000}) for second in file]
        path = land(landing, bodies, start_ms + file[-1] * 1000 + 5000, columns_late_s=settings.late_s)
        moment_ns = (start_ms + 300_000 + number * 1000) * 10**6
        os.utime(path, ns=(moment_ns, moment_ns))
    with running(options.kind, landing, state, settings) as stream:
        while stream.batch() < len(files) - 1:
            time.sleep(0.1)
        # Spark reports on a batch a moment later.
        time.sleep(1)
        if options.kind == DRIVER:
            return {"ledger": stream.progress()["ledger"]}
        reports = [report.stateOperators for report in stream.progress().recentProgress]
    counters = {
        "dropped": [
            sum(report[place].numRowsDroppedByWatermark for report in reports) for place in range(len(reports[0]))
        ],
        "duplicates": sum(
            int(each.customMetrics.get("numDroppedDuplicateRows", 0)) for report in reports for each in report
        ),
    }
    if options.kind == SPARK:
        return {"ledger": asdict(stored(state)[1]), **counters}
    return {"ledger": asdict(processor_result(results_of(state))[1]), **counters}


class ColumnSupply(Supply):
    """Lands files of columns only."""

    def _land(self) -> None:
        for file in self.files:
            landed_ms = file[-1].arrived_ms
            path = land(self.landing, (line.body for line in file), landed_ms, columns_late_s=KILLS.late_s)
            self.landed[path.name] = (landed_ms, file)
            if self.pause_s:
                time.sleep(self.pause_s)


@dataclass
class Life:
    """A stream in a process group of its own, until it is killed; a context manager."""

    kind: str
    directory: Path
    until_empty: bool = False

    def __enter__(self) -> Life:
        self.begun_s, self.batch = time.monotonic(), last_batch(self.kind, self.directory / "state")
        command = [sys.executable, "-m", __spec__.name, "--part=life", f"--kind={self.kind}"]
        command += [f"--directory={self.directory}", *(["--until-empty"] if self.until_empty else [])]
        self.process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def next_commit_s(self) -> float:
        """Seconds from the start to the next batch that counts."""
        while last_batch(self.kind, self.directory / "state") <= self.batch:
            assert self.process.poll() is None, "the stream has ended"
            assert time.monotonic() < self.begun_s + 90, "no batch in 90 s"
            time.sleep(0.02)
        return time.monotonic() - self.begun_s


def life_part(options: argparse.Namespace) -> dict[str, Any]:
    """A stream that runs until it is killed."""
    directory = options.directory
    settings = replace(KILLS, keep_raw_s=10**9 if options.kind != DRIVER else 0)
    with running(
        options.kind, directory / "landing", directory / "state", settings, until_empty=options.until_empty
    ) as stream:
        while options.kind == DRIVER:
            time.sleep(1)
        stream.progress().awaitTermination()
    return {}


def kills(kind: str, directory: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Lives that kill −9 ends at random moments, and what is counted in the end."""
    (directory / "landing").mkdir(parents=True)
    world, of_both = supply(directory / "landing", options.seed, seconds=200, per_file=3, pause_s=0)
    supplied = ColumnSupply(directory / "landing", of_both.files, pause_s=0.3)
    chance, commits_s = dice(options.seed), []
    with supplied:
        for number in range(options.kills):
            with Life(kind, directory) as life:
                # The first life has no state; every third ends as soon as a batch counts, before it is reported.
                if number % 3 != 1:
                    commits_s.append(life.next_commit_s())
                if number % 3 != 2:
                    time.sleep(chance.uniform(0, LIFE_S if number % 3 == 0 else START_S))
        supplied.all_at_once()
    lines = sum(map(len, supplied.files))
    with Life(kind, directory, until_empty=True) as life:
        while kind == DRIVER and booked(directory / "state")["ledger"]["read"] < lines:
            time.sleep(0.1)
        assert kind == DRIVER or life.process.wait() == 0
    outcome = expected_outcome(supplied.landed, KILLS.late_s)
    found: dict[str, Any] = {"restart_to_commit_s": commits_s[1:], "expected": outcome.ledger}
    state = directory / "state"
    if kind == DRIVER:
        loaded = sink.load(state / KILLS.state_name / "panes")
        facts, found["ledger"] = loaded.facts(), asdict(loaded.ledger)
    else:
        facts, ledger = stored(state) if kind == SPARK else processor_result(results_of(state))
        found["ledger"] = asdict(ledger)
    measurement = measure(facts, worker_seconds(facts), KILLS)
    assert measurement is not None
    expected = expected_profile(outcome.used, world.problem, KILLS.window_s, KILLS.slide_s, KILLS.settle_s)
    try:
        assert_equal(found_profile(measurement.profile(world.problem), world.problem), expected, relative=1e-9)
        found["loads"] = "equal"
    except AssertionError as error:
        found["loads"] = f"differ: {str(error).splitlines()[0]}"
    print(f"kills {kind}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "bulk": bulk_part, "late": late_part, "live": live_part, "life": life_part, "cluster": cluster_part,
    "kafka": kafka_part,
}  # fmt: skip


def _rows(found: dict[str, Any], options: argparse.Namespace) -> list[tuple[str, str, str]]:
    def each(part: str, text: Callable[[dict[str, Any]], str]) -> str:
        return "; ".join(f"{kind} {text(figures)}" for kind, figures in found[part].items())

    rows = []
    if options.records:
        per_record = each("bulk", lambda f: f"{f['cpu_us']:.0f}, {f['workers_us']:.0f} µs")
        rows += [
            (f"bulk, steady: records/s, {FACTS} facts each", "", each("bulk", lambda f: f"{f['per_s'] / 1000:.1f} k")),
            ("bulk: CPU of a record, that of Spark's Python workers in it", "", per_record),
            ("bulk: state on disk in the end", "", each("bulk", _size)),
            (
                "messages/s that wait in two partitions of Kafka, steady",
                "≥ 40 k",
                each("kafka", lambda f: f"{f['per_s'] / 1000:.1f} k, {f['cpu_us']:.0f} µs CPU each"),
            ),
        ]
    loads = [figures["load_before"] for part in found.values() for figures in part.values() if "load_before" in figures]
    rows.insert(0, ("load of the machine before a part, highest", "≤ 1", f"{max(loads):.1f}"))
    rows.append(("27 lines, 4 in an old file that was moved here, 2 duplicates", "read 27", each("late", _late)))
    for rate in RATES if options.live_s else ():
        part = f"live_{rate}"
        rows += [
            (f"{rate} records/s, trigger 1 s: cores", "", each(part, lambda f: f"{f['cores']:.3f}")),
            (f"{rate} records/s: written → result, p95", "", each(part, lambda f: f"{f['p95_ms'] / 1000:.2f} s")),
            (
                f"{rate} records/s: jobs, stages of a batch",
                "",
                each(part, lambda f: f"{f['jobs']:.1f}, {f['stages']:.1f}"),
            ),
            (f"{rate} records/s: state on disk in the end", "", each(part, _size)),
        ]
    if options.cluster_s:
        figures = found["cluster"][SPARK]
        rows += [
            (
                f"{max(RATES)} records/s, two executors of a standalone cluster, one killed: longest pause of results",
                "≤ 20 s",
                f"{figures['pause_s']:.1f} s; before, a batch every {figures['batch_s']:.1f} s",
            ),
            ("its records: written; counted", "equal", f"{figures['written']}; {_counts(figures['ledger'])}"),
        ]
    if options.kills:
        rows += [
            (
                f"kill −9, {options.kills} times: loads against plain Python",
                "equal",
                each("kills", lambda f: f["loads"]),
            ),
            (
                "counted in the state",
                _counts(next(iter(found["kills"].values()))["expected"]),
                each("kills", lambda f: _counts(f["ledger"])),
            ),
            ("restart → next commit, median / longest", "≤ 10 s", each("kills", _restarts)),
        ]
    return rows


def _size(figures: dict[str, Any]) -> str:
    return f"{figures['state_mb']:.1f} MB in {figures['state_files']} files"


def _counts(ledger: dict[str, int]) -> str:
    return " ".join(f"{name} {count}" for name, count in ledger.items())


def _late(figures: dict[str, Any]) -> str:
    counts = figures["ledger"]
    if "dropped" not in figures:
        return _counts(counts)
    return f"{_counts(counts)}, dropped by the watermark {figures['dropped']}, duplicate rows {figures['duplicates']}"


def _restarts(figures: dict[str, Any]) -> str:
    times_s = figures["restart_to_commit_s"]
    return f"{median(times_s):.1f} / {max(times_s):.1f} s" if times_s else "–"


if __name__ == "__main__":
    main()
