"""``stormwright new-scheduler``."""

from __future__ import annotations

import json
from pathlib import Path


def test_new_scheduler_creates_and_lists_package_files(run, tmp_path):
    code, out, err = run("new-scheduler", "mine", "--directory", tmp_path / "packages")
    assert (code, err) == (0, "")
    root = tmp_path / "packages" / "stormwright-mine"
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    assert files == ["README.md", "pyproject.toml", "src/stormwright_mine/__init__.py", "tests/test_mine.py"]
    assert all(str(root / file) in out for file in files)
    assert 'mine = "stormwright_mine:MineScheduler"' in (root / "pyproject.toml").read_text(encoding="utf-8")


def test_programs_get_the_same(run, tmp_path):
    printed = json.loads(run("new-scheduler", "mine", "--directory", tmp_path, "--json")[1])
    assert sorted(map(Path, printed["files"])) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert printed["next"][0].startswith(f"cd {tmp_path / 'stormwright-mine'} ")


def test_new_scheduler_defaults_to_current_directory(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("new-scheduler", "mine")[0] == 0
    assert (tmp_path / "stormwright-mine" / "pyproject.toml").exists()


def test_bad_names(run, tmp_path):
    code, out, err = run("new-scheduler", "Not-A-Name", "--directory", tmp_path)
    assert (code, out) == (2, "")
    assert "Not-A-Name: should be a name" in err
    assert run("new-scheduler", "online", "--directory", tmp_path)[0] == 2
