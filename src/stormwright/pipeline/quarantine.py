"""Lines that are no records, kept with the reason and the file they came in."""

from __future__ import annotations

from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc


class Quarantine:
    """A directory with a file of JSON lines per batch that had such lines."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def keep(self, batch: int, audit: pa.Table) -> None:
        """Write what a batch rejected; the same batch again replaces it."""
        rejected = audit.filter(pc.is_valid(audit["reason"])).select(["reason", "file", "landed_ms", "line"])
        if not rejected.num_rows:
            return
        path = self.directory / f"batch-{batch:010d}.jsonl"
        temporary = path.with_name(f".{path.name}")
        temporary.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rejected.to_pylist()))
        temporary.replace(path)
