"""Texts of others as people may see them."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.base.escaping import is_text, printable, shown
from stormwright.errors import Fault, InputError


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("word-count é 日本 – ●", "word-count é 日本 – ●"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("one\ntwo\r\u2028", r"one\ntwo\r\u2028"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud800", r"\ud800"),
        ("a\u00a0b", "a\u00a0b"),
    ],
)
def test_nothing_steers_a_terminal(text: str, printed: str) -> None:
    assert printable(text) == printed


@pytest.mark.long
@given(st.text(st.characters(), max_size=20))
def test_printable_text_is_one_line_of_valid_utf8(text: str) -> None:
    printed = printable(text)
    assert len(printed.splitlines()) <= 1
    assert is_text(printed)
    assert printable(printed) == printed


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.mark.slow
@given(PLAIN)
def test_short_values_are_shown_as_python_repr(value: object) -> None:
    text = repr(value)
    if len(text) <= 60:
        assert shown(value) == text
    else:
        assert len(shown(value)) == 60
        assert shown(value).endswith("…")


@pytest.mark.long
@given(PLAIN.filter(lambda value: not isinstance(value, str)))
def test_long_values_begin_with_their_python_repr(value: object) -> None:
    # Which quotes stand around a text depends on all of it.
    if not any(mark in json.dumps(value, ensure_ascii=False) for mark in ("'", '\\"')):
        assert repr(value).startswith(shown(value).removesuffix("…"))


def test_formatting_of_large_values_takes_bounded_time() -> None:
    value: list[object] = ["x"]
    for _ in range(50):
        value = [value] * 10
    begin = time.process_time()
    assert shown({"a": value}).startswith("{'a': [[[[[")
    assert shown("x" * 10**8) == "'" + "x" * 58 + "…"
    assert shown(2**10**6).startswith("0x")
    assert shown(-(2**10**6)).startswith("-0x")
    assert time.process_time() - begin < 1


def test_each_fault_is_printed_on_one_line() -> None:
    error = InputError(
        "evil\n.json", [Fault("should be\x1b[2J a number", '$["a\nb: 0 faults"]'), Fault("is\nnone", "x\ny")]
    )
    assert str(error).splitlines() == [
        r"evil\n.json: 2 faults",
        r'  should be\x1b[2J a number @ $["a\nb: 0 faults"]',
        r"  x\ny: is\nnone",
    ]
