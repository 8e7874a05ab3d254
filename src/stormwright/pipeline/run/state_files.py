"""The state of a stream on disk: a file for each table of a pane, and one that says which of them count."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa

from stormwright.files import write_whole
from stormwright.pipeline.lines.ledger import LineCounts
from stormwright.pipeline.run.live import LiveState, Pane

_MANIFEST = "state.json"
_SUFFIX = ".arrow"


def save(state: LiveState, directory: Path) -> None:
    """Replace what is there, at once: written are the panes that the last batch changed, then what counts.

    Raises
    ------
    OSError
        It cannot be written; what was there before still counts.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        for start_ms, pane in state.panes.items():
            for table, path in zip((pane.facts, pane.seen), _paths(directory, start_ms, pane.batch), strict=True):
                # There may be one that a batch of the same number wrote, which then did not come to count.
                if pane.batch == state.batch or not path.exists():
                    _write(table, path)
        about = {
            "batch": state.batch,
            "newest_ms": state.newest_ms,
            "ledger": asdict(state.ledger),
            "files": state.files,
            "panes": [[start_ms, pane.batch] for start_ms, pane in state.panes.items()],
        }
        write_whole(directory / _MANIFEST, orjson.dumps(about))
    finally:
        _tidy(directory)


def load(directory: Path) -> LiveState:
    """What `save` wrote; an empty state where there is nothing.

    What cannot be read (a disk has failed, or somebody was at it) is set aside, and the state is empty.
    """
    path = directory / _MANIFEST
    if not path.exists():
        return LiveState()
    try:
        return _loaded(directory, orjson.loads(path.read_bytes()))
    except (orjson.JSONDecodeError, FileNotFoundError, pa.ArrowInvalid, KeyError, TypeError):
        directory.rename(directory.with_name(f"{directory.name}-damaged-{time.time_ns()}"))
        return LiveState()


def _loaded(directory: Path, about: dict[str, Any]) -> LiveState:
    return LiveState(
        batch=about["batch"],
        panes={
            start_ms: Pane(batch, *(_read(path) for path in _paths(directory, start_ms, batch)))
            for start_ms, batch in about["panes"]
        },
        ledger=LineCounts(**about["ledger"]),
        newest_ms=about["newest_ms"],
        files=tuple(about["files"]),
    )


def _paths(directory: Path, start_ms: int, batch: int) -> tuple[Path, Path]:
    return (
        directory / f"{start_ms}-{batch}-facts{_SUFFIX}",
        directory / f"{start_ms}-{batch}-seen{_SUFFIX}",
    )


def _write(table: pa.Table, path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with path.open("wb") as file:
        with pa.ipc.new_file(file, table.schema, options=options) as table_file:
            table_file.write_table(table)
        _to_disk(file)


def _to_disk(file: BinaryIO) -> None:
    """What a batch read is deleted next: no power failure may take this too."""
    file.flush()
    os.fsync(file.fileno())


def _read(path: Path) -> pa.Table:
    with pa.ipc.open_file(path) as file:
        return file.read_all()


def _tidy(directory: Path) -> None:
    """Delete what does not count: closed panes, and what a batch wrote that then failed."""
    with suppress(OSError):  # then it is done next time
        panes = orjson.loads((directory / _MANIFEST).read_bytes())["panes"]
        counting = {path.name for start_ms, batch in panes for path in _paths(directory, start_ms, batch)}
        for path in directory.glob(f"*{_SUFFIX}"):
            if path.name not in counting:
                path.unlink()
