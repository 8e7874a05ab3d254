"""Checks of a running service, over facts that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stormwright.cli.doctor import installation_checks, service_checks
from stormwright.cli.doctor.checks import all_findings
from stormwright.cli.doctor.facts import ServiceFacts
from tests.cli.doctor.test_of_installation import FACTS, STORM

PIPELINE = {"running": True, "error": None, "profile_age_s": 3.2, "ledger": {"read": 10_000, "quarantined": 10}}
SERVICE = ServiceFacts("http://s:7070", None, "1.2.3", 0.4, True, {"pipeline": PIPELINE, "waits": []})


def with_pipeline(**fields):
    return replace(SERVICE, status={"pipeline": PIPELINE | fields, "waits": []})


def verdicts(service):
    return [each.verdict for each in service_checks.record_gaps(service)]


def test_service_checks_pass_on_healthy_service():
    found = [
        service_checks.reached(SERVICE),
        service_checks.same_version(FACTS, SERVICE),
        service_checks.nimbus_calls(SERVICE),
        service_checks.clock_skew(SERVICE),
        *service_checks.record_gaps(SERVICE),
        service_checks.measured(SERVICE),
        installation_checks.nimbus_reached(STORM),
    ]
    assert [(each.verdict, each.fix) for each in found] == [("ok", "")] * len(found)


def test_doctor_checks_connections_in_both_directions():
    assert service_checks.reached(replace(SERVICE, why_not="refused")).verdict == "wrong"
    found = service_checks.reached(replace(SERVICE, why_not="say who you are", requires_token=True))
    assert (found.verdict, "--token-file" in found.fix) == ("wrong", True)
    assert [
        service_checks.nimbus_calls(replace(SERVICE, called_by_nimbus=called_by_nimbus)).verdict
        for called_by_nimbus in (False, None)
    ] == [
        "wrong",
        "unknown",
    ]
    assert installation_checks.nimbus_reached(replace(STORM, nimbus={"a:1": False, "b:1": True})).verdict == "ok"
    assert installation_checks.nimbus_reached(replace(STORM, nimbus={"a:1": False})).verdict == "wrong"
    assert installation_checks.nimbus_reached(replace(STORM, nimbus={})).verdict == "unknown"


@pytest.mark.parametrize(
    ("skew_s", "verdict", "expected"),
    [(-1.9, "ok", ""), (-3.0, "wrong", "3 s behind"), (60.0, "wrong", "60 s ahead of"), (None, "unknown", "")],
)
def test_clocks_go_together(skew_s, verdict, expected):
    found = service_checks.clock_skew(replace(SERVICE, skew_s=skew_s))
    assert (found.verdict, expected in found.text) == (verdict, True)


def test_versions_are_the_same():
    assert service_checks.same_version(FACTS, replace(SERVICE, version="1.2.2")).verdict == "wrong"
    assert service_checks.same_version(FACTS, replace(SERVICE, version=None)).verdict == "unknown"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"running": False, "error": "Spark has ended"}, ["wrong", "ok"]),
        ({"running": False}, ["unknown", "ok"]),
        ({"profile_age_s": None, "ledger": {}}, ["unknown", "unknown"]),
        ({"profile_age_s": 46}, ["wrong", "ok"]),
        ({"ledger": {"read": 10_000, "quarantined": 11}}, ["ok", "wrong"]),
        ({"files_set_aside": 1}, ["ok", "wrong"]),
    ],
)
def test_record_gap_check_verdict_follows_pipeline_status(fields, expected):
    assert verdicts(with_pipeline(**fields)) == expected


def test_empty_service_status_yields_unknown_verdict():
    silent = replace(SERVICE, status={})
    assert verdicts(silent) == ["unknown"]
    assert service_checks.measured(silent).verdict == "unknown"


def test_measured_check_names_topologies_without_reports():
    waiting = replace(SERVICE, status={"waits": [f"t{n}: not measured" for n in range(5)]})
    found = service_checks.measured(waiting)
    assert (found.verdict, found.text) == (
        "unknown",
        "t0: not measured; t1: not measured; t2: not measured; and 2 more",
    )


def test_standby_service_reports_address_of_leader():
    leads = replace(SERVICE, status={"pair": {"leads": "http://a:7070", "epoch": 3}})
    assert service_checks.stands_by(SERVICE) is None
    assert service_checks.stands_by(leads) is None
    stands_by = replace(SERVICE, status={"pair": {"leads": "http://a:7070", "stands_by": True}})
    found = service_checks.stands_by(stands_by)
    assert found is not None
    assert (found.verdict, "http://a:7070 leads" in found.text) == ("ok", True)
    assert (
        service_checks.stands_by(replace(SERVICE, status={"pair": {"leads": None, "stands_by": True}})).verdict
        == "wrong"
    )
    named = [each.check for each in all_findings(replace(FACTS, service=stands_by))]
    assert "leads" in named
    assert "Nimbus calls the service" not in named
