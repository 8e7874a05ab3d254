"""The Grafana dashboard and the alert rules name what there is, and are sound."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.deploy.exposed import DEPLOY, exposed

RULES = DEPLOY / "prometheus" / "rules.yaml"
BOARD = json.loads((DEPLOY / "grafana" / "stormwright.json").read_text(encoding="utf-8"))
ALERTS = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]

#: Labels that Prometheus adds to all that it collects.
ADDED = {"job", "instance"}

PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing: it is in Debian's package prometheus"
)


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
        assert set(rule["annotations"]) == {"summary", "description"}


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


def promtool(*arguments: Any) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_prometheus_takes_rules_and_configuration():
    promtool("check", "rules", RULES)
    promtool("check", "config", DEPLOY / "prometheus" / "prometheus.yaml")


@needs_promtool
def test_prometheus_takes_the_queries_of_the_board(tmp_path):
    asked = [re.sub(r"\$\w+", "x", target["expr"]) for panel in PANELS for target in panel["targets"]]
    rules = [{"record": f"asked:{number}", "expr": expr} for number, expr in enumerate(asked)]
    as_rules = tmp_path / "board.yaml"
    as_rules.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", as_rules)


#: An alert, the series that raise it (as promtool writes values), and one that does not.
RAISED = {
    "StormwrightAway": ('up{job="stormwright"}', "0x20", "1x20"),
    "NimbusSilent": ("stormwright_snapshot_age_seconds", "0+30x20", "8x20"),
    "LoadsStopped": ("stormwright_pipeline_running", "0x20", "1x20"),
    "RecordsQuarantined": ('stormwright_lines_total{fate="quarantined"}', "0+5x20", "5x20"),
    "NodeOverloaded": ('stormwright_node_headroom_cores{supervisor="a"}', "-0.2x20", "0.5x20"),
    "TopologyShort": ('stormwright_topology_headroom_ratio{topology="t"}', "0.8x20", "1.2x20"),
    "ExecutorsUnplaced": ('stormwright_topology_unplaced_executors{topology="t"}', "2x20", "0x20"),
    "MoveFailed": ('stormwright_moves_total{result="failed"}', "0x10 1x10", "1x20"),
    "MoveRolledBack": ("stormwright_moves_rolled_back_total", "0x10 1x10", "1x20"),
    "MovesSuspended": ('stormwright_held{why="missing"}', "1x20", "_x20"),
    "NotOneLeader": ("stormwright_leads", "0x20", "1x20"),
    "PlanWaits": ('stormwright_plans{state="proposed"}', "1x20", "0x20"),
    "HistoryNotWritten": ('stormwright_history_failure_timestamp_seconds{part="taking"}', "600x20", "-900x20"),
}


@needs_promtool
@pytest.mark.parametrize("alert", [rule["alert"] for rule in ALERTS])
def test_alert_fires_on_bad_series_only(alert, tmp_path):
    series, bad, good = RAISED[alert]
    rule = next(rule for rule in ALERTS if rule["alert"] == alert)
    bare = {key: value for key, value in rule.items() if key != "annotations"}
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": [bare]}]}), encoding="utf-8")
    own = dict(re.findall(r'(\w+)="([^"]*)"', series))
    if alert == "PlanWaits":
        own = {"state": "proposed"}
    cases = [
        (bad, [{"exp_labels": {**own, "severity": rule["labels"]["severity"]}}]),
        (good, []),
    ]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values}],
            "alert_rule_test": [{"eval_time": "18m", "alertname": alert, "exp_alerts": expected}],
        }
        for values, expected in cases
    ]
    told = tmp_path / "tests.yaml"
    told.write_text(yaml.safe_dump({"rule_files": [str(rules)], "tests": tests}), encoding="utf-8")
    promtool("test", "rules", told)
