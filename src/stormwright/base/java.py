"""The Java runtime for Spark, Storm, and our helpers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from stormwright.errors import MissingDependencyError

#: Minimum version, required by Spark 4 and our own classes.
OLDEST = 17


def find_java(user: str) -> str:
    """Return the ``java`` of JAVA_HOME if that is set, else of PATH.

    Parameters
    ----------
    user
        Component that needs it, for the error.

    Raises
    ------
    MissingDependencyError
        There is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    wanted = f"{user} needs Java {OLDEST} or later, for instance Debian's openjdk-17-jdk-headless"
    if java is None:
        where = f"JAVA_HOME is {home}" if home else "JAVA_HOME is not set, no java on PATH"
        raise MissingDependencyError(f"{wanted}: none found ({where})")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None:
        raise MissingDependencyError(f"{wanted}: {java} -version says {output.strip()[:100]!r}")
    if int(version[1]) < OLDEST:
        raise MissingDependencyError(f"{wanted}: {java} is version {version[1]}")
    return java
