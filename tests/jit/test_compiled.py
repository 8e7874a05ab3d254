"""Machine code on disk: taken up where it fits, never where a source has changed, and one signature a function."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stormwright.jit import cache, compiled, inlined

CALLEE = """\
import numpy as np

from pack.jit.compiled import inner, often, seldom

RECORD = np.dtype([("short", np.int32), ("long", np.int64)])

@inner
def callee(records, number):
    return records[number].short + {}

@inner
def twice(records):
    return callee(records, records[0].short) + callee(records, records[0].long) + callee(records, 0)

@seldom
def rarely(records):
    return records[0].long + 100

@often
def always(records):
    found = 0
    for number in range(len(records)):
        found += callee(records, number) * twice(records)
    return found * records[0].short
"""
CALLER = """\
from pack.room.callee import callee, twice
from pack.jit.compiled import compiled

@compiled
def caller(records):
    return twice(records)
"""
OUTER = """\
from pack.room.callee import always, rarely
from pack.room.caller import caller
from pack.jit.compiled import compiled

@compiled
def outer(records):
    found = caller(records) + always(records) - always(records)
    if records[0].long > 0:
        found += rarely(records)
    if records[0].long > 1:
        found += rarely(records)
    return found
"""
SHOW_OUTER = """\
import numpy as np
from pack.room.callee import RECORD
from pack.room.caller import caller
from pack.room.outer import outer
records = np.zeros(3, RECORD)
print(caller(records), outer(records), end=" ")
for long in (1, 2):
    records["long"] = long
    print(outer(records), end=" ")
defined = [each.name for made in outer.overloads.values() for each in made.library.get_defined_functions()]
names = ("twice", "rarely", "always")
print(sum(caller.stats.cache_hits.values()), *(sum(name in each for each in defined) for name in names))
"""
SHOW = """\
import sys
import numpy as np
from pack.jit import cache
from pack.room.callee import RECORD, callee
from pack.room.caller import caller
cache.PrebuiltOutput.enabled = "make" in sys.argv
print(caller(np.zeros(1, RECORD)), sum(caller.stats.cache_hits.values()), len(callee.overloads))
"""


@pytest.fixture
def package(tmp_path):
    """A package of its own with these modules, to change and to write in."""
    kernel = tmp_path / "pack" / "jit"
    kernel.mkdir(parents=True)
    (tmp_path / "pack" / "room").mkdir()
    for module in (compiled, cache, inlined):
        text = Path(module.__file__).read_text(encoding="utf-8").replace("stormwright.", "pack.")
        (kernel / Path(module.__file__).name).write_text(text, encoding="utf-8")
    (kernel / "__init__.py").touch()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "pack" / "room" / "__init__.py").touch()
    (tmp_path / "pack" / "room" / "caller.py").write_text(CALLER, encoding="utf-8")
    write_callee(tmp_path, 1)
    return tmp_path


def write_callee(package, value):
    (package / "pack" / "room" / "callee.py").write_text(CALLEE.format(value), encoding="utf-8")


def run(directory, *arguments, show=SHOW, **environment):
    done = subprocess.run(
        [sys.executable, "-c", show, *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(number) for number in done.stdout.split()]


def prebuilt_files(package):
    return sorted((package / "pack" / "room" / "machine_code").iterdir())


def make(package):
    (package / "pack" / "room" / "machine_code").mkdir()
    return run(package, "make")


@pytest.mark.slow
def test_change_in_another_module_invalidates_the_cache(package):
    for value in (1, 22):
        write_callee(package, value)
        assert run(package)[:2] == [3 * value, 0]
        assert run(package)[:2] == [3 * value, 1], "kept on disk"


@pytest.mark.slow
def test_integers_of_any_width_share_one_signature(package):
    assert run(package) == [3, 0, 1]


@pytest.mark.slow
def test_prebuilt_code_is_loaded_and_nothing_written(package):
    assert make(package) == [3, 0, 1]
    assert len(prebuilt_files(package)) == 2
    before = {path: path.stat().st_mtime_ns for path in package.rglob("*.nb?")}
    assert run(package) == [3, 1, 0], "what it calls is part of it"
    assert before == {path: path.stat().st_mtime_ns for path in package.rglob("*.nb?")}


@pytest.mark.slow
def test_cached_function_can_be_inlined_into_callers(package):
    """And what is seldom called stays apart, once, what often is does not."""
    (package / "pack" / "room" / "outer.py").write_text(OUTER, encoding="utf-8")
    for hits in (0, 1):
        for path in package.rglob("*outer.outer*"):
            path.unlink()
        assert run(package, show=SHOW_OUTER) == [3, 3, 3 + 101, 3 + 204, hits, 0, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "harm",
    [
        "source",
        *(pytest.param(harm, marks=pytest.mark.slow) for harm in ("damage", "processor", "no right to read")),
    ],
)
def test_unfit_prebuilt_code_is_compiled(package, harm):
    make(package)
    expected, environment = 3, {}
    if harm == "source":
        write_callee(package, 5)
        expected = 15
    elif harm == "damage":
        for path in prebuilt_files(package):
            path.write_bytes(path.read_bytes()[:40])
    elif harm == "processor":
        environment = {"NUMBA_CPU_NAME": "generic"}
    else:
        for path in prebuilt_files(package):
            path.unlink()
            path.mkdir()  # as root everything may be read
    assert run(package, **environment)[:2] == [expected, 0]
    assert run(package, **environment)[:2] == [expected, 1], "now it is in a cache"


@pytest.mark.slow
def test_cache_files_of_older_sources_are_removed(package):
    """The user's cache, in the package's folder here."""
    run(package)
    (cache,) = {path.parent for path in package.rglob("*.nbi")}
    other = cache / "other.function-1.py311.nbi"
    other.touch()
    first = {*cache.glob("*.nb[ic]")}
    write_callee(package, 2)
    run(package)
    assert first <= {*cache.glob("*.nb[ic]")}, "another checkout may use it"
    for path in first:
        os.utime(path, (0, 0))
    remaining = {*cache.glob("*.nb[ic]")} - first | {other}
    write_callee(package, 3)
    run(package)
    assert not {*cache.glob("*.nb[ic]")} & (first - {other})
    assert remaining <= {*cache.glob("*.nb[ic]")}, "what is new, and what is not ours"


@pytest.mark.slow
@pytest.mark.parametrize("end", [".nbi", ".nbc"])
def test_damaged_cache_is_rebuilt(package, end):
    """As a power failure leaves it: Numba itself would fail at it for ever."""
    assert run(package) == [3, 0, 1]
    for path in package.rglob(f"*{end}"):
        path.write_bytes(b"")
    assert run(package) == [3, 0, 1]
    assert run(package) == [3, 1, 0]


def test_prebuilt_code_requires_matching_cpu_features(monkeypatch):
    for features, able in ((dict.fromkeys(cache.REQUIRED_FEATURES, True), True), ({"avx2": True}, False)):
        monkeypatch.setattr(cache.platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(cache.llvm, "get_host_cpu_features", lambda features=features: features)
        cache.supports_prebuilt.cache_clear()
        assert cache.supports_prebuilt() is able
    monkeypatch.setattr(cache.platform, "machine", lambda: "aarch64")
    cache.supports_prebuilt.cache_clear()
    assert not cache.supports_prebuilt()
    cache.supports_prebuilt.cache_clear()
