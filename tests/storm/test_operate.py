"""`docs/operate.md` and its pages by task, followed word by word on a real Storm cluster.

Every command of its blocks on a running service is carried out by a shell, in the order of the page, once the cluster
of "Trying it on a cluster of this machine" is up. Only names are replaced that stand for the reader's own: of plans,
entries, nodes, topologies and days. Installing and uninstalling are followed in `tests/deploy/test_wheel.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.storm.conftest import Place

pytestmark = [pytest.mark.storm, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2400)]

PAGES = [Path(__file__).parents[2] / "docs" / f"{page}.md" for page in ("operate", "plans", "moving", "data")]

UP = "Trying it on a cluster of this machine"
SECTIONS = ["Plans", "Kinds of moves", "Draining nodes", "History", "Comparing schedulers on your own cluster"]

#: First words of a command → exit codes that are no fault; else it is 0.
CODES = {"stormwright apply": (0, 1), "stormwright revert": (0, 1), "stormwright drain": (0, 1)}


def commands_of(section: str) -> list[str]:
    """Return the lines of a section's first block of commands."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    block = re.search(rf"^## {section}$.*?^```(?:bash)?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [re.split(r"\s+# ", line)[0].strip() for line in block[1].splitlines()]


class Shell:
    """Carries out commands of the page, in a directory of its own."""

    def __init__(self, place: Place) -> None:
        scripts = Path(sys.executable).parent
        self.place, self.directory = place, place.directory / "shell"
        self.directory.mkdir()
        self.env = {**place.environment, "PATH": f"{scripts}:{place.environment['PATH']}"}
        self.names: dict[str, Callable[[], str]] = {}

    def carry_out(self, command: str) -> str:
        """Carry out a command with the reader's own names; its output is returned if its exit code is no fault."""
        for word, name in self.names.items():
            if re.search(word, command):
                command = re.sub(word, name(), command)
        done = subprocess.run(command, shell=True, cwd=self.directory, env=self.env, capture_output=True, text=True)  # noqa: S602 (our own page)
        print(f"$ {command}\n{done.stdout}{done.stderr}")
        assert done.returncode in CODES.get(" ".join(command.split()[:2]), (0,)), (
            f"{command}\n{done.stdout}{done.stderr}"
        )
        return done.stdout

    def json(self, command: str) -> Any:
        done = subprocess.run(command.split(), env=self.env, capture_output=True, text=True)
        return json.loads(done.stdout)


@pytest.fixture
def shell(place: Place) -> Iterator[Shell]:
    found = Shell(place)
    up, submit, serve, down = commands_of(UP)
    found.carry_out(up)
    found.carry_out(submit)
    state = found.directory / "state"
    serving = place.start(*place.argv(*serve.split()[2:], "--state", str(state)))
    address = next(
        re.findall(r"dashboard at (\S+);", line)[0] for line in iter(serving.stdout.readline, "") if "dashboard" in line
    )
    found.env["STORMWRIGHT_SERVICE"] = address
    days = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
    found.names = {
        "3f2a9c01": lambda: found.json("stormwright plan --list --json")["plans"][0]["id"],
        r"revert 7\b": lambda: f"revert {last_move(found)}",
        "node-7": lambda: busiest_host(address),
        r"--topology clicks\b": lambda: "--topology word-count-1",
        r"pay-\*": lambda: "diamond*",
        r"--state DIR\b": lambda: f"--state {state}",
        rf"{days}T08:00\.\.{days}T18:00": lambda: f"{today()}T00:00..{today()}T23:59",
        rf"{days}\.\.{days}": lambda: f"{today()}..{today()}",
        rf"{days}T10:30": lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M"),
        rf"\b{days}(?![T.0-9])": today,
        "http://SERVICE:7070": lambda: address,
    }
    try:
        until_measured(address)
        yield found
        serving.terminate()
        assert serving.wait(120) == 0
    finally:
        found.names = {}
        found.carry_out(down)


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def last_move(shell: Shell) -> int:
    entries = shell.json("stormwright history --json")["entries"]
    assert entries, shell.json("stormwright plan --list --json")
    return next(each["n"] for each in entries if each["moves"])


def busiest_host(address: str) -> str:
    problem = httpx.get(f"{address}/v1/problem", timeout=30).json()
    return str(problem["supervisors"][0]["host"])


def until_measured(address: str) -> None:
    """Wait until topologies may move: enough of them was measured."""
    until_s = time.monotonic() + 600
    while True:
        try:
            status = httpx.get(f"{address}/v1/status", timeout=30).raise_for_status().json()
            if status["pipeline"].get("profile_age_s") is not None and status["hold"] == "" and not status["waiting"]:
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < until_s
        time.sleep(2)


def test_page_is_followed_word_by_word(shell: Shell) -> None:
    for section in SECTIONS:
        for command in commands_of(section):
            shell.carry_out(command)
            if command.startswith(("stormwright apply", "stormwright drain")):
                accept_what_waits(shell)
    assert (shell.directory / "then.json").exists()
    assert (shell.directory / "compare.html").exists()
    kinds = [each["kind"] for each in shell.json("stormwright history --json")["entries"]]
    assert {"person", "rollback", "drain"} <= set(kinds), kinds


def accept_what_waits(shell: Shell) -> None:
    """As the page says of an unclear result: accept the stage."""
    for _ in range(4):
        waiting = [each for each in shell.json("stormwright plan --list --json")["plans"] if each["state"] == "waiting"]
        if not waiting:
            return
        shell.carry_out(f"stormwright apply {waiting[0]['id']} --resume")
