"""``stormwright docs``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stormwright.cli.docs import start_page
from stormwright.errors import NotFoundError


def page(directory: Path) -> Path:
    directory.mkdir(parents=True)
    (directory / "index.html").write_text("<h1>stormwright</h1>", encoding="utf-8")
    return directory / "index.html"


def test_pages_of_the_wheel_come_before_those_of_a_clone(tmp_path):
    installed, clone = tmp_path / "stormwright" / "documentation", tmp_path / "clone"
    built = page(clone / "build" / "site")
    assert start_page(installed, clone) == built
    assert start_page(page(installed).parent, clone) == installed / "index.html"


@pytest.mark.parametrize("is_clone", [True, False])
def test_missing_pages_are_reported_with_the_remedy(tmp_path, is_clone):
    if is_clone:
        (tmp_path / "docs").mkdir()
    with pytest.raises(NotFoundError) as caught:
        start_page(tmp_path / "documentation", tmp_path)
    assert ("make site" in str(caught.value), str(tmp_path / "docs") in str(caught.value)) == (
        is_clone,
        is_clone or False,
    )


def test_path_is_printed_or_the_page_is_missing(run):
    """As this clone has it: built or not."""
    code, out, err = run("docs", "--json")
    if code == 0:
        document = json.loads(out)
        assert document["address"] == Path(document["path"]).as_uri()
        assert run("docs", "--print")[1].strip() == document["path"]
    else:
        assert (code, out) == (2, "")
        assert err
