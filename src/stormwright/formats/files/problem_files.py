"""Problem files, in and out: JSON, gzipped or not, or a NumPy archive; detected by content."""

from __future__ import annotations

import io
from pathlib import Path

from stormwright.base.gc_pause import collection_paused
from stormwright.formats.document.problem import problem_from_dict, problem_to_dict
from stormwright.formats.files.json_files import json_in, opened, source_of, write_bytes, write_json
from stormwright.model import Problem

#: Magic bytes of an archive, as of every zip, and its suffix; its reader is imported on first use.
_MAGIC, _SUFFIX = b"PK\x03\x04", ".npz"


@collection_paused()
def read_problem(path: Path) -> Problem:
    """Read the problem in the file at `path`; from standard input for ``-``.

    Raises
    ------
    InputError
        The file cannot be read or is not a problem; all its faults.
    """
    with opened(path) as file:
        if file.peek(len(_MAGIC)).startswith(_MAGIC):
            from stormwright.formats.files.archives import problem_from_archive

            # Arrays straight from the file; a pipe has to be read whole, as archives are read from their end.
            return problem_from_archive(file if file.seekable() else io.BytesIO(file.read()), source_of(path))
        data = file.read()
    return problem_from_dict(json_in(data, path), source_of(path))


def write_problem(path: str | Path, problem: Problem) -> None:
    """Write `problem` to the file at `path`: a NumPy archive for ``.npz``, else JSON, gzipped for ``.gz``.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    path = Path(path)
    if path.suffix == _SUFFIX:
        from stormwright.formats.files.archives import problem_to_bytes

        write_bytes(path, problem_to_bytes(problem))
    else:
        write_json(path, problem_to_dict(problem))
