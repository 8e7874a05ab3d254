"""A sample: the records and decisions of ten minutes of Storm, to try Spark without a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

from stormwright.errors import Fault, InputError

#: Tables of Spark's format ``stormwright`` of which it has rows.
TABLES = ("records", "panes", "loads", "snapshots", "profiles", "decisions", "moves", "evaluations")

#: The state directory of the service; ``tools/record_sample.py`` of the repository has recorded it.
_ARCHIVE = Path(__file__).with_name("sample.zip")


def write_sample(directory: Path | str) -> None:
    """Write the state directory of a service that measured Storm for ten minutes, a few MB.

    Two word counts ran on four nodes of 0.4 cores in two racks (network namespaces of one machine), at first as Storm's
    EvenScheduler placed them; then the service moved them.

    Parameters
    ----------
    directory
        Directory to create, or an empty one.

    Raises
    ------
    InputError
        There is a file of that name, or the directory is not empty.
    """
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise InputError("sample", [Fault("is a file; name a new directory", str(directory))])
    if directory.is_dir() and any(directory.iterdir()):
        raise InputError("sample", [Fault("is not empty; name a new directory", str(directory))])
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(_ARCHIVE) as archive:
        archive.extractall(directory)
