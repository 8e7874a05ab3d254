"""JSON files, gzipped or not, in and out."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from stormwright.base.files import name_of_output, write_whole
from stormwright.base.gc_pause import collection_paused
from stormwright.errors import Fault, InputError
from stormwright.formats.document.faults import join_path

_MAX_REPORTED = 10

#: Name of standard input where a file is read.
STANDARD_INPUT = Path("-")

#: Most bytes that a gzipped file may unpack to: some megabytes of it could fill any memory.
MAX_UNPACKED = 2**31

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 2**20


# Parsers silently take the last value of a duplicate key.
def keys_given_twice(data: bytes, document: object) -> list[Fault]:
    """Return a fault for each duplicate key in an object of the text `data`, which was parsed into `document`."""
    # A text has a colon for every key, besides those in strings, and dropped values take theirs along. Texts are parsed
    # with all keys, which takes ten times as long, only if some are missing.
    try:
        if data.count(b":") <= orjson.dumps(document).count(b":"):
            return []
    except orjson.JSONEncodeError:
        pass  # nested deeper than it writes
    try:
        whole = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Object, parse_int=float)
    except RecursionError:
        return [Fault("is nested too deeply", "$")]
    faults = []
    for fault in _faults(whole, "$"):
        faults.append(fault)
        if len(faults) == _MAX_REPORTED:
            break
    return faults


class _Object(dict[str, Any]):
    """An object with its duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        times = Counter(key for key, _ in pairs) if len(pairs) > len(self) else {}
        self.twice = [key for key, count in times.items() if count > 1]


def _faults(value: object, path: str) -> Iterator[Fault]:
    if isinstance(value, _Object):
        yield from (Fault("is there twice", join_path(path, key)) for key in value.twice)
        for key, item in value.items():
            yield from _faults(item, join_path(path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _faults(item, join_path(path, position))


def read_json(path: Path) -> object:
    """Read the JSON file at `path`; gzip is detected by content, not by name.

    Raises
    ------
    InputError
        The file cannot be read, or is not JSON.
    """
    with opened(path) as file:
        return json_in(file.read(), path)


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open the file at `path`, or standard input for ``-``, for reading.

    Raises
    ------
    InputError
        It cannot be read.
    """
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None:
                raise _unusable(path, "is closed")
            yield sys.stdin.buffer  # type: ignore[misc]  # a BufferedReader, unless someone put another in its place
            return
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror or error}") from error


def source_of(path: Path) -> str:
    """Return the name of the file at `path` in errors."""
    return "standard input" if path == STANDARD_INPUT else str(path)


def json_in(data: bytes, path: Path) -> object:
    """Parse `data`, read from `path`, as JSON, gzipped or not.

    Raises
    ------
    InputError
        It is not JSON, has a duplicate key in an object, or unpacks to more than `MAX_UNPACKED` bytes.
    """
    if data.startswith(_GZIP_MAGIC):
        try:
            data = _unpacked(data, path)
        except (OSError, EOFError, zlib.error) as error:
            raise _unusable(path, f"is damaged gzip data: {error}") from error
    document = parse_json(data, source_of(path))
    if twice := keys_given_twice(data, document):
        raise InputError(source_of(path), twice)
    return document


def _unpacked(data: bytes, path: Path) -> bytes:
    parts = io.BytesIO()
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        while part := file.read(_CHUNK):
            parts.write(part)
            if parts.tell() > MAX_UNPACKED:
                more = f"unpacks to more than {MAX_UNPACKED:,} bytes; give it unpacked, or as a NumPy archive (*.npz)"
                raise _unusable(path, more)
    return parts.getvalue()


def parse_json(data: bytes, source: str) -> object:
    """Parse `data` as JSON, with or without a byte order mark; `source` names it in errors.

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
    """Write `data` to `path`, through a link to its target; a reader never sees half of it.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        fault = Fault(f"cannot be written: {error.strerror or error}", "$")
        raise InputError(name_of_output(path), [fault]) from error


def _unusable(path: Path, message: str) -> InputError:
    return InputError(source_of(path), [Fault(message, "$")])
