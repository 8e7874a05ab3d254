"""Safe display of external texts: control characters escaped, long texts truncated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

_MAX_SHOWN = 60

#: Integers beyond it are shown by their first hexadecimal digits: the decimal ones of a long one take for ever.
_MAX_PLAIN = 10**_MAX_SHOWN


def printable(text: str) -> str:
    r"""Return `text` on one line, with ``\x1b`` for an escape character, ``\n`` for a new line and so on.

    Names come from files and from users who submit topologies: none may move the cursor, set a title or forge a line.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\xa0\u202f" else char.encode("unicode_escape").decode() for char in text
    )


def is_text(text: str) -> bool:
    """Return whether UTF-8, and so JSON, can represent `text`: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """Return `value` as quoted in a message, truncated if long; of a large one no more is read than is shown."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > _MAX_SHOWN:
            return cut(text)
    return text


def cut(text: str) -> str:
    """Return `text`, or its beginning if it is long."""
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def _pieces(value: object) -> Iterator[str]:
    """Yield the `repr` of a JSON or YAML value, piece by piece."""
    if isinstance(value, str):
        yield repr(value[: _MAX_SHOWN + 1])
    elif isinstance(value, Mapping):
        yield "{"
        for number, (key, item) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "[" if isinstance(value, list) else "("
        for number, item in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(item)
        yield "]" if isinstance(value, list) else ",)" if len(value) == 1 else ")"
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _MAX_PLAIN:
        yield from ("-" if value < 0 else "", hex(abs(value) >> max(value.bit_length() - 4 * _MAX_SHOWN, 0)))
    else:
        yield "".join(islice(repr(value), _MAX_SHOWN + 1))
