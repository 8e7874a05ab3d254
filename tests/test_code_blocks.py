"""Every block of code in the pages is executed, or checked as far as that is possible without a cluster.

Python runs in one namespace per page, commands without a cluster run on a small measured problem, other commands are
parsed, configurations are read by their own readers. A block that is neither has its reason in a table here.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import click
import pytest
import yaml

import stormwright as sw
from stormwright import cli as command_line
from stormwright.advise.search.kinds import read_kinds
from stormwright.cli import cli
from stormwright.cli.serve import command as serve
from stormwright.cli.serve.config import read_config
from stormwright.formats import write_assignment, write_problem
from stormwright.perflog.records import encode
from stormwright.schedulers import make_scheduler
from tests.cli.serve.test_trying import free_port
from tests.predict.calibration.log import SPREAD, Log
from tools.storm_keys import OWN, STORMS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code: path of its page, language (empty for commands and drawings), text."""

    page: str
    language: str
    text: str

    @property
    def head(self) -> str:
        """First line, which identifies it on its page."""
        return self.text.strip().splitlines()[0]


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    page = path.relative_to(ROOT).as_posix()
    return [Block(page, each[2], each[3]) for each in _BLOCK.finditer(text)]


BLOCKS = [block for path in PAGES for block in blocks_of(path)]

#: Page and first line → why a block is no code.
DRAWINGS = {
    ("docs/architecture.md", "formats ─▶ Problem ─▶ scheduler ─▶ Assignment ─▶ Storm"): "the path of data",
    ("docs/spark.md", "service ──────────▶ *.parquet ─┐"): "the stages of the pipeline",
}

#: A first line.
STREAM = """\
loads = spark.readStream.format("stormwright").options(table="loads", columns="pane_ms,topology,cpu_hz").load(STATE)"""

#: Page and first line → why a block of Python is only compiled here.
COMPILED = {
    ("docs/plans.md", "from stormwright.client import Client"): "executed below, with a service",
    (
        "docs/data.md",
        "import deltalake, duckdb",
    ): "deltalake is no dependency; see tests/history/tables/test_delta.py",
    (
        "docs/spark.md",
        "from stormwright.pipeline.parsing.source import stream_landed  # or stream_topic of pipeline.streaming.kafka",
    ): "executed by tests/pipeline/streaming/test_structured.py",
    ("docs/spark.md", "from pyspark.sql import SparkSession"): "executed by tests/history/data_source/test_queries.py",
    ("docs/spark.md", STREAM): "executed by tests/history/data_source/test_queries.py",
}

#: Page → test that executes its SQL on a history.
SQL = {"docs/spark.md": "tests/history/data_source/test_queries.py"}

#: Verb → why its documented commands are only parsed.
PARSED_ONLY = {
    "apply": "needs a service with this plan",
    "chaos run": "takes a minute to an hour",
    "chaos soak": "takes an hour",
    "chaos report": "needs results of a campaign",
    "cluster": "starts a real cluster",
    "drain": "needs a service",
    "tune": "needs a service",
    "history": "needs a recorded history",
    "import nimbus": "needs Nimbus",
    "install": "needs a Storm installation",
    "mode": "needs a service",
    "pipeline": "needs landed records",
    "plan": "needs a service",
    "replay": "needs a recorded history",
    "revert": "needs a service with this entry",
    "serve": "goes on until it is ended",
    "sweep": "needs a Spark cluster",
    "uncordon": "needs a service",
}

#: Option → why a documented command that has it is only parsed, whatever its verb.
OPTIONS_OF_CLUSTERS = ("--storm-home", "--apply", "--ui")

#: Programs of others in blocks of commands; only their quotes are checked.
OTHER_PROGRAMS = {
    "curl", "docker", "export", "helm", "install", "kubectl", "pip", "python3.11", "spark-submit", "sqlite3", "sudo",
    "systemctl", "/opt/stormwright/.venv/bin/pip",
}  # fmt: skip

#: First word → file of the clone that has to exist.
OWN_FILES = {"tools/storm_version": ROOT / "tools" / "storm_version"}


def commands_of(block: Block) -> Iterator[list[str]]:
    """Yield the commands of a block, without redirections and settings of variables before them."""
    lines: list[str] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        # A quote that is open goes on in the next line.
        lines.append(line) if not lines or _is_closed(lines[-1]) else lines.append(f"{lines.pop()}\n{line}")
    for line in lines:
        words = shlex.split(re.split(r"\s[|>]\s", line)[0], comments=True)
        while words and re.match(r"[A-Z_0-9]+=", words[0]):
            words = words[1:]
        while "&&" in words:
            yield words[: words.index("&&")]
            words = words[words.index("&&") + 1 :]
        if words:
            yield words


def _is_closed(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


def is_commands(block: Block) -> bool:
    return block.language in ("", "bash", "sh", "console") and (block.page, block.head) not in DRAWINGS


def ident(block: Block) -> str:
    return f"{block.page}: {block.head[:40]}"


def test_every_block_is_of_a_known_kind():
    assert {block.language for block in BLOCKS} <= {
        "",
        "bash",
        "sh",
        "console",
        "python",
        "toml",
        "yaml",
        "json",
        "sql",
    }
    assert {block.page for block in BLOCKS if block.language == "sql"} == set(SQL)
    assert all((ROOT / test).exists() for test in SQL.values())
    heads = {(block.page, block.head) for block in BLOCKS}
    assert set(DRAWINGS) <= heads
    assert set(COMPILED) <= heads
    counts = Counter(block.language for block in BLOCKS)
    assert counts["python"] >= 9
    assert sum(map(is_commands, BLOCKS)) >= 30


PYTHON_PAGES = sorted({block.page for block in BLOCKS if block.language == "python"})


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        if block.page == page and block.language == "python":
            code = compile(block.text, page, "exec")
            if (page, block.head) not in COMPILED:
                exec(code, names)  # noqa: S102 (the pages are ours)


@pytest.mark.slow
def test_client_block_makes_a_plan_with_a_service(tmp_path):
    (block,) = [each for each in BLOCKS if each.head == "from stormwright.client import Client"]
    address = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "stormwright", "serve", "--simulated", "ready:cluster-20", "--speed", "20"]
    command += ["--port", address.rpartition(":")[2], "--state", str(tmp_path)]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            until = time.monotonic() + 120
            while not _has_load(address):
                assert time.monotonic() < until, (tmp_path / "log").read_text(encoding="utf-8")
                time.sleep(0.5)
            names: dict[str, Any] = {}
            exec(block.text.replace("http://127.0.0.1:7070", address), names)  # noqa: S102 (the pages are ours)
        finally:
            process.terminate()
            process.wait(60)
    assert names["plan"].state == "planned"


def _has_load(address: str) -> bool:
    try:
        with urlopen(f"{address}/v1/problem") as answer:  # noqa: S310 (a loopback address)
            return bool(json.load(answer).get("load"))
    except URLError:
        return False


COMMANDS = [block for block in BLOCKS if is_commands(block)]


def verb_of(words: list[str]) -> tuple[click.Command, str, list[str]]:
    """Return command, name and arguments of a command of stormwright."""
    verb, name, rest = cli, "", words[1:]
    while isinstance(verb, click.Group) and rest and not rest[0].startswith("-"):
        found = verb.get_command(click.Context(verb), rest[0])
        assert found is not None, words
        verb, name, rest = found, f"{name} {rest[0]}".strip(), rest[1:]
    return verb, name, rest


def why_only_parsed(name: str, arguments: list[str]) -> str | None:
    option = next((each for each in OPTIONS_OF_CLUSTERS if each in arguments), None)
    reason = PARSED_ONLY.get(name) or PARSED_ONLY.get(name.partition(" ")[0])
    return reason or (f"{option} needs a cluster" if option else None)


_CHECKED_TYPES = (click.types.Choice, click.types.IntParamType, click.types.FloatParamType)


def assert_parsed(words: list[str]) -> None:
    """Check options, their values and the number of arguments; an ellipsis stands for further ones."""
    verb, name, rest = verb_of(words)
    if "…" in rest:
        verb.make_parser(click.Context(verb)).parse_args(args=[each for each in rest if each != "…"])
        return
    context = click.Context(verb, info_name=name)
    values, arguments, _ = verb.make_parser(context).parse_args(args=list(rest))
    assert not arguments, words
    for parameter in verb.params:
        value = values.get(parameter.name)
        if isinstance(value, str) and isinstance(parameter.type, _CHECKED_TYPES):  # else several ones, a flag, or none
            parameter.type.convert(value, parameter, context)


@pytest.mark.parametrize("block", COMMANDS, ids=ident)
def test_commands_are_valid(block):
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for words in commands_of(block):
        program = words[0]
        if program.startswith("Environment="):
            assert block.page == "docs/moving.md"  # a line of a unit of systemd
        elif program == "stormwright" or program.endswith("/stormwright"):
            assert_parsed(words)
        elif program == "sudo" and any(each.endswith("/stormwright") for each in words):
            assert_parsed(words[next(n for n, each in enumerate(words) if each.endswith("/stormwright")) :])
        elif program == "make":
            assert words[1] in targets, words
        elif program in OWN_FILES:
            assert OWN_FILES[program].exists()
        else:
            assert program in OTHER_PROGRAMS, words


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Directory with the files that documented commands name, as the current one."""
    problem = sw.sketch({"words": "lines 2 -> split 4 -> count 4 fields"}, nodes=3)
    problem = problem.with_current(sw.place(problem, "even").by_topology(problem))
    write_problem(tmp_path / "problem.json", problem)
    write_assignment(tmp_path / "assignment.json", problem, make_scheduler("online").schedule(problem))
    (tmp_path / "rates.csv").write_text("2,0.5\n3,2\n", encoding="utf-8")
    (tmp_path / "log.jsonl").write_bytes(b"\n".join(encode(each) for each in Log(SPREAD, serialise_us=4.0).records(1)))
    write_problem(tmp_path / "cluster.json", problem)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def executed_of(block: Block) -> list[list[str]]:
    """Return the commands of a block that need no cluster."""
    found = [words for words in commands_of(block) if words[0] == "stormwright" and "…" not in words]
    return [words for words in found if why_only_parsed(verb_of(words)[1], words) is None]


def executed_blocks() -> Iterator[Any]:
    for block in COMMANDS:
        if verbs := {verb_of(words)[1] for words in executed_of(block)}:
            # A search for advice takes seconds for each command.
            yield pytest.param(block, marks=[pytest.mark.slow] if "advise" in verbs else [], id=ident(block))


@pytest.mark.slow
@pytest.mark.parametrize("block", list(executed_blocks()))
def test_commands_without_a_cluster_run(block, place, capsys):
    for words in executed_of(block):
        arguments = [each.replace("/var/lib/stormwright", str(place / "state")) for each in words[1:]]
        if "--seconds" in arguments:  # of virtual time: an hour takes minutes
            arguments[arguments.index("--seconds") + 1] = "2"
        code = command_line.run(arguments)
        assert code in (0, 1), f"{shlex.join(words)}\n{capsys.readouterr().err}"


def test_reasons_are_of_documented_verbs():
    named = {verb_of(words)[1] for block in COMMANDS for words in commands_of(block) if words[0] == "stormwright"}
    assert [verb for verb in PARSED_ONLY if not any(name.startswith(verb) for name in named)] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=ident)
def test_toml_blocks_are_read_by_their_readers(block, tmp_path):
    tomllib.loads(block.text)
    path = tmp_path / "block.toml"
    path.write_text(block.text, encoding="utf-8")
    if block.page == "docs/advise.md":
        assert read_kinds(path)
    else:
        assert read_config(path, [each for each in serve.params if isinstance(each, click.Option)]).faults == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=ident)
def test_yaml_blocks_have_known_keys(block):
    """Keys of storm.yaml have dots; others are values of the chart."""
    document = yaml.safe_load(block.text)
    storm = {key.name for key in (*OWN, *STORMS)}
    chart = yaml.safe_load((ROOT / "deploy/helm/stormwright/values.yaml").read_text(encoding="utf-8"))
    for key, value in document.items():
        if "." in key:
            assert key in storm
        else:
            assert key in chart
            assert key == "stormConf" or not isinstance(value, dict) or set(value) <= set(chart[key])


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "json"], ids=ident)
def test_json_blocks_are_valid(block):
    json.loads(block.text)
