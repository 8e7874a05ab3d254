"""Sources of experiments are those of the schedulers, and their parameters are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stormwright_lab.evaluations.papers import PAPERS

from stormwright.schedulers.toolkit.describe import citation
from stormwright.schedulers.toolkit.registry import check_settings
from stormwright.schedulers.toolkit.resolve import is_java

ROOT = Path(__file__).parents[2]

#: Experiment → schedulers whose publication it repeats.
REPEATED = {
    "adaptive": ("online",),
    "ant-colony": ("ant_colony",),
    "other-schedulers": ("t_storm", "p_scheduler", "d_storm", "toss", "metis", "genetic"),
    "r-storm": ("r_storm",),
    "tag-aware": ("tag_aware",),
    "top-storm": ("top_storm",),
}


@pytest.mark.parametrize(("paper", "rule"), [(paper, rule) for paper, rules in REPEATED.items() for rule in rules])
def test_experiment_and_scheduler_have_the_same_source(paper, rule):
    assert citation(rule) in PAPERS[paper].source


def test_citation_ends_with_its_address_or_before_remarks():
    assert citation("metis").endswith("https://doi.org/10.1109/BigData.2015.7363749")
    assert citation("toss").endswith("IPDPS Workshops 2020, pages 587 to 596")
    assert citation("ant_colony").endswith("236–240")


def test_no_page_names_another_source_of_toss():
    """In every clause that names TOSS and a year, the year is that of its publication."""
    pages = [page for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if "results" not in page.parts]
    clauses = {
        (page.name, clause)
        for page in pages
        for clause in re.split(r";|\||\. |\n", page.read_text(encoding="utf-8"))
        if re.search(r"\bTOSS\b", clause)
    }
    assert clauses
    wrong = [each for each in clauses if set(re.findall(r"\b(?:19|20)\d\d\b", each[1])) - {"2020"}]
    assert wrong == []


def test_adaptive_runs_with_the_parameters_of_its_authors_beside_ours():
    for block in PAPERS["adaptive"].blocks:
        for rule in ("online", "offline"):
            settings = [dict(each.settings) for each in block.variants.values() if each.scheduler == rule]
            assert {} in settings
            assert {"variant": "authors"} in settings


def test_every_variant_of_an_experiment_has_valid_parameters():
    variants = {
        (each.scheduler, tuple(each.settings.items()))
        for paper in PAPERS.values()
        for block in paper.blocks
        for each in block.variants.values()
        if block.kind != "moves" and not is_java(each.scheduler)
    }
    for name, settings in variants:
        check_settings(name, [f"{key}={value}" for key, value in settings])
