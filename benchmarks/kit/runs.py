"""Runs on a real cluster, which take minutes each, cached in files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.kit.results import show_progress, stamp


class Run(NamedTuple):
    """A run on a real cluster, cached in a file.

    Parameters
    ----------
    file
        Name of the file.
    metadata
        Fields that its file begins with.
    make
        Seconds of warming up and of measuring → result.
    """

    file: str
    metadata: Mapping[str, Any]
    make: Callable[[float, float], Mapping[str, Any]]


def make_or_compare(
    doc: str | None,
    directory: Path,
    runs: Callable[[str], Iterable[Run]],
    compare: Callable[[], None],
    seconds: float,
) -> None:
    """Run or compare, as the command line says.

    Parameters
    ----------
    doc
        Description of the benchmark.
    directory
        Directory of the files.
    runs
        Value of ``--only``, empty for all → wanted runs.
    compare
        Writes the page from the existing runs; needs no cluster.
    seconds
        Default duration of warming up and of measuring.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "compare"))
    parser.add_argument("--only", default="", help="runs with this in their name")
    parser.add_argument("--warm-up", type=float, default=seconds)
    parser.add_argument("--measure", type=float, default=seconds)
    options = parser.parse_args()
    if options.what == "compare":
        compare()
        return
    show_progress()
    directory.mkdir(parents=True, exist_ok=True)
    for run in runs(options.only):
        file = directory / run.file
        if not file.exists():
            found = {**run.metadata, **stamp(), **run.make(options.warm_up, options.measure)}
            file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
