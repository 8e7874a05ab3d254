"""List the pages of ``docs/results`` that are older than the code they measure.

``python tools/results_status.py [--json]`` (or ``make results-status``); exits with 1 if there is one. A benchmark
names the code that its page measures in its constant `MEASURES`: files and directories from the root of the repository.
Its own module counts too, with the modules of ``benchmarks`` that it imports. Comments, docstrings and layout do not
count: two versions of a Python file are equal if their syntax trees are.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

RESULTS = Path("docs", "results")

#: Constant of a benchmark.
CONSTANT = "MEASURES"

#: Code of benchmarks that measures nothing.
_NO_MEASUREMENT = "benchmarks/kit/"

#: Comments of Java, and its texts, in which there are none.
_JAVA = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|(\s+)', re.DOTALL)


@dataclass(frozen=True)
class PageStatus:
    """A page of results, and why it is outdated: the reason, and the files that have changed."""

    page: str
    date: str
    commit: str
    reason: str = ""
    changed: Sequence[str] = ()


class Repository:
    """Files of a repository at several commits.

    Attributes
    ----------
    root
        Directory of the present files.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def _git(self, *args: str) -> bytes:
        return subprocess.run(["git", *args], cwd=self.root, capture_output=True, check=True).stdout

    def has(self, commit: str) -> bool:
        """Whether a commit is in the history of the present one."""
        found = subprocess.run(
            ["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=self.root, capture_output=True, check=False
        )
        return found.returncode == 0

    @cache  # noqa: B019  # one repository a process
    def files(self, commit: str) -> dict[str, str]:
        """Return the blob of each file at a commit."""
        lines = self._git("ls-tree", "-r", "-z", commit).decode().split("\0")
        return {path: line.split()[2] for line, path in (each.split("\t") for each in lines if each)}

    @cache  # noqa: B019  # one repository a process
    def essence(self, blob: str, suffix: str) -> str | bytes:
        """Return the content of a blob without comments, docstrings and layout."""
        content = self._git("cat-file", "blob", blob)
        if suffix == ".py":
            return _without_docstrings(content.decode())
        if suffix == ".java":
            return _JAVA.sub(lambda found: found[1] or (" " if found[2] else ""), content.decode())
        return content


def _without_docstrings(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
    return ast.dump(tree)


def measured_code(benchmark: Path, root: Path) -> list[str]:
    """Return the files and directories that a benchmark measures, from the root of the repository.

    Raises
    ------
    ValueError
        It does not name them.
    """
    tree = ast.parse(benchmark.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(each) for each in node.targets] == [CONSTANT]:
            return [*ast.literal_eval(node.value), *_modules(benchmark, root)]
    raise ValueError(f"{benchmark.name} has no {CONSTANT}")


def _modules(benchmark: Path, root: Path) -> list[str]:
    """Return a benchmark's module and those that it imports, directly or not."""
    found: dict[str, None] = {}
    waiting = [benchmark.relative_to(root).as_posix()]
    while waiting:
        path = waiting.pop()
        if path in found or path.startswith(_NO_MEASUREMENT):
            continue
        found[path] = None
        for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchmarks."):
                place = (node.module or "").replace(".", "/")
                modules = [f"{place}.py", *(f"{place}/{each.name}.py" for each in node.names)]
                waiting += [each for each in modules if (root / each).is_file()]
    return list(found)


def listed_pages(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield each page listed in the directory of results, with its benchmark."""
    for line in (root / RESULTS / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("| ["):
            module = line.split("`")[-2]
            yield line[3:].partition("]")[0], root / "benchmarks" / f"{module.replace('.', '/')}.py"


def status_of(page: str, benchmark: Path, repository: Repository) -> PageStatus:
    """Return the status of a page: compare its code at the commit of the measurement with the present one."""
    file = repository.root / RESULTS / f"{page}.json"
    if not file.exists():
        return PageStatus(page, "", "", reason="it was not measured yet")
    document = json.loads(file.read_text(encoding="utf-8"))
    commit, _, uncommitted = str(document["commit"]).partition(" ")
    status = PageStatus(page, document["date"], commit)
    if uncommitted:
        return replace(status, reason="measured with changes that were not committed")
    if not repository.has(commit):
        return replace(status, reason="the commit is not in the history")
    changed = changed_files(measured_code(benchmark, repository.root), commit, repository)
    return replace(status, reason="the code has changed" if changed else "", changed=changed)


def changed_files(code: Iterable[str], commit: str, repository: Repository) -> list[str]:
    """Return the files of some code that differ between a commit and the present one, apart from comments."""
    then, now = repository.files(commit), repository.files("HEAD")
    places = tuple(code)
    changed = []
    for path in sorted(then.keys() | now.keys()):
        if not any(path == each or path.startswith(f"{each}/") for each in places):
            continue
        blobs = {blob for blob in (then.get(path), now.get(path)) if blob}
        if then.get(path) == now.get(path):
            continue
        suffix = Path(path).suffix
        if len(blobs) < 2 or len({repository.essence(blob, suffix) for blob in blobs}) > 1:
            changed.append(path)
    return changed


def main() -> int:
    """Print the outdated pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print all pages as JSON")
    options = parser.parse_args()
    repository = Repository(ROOT)
    pages = [status_of(page, benchmark, repository) for page, benchmark in listed_pages(ROOT)]
    outdated = [each for each in pages if each.reason]
    if options.json:
        print(json.dumps([asdict(each) for each in pages], indent=1))
    else:
        for each in outdated:
            names = ", ".join(each.changed[:3])
            more = f", and {len(each.changed) - 3} more" if len(each.changed) > 3 else ""
            measured = f" ({each.date}, {each.commit})" if each.date else ""
            print(f"{each.page}{measured}: {each.reason}{f': {names}{more}' if names else ''}")
        print(f"{len(outdated)} of {len(pages)} pages are outdated")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
