"""Parameters of public functions are described, and no two public classes have one name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import stormwright_lab

import stormwright

ROOTS = [Path(package.__file__).parent for package in (stormwright, stormwright_lab)]

MODULES = {str(path.relative_to(root.parent)): path for root in ROOTS for path in sorted(root.rglob("*.py"))}

#: Functions with at least so many parameters describe all of them.
MANY_PARAMETERS = 4

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def functions(module: str) -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
    """Yield every function of a module with its qualified name, and the class that it is a method of."""

    def within(node: ast.AST, prefix: str, owner: ast.ClassDef | None) -> Iterator[tuple[str, Function, ast.ClassDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield f"{prefix}{child.name}", child, owner
                yield from within(child, f"{prefix}{child.name}.", None)
            elif isinstance(child, ast.ClassDef):
                yield from within(child, f"{prefix}{child.name}.", child)
            else:
                yield from within(child, prefix, owner)

    yield from within(tree(module), f"{module}:", None)


def parameters(function: Function) -> list[str]:
    own = function.args
    named = [*own.posonlyargs, *own.args, *own.kwonlyargs, *filter(None, (own.vararg, own.kwarg))]
    return [one.arg for one in named if one.arg not in ("self", "cls")]


def is_command(function: Function) -> bool:
    """Whether click passes a verb's options to it."""
    return any("command" in ast.unparse(decorator) for decorator in function.decorator_list)


def not_described(function: Function, owner: ast.ClassDef | None) -> int:
    """Count parameters described neither in the docstring nor, of a constructor, in that of its class."""
    text = (ast.get_docstring(function) or "") + (ast.get_docstring(owner) or "" if owner else "")
    _, _, section = text.partition("Parameters\n----------\n")
    listed = {name.strip(" *") for line in section.splitlines() if not line.startswith(" ") for name in line.split(",")}
    return sum(name not in listed and f"`{name}`" not in text for name in parameters(function))


def is_public(name: str) -> bool:
    """Whether a qualified name has no private part and is no nested function; a constructor is public."""
    parts = name.partition(":")[2].split(".")
    return all(part == "__init__" or not part.startswith("_") for part in parts)


def test_parameters_are_described():
    found = [
        name
        for module in MODULES
        for name, function, owner in functions(module)
        if is_public(name) and not is_command(function) and len(parameters(function)) >= MANY_PARAMETERS
        if not_described(function, owner if function.name == "__init__" else None)
    ]
    assert found == []


def test_no_two_public_classes_have_one_name():
    """A name that a reader has met means one thing."""
    places: dict[str, list[str]] = {}
    for module in MODULES:
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


#: Words below which a text about a parameter cannot say more than its name.
MIN_WORDS = 4


def test_parameters_are_described_in_more_than_three_words():
    """As in "Seconds after which a node counts as missing", not "The limit"."""
    section = re.compile(r"Parameters\n-{10}\n(.*?)(?=\n\n\S[^\n]*\n-{3,}\n|\Z)", re.DOTALL)
    entry = re.compile(r"^(\S[^\n]*)\n((?: {4}[^\n]*(?:\n|\Z))+)", re.MULTILINE)
    short = [
        f"{module}:{node.name}: {names}"
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, (*FUNCTIONS, ast.ClassDef))
        for parameters in section.findall(ast.get_docstring(node) or "")
        for names, text in entry.findall(parameters)
        if len(text.split()) < MIN_WORDS
    ]
    assert short == []
