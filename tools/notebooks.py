"""The outputs of the notebooks in ``examples``, as Jupyter would store them.

``python tools/notebooks.py examples`` (or ``make docs``) runs every notebook from the beginning, each in a kernel of
its own, and writes its outputs into the file. Outputs that differ only in measured times (seconds of a scheduler) or in
the bytes of a picture stay as they are, so that a second run changes nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

#: Seconds that a scheduler took, at the end of a row of a comparison: as text and as HTML.
_SECONDS = re.compile(r"(?<=[ >])\d+\.\d{3}(?=$|</td></tr>)", re.MULTILINE)

#: Seconds that a notebook may take.
_TIMEOUT_S = 600


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of a run from the beginning."""
    book = nbformat.read(path, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    environment = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(book, timeout=_TIMEOUT_S, kernel_name="python3", resources=environment)
    client.execute()
    for cell in book.cells:
        if cell.cell_type == "code":
            # Progress of Spark, and warnings that name this machine.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        cell.metadata.pop("execution", None)
        cell.metadata.pop("scrolled", None)
    book.metadata = {"kernelspec": book.metadata["kernelspec"], "language_info": {"name": "python"}}
    return book


def comparable(book: nbformat.NotebookNode) -> list[list[Any]]:
    """Return the outputs of every cell without measured times and bytes of pictures."""
    return [[_output(each) for each in cell.outputs] for cell in book.cells if cell.cell_type == "code"]


def _output(output: nbformat.NotebookNode) -> dict[str, Any]:
    texts = dict(output.get("data", {})) or {"text": output.get("text", output.get("traceback", ""))}
    plain = {
        kind: "a picture" if kind.startswith("image/") else _SECONDS.sub("…", text) for kind, text in texts.items()
    }
    return {"type": output.output_type, **plain}


def refresh(path: Path, *, check: bool = False) -> bool:
    """Write the outputs of a notebook, unless they are only checked; return whether they have changed."""
    before, after = nbformat.read(path, as_version=4), executed(path)
    changed = comparable(before) != comparable(after)
    if changed and not check:
        nbformat.write(after, path)
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, help="notebooks, or directories with them")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if outputs are out of date")
    options = parser.parse_args()
    notebooks = [
        book for path in options.paths for book in ([path] if path.is_file() else sorted(path.glob("*.ipynb")))
    ]
    changed = [path for path in notebooks if refresh(path, check=options.check)]
    for path in notebooks:
        print(f"{path}: {'new outputs' if path in changed else 'unchanged'}")
    sys.exit(1 if options.check and changed else 0)


if __name__ == "__main__":
    main()
