"""The shape of the code: how large folders, modules and functions are, and how much of them is told.

What is beyond a limit today stands in a table with its figure, which may only become better; what is within the limit
comes out of its table, so that the tables end empty.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import stormwright

ROOT = Path(stormwright.__file__).parent

MODULES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))}

#: A deep module has 150 to 500 lines; past 600 it is two ideas.
MOST_MODULES, MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS, LEAST_TOLD = 14, 600, 60, 8, 0.4

#: Folders with a file for each policy or verb.
ONE_FILE_EACH = {"schedulers", "cli"}

#: A module's docstring says with this word why it is longer than others.
WHY_LONG = re.compile(r"\b[Ll]onger\b")

#: Rooms that are read by those who write schedulers and who prove them right.
TOLD_ROOMS = ("model", "optimize", "schedulers")

#: Functions whose parameters are told have at least so many.
MANY_PARAMETERS = 4

# What is beyond a limit today ---------------------------------------------------------------------

FOLDERS: dict[str, int] = {}

LONG_MODULES: dict[str, int] = {}

LONG_FUNCTIONS: dict[str, int] = {}

MANY_PARAMETERS_OF: dict[str, int] = {}

#: Names of types that several modules have, all but one of them in rooms of machine code, which would be made anew.
SHARED_NAMES = dict.fromkeys(
    ("Clock", "Cluster", "Dealt", "Effort", "Flows", "Pairs", "Placed", "Records", "Whole", "Workers"), 2
)


# Measuring ----------------------------------------------------------------------------------------

Function = ast.FunctionDef | ast.AsyncFunctionDef


def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def functions(module: str) -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
    """Every function of a module with its qualified name, and the class that it is a method of."""

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


def types(module: str) -> Iterator[str]:
    """Public types that a module defines: classes, and names for other types."""
    for node in tree(module).body:
        if isinstance(node, ast.ClassDef):
            yield from [node.name] if not node.name.startswith("_") else []
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names = [ast.unparse(one) for one in (node.targets if isinstance(node, ast.Assign) else [node.target])]
            variable = isinstance(node.value, ast.Call)
            yield from [name for name in names if re.fullmatch("[A-Z]+[a-z]+[A-Za-z]*", name) and not variable]


def is_command(function: Function) -> bool:
    """Whether click hands it a verb's options."""
    return any("command" in ast.unparse(decorator) for decorator in function.decorator_list)


def docstring_lines(node: ast.AST) -> set[int]:
    """Lines of all docstrings, and of texts that stand alone, below a node."""
    return {
        line
        for child in ast.walk(node)
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and isinstance(child.value.value, str)
        for line in range(child.lineno, (child.end_lineno or child.lineno) + 1)
    }


def lines_of(function: Function) -> int:
    """From ``def`` to its end, without its docstring."""
    told = docstring_lines(function.body[0]) if ast.get_docstring(function) else set()
    return (function.end_lineno or 0) - function.lineno + 1 - len(told)


def told_percent(room: str) -> int:
    """Lines of docstrings for each hundred lines of code; neither blank lines nor comments are code."""
    told = code = 0
    for module in MODULES:
        if module.split("/")[0] == room:
            text = MODULES[module].read_text(encoding="utf-8").splitlines()
            own = docstring_lines(tree(module))
            told += len(own)
            bare = {n for n, line in enumerate(text, start=1) if not line.strip() or line.strip().startswith("#")}
            code += len(text) - len(own | bare)
    return int(100 * told / code)


def not_described(function: Function, owner: ast.ClassDef | None) -> int:
    """Parameters that are named neither in the docstring nor, of a constructor, in that of its class."""
    text = (ast.get_docstring(function) or "") + (ast.get_docstring(owner) or "" if owner else "")
    _, _, section = text.partition("Parameters\n----------\n")
    listed = {name.strip(" *") for line in section.splitlines() if not line.startswith(" ") for name in line.split(",")}
    return sum(name not in listed and f"`{name}`" not in text for name in parameters(function))


def is_public(name: str) -> bool:
    """Whether a qualified name has no private part and is no function within a function; a constructor is public."""
    parts = name.partition(":")[2].split(".")
    return all(part == "__init__" or not part.startswith("_") for part in parts)


def check(found: dict[str, int], known: dict[str, int]) -> None:
    """Everything beyond the limit is known to be as far beyond it, and everything known is beyond it."""
    worse = {name: figure for name, figure in found.items() if figure > known.get(name, 0)}
    assert not worse, "change the code"
    assert not set(known) - set(found), "take these out of the table"


# The limits ---------------------------------------------------------------------------------------


def test_folders_show_what_they_do():
    folders = [path for path in [ROOT, *ROOT.rglob("*")] if path.is_dir()]
    sizes = {str(folder.relative_to(ROOT)): len(list(folder.glob("*.py"))) for folder in folders}
    check({f: size for f, size in sizes.items() if size > MOST_MODULES and f not in ONE_FILE_EACH}, FOLDERS)


def test_modules_are_short_or_say_why_not():
    sizes = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    long = {module: size for module, size in sizes.items() if size > MOST_LINES}
    check({m: s for m, s in long.items() if not WHY_LONG.search(ast.get_docstring(tree(m)) or "")}, LONG_MODULES)


def test_a_type_has_a_name_of_its_own():
    found = Counter(name for module in MODULES for name in types(module))
    check({name: count for name, count in found.items() if count > 1}, SHARED_NAMES)


def test_functions_are_short():
    sizes = {name: lines_of(function) for module in MODULES for name, function, _ in functions(module)}
    check({name: size for name, size in sizes.items() if size > MOST_FUNCTION_LINES}, LONG_FUNCTIONS)


def test_functions_have_few_parameters():
    counts = {
        name: len(parameters(function))
        for module in MODULES
        for name, function, _ in functions(module)
        if not is_command(function)
    }
    check({name: count for name, count in counts.items() if count > MOST_PARAMETERS}, MANY_PARAMETERS_OF)


@pytest.mark.parametrize("room", TOLD_ROOMS)
def test_rooms_tell_what_they_do(room):
    assert told_percent(room) >= 100 * LEAST_TOLD, "more docstrings, or less code"


def test_parameters_are_described():
    found = [
        name
        for module in MODULES
        for name, function, owner in functions(module)
        if is_public(name) and not is_command(function) and len(parameters(function)) >= MANY_PARAMETERS
        if not_described(function, owner if function.name == "__init__" else None)
    ]
    assert not found, "describe all of their parameters"
