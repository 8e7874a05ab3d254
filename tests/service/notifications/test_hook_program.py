"""What --on-failure names: run with the failure, ended when it hangs, and reported when it fails."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from stormwright import cli
from stormwright.errors import HookError, InputError
from stormwright.service.notifications import hook_program
from stormwright.service.notifications.hook_program import load_hook
from stormwright.storm.bridge import Failure

EXAMPLES = Path(__file__).parents[3] / "examples"

FAILURE = Failure("a-1-0", "a", "even", ("1 of 2 nodes: blacklisted", "no free worker slot"))

#: Stands for the Sentry client: writes down what it is called with.
SENTRY = """
import json, os, pathlib
def note(name, *args, **more):
    with pathlib.Path(os.environ["NOTES"]).open("a") as notes:
        print(json.dumps([name, args, more]), file=notes)
def init(**options): note("init", **options)
def capture_message(message, **scope): note("capture_message", message, **scope)
def flush(timeout): note("flush", timeout)
"""

FUNCTIONS = """
import os, sys
def fails(failure): raise ValueError("no such server")
def leaves(failure): sys.exit("no such server")
def crashes(failure): os.abort()
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on PYTHONPATH, beside the examples."""
    of_tests = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), str(EXAMPLES), of_tests])))
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    return tmp_path


def program(directory: Path, text: str) -> str:
    path = directory / "tell"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_gets_the_failure_as_a_line_of_json(tmp_path: Path) -> None:
    load_hook(program(tmp_path, f"cat > {tmp_path}/told"))(FAILURE)
    written = (tmp_path / "told").read_text()
    assert written.endswith("}\n")
    assert json.loads(written) == {
        "topology_id": "a-1-0",
        "topology_name": "a",
        "scheduler": "even",
        "reasons": ["1 of 2 nodes: blacklisted", "no free worker slot"],
    }


def test_a_program_need_not_read(tmp_path: Path) -> None:
    load_hook(program(tmp_path, "exit 0"))(FAILURE)


def test_output_of_failed_hook_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HookError, match=r"^exit code 3: out\nno such server$"):
        load_hook(program(tmp_path, "echo out; echo no such server >&2; exit 3"))(FAILURE)
    with pytest.raises(HookError, match=r"^exit code 1: 0{2000}$"):
        load_hook(program(tmp_path, "printf %05000d 0; exit 1"))(FAILURE)
    with pytest.raises(HookError, match=r"^ended by signal 9$"):
        load_hook(program(tmp_path, "kill -9 $$"))(FAILURE)


@pytest.mark.slow
def test_hanging_hook_program_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_program, "LIMIT_S", 2.0)
    hook = load_hook(program(tmp_path, f"echo trying; sleep 60 & echo $! > {tmp_path}/child; wait"))
    begin = time.monotonic()
    with pytest.raises(HookError, match=r"^killed after 2 s: trying$"):
        hook(FAILURE)
    assert time.monotonic() - begin < 30
    child = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    end = time.monotonic() + 20
    while child.exists() and child.read_text().split()[2] != "Z":  # whoever is its parent now may be slow to reap it
        assert time.monotonic() < end
        time.sleep(0.05)


def test_unstartable_hook_program_is_reported(tmp_path: Path) -> None:
    hook = load_hook(program(tmp_path, "exit 0"))
    (tmp_path / "tell").unlink()
    with pytest.raises(HookError, match=r"^cannot be started: No such file"):
        hook(FAILURE)


@pytest.mark.slow
def test_exception_of_hook_function_is_reported(modules: Path) -> None:
    with pytest.raises(HookError, match=r"(?s)^exit code 1: Traceback .* in fails.*ValueError: no such server$"):
        load_hook("functions:fails")(FAILURE)
    with pytest.raises(HookError, match=r"^exit code 1: no such server$"):
        load_hook("functions:leaves")(FAILURE)


@pytest.mark.long
def test_a_crash_is_of_its_own_process(modules: Path) -> None:
    with pytest.raises(HookError, match=r"^ended by signal 6"):
        load_hook("functions:crashes")(FAILURE)


@pytest.mark.long
def test_the_example_sends_to_sentry(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (modules / "sentry_sdk.py").write_text(SENTRY)
    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.test/1")
    monkeypatch.setenv("NOTES", str(modules / "notes"))
    hook = load_hook("sentry_failures:report")
    assert not (modules / "notes").exists(), "loading it sends nothing"
    hook(FAILURE)
    init, sent, flushed = (json.loads(line) for line in (modules / "notes").read_text().splitlines())
    assert init == ["init", [], {}]
    assert sent[:2] == ["capture_message", ["a has no slots: 1 of 2 nodes: blacklisted; no free worker slot"]]
    assert sent[2]["tags"] == {"topology": "a", "scheduler": "even"}
    assert flushed[0] == "flush"
    assert flushed[1][0] < hook_program.LIMIT_S


@pytest.mark.long
def test_sentry_example_reports_missing_requirements(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENTRY_DSN", raising=False)
    (modules / "sentry_sdk.py").write_text("raise ModuleNotFoundError('No module named sentry_sdk')")
    with pytest.raises(InputError, match="the Sentry client is missing; install it with: pip install sentry-sdk"):
        load_hook("sentry_failures:report")
    (modules / "sentry_sdk.py").write_text(SENTRY)
    with pytest.raises(InputError, match="SENTRY_DSN is not set"):
        load_hook("sentry_failures:report")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-such-program", "no-such-program: is neither package.module:function nor a program"),
        (":dumps", "is neither package.module:function nor a program"),
        ("no_such_module:f", "cannot be loaded: exit code 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("json:no_such_function", "cannot be loaded: exit code 1: AttributeError"),
        ("json:__name__", "json:__name__: cannot be loaded: exit code 1: __name__ is not a function"),
    ],
)
def test_invalid_hook_name_is_rejected(name: str, message: str) -> None:
    with pytest.raises(InputError, match="--on-failure: 1 fault") as caught:
        load_hook(name)
    assert message in str(caught.value)


@pytest.mark.long
def test_serve_rejects_missing_hook_function_at_startup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(
        ["serve", "--state", str(tmp_path), "--storm-home", str(tmp_path), "--on-failure", "no_such_module:f"]
    )
    assert code == cli.BAD_INPUT
    assert "no_such_module:f: cannot be loaded: exit code 1: ModuleNotFoundError: " in capsys.readouterr().err


def test_the_same_program_is_the_same_hook(tmp_path: Path) -> None:
    """A configuration that is read again notifies no one again."""
    path = program(tmp_path, "exit 0")
    assert load_hook(path) == load_hook(path) != load_hook("true")
