"""The pages of docs/schedulers are what the code makes now, and what they show is so."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from stormwright.explain.drawing import component_colours, component_legend, draw
from stormwright.explain.svg import placement_svg
from stormwright.formats import read_problem
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.registry import SCHEDULERS
from stormwright.testing import oracles
from tests.schedulers.builders import load, nodes, problem, topology
from tools.scheduler_pages import PROBLEM, pages, write_pages

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "schedulers"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def word_count():
    return read_problem(PUBLISHED / PROBLEM)


@pytest.fixture(scope="module")
def made(word_count):
    return pages(word_count)


@pytest.mark.parametrize("name", ["index", "java", *SCHEDULERS])
def test_published_page_equals_generated_page(made, name):
    """If this fails: make docs."""
    assert (PUBLISHED / f"{name}.md").read_text(encoding="utf-8") == made[f"{name}.md"]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_published_picture_equals_generated_picture(made, name):
    """If this fails: make docs."""
    assert (PUBLISHED / f"{name}.svg").read_text(encoding="utf-8") == made[f"{name}.svg"]


def test_nothing_else_is_published(made):
    assert {path.name for path in PUBLISHED.iterdir()} == {*made, PROBLEM}


@pytest.mark.slow
def test_pages_of_removed_schedulers_are_deleted(tmp_path):
    (tmp_path / PROBLEM).write_bytes((PUBLISHED / PROBLEM).read_bytes())
    for name in ("gone.md", "gone.svg"):
        (tmp_path / name).touch()
    write_pages(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in PUBLISHED.iterdir()}


def test_links_lead_somewhere(made):
    targets = {target for text in made.values() for target in re.findall(r"\]\((?!https:)([^)#]+)", text)}
    assert {"online.md", "online.svg", "java.md", PROBLEM, "index.md"} <= targets
    assert not [target for target in targets if not (PUBLISHED / target).is_file()]
    assert "(docs/schedulers/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCHEDULERS)
def test_page_figures_equal_oracle(made, word_count, name):
    cells = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", made[f"{name}.md"], re.MULTILINE))
    slots = make_scheduler(name).schedule(word_count).slot_of_executor
    by_distance = oracles.cost_by_distance(word_count, slots, oracles.traffic(word_count, slots))
    shown = {label: float(cells[label].strip("*").replace(",", "")) for label in ("cost", "in a rack, × 1")}
    assert shown["cost"] == pytest.approx(oracles.cost(word_count, slots), abs=0.51)
    assert shown["in a rack, × 1"] == pytest.approx(by_distance["rack"], abs=0.51)
    assert int(cells["workers used"]) == len(set(slots.tolist()))
    assert int(cells["nodes used"]) == len({word_count.slots[slot].supervisor for slot in slots.tolist()})
    assert (cells["limits"] == "kept") == oracles.is_valid(word_count, slots)


def parsed(svg):
    return ElementTree.fromstring(svg)  # noqa: S314 - our own


def titles(svg):
    """Titles of all shapes, the picture's own left out."""
    return [element.text for element in parsed(svg).iter(f"{SVG}title")][1:]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_picture_contains_every_executor_once(made, name):
    shapes = Counter(title.split(",")[0] for title in titles(made[f"{name}.svg"]))
    assert shapes == {"spout": 5, "split": 8, "count": 12, "__acker": 3}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_pictures_are_self_contained_and_within_bounds(made, name):
    assert "href" not in made[f"{name}.svg"]
    assert "url(" not in made[f"{name}.svg"]
    svg = parsed(made[f"{name}.svg"])
    width, height = float(svg.get("width")), float(svg.get("height"))
    boxes = [
        [float(box.get(side)) for side in ("x", "y", "width", "height")]
        for box in svg.iter(f"{SVG}rect")
        if box.get("class") != "ground"
    ]
    assert all(0 <= x < x + w <= width and 0 <= y < y + h <= height for x, y, w, h in boxes)
    marks = [tuple(box) for box in boxes if box[2] == box[3] == 14]
    assert len(marks) == len(set(marks)) == 28 + 4  # executors, and components in the legend


def test_drawing_supports_many_nodes_and_escapes_xml_names():
    of = problem(nodes(*[1] * 7), (topology("<&>", 14, 7), load(14)))
    colours = component_colours(of)
    legend = [("<&>" * 40, [("component" * 4, "#000000")] * 9), *component_legend(of, colours)]
    drawing = draw(of, "<name>", "", np.arange(14, dtype=np.int32) % 7, colours)
    svg = placement_svg(drawing, legend)
    assert len(titles(svg)) == 14
    hosts = [box for box in parsed(svg).iter(f"{SVG}rect") if box.get("class") == "node"]
    assert len(hosts) == 7
    assert len({(box.get("x"), box.get("y")) for box in hosts}) == 7
