"""What shells complete, requested as they request it."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from stormwright import cli
from stormwright.cli import VERBS
from stormwright.schedulers import scheduler_names


@pytest.fixture
def complete(monkeypatch, capsys):
    """What is offered for the last of these words, by a shell that asks as bash does."""

    def complete_it(*words: str) -> list[str]:
        monkeypatch.setenv("_STORMWRIGHT_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("stormwright", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        assert (ended.value.code, err) == (0, "")
        return [line.partition(",")[2] for line in out.split("\n") if line]

    return complete_it


def test_verbs_and_their_options(complete):
    assert complete("sch") == ["schedule", "schedulers"]
    assert complete("") == list(VERBS)
    assert "--storm-home" in complete("serve", "--s")
    assert complete("mode", "su") == ["suggest"]
    assert complete("history", "rep") == ["report"]


@pytest.mark.parametrize(
    "words",
    [
        *((verb, "--scheduler") for verb in ("schedule", "serve", "plan", "whatif", "dashboard")),
        ("serve", "--initial"),
        ("schedulers",),
    ],
)
def test_names_of_schedulers(complete, words):
    assert complete(*words, "") == list(scheduler_names())
    assert complete(*words, "opt") == ["optimizer"]


def test_several_schedulers(complete):
    assert complete("compare", "p.json", "--schedulers", "even,opt") == ["even,optimizer"]


def test_invalid_input_completes_to_nothing(complete):
    assert complete("schedul", "--sch") == []
    assert complete("nonsense", "--o") == []
    assert complete("serve", "--port", "x", "--mode", "s") == ["suggest"]


def test_completion_prints_no_output_when_plugin_fails(monkeypatch, capsys):
    def broken() -> None:
        raise RuntimeError("a plugin")

    monkeypatch.setattr("stormwright.schedulers.scheduler_names", broken)
    monkeypatch.setenv("_STORMWRIGHT_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", "stormwright schedule --scheduler")
    monkeypatch.setenv("COMP_CWORD", "3")
    with pytest.raises(SystemExit):
        cli.main()
    assert "".join(capsys.readouterr()).strip() == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_have_valid_syntax(run, shell):
    code, out, err = run("completion", shell)
    assert (code, err) == (0, "")
    assert f"_STORMWRIGHT_COMPLETE={shell}_complete" in out
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing")
    subprocess.run([shell, "-n"], input=out, text=True, check=True)


@pytest.mark.slow
def test_bash_completion_script_completes_scheduler_names(run, tmp_path):
    program = tmp_path / "stormwright"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m stormwright "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    _, script, _ = run("completion", "bash")
    ask = "COMP_WORDS=(stormwright schedule --scheduler opt); COMP_CWORD=3; _stormwright_completion {}; "
    script += "\n" + ask.format(program) + 'echo "${COMPREPLY[@]}"'
    found = subprocess.run(["bash", "-c", script], text=True, check=True, capture_output=True)
    assert found.stdout.splitlines()[-1] == "optimizer"


def test_another_shell_is_refused(run):
    code, _, err = run("completion", "tcsh")
    assert code == cli.BAD_INPUT
    assert "'bash', 'zsh', 'fish'" in err
