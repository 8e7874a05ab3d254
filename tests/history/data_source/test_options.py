"""Options and their faults, and the journal of a running service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from stormwright.client.shapes import History, HistoryEntry, MoveEntry
from stormwright.errors import InputError
from stormwright.plans.figures import StageEvaluation
from tests.history.data_source.states import State, read, source

pytestmark = pytest.mark.spark


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(State(tmp_path / "state").directory)


def faults(**options: str) -> dict[str, str]:
    """Faults of options, by where they are."""
    with pytest.raises(InputError) as error:
        source(**options).schema()
    return {fault.path: fault.message for fault in error.value.faults}


def test_unknown_names_come_with_a_suggestion(state: str) -> None:
    found = faults(path=state, table="pane", colums="topology")
    assert found.keys() == {"table", "colums"}
    assert "panes" in found["table"]
    assert "columns" in found["colums"]
    (message,) = faults(path=state, table="loads", columns="pane_ms,cpu").values()
    assert "cpu_hz" in message


def test_all_faults_of_options_are_reported(state: str) -> None:
    wrong = {"start": "yesterday", "kind": "pair", "columns": "seq"}
    assert faults(path=state, table="loads", **wrong).keys() == {"start", "kind", "columns: seq"}
    assert faults(table="panes", token="t").keys() == {"path, url", "token"}  # noqa: S106
    assert faults(path=state).keys() == {"table"}
    assert faults(path=state, url="http://127.0.0.1:1", table="journal").keys() == {"path, url"}


def test_places_without_a_state_are_faults(tmp_path: Path, state: str) -> None:
    (tmp_path / "other").mkdir()
    for place in (tmp_path / "missing", tmp_path / "other"):
        assert faults(path=str(place), table="panes").keys() == {str(place)}
    assert faults(path="hdfs://cluster/state", table="panes").keys() == {"hdfs://cluster/state"}
    (Path(state) / "history" / "tables" / "facts" / "version=1" / "_delta_log").mkdir(parents=True)
    assert len(faults(path=state, table="panes")) == 1


def test_tables_are_read_where_they_are(state: str) -> None:
    assert faults(path=state, table="journal").keys() == {"table"}
    assert faults(url="http://127.0.0.1:1", table="loads").keys() == {"table"}
    assert read(path=state, table="decisions") == read(path=f"file://{state}", table="records") == []


def test_schema_with_other_columns_is_a_fault(state: str) -> None:
    found = source(path=state, table="moves")
    others = source(path=state, table="decisions").schema()
    with pytest.raises(InputError) as error:
        found.reader(others)
    assert {fault.path for fault in error.value.faults} > {"scheduler", "moves"}


@pytest.mark.slow
def test_spark_shows_the_fault(spark: SparkSession, state: str) -> None:
    with pytest.raises(AnalysisException, match="did you mean panes"):
        spark.read.format("stormwright").option("table", "pane").load(state)


def entry(n: int, *moves: MoveEntry) -> HistoryEntry:
    return HistoryEntry(
        n=n, at_ms=1000 * n, kind="service", who="stormwright", reason="gain", text="moved", plan=f"p{n}", moves=moves
    )


def move(topology: str, *evaluations: StageEvaluation) -> MoveEntry:
    promised = {"throughput": 1.2, "latency": None}
    return MoveEntry(
        topology=topology, name=topology, pause_s=2.5, promised=promised, evaluations=evaluations, failure=""
    )


OUTCOME = StageEvaluation(
    topology="words", quantity="throughput", predicted=1.2, measured=None, low=1.0, high=1.4, verdict="as predicted"
)
ENTRIES = [entry(4, move("words", OUTCOME), move("clicks")), entry(3), entry(2), entry(1, move("words"))]
TOKEN = "secret-of-a-test"  # noqa: S105


@pytest.fixture
def service() -> Iterator[str]:
    """A service whose journal comes in pages of two entries."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["authorization"] == f"Bearer {TOKEN}"
            before = int(parse_qs(urlsplit(self.path).query).get("before", ["99"])[0])
            left = [each for each in ENTRIES if each.n < before]
            body = History(entries=tuple(left[:2]), more=len(left) > 2).model_dump_json().encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_journal_of_a_service_is_read_page_by_page(spark: SparkSession, service: str) -> None:
    journal = spark.read.format("stormwright").options(table="journal", url=service, token=TOKEN).load()
    rows = [row.asDict(recursive=True) for row in journal.orderBy("n", "topology").collect()]
    assert [(row["n"], row["plan"], row["topology"]) for row in rows] == [
        (1, "p1", "words"), (4, "p4", "clicks"), (4, "p4", "words"),
    ]  # fmt: skip
    assert rows[2]["promised"] == {"throughput": 1.2, "latency": None}
    assert rows[2]["evaluations"] == [OUTCOME.model_dump()]
    selected = read(table="journal", url=service, token=TOKEN, topology="words", start="2000", columns="n")
    assert selected == [{"n": 4}]


def test_journal_is_no_stream(service: str) -> None:
    found = source(table="journal", url=service, token=TOKEN)
    with pytest.raises(InputError):
        found.streamReader(found.schema())
