"""The sample: written once, and all of its tables have rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from stormwright.cli.pipeline import command
from stormwright.errors import InputError
from stormwright.history.sample import TABLES, write_sample


def test_sample_is_written_to_new_directories_only(tmp_path: Path) -> None:
    write_sample(tmp_path / "new" / "sample")
    assert sum(path.stat().st_size for path in (tmp_path / "new").rglob("*") if path.is_file()) < 10e6
    with pytest.raises(InputError, match="is not empty"):
        write_sample(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        write_sample(tmp_path / "file")


@pytest.mark.spark
def test_each_table_of_the_sample_has_rows(spark: SparkSession, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["sample", str(tmp_path / "sample"), "--json"])
    assert done.exit_code == 0, done.output
    tables = {name: spark.read.format("stormwright").options(table=name) for name in TABLES}
    assert all(table.load(str(tmp_path / "sample")).count() for table in tables.values())
