"""The documentation site: strict, offline, the same each time, and complete."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import click
import pytest
import yaml

from stormwright import errors
from stormwright.cli import VERBS
from stormwright.cli.serve import command as serve
from stormwright.cli.serve.config import variable
from stormwright.storm.jvm import STORM_HOME
from tests.browser.chromium import CHROMIUM
from tools.site_hooks import linked
from tools.site_pages import error_classes, generated_pages, options_page
from tools.storm_keys import OWN, STORMS

ROOT = Path(__file__).parents[2]


def built(directory: Path) -> Path:
    """Build the site into a directory; a warning of MkDocs is an error."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600", "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(directory)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return built(tmp_path_factory.mktemp("site"))


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_two_builds_are_equal(site, tmp_path):
    first, second = contents(site), contents(built(tmp_path / "again"))
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []


@pytest.mark.slow
def test_search_index_has_every_kind_of_page(site):
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    expected = {"operate.html", "reference/storm-keys.html", "reference/options.html", "tutorials/own_scheduler.html"}
    expected |= {f"reference/commands/{name}.html" for name in VERBS}
    expected |= {f"reference/errors/{each.__name__}.html" for each in error_classes()}
    assert expected <= found
    assert "results/storm-gain.html" not in found
    assert (site / "results" / "storm-gain.html").exists()


@pytest.mark.slow
def test_pages_load_nothing_from_the_network(site):
    pattern = re.compile(r"<(?:link|script|img|iframe)\b[^>]*?(?:src|href)=[\"']?(https?:[^\"'> ]+)")
    loaded = {url for page in site.rglob("*.html") for url in pattern.findall(page.read_text(encoding="utf-8"))}
    assert loaded == set()


@pytest.mark.slow
def test_search_works_from_the_file_system(site):
    """In Chromium, which starts no workers there: the shim replaces them."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except Exception as error:
            pytest.skip(f"no Chromium: {error}")
        page = browser.new_page()
        page.goto((site / "index.html").as_uri() + "?q=rebalance")
        page.wait_for_selector(".md-search-result__item", state="attached", timeout=60_000)
        browser.close()


def test_storm_keys_cover_the_keys_in_the_sources():
    """Keys that only daemons of local clusters, laboratories and tests set are none that a user needs."""
    sources = [path for path in (ROOT / "src").rglob("*.py") if not _SETTING & set(path.parts)]
    sources += [path for path in (ROOT / "java/src/main").rglob("*.java") if "topologies" not in path.parts]
    pattern = re.compile(r"\"((?:stormwright|topology|nimbus|supervisor|storm|worker|task)\.[a-z0-9_.]*[a-z0-9])\"")
    found = {key for path in sources for key in pattern.findall(path.read_text(encoding="utf-8"))}
    listed = {key.name for key in (*OWN, *STORMS)}
    assert sorted(found - listed - set(NO_KEYS)) == []


def test_storm_keys_are_in_the_sources():
    """As text, as a constant of Storm's Config, or by the prefix of one of Storm's schedulers."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "java/src/main").rglob("*.java")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    texts = set(re.findall(r"\"([a-z][a-z0-9_.]*)\"", text))
    constants = set(re.findall(r"Config\.([A-Z_]+)", text))
    prefixes = tuple(each for each in texts if each.endswith(".scheduler."))
    unused = [
        key.name
        for key in (*OWN, *STORMS)
        if key.name not in texts
        and key.name.upper().replace(".", "_") not in constants
        and not key.name.startswith(prefixes)
    ]
    assert unused == []


#: Directories of code that sets keys of clusters of its own.
_SETTING = {"local_cluster", "evaluations", "chaos", "workbench", "testing"}

#: Texts that look like keys → what they are.
NO_KEYS = {
    "stormwright.confined": "set by the service itself",
    **dict.fromkeys(
        ("stormwright.all", "stormwright.config", "stormwright.given", "stormwright.output_is_stdout"),
        "keys of click's context",
    ),
    "stormwright.verbs": "group of entry points",
    **dict.fromkeys(
        (
            "storm.home",
            "storm.jar",
            "storm.options",
            "stormwright.class.path",
            "stormwright.worker.heap.bytes",
            "stormwright.worker.start.ms",
        ),
        "properties of a JVM",
    ),
    **dict.fromkeys(
        ("storm.yaml", "worker.classes", "worker.jsa", "worker.lock", "worker.start_ms"), "files, and a column"
    ),
    **dict.fromkeys(
        (
            "stormwright.jit.compilation",
            "stormwright.landing",
            "stormwright.move",
            "stormwright.optimize",
            "stormwright.schedulers",
            "stormwright.simulator",
            "stormwright.service.dashboard",
            "stormwright.service.notifications.call_hook",
            "stormwright.token-file",
        ),
        "names of modules, groups, loggers and metadata",
    ),
}


def test_listed_defaults_of_storm_are_those_of_its_defaults_yaml():
    (jar,) = (STORM_HOME / "lib").glob("storm-client-*.jar")
    with zipfile.ZipFile(jar) as archive:
        defaults = yaml.safe_load(archive.read("defaults.yaml"))
    wrong = {
        key.name: (key.default, defaults.get(key.name))
        for key in STORMS
        if not (isinstance(key.default, str) and " " in key.default) and key.default != defaults.get(key.name)
    }
    assert wrong == {}


def test_options_page_has_every_option_and_variable():
    page = options_page()
    for option in serve.params:
        if isinstance(option, click.Option):
            assert f"`{option.opts[0]}`" in page
            assert option.name == "check" or f"`{variable(option)}`" in page


@pytest.mark.slow
def test_each_error_has_a_page_with_remedy_and_example():
    for error in error_classes():
        assert f"reference/errors/{error.__name__}.md" in generated_pages()
        assert "Notes\n" in (error.__doc__ or "")
        assert "Examples\n" in (error.__doc__ or "")


def test_examples_of_errors_are_what_happens():
    assert doctest.testmod(errors).failed == 0


def test_links_lead_to_pages_or_become_tooltips():
    known = {"operate.md", "index.md", "results/README.md"}
    text = "[a](operate.md#x) [b](../README.md) [c](../tests/test_docs.py) [d](results/) [e](https://example.org/)"
    assert linked(text, "docs/moves.md", "moves.md", known) == (
        '[a](operate.md#x) [b](index.md) <abbr title="tests/test_docs.py">c</abbr> [d](results/README.md) '
        "[e](https://example.org/)"
    )
