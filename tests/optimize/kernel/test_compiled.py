"""Code that is kept on disk is not used once any source has changed."""

from __future__ import annotations

import shutil
import subprocess
import sys

from stormwright.optimize.kernel import compiled

CALLEE = """\
from pack.compiled import compiled

@compiled
def callee():
    return {}
"""
CALLER = """\
from pack.callee import callee
from pack.compiled import compiled

@compiled
def caller():
    return callee()
"""
SHOW = "from pack.caller import caller; print(caller(), sum(caller.stats.cache_hits.values()))"


def run(directory):
    done = subprocess.run([sys.executable, "-c", SHOW], cwd=directory, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_a_change_in_another_module_is_seen(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    shutil.copy(compiled.__file__, package / "compiled.py")
    (package / "__init__.py").touch()
    (package / "caller.py").write_text(CALLER, encoding="utf-8")
    for value in (1, 22):
        (package / "callee.py").write_text(CALLEE.format(value), encoding="utf-8")
        assert run(tmp_path) == [str(value), "0"]
        assert run(tmp_path) == [str(value), "1"], "kept on disk"
