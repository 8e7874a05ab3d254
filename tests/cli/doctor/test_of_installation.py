"""Checks of a Storm installation, over facts that are made up."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from stormwright.cli.doctor import checks, gather, installation_checks
from stormwright.cli.doctor.facts import Facts, Installation, Jar
from stormwright.jit import cache
from stormwright.jit.cache import CompiledPackage

JAR = Jar("/storm/extlib-daemon/stormwright-storm-1.2.3.jar", "1.2.3", "abc")
CONF = {
    "storm.scheduler": "stormwright.PlacementScheduler",
    "stormwright.service.url": "http://s:7070",
    "topology.auto.task.hooks": ["stormwright.ExecutorProbe"],
    "stormwright.probe.service.url": "http://s:7070",
}
STORM = Installation("/storm", [JAR], "2.8.3", "/storm/conf/storm.yaml", CONF, {"n1:6627": True})
FACTS = Facts("1.2.3", (3, 11), "17", "", JAR, True, 33, (), STORM, None)


def test_installation_checks_pass_on_valid_installation():
    found = [
        checks.python(FACTS),
        checks.java(FACTS),
        checks.compiled_code(FACTS),
        installation_checks.storm_version(STORM),
        installation_checks.jar(STORM),
        installation_checks.same_jar(FACTS, STORM),
        installation_checks.scheduler_class(STORM, CONF),
        installation_checks.credentials(STORM, CONF),
        installation_checks.fallback(CONF),
        installation_checks.monitor_frequency(CONF),
        installation_checks.hook(CONF),
    ]
    assert [(each.verdict, each.fix) for each in found] == [("ok", "")] * len(found)


def test_credential_check_requires_readable_token_and_ca_files():
    conf = CONF | {"stormwright.token.file": "/t", "stormwright.tls.ca": "/ca"}
    installed = replace(STORM, conf=conf, credentials={"stormwright.token.file": "", "stormwright.tls.ca": ""})
    found = installation_checks.credentials(installed, conf)
    assert (found.verdict, found.text) == ("ok", "stormwright.token.file /t, stormwright.tls.ca /ca")
    found = installation_checks.credentials(
        replace(installed, credentials={"stormwright.tls.ca": "/ca: No such file"}), conf
    )
    assert (found.verdict, found.text) == ("wrong", "stormwright.tls.ca /ca: No such file")
    assert "token create" in found.fix


@pytest.mark.parametrize(("jars", "expected"), [([], "no jar in"), ([JAR, replace(JAR, version="1.2.2")], "several")])
def test_jar_check_requires_exactly_one_jar_of_right_version(jars, expected):
    found = installation_checks.jar(replace(STORM, jars=jars))
    assert (found.verdict, expected in found.text, "stormwright install" in found.fix) == ("wrong", True, True)
    assert installation_checks.same_jar(FACTS, replace(STORM, jars=jars)).verdict == "unknown"


@pytest.mark.parametrize(
    ("jar", "built", "verdict"),
    [
        (JAR, None, "ok"),
        (replace(JAR, version="1.2.2"), None, "wrong"),
        (JAR, replace(JAR, digest="other"), "wrong"),
    ],
)
def test_same_jar_check_compares_installed_and_packaged_jar(jar, built, verdict):
    assert installation_checks.same_jar(replace(FACTS, built=built), replace(STORM, jars=[jar])).verdict == verdict


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"storm.scheduler": None}, "storm.scheduler is not set"),
        ({"storm.scheduler": "stormwright.PlacementSheduler"}, "PlacementSheduler (nearly)"),
        ({"storm.scheduler": "org.apache.storm.scheduler.resource.ResourceAwareScheduler"}, "storm.scheduler is org"),
        ({"stormwright.service.url": None}, "Nimbus calls no service"),
    ],
)
def test_scheduler_class_check_requires_class_and_service_address(options, expected):
    found = installation_checks.scheduler_class(STORM, CONF | options)
    assert (found.verdict, expected in found.text, "stormwright install" in found.fix) == ("wrong", True, True)


@pytest.mark.parametrize(
    ("version", "verdict"),
    [
        ("2.5.0", "wrong"),
        ("2.6.0", "ok"),
        ("2.8.3-SNAPSHOT", "ok"),
        ("2.9.0", "wrong"),
        ("3.0.0", "ok"),
        ("3.0.0-SNAPSHOT", "ok"),
        ("3.1.0", "wrong"),
        ("30.0.0", "wrong"),
        (None, "unknown"),
    ],
)
def test_storm_version_check_accepts_only_supported_versions(version, verdict):
    assert installation_checks.storm_version(replace(STORM, storm_version=version)).verdict == verdict


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(10, "ok"), (59, "ok"), (60, "wrong"), (0, "wrong"), ("10", "wrong"), (True, "wrong")]
)
def test_monitor_frequency_check_requires_interval_below_load_expiry(seconds, verdict):
    assert installation_checks.monitor_frequency({"nimbus.monitor.freq.secs": seconds}).verdict == verdict


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"topology.auto.task.hooks": []}, "unknown"),
        ({"topology.auto.task.hooks": ["com.example.Hook"]}, "wrong"),
        ({"topology.auto.task.hooks": "stormwright.ExecutorProbe"}, "wrong"),
        ({"stormwright.probe.service.url": None}, "wrong"),
    ],
)
def test_hook_check_requires_monitoring_hook_and_its_target(options, verdict):
    assert installation_checks.hook(CONF | options).verdict == verdict


@pytest.mark.parametrize(
    ("fallback", "verdict"),
    [
        ("none", "ok"),
        ("org.apache.storm.scheduler.IsolationScheduler", "ok"),
        ("IsolationScheduler", "ok"),
        ("com.example.Own", "unknown"),
        ("evn", "wrong"),
        ("stormwright.PlacementScheduler", "wrong"),
        ("no class", "wrong"),
        (3, "wrong"),
    ],
)
def test_fallback_check_requires_known_scheduler_class(fallback, verdict):
    assert installation_checks.fallback({"stormwright.fallback": fallback}).verdict == verdict


@pytest.mark.parametrize(
    ("able", "compiled", "verdict"), [(None, 0, "unknown"), (False, 9, "unknown"), (True, 0, "wrong")]
)
def test_compiled_code_is_taken_up(able, compiled, verdict):
    assert checks.compiled_code(replace(FACTS, able=able, compiled=compiled)).verdict == verdict


def test_compiled_code_check_reports_outdated_package_despite_other_valid_ones():
    found = checks.compiled_code(replace(FACTS, compiled=4, unfit=("optimize",)))
    assert (found.verdict, found.text) == (
        "wrong",
        "prebuilt code of optimize is of other sources: it is compiled at first use",
    )


def test_packages_with_outdated_compiled_code_are_detected(tmp_path, monkeypatch):
    compiled_packages = [CompiledPackage(tmp_path / name, "0123456789abcdef") for name in ("old", "new")]
    for room, made_of in zip(compiled_packages, ("ba9876543210", "0123456789ab"), strict=True):
        room.prebuilt_folder.mkdir(parents=True)
        (room.prebuilt_folder / f"a.b.{made_of}.{sys.implementation.cache_tag}.1.nbc").touch()
    monkeypatch.setattr(cache, "compiled_packages", lambda: compiled_packages)
    assert gather._compiled()[1:] == (1, ("old",))  # noqa: SLF001


def test_java_and_python_are_new_enough():
    assert checks.java(replace(FACTS, java=None, java_why_not="none found")).text == "none found"
    assert checks.python(replace(FACTS, python=(3, 10))).verdict == "wrong"
