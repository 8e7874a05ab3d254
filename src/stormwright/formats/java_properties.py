"""Java's ``.properties`` files, which Flux fills topologies with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from stormwright.errors import Fault, InputError
from stormwright.formats.faults import FaultList

_SPACE = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE = re.compile(r"[0-9a-fA-F]{4}")


def read_properties(path: Path) -> dict[str, str]:
    """The properties in the file at `path`, by the rules of ``java.util.Properties.load``.

    Raises
    ------
    InputError
        The file cannot be read, or has a ``\\u`` that is no character; all its faults.
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
    """Each line that is neither blank nor a comment with its number; an odd run of ``\\`` at its end joins the next."""
    joined, first = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip(_SPACE)
        if not first and (not line or line[0] in "#!"):
            continue
        joined, first = joined + line, first or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined = joined[:-1]
            continue
        yield first, joined
        joined, first = "", 0
    if first:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """Key and value, still escaped: the key ends at the first ``=``, ``:`` or space that is not escaped."""
    end = 0
    while end < len(line) and line[end] not in f"=:{_SPACE}":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return line[:end], rest


def _unescaped(text: str, at: str, faults: FaultList) -> str:
    parts, rest = [], text
    while "\\" in rest:
        plain, _, rest = rest.partition("\\")
        parts.append(plain)
        if rest[:1] == "u":
            digits = rest[1:5]
            if not _UNICODE.fullmatch(digits):
                faults.add(f"should be \\u and four hexadecimal digits, got '\\u{digits}'", at)
                return text
            parts.append(chr(int(digits, 16)))
            rest = rest[5:]
        elif rest:
            parts.append(_ESCAPES.get(rest[0], rest[0]))
            rest = rest[1:]
    return "".join([*parts, rest])
