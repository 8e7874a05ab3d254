"""The state of a stream on disk: a file for each table of a pane, and one that says which of them count."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import orjson
import pyarrow as pa

from stormwright.pipeline.ledger import Ledger
from stormwright.pipeline.live import LiveState, Pane

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
        temporary = directory / f".{_MANIFEST}"
        temporary.write_bytes(orjson.dumps(about))
        temporary.replace(directory / _MANIFEST)
    finally:
        _tidy(directory)


def load(directory: Path) -> LiveState:
    """What `save` wrote; an empty state where there is nothing."""
    path = directory / _MANIFEST
    if not path.exists():
        return LiveState()
    about = orjson.loads(path.read_bytes())
    return LiveState(
        batch=about["batch"],
        panes={
            start_ms: Pane(batch, *(_read(path) for path in _paths(directory, start_ms, batch)))
            for start_ms, batch in about["panes"]
        },
        ledger=Ledger(**about["ledger"]),
        newest_ms=about["newest_ms"],
        files=tuple(about["files"]),
    )


def _paths(directory: Path, start_ms: int, batch: int) -> tuple[Path, Path]:
    return (
        directory / f"{start_ms}-{batch}-facts{_SUFFIX}",
        directory / f"{start_ms}-{batch}-seen{_SUFFIX}",
    )


def _write(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        file.write_table(table)


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
