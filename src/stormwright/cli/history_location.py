"""Options of the verbs that read a history: where its tables are, and where Spark runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormwright.cli import options
from stormwright.errors import Fault, InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stormwright.history.tables.store import Store


@dataclass(frozen=True)
class HistoryLocation:
    """Location of the tables, and of Spark, from the options."""

    state_dir: Path | None
    uri: str | None
    kind: str
    master: str | None
    spark_conf: tuple[str, ...]


def place(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--state``, ``--history``, ``--history-format`` and the options of Spark, as one argument `where`."""

    @wraps(function)
    def placed(
        *args: Any,
        state_dir: Path | None,
        uri: str | None,
        kind: str,
        master: str | None,
        spark_conf: tuple[str, ...],
        **others: Any,
    ) -> None:
        """Call the verb with `where`: `state_dir`, `uri`, `kind`, `master`, `spark_conf`; pass `args`, `others`."""
        function(*args, where=HistoryLocation(state_dir, uri, kind, master, spark_conf), **others)

    decorated = options.spark(placed)
    for option in (
        click.option("--history-format", "kind", default="parquet", show_default=True, help="Format of the tables."),
        click.option(
            "--history", "uri", metavar="URI", help="Directory of the tables, if the service was started with one."
        ),
        click.option("--state", "state_dir", type=options.PATH, help="State directory of the service."),
    ):
        decorated = option(decorated)
    return decorated


@contextmanager
def opened(where: HistoryLocation, to_read: bool = True) -> Iterator[tuple[SparkSession, Store]]:
    """Yield Spark and the tables; raise if `to_read` and there are none."""
    state_dir, uri, kind = where.state_dir, where.uri, where.kind
    if state_dir is None and uri is None:
        raise InputError("history", [Fault("is required: it locates the tables", "--state or --history")])
    if state_dir is not None and not state_dir.is_dir():
        raise InputError("--state", [Fault("no such directory", str(state_dir))])
    from stormwright.history.tables.definitions import TABLES
    from stormwright.history.tables.session import history_session
    from stormwright.history.tables.store import check_format, open_store, tables_below
    from stormwright.pipeline.spark.target import SparkTarget

    place = uri or tables_below(state_dir or Path())
    target = SparkTarget.parsed(where.master, where.spark_conf)
    check_format(kind)
    if to_read and uri is None and not Path(place.removeprefix("file://")).is_dir():
        raise _nothing_at(place)  # without starting Spark
    with history_session(kind, target, place) as spark:
        store = open_store(spark, place, kind)
        if to_read and not any(store.days(table) for table in TABLES.values()):
            raise _nothing_at(place)
        yield spark, store


def _nothing_at(place: str) -> InputError:
    wanted = (
        "nothing is recorded there; `history ingest --state DIR` takes in what a service has staged; one of a virtual "
        "cluster stages nothing; see its journal with `stormwright history`"
    )
    return InputError("history", [Fault(wanted, place)])
