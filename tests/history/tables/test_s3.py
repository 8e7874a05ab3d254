"""Tables and backfills on an object store: a server that speaks S3's protocol, read back by a client of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.dataset as ds
import pytest
from pyarrow.fs import FileSelector, FileType, S3FileSystem

from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.staging import Staging
from stormwright.service.storage.database import FILE, State
from stormwright.service.storage.history import DIRECTORY, HistorySettings, ServiceHistory
from tests.history.samples import START_MS, by_key, facts
from tests.history.table_contract import check_contract, run_program, settings, the_rows
from tests.pipeline.generator import deliver, dice, land, make_world, records

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BUCKET = "stormwright"

#: Credentials, and no search for others in the network.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True)
class S3:
    """An S3 server with one bucket."""

    endpoint: str

    @property
    def conf(self) -> Mapping[str, str]:
        """Settings of Spark."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    @property
    def files(self) -> S3FileSystem:
        """The client of Arrow, which is not that of Hadoop."""
        return S3FileSystem(
            access_key="key",
            secret_key="secret",  # noqa: S106
            endpoint_override=self.endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
        )

    def put(self, name: str, content: bytes) -> None:
        """Write an object; without a name, make the bucket. The server takes a request without signature."""
        url = f"{self.endpoint}/{BUCKET}/{name}".rstrip("/")
        with urlopen(Request(url, content, {"Content-Type": "application/octet-stream"}, method="PUT")):  # noqa: S310
            pass

    def objects(self, prefix: str) -> list[str]:
        """Names of all objects with data below a directory."""
        found = self.files.get_file_info(FileSelector(f"{BUCKET}/{prefix}", recursive=True, allow_not_found=True))
        return sorted(each.path for each in found if each.type == FileType.File and each.size)

    def run(self, *arguments: str, code: int = 0) -> Any:
        """Run a verb of the command line, its settings in the environment; return its JSON, or its error."""
        conf = {"STORMWRIGHT_SPARK_CONF": "\n".join(settings(self.conf))}
        conf = conf | {"STORMWRIGHT_SPARK_MASTER": "local[2]"}
        done = run_program("stormwright", *arguments, "--json", environment=ENVIRONMENT | conf, code=code)
        return json.loads(done.stdout) if code == 0 else done.stderr


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    pytest.importorskip(
        "moto.server", reason="moto, a server of S3's protocol, is not installed: pip install moto[server]"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("s3") / "server.log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen(command, stdout=output, stderr=output, env=os.environ | ENVIRONMENT)
    try:
        found = S3(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + 30
        while not is_listening(port):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        found.put("", b"")
        yield found
    finally:
        server.terminate()
        server.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_parquet_rows_are_stored_exactly_once(s3: S3) -> None:
    check_contract("parquet", f"s3a://{BUCKET}/parquet", s3.conf, ENVIRONMENT)
    chunk = s3.objects("parquet")
    assert all("/chunk=3/" in name for name in chunk)
    rows = ds.dataset(chunk, filesystem=s3.files, format="parquet").to_table().to_pylist()
    assert by_key(rows, FACTS) == by_key(the_rows(), FACTS)


def test_delta_rows_are_stored_exactly_once(s3: S3) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake, a reader of Delta tables, is not installed")
    check_contract("delta", f"s3a://{BUCKET}/delta", s3.conf, ENVIRONMENT)
    options = {"endpoint_url": s3.endpoint, "allow_http": "true", "region": "us-east-1", **ENVIRONMENT}
    table = deltalake.DeltaTable(f"s3://{BUCKET}/delta/facts/version=2", storage_options=options)
    rows = table.to_pyarrow_table(filesystem=None).to_pylist()
    assert by_key(rows, FACTS) == by_key(the_rows(), FACTS)


def test_service_ingests_compacts_and_reports_the_history(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of the service are enough: no verb names them."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    uri = f"s3a://{BUCKET}/service"
    rows = facts(2, 2, seed=1)
    Staging(tmp_path / DIRECTORY).write(FACTS, "facts", rows)
    chosen = HistorySettings(uri, keep_days=36_500, conf=s3.conf)
    history = ServiceHistory(chosen, tmp_path, State(tmp_path / FILE), "optimizer")
    history.ingest(None)  # type: ignore[arg-type]
    assert history.status()["staged_files"] == 0
    history.maintain()
    days = s3.objects("service/facts")
    assert ["/days/day=" in name for name in days] == [True, True]
    found = ds.dataset(days, filesystem=s3.files, format="parquet").to_table().to_pylist()
    assert by_key(found, FACTS) == by_key(rows, FACTS)

    where = ["--history", uri]
    pairs = [row for row in rows if row["kind"] == "pair"]
    sql = "SELECT sum(tuples) AS tuples, count(*) AS rows FROM facts WHERE kind = 'pair'"
    assert s3.run("history", "sql", sql, *where)["rows"] == [
        {"tuples": sum(row["tuples"] for row in pairs), "rows": len(pairs)}
    ]
    report = s3.run("history", "report", "2023-07-22..2023-07-23", *where)["topologies"]
    assert {row["topology"] for row in report} == {"words", "clicks"}
    assert "no such bucket" in s3.run("history", "report", "--history", "s3a://elsewhere/x", code=2)


def test_backfill_reads_and_writes_objects(s3: S3, tmp_path: Path) -> None:
    landing, into = tmp_path / "landing", tmp_path / "tables"
    rng = dice(21)
    delivery = deliver(records(make_world(21), START_MS, 30, rng), rng, spoil=0.1)
    for file in delivery.in_files(200):
        land(landing, (line.body for line in file), file[-1].arrived_ms)
    for path in landing.iterdir():
        s3.put(f"landing/{path.name}", path.read_bytes())
    local = s3.run("pipeline", "backfill", str(landing), "--into", str(into))
    assert local["used"] == len(delivery.used)
    warning = local["warning"].replace(str(into), f"s3a://{BUCKET}/tables")
    remote = f"s3a://{BUCKET}"
    # The second time the tables are replaced.
    for _ in range(2):
        assert s3.run("pipeline", "backfill", f"{remote}/landing", "--into", f"{remote}/tables") == local | {
            "warning": warning
        }
    for table in ("records", "panes"):
        expected = ds.dataset(into / table, format="parquet").to_table()
        found = ds.dataset(f"{BUCKET}/tables/{table}", filesystem=s3.files, format="parquet").to_table()
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert "other files than a backfill's" in s3.run(
        "pipeline", "backfill", f"{remote}/landing", "--into", remote, code=2
    )
