"""Measurement of loads with Spark: performance log → clean records → loads, traffic, overloads → `LoadProfile`.

Raises
------
MissingDependencyError
    On import, where PySpark or PyArrow is not installed.
"""

from importlib.util import find_spec

from stormwright.errors import MissingDependencyError

for _package in ("pyspark", "pyarrow"):
    if find_spec(_package) is None:
        raise MissingDependencyError(f"the pipeline needs {_package}: pip install 'stormwright[spark]'")
