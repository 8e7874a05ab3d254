"""The contract of tables, in a process of its own, as its Spark has further jars; prints what was found to hold.

``table_contract.py FORMAT URI KEY=VALUE…``: settings of Spark. At the end the rows are in the table, in one chunk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from stormwright.history.tables.definitions import FACTS
from stormwright.history.tables.ingest import compact, retain
from stormwright.history.tables.session import history_session
from stormwright.history.tables.store import open_store
from stormwright.pipeline.spark.target import SparkTarget
from tests.history.samples import Row, by_key, facts, frame, stored

ROOT = Path(__file__).parents[2]


def the_rows() -> list[Row]:
    """Rows of the table at the end."""
    return facts(1, 1, seed=1)


def check_contract(kind: str, uri: str, conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Run this program; skip the test if jars cannot be fetched here."""
    done = run_program("tests.history.table_contract", kind, uri, *settings(conf), environment=environment)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == dict.fromkeys(found, True)
    assert len(found) == 7


def settings(conf: Mapping[str, str]) -> list[str]:
    """Settings as arguments."""
    return [f"{key}={value}" for key, value in conf.items()]


def run_program(
    module: str, *arguments: str, environment: Mapping[str, str], code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a module with the tests' own path; skip the test if jars cannot be fetched here."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if "could not be fetched" in done.stderr:
        pytest.skip("no Maven repository has the jars")
    assert done.returncode == code, done.stderr[-3000:]
    return done


def main() -> None:
    found: dict[str, bool] = {}
    kind, uri, *texts = sys.argv[1:]
    rows = the_rows()
    expected, later = by_key(rows, FACTS), date(2100, 1, 1)
    with history_session(kind, SparkTarget.parsed("local[2]", texts), uri) as spark:
        store = open_store(spark, uri, kind)
        found["nothing at first"] = (store.days(FACTS), store.size_bytes(FACTS)) == ([], 0)
        store.write(FACTS, frame(spark, rows[::2], FACTS), 1)
        for _ in range(2):
            store.write(FACTS, frame(spark, rows[1::2], FACTS), 2)
        found["a chunk written twice"] = stored(store, FACTS) == expected
        found["compacted"] = (compact(store, later), store.fragmented(FACTS)) == (1, [])
        # A chunk whose staged rows were not removed before its day was compacted.
        store.write(FACTS, frame(spark, rows[1::2], FACTS), 2)
        found["a chunk written after compacting"] = stored(store, FACTS) == expected
        newer = replace(FACTS, migrations=(*FACTS.migrations, lambda old: old))
        store.write(newer, frame(spark, rows[1::2], FACTS), 2)
        found["an upgrade in between"] = stored(store, newer) == expected
        # Rows of a newer version are deleted by the code that knows it.
        for day in store.days(newer):
            store.drop(newer, day)
        retain(store, {"facts": 1}, later)
        found["deleted"] = (store.days(newer), store.days(FACTS)) == ([], [])
        store.write(FACTS, frame(spark, rows, FACTS), 3)
        found["a day that comes back"] = stored(store, FACTS) == expected
    print(json.dumps(found))


if __name__ == "__main__":
    main()
