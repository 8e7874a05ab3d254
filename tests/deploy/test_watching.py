"""The Grafana dashboard and the alert rules name what there is, and are sound."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.exposed import DEPLOY, exposed, expositions
from tests.deploy.tools import needs, run

RULES = DEPLOY / "prometheus" / "rules.yaml"
BOARD = json.loads((DEPLOY / "grafana" / "stormwright.json").read_text(encoding="utf-8"))
ALERTS = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]

#: Labels that Prometheus, or its configuration, adds to all that it collects.
ADDED = {"job", "instance", "cluster"}

PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]

RULE_TESTS = yaml.safe_load(RULES.with_name("rules_test.yaml").read_text(encoding="utf-8"))["tests"]

needs_promtool = needs("promtool")


def promtool(*arguments: Any) -> None:
    done = run("promtool", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    return exposed(tmp_path_factory.mktemp("state"))


def queries() -> Iterator[tuple[str, str, str]]:
    """Where it stands, a query, and text that names labels of its answer."""
    for rule in ALERTS:
        text = " ".join(rule["annotations"].values())
        yield rule["alert"], rule["expr"], " ".join(re.findall(r"\$labels\.(\w+)", text))
    for panel in PANELS:
        for target in panel["targets"]:
            labels = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            yield panel["title"], target["expr"], " ".join(labels)
    for note in BOARD["annotations"]["list"]:
        yield note["name"], note["expr"], ""
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"]).groups()
            yield variable["name"], metric, label


@pytest.mark.parametrize(("where", "query", "labels"), list(queries()))
def test_dashboard_and_alert_queries_use_existing_metrics_and_labels(metrics, where, query, labels):
    bare = re.sub(r'"[^"]*"', '""', query)
    named = re.findall(r"\bstormwright_\w+", bare)
    assert named or "up{" in bare, "it asks for something"
    assert set(named) <= set(metrics)
    for name, chosen in re.findall(r"\b(stormwright_\w+)\{([^}]*)\}", bare):
        assert set(re.findall(r"(\w+)\s*[=!]~?", chosen)) <= metrics[name] | ADDED
    assert set(labels.split()) <= ADDED.union(*(metrics[name] for name in named))


def test_alert_rules_have_severity_summary_and_description():
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    for rule in ALERTS:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_runbooks_of_alerts_exist(rule):
    page, _, section = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.*)$", (DEPLOY.parent / page).read_text(encoding="utf-8"), flags=re.M)
    assert not section or section in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings}


def test_scrape_configuration_names_job_and_cluster_of_rules():
    """The rules distinguish services of two clusters by the label cluster."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert f'job="{job["job_name"]}"' in next(rule["expr"] for rule in ALERTS if rule["alert"] == "StormwrightDown")
    assert all(each["labels"]["cluster"] for each in job["static_configs"])


def test_the_board_is_whole():
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in BOARD["templating"]["list"]}
    text = json.dumps(BOARD)
    assert set(re.findall(r"\$\{?(\w+)", text)) - {"__all"} <= variables, "all that it asks with are chosen on it"
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, f"{panel['title']} lies over another"
        assert at["x"] + at["w"] <= 24
        taken |= cells
    for panel in PANELS:
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
        assert panel["title"]
        assert all(each["datasource"]["uid"] == "${datasource}" for each in (panel, *panel["targets"]))


@needs_promtool
def test_prometheus_takes_rules_and_configuration():
    promtool("check", "rules", RULES)
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yaml")


@needs_promtool
def test_prometheus_takes_the_queries_of_the_board(tmp_path):
    expressions = [re.sub(r"\$\w+", "x", target["expr"]) for panel in PANELS for target in panel["targets"]]
    rules = [{"record": f"asked:{number}", "expr": expr} for number, expr in enumerate(expressions)]
    as_rules = tmp_path / "board.yaml"
    as_rules.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", as_rules)


def test_each_alert_has_a_test_that_fires_it_and_one_that_does_not():
    cases = [case for test in RULE_TESTS for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in ALERTS}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


@needs_promtool
def test_alerts_fire_on_bad_series_only():
    promtool("test", "rules", RULES.with_name("rules_test.yaml"))


def test_quantiles_are_of_summaries_only(tmp_path):
    """Prometheus reserves the label for them."""
    for text in expositions(tmp_path).values():
        families = list(text_string_to_metric_families(text.decode()))
        having = {each.name for each in families for sample in each.samples if "quantile" in sample.labels}
        assert having == {each.name for each in families if each.type == "summary"}
        assert having


@needs_promtool
def test_prometheus_takes_the_metrics(tmp_path):
    for detail, text in expositions(tmp_path).items():
        done = run("promtool", "check", "metrics", given=text.decode())
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), detail
