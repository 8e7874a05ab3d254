"""Java's ``.properties`` files, which Flux substitutes in topologies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stormwright.errors import Fault, InputError
from stormwright.formats.document.faults import FaultList

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)


def read_properties(path: Path) -> dict[str, str]:
    r"""Read the properties in the file at `path`, by the rules of ``java.util.Properties.load``.

    Raises
    ------
    InputError
        The file cannot be read, or has a ``\u`` that is not a character; all its faults.
    """
    try:
        text = path.read_bytes().decode("latin-1")  # the encoding of these files, whatever the machine's is
    except OSError as error:
        raise InputError(str(path), [Fault(f"cannot be read: {error.strerror or error}", "$")]) from error
    faults = FaultList()
    properties = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        at = f"line {number}"
        properties[_unescaped(key, at, faults)] = _unescaped(value, at, faults)
    if faults:
        raise faults.error(str(path))
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    r"""Yield each line that is neither blank nor a comment with its number.

    An odd run of ``\`` at the end of a line joins the next.
    """
    parts: list[str] = []
    first = 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_SPACE)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2
        parts.append(line[:-1] if goes_on else line)
        if goes_on:
            continue
        yield first, "".join(parts)
        parts, first = [], 0
    if first:
        yield first, "".join(parts)


def _split(line: str) -> tuple[str, str]:
    """Return key and value, still escaped: the key ends at the first ``=``, ``:`` or space that is not escaped."""
    end = 0
    while end < len(line) and line[end] not in f"=:{_SPACE}":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return line[:end], rest


def _unescaped(text: str, at: str, faults: FaultList) -> str:
    parts = []
    end = 0
    for escape in _ESCAPE.finditer(text):
        parts.append(text[end : escape.start()])
        end = escape.end()
        what = escape[1]
        if what == "u":
            faults.add(f"should be \\u and four hexadecimal digits, got '\\u{text[end : end + 4]}'", at)
            return text
        parts.append(chr(int(what[1:], 16)) if len(what) > 1 else _ESCAPES.get(what, what))
    return "".join([*parts, text[end:]])
