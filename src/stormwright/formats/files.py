"""JSON files, gzipped or not, in and out."""

from __future__ import annotations

import codecs
import gc
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import orjson

from stormwright.errors import Fault, InputError

_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def collection_paused() -> Iterator[None]:
    """Suspends cyclic garbage collection: over millions of new lists it costs more than parsing them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_json(path: Path) -> object:
    """What the JSON file at `path` holds; gzip is told by content, not by name.

    Raises
    ------
    InputError
        The file cannot be read, or is not JSON.
    """
    with opened(path) as file:
        return json_in(file.read(), path)


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """The file at `path`, to be read.

    Raises
    ------
    InputError
        It cannot be read.
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror or error}") from error


def json_in(data: bytes, path: Path) -> object:
    """`data`, read from `path`, as JSON, gzipped or not.

    Raises
    ------
    InputError
        It is not JSON.
    """
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise _unusable(path, f"is damaged gzip data: {error}") from error
    return parse_json(data, str(path))


def parse_json(data: bytes, source: str) -> object:
    """`data` as JSON, with or without a byte order mark; `source` names it in errors.

    Raises
    ------
    InputError
        It is empty, not text in UTF-8, or not JSON. (NaN and Infinity are not JSON.)
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data:
        raise InputError(source, [Fault("is empty; JSON is expected", "$")])
    try:
        with collection_paused():
            return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        why = f"is not JSON: {error}" if _is_text(data) else "is not text in UTF-8"
        raise InputError(source, [Fault(why, "$")]) from error


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def write_json(path: Path, document: object) -> None:
    """Write `document` to `path`, gzipped if the name ends in ``.gz``; a reader never sees half of it.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    data = orjson.dumps(document) + b"\n"
    write_bytes(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path`; a reader never sees half of it.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or a device is written to, never replaced
            return
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(data)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(path, f"cannot be written: {error.strerror or error}") from error


def _unusable(path: Path, message: str) -> InputError:
    return InputError(str(path), [Fault(message, "$")])
