"""What people read, programs get, too."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from stormwright.cli import cli
from stormwright.service.dashboard import over_file
from tests.cli.serve.test_trying import free_port

#: Verbs without ``--json``, and why.
WITHOUT = {
    "completion": "prints a script for a shell",
    "export loadgen": "prints the file",
    "import flux": "prints the problem, as JSON",
    "import loadgen": "prints the problem, as JSON",
    "import nimbus": "prints the problem, as JSON",
    "import serialized": "prints the problem, as JSON",
    "serve": "has --log-format json: it goes on until it is ended",
    "cluster serve": "has --log-format json: it goes on until it is ended",
}


def verbs(command: click.Command = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every verb that can be run, by its name."""
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from verbs(below, f"{name} {each}".strip())


def options_of(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in parameter.opts}


def test_every_command_with_text_output_offers_json():
    every = {name: options_of(command) for name, command in verbs()}
    assert {name for name, options in every.items() if "--json" not in options} == set(WITHOUT)
    assert all(name in every for name in WITHOUT)
    assert all("--log-format" in every[name] for name, why in WITHOUT.items() if "--log-format" in why)


def test_convert_json_reports_problem_size(run, tmp_path):
    there = tmp_path / "there.npz"
    code, out, _ = run("convert", "ready:cluster-20", there, "--json")
    assert code == 0
    text = run("convert", there, tmp_path / "back.json")[1]
    printed = json.loads(out)
    assert printed["output"] == str(there)
    nouns = (("topologies", "topologies"), ("executors", "executors"), ("nodes", "nodes"), ("slots", "slots"))
    assert all(f"{printed[key]:,} {noun}" in text for key, noun in nouns)
    code, _, err = run("convert", there, "-", "--json")
    assert (code, "--json: has no effect" in err) == (2, True)


def test_dashboard_json_reports_address(run, monkeypatch):
    monkeypatch.setattr(over_file, "serve", lambda *_: None)
    code, out, _ = run("dashboard", "ready:cluster-20", "--port", 7071, "--json")
    assert code == 0
    assert json.loads(out) == {"problem": "ready:cluster-20", "address": "http://127.0.0.1:7071/"}


def test_serve_check_emits_one_json_line_per_check(run):
    code, out, _ = run(
        "serve", "--simulated", "ready:cluster-20", "--port", free_port(), "--check", "--log-format", "json"
    )
    printed = [json.loads(line) for line in out.splitlines()]
    assert [each["part"] for each in printed][:2] == ["configuration", "address"]
    assert (code == 0) == all(each["ok"] for each in printed)
