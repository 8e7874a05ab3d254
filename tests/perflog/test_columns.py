"""Landed columns: what was parsed, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stormwright.errors import InputError
from stormwright.perflog import parse_lines
from stormwright.perflog.columns import RecordLanding, as_file, landed_results, landed_table, read_landed_file
from stormwright.perflog.schema import sample_record
from tests.perflog.samples import encoded

LANDED_MS = 1_690_000_010_000

LINES = [
    encoded(sample_record()),
    b"no record",
    encoded(sample_record(optional=False)),
    encoded(sample_record(version=2)),
    b'{"host": "\xff"}',
]


@pytest.mark.parametrize("copies", [1, 50])
def test_landed_columns_are_read_as_their_lines_are_parsed(tmp_path: Path, copies: int) -> None:
    """With and without dictionaries."""
    lines = LINES * copies
    path = RecordLanding(tmp_path).write(landed_table(lines, LANDED_MS, late_s=30))
    assert path is not None
    assert list(landed_results(path)) == list(parse_lines(lines, LANDED_MS))
    stored = read_landed_file(path)["line"].to_pylist()
    assert stored == [None, LINES[1], None, LINES[3], LINES[4]] * copies


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    content = as_file(landed_table(LINES, LANDED_MS))
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="is damaged"):
        read_landed_file(damaged)
    later = tmp_path / "later.parquet"
    pq.write_table(landed_table(LINES, LANDED_MS).replace_schema_metadata({b"stormwright.landing": b"9"}), later)
    with pytest.raises(InputError, match="has format 9; this version reads 1"):
        read_landed_file(later)
    other = tmp_path / "other.parquet"
    pq.write_table(landed_table(LINES, LANDED_MS).replace_schema_metadata(None), other)
    with pytest.raises(InputError, match="has format none"):
        read_landed_file(other)
