"""Hooks of MkDocs for the documentation site (mkdocs.yml): pages from outside of docs/, and links to files.

The pages in ``docs`` link to each other, to examples, sources and tests by relative paths, as a code host shows them.
On the site a link to a file that the site does not have becomes its text, with the path of the file as a tooltip.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site_pages import generated_pages

ROOT = Path(__file__).parents[1]

#: Path in the repository → page, for files outside of ``docs``.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/schemas": "reference/schemas.md",
    **{f"examples/{path.name}": f"tutorials/{path.stem}.md" for path in sorted((ROOT / "examples").glob("*.ipynb"))},
}

#: Pages that the search leaves out: tables of figures.
_UNSEARCHED = re.compile(r"results/(?!README\.md)")

#: Lets the search work on pages opened from file://.
_SHIM = "assets/javascripts/iframe-worker.js"

#: What the theme brings and no page uses: maps of its sources, and stemmers of other languages than English.
_UNUSED = ("assets/**/*.map", "assets/javascripts/lunr/**/*.js", "sitemap.xml*")

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)


@event_priority(100)
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand the navigation's directories."""
    docs = {path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md")}
    config.nav = _expanded(config.nav, sorted({*docs, *PAGES.values(), *generated_pages()}))
    return config


def _expanded(items: Any, pages: list[str]) -> Any:
    if isinstance(items, dict):
        return {title: _expanded(item, pages) for title, item in items.items()}
    if not isinstance(items, list):
        return items
    named = {item for item in items if isinstance(item, str)}
    expanded: list[Any] = []
    for item in items:
        if isinstance(item, str) and item.endswith("/"):
            expanded += [page for page in pages if posixpath.dirname(page) == item[:-1] and page not in named]
        else:
            expanded.append(_expanded(item, pages))
    return expanded


@event_priority(100)
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside of ``docs``, and the generated ones."""
    for source, page in PAGES.items():
        if source.endswith(".md"):
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
        elif source.endswith(".ipynb"):
            files.append(File.generated(config, page, content=notebook_text(ROOT / source)))
    files.append(File.generated(config, _SHIM, abs_src_path=str(ROOT / "tools" / "iframe_worker.js")))
    for page, text in generated_pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Remove what no page uses."""
    for pattern in _UNUSED:
        for path in Path(config.site_dir).glob(pattern):
            path.unlink()


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Rewrite links for the site."""
    uri = page.file.src_uri
    if _UNSEARCHED.match(uri):
        page.meta["search"] = {"exclude": True}
    origin = {page: source for source, page in PAGES.items()}.get(uri, f"docs/{uri}")
    known = {each.src_uri for each in files if each.inclusion.is_included()}
    parts = _FENCED.split(markdown)
    return "".join(part if number % 2 else linked(part, origin, uri, known) for number, part in enumerate(parts))


def linked(text: str, origin: str, uri: str, known: Iterable[str]) -> str:
    """Return a text of Markdown whose links lead to pages of the site, or are tooltips.

    Parameters
    ----------
    text
        Text of Markdown without blocks of code.
    origin
        Path of the text's file in the repository.
    uri
        Path of its page.
    known
        Paths of all pages and files of the site.
    """

    def rewritten(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if path not in PAGES and not (ROOT / path).exists():
            return match[0]  # on generated pages; MkDocs reports a wrong one
        page = PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
        page = next((each for each in (page, f"{page}/README.md", f"{page}/index.md") if each in known), "")
        if not page:
            return f'<abbr title="{path}">{match["text"]}</abbr>'
        relative = posixpath.relpath(page, posixpath.dirname(uri) or ".")
        return f"{match['image']}[{match['text']}]({relative}{'#' + anchor if anchor else ''})"

    return _LINK.sub(rewritten, text)


def notebook_text(path: Path) -> str:
    """Return a notebook with its outputs as Markdown; its pictures are part of the text."""
    import nbformat
    from nbconvert import MarkdownExporter

    book = nbformat.read(path, as_version=4)
    text, resources = MarkdownExporter().from_notebook_node(book)
    # An output in HTML is a block of its own; Markdown would end it at its first empty line.
    text = re.sub(r"^(<svg.*?</svg>)$", r"<div>\1</div>", text, flags=re.MULTILINE | re.DOTALL)
    for name, data in resources["outputs"].items():
        text = text.replace(f"({name})", f"(data:image/{Path(name).suffix[1:]};base64,{_base64(data)})")
    return str(text)


def _base64(data: bytes) -> str:
    from base64 import b64encode

    return b64encode(data).decode()
