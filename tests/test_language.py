"""Names, docstrings, help texts and messages are in plain technical English.

Six checks, each with file and line of every finding. Of all of `stormwright`: identifiers where they are defined,
docstrings, help texts of the command line, messages (texts of errors, faults, log records and printed lines) and
templates. Of the tests: defined names and docstrings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple

import click
import pytest
import stormwright_lab

import stormwright
from stormwright.cli import cli

ROOTS = [Path(package.__file__).parent for package in (stormwright, stormwright_lab)]
FILES = [path for root in ROOTS for path in sorted(root.rglob("*.py"))]
TEMPLATES = [path for root in ROOTS for path in sorted(root.rglob("*.j2"))]
TESTS = Path(__file__).parent

#: Words that name or say nothing: participles for nouns, people for programs, and ways around the word that is meant.
WORDS = {"told", "tell", "tells", "telling", "asked", "said", "judged", "judging", "kept", "seen", "dealt", "drawn"}
WORDS |= {"anew", "mend", "mends", "mended", "mending", "nobody", "whoever"}

#: The same, of several words.
PHRASES = (("so", "many"), ("the", "like"), ("by", "itself"), ("in", "words"))

#: Words of Storm itself, as `(word, text that it stands in)`, each with the reason why it cannot be another one.
STORMS_OWN: dict[tuple[str, str], str] = {}

#: Calls that show their texts to people: on a terminal, in a log or in an error.
PRINTING = re.compile(r"\A(echo|secho|print|say|say_lines)\Z")
LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
FAULTS = re.compile(r"(Fault|Error)\Z")

#: A noun clause where the thing itself has a name: "what runs", "of what it has", "What people see".
#: "What-if" is a term of the field.
WHAT = re.compile(r"\bwhat\b(?!-if)", re.IGNORECASE)

#: Expressions, tags and comments of templates.
JINJA = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """A word that is to be replaced, and where it is."""

    place: str
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.word!r} in {shorten(self.text, 200)!r}"


def parts(name: str) -> list[str]:
    """Split an identifier at underscores and camel case, in lower case."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def smells(words: list[str], text: str) -> Iterator[str]:
    """Yield each word and phrase that is to be replaced."""
    found = [word for word in words if word in WORDS]
    found += [" ".join(pair) for pair in pairwise(words) if pair in PHRASES]
    return (word for word in found if (word, text) not in STORMS_OWN)


def in_text(place: str, text: str, *, what: bool = False) -> Iterator[Finding]:
    """Yield the findings of a text; `what` counts in the first line of docstrings only."""
    words = re.findall(r"[a-z]+", text.lower())
    yield from (Finding(place, word, text) for word in smells(words, text))
    if what and WHAT.search(text.partition("\n")[0]):
        yield Finding(place, "what", text)


def modules(files: Iterable[Path] = FILES) -> Iterator[tuple[Path, ast.Module]]:
    for path in files:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def at(path: Path, line: int) -> str:
    (root,) = (root for root in (*ROOTS, TESTS) if path.is_relative_to(root))
    return f"{path.relative_to(root.parent)}:{line}"


def defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every name that a module defines, with its line: what it only uses is defined elsewhere."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every docstring of a module, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, Definition) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def literals(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts within an expression, those of f-strings too."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner


def shows_text(call: ast.Call) -> bool:
    """Return whether a call makes an error or a fault, writes a log record, or prints."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    logs = isinstance(call.func, ast.Attribute) and name in LOGGING
    return logs or bool(FAULTS.search(name) or PRINTING.match(name))


def identifier_findings() -> Iterator[Finding]:
    for path, tree in modules():
        names = [(1, path.parent.name if path.stem == "__init__" else path.stem), *defined(tree)]
        for line, name in names:
            yield from (Finding(at(path, line), word, name) for word in smells(parts(name), name))


def docstring_findings() -> Iterator[Finding]:
    for path, tree in modules():
        for line, text in docstrings(tree):
            yield from in_text(at(path, line), text, what=True)


def help_findings() -> Iterator[Finding]:
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg in {"help", "short_help", "epilog"}:
                for each in literals(node.value):
                    yield from in_text(at(path, each.lineno), str(each.value))
    yield from in_command(cli, "stormwright")


def in_command(command: click.Command, place: str) -> Iterator[Finding]:
    """Yield the findings of the help of a verb, its options and its own verbs, as it is printed."""
    for text in (command.help, command.short_help, command.epilog):
        yield from in_text(place, text or "")
    for option in command.params:
        yield from in_text(f"{place} {option.opts[0]}", getattr(option, "help", None) or "")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            verb = command.get_command(context, name)
            assert verb is not None, name
            yield from in_command(verb, f"{place} {name}")


def message_findings() -> Iterator[Finding]:
    for path, tree in modules():
        texts = {
            each
            for node in ast.walk(tree)
            if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and shows_text(node))
            for each in literals(node)
        }
        for each in sorted(texts, key=lambda text: (text.lineno, text.col_offset)):
            yield from in_text(at(path, each.lineno), str(each.value))


def template_findings() -> Iterator[Finding]:
    for path in TEMPLATES:
        text = JINJA.sub(lambda part: " " + "\n" * part[0].count("\n"), path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.split("\n"), 1):
            yield from in_text(at(path, number), line.strip())


def findings_in_tests() -> Iterator[Finding]:
    for path, tree in modules(sorted(TESTS.rglob("*.py"))):
        for line, name in defined(tree):
            yield from (Finding(at(path, line), word, name) for word in smells(parts(name), name))
        for line, text in docstrings(tree):
            yield from in_text(at(path, line), text)


CHECKS = [
    identifier_findings,
    docstring_findings,
    help_findings,
    message_findings,
    template_findings,
    findings_in_tests,
]


@pytest.mark.parametrize("findings", CHECKS, ids=lambda check: check.__name__)
def test_language_is_plain(findings: Callable[[], Iterator[Finding]]) -> None:
    found = [str(finding) for finding in findings()]
    assert not found, f"{len(found)} findings:\n" + "\n".join(found)


def test_exceptions_are_still_used() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in FILES)
    assert [text for _, text in STORMS_OWN if text not in texts] == []
