"""What the docs name is there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from stormwright.cli import cli
from stormwright.cli.serve import command as serve
from tools import readme_figures

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for page in ROOT.glob("docs/**/*.md") if "results" not in page.parts)],
)

#: Where a module may be named from.
FROM = (ROOT, ROOT / "src", ROOT / "src" / "stormwright", ROOT / "lab" / "src" / "stormwright_lab")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_figures_of_the_readme_are_those_of_the_results():
    """If this fails: make docs."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme_figures.with_figures(text) == text
    assert readme_figures.with_figures("<!-- decisions -->x<!-- end -->") != "<!-- decisions -->x<!-- end -->"


def test_no_file_has_marks_of_a_merge():
    """docs/operate.md had some: pages are read by people only."""
    marks = ["grep", "-lE", "^(<<<<<<< |>>>>>>> |=======$)"]
    found = subprocess.run(["git", *marks], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 1, found.stdout + found.stderr


def test_architecture_page_lists_all_or_none_of_the_subpackages():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room, description in re.findall(r"^\| `(\w+)/` \| (.*) \|$", text, re.MULTILINE):
        of_it = next(start / room for start in FROM if (start / room).is_dir()).iterdir()
        there = {path.name for path in of_it if path.is_dir() and any(path.glob("*.py"))}
        named = {name for code in re.findall(r"`([\w/ ]+/)`", description) for name in code.replace("/", " ").split()}
        assert named in (set(), there), room


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_module_paths_exist(page):
    text = page.read_text(encoding="utf-8")
    named = [name for name in re.findall(r"`([\w/]+/\w+\.py)`", text) if "NAME" not in name]
    assert [name for name in named if not any((start / name).exists() for start in FROM)] == []


def test_each_documented_failure_names_existing_tests():
    """A link whose text is a test leads to the file that has it."""
    page = ROOT / "docs" / "failures.md"
    named = re.findall(r"\[(test_\w+)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    assert len(named) > 30
    there = {path: (page.parent / path).read_text(encoding="utf-8") for _, path in named}
    assert [name for name, path in named if f"\ndef {name}(" not in there[path]] == []


#: What people read of rates: pages, and what makes words for them and for the command line.
TEXTS = [
    ROOT / "docs" / "dashboard.md",
    *(ROOT / "src/stormwright").glob("service/dashboard/templates/*.j2"),
    *(ROOT / "src/stormwright").glob("service/dashboard/views/*.py"),
    ROOT / "src/stormwright/cli/plans.py",
    ROOT / "src/stormwright/controller/objectives/gains.py",
    ROOT / "src/stormwright/controller/objectives/outlook.py",
]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_docs_mark_each_throughput_as_measured_assumed_or_reachable(path):
    """One is what was, the other what is predicted: an operator who takes one for the other waits in vain."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"(\w+ |\W)(?<![\w/])[Tt]hroughput(?=[, ]|$)", text)
    assert [each for each in found if each.lower() not in ("measured ", "assumed ", "reachable ")] == []


#: A block of code, and commands in one and within a line.
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
IN_BLOCK = re.compile(r"^\s*(?:\$ )?(stormwright .+)$", re.MULTILINE)
IN_LINE = re.compile(r"`(stormwright\s[^`]+)`")


def commands_of(page: Path) -> set[str]:
    """Each without what stands for more of it, and what is not of it."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    found = [command for block in BLOCK.findall(text) for command in IN_BLOCK.findall(block)]
    found += [" ".join(command.split()) for command in IN_LINE.findall(BLOCK.sub("", text))]
    return {re.split(r"…|\s[|>&]|\s{2,}#", each)[0].strip() for each in found}


def test_documented_defaults_of_serve_equal_the_actual_ones():
    """As in: `--least-measured` seconds (30)."""
    named = re.findall(
        r"`(--[a-z-]+)`(?: [a-z]+)? \((\d+)\)",
        "".join(
            (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
            for page in ("operate", "plans", "moving", "watch", "data", "deploy")
        ),
    )
    options = {name: option.default for option in serve.params for name in option.opts}
    assert len(named) >= 4
    assert {name: options[name] for name, _ in named} == {name: float(number) for name, number in named}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_use_existing_subcommands_and_options(page):
    for shown in sorted(commands_of(page)):
        verb, args = cli, shlex.split(shown, comments=True)[1:]
        while isinstance(verb, click.Group) and args and not args[0].startswith("-"):
            found = verb.get_command(click.Context(verb), args[0])
            assert found is not None, shown
            verb, args = found, args[1:]
        try:
            verb.make_parser(click.Context(verb)).parse_args(args=list(args))
        except click.BadOptionUsage:
            pass  # an option that is only named has no value
        except click.UsageError as error:
            pytest.fail(f"{shown}: {error.format_message()}")
