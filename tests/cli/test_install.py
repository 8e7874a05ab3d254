"""``stormwright install``: the jar and the keys of storm.yaml, shown first, and removed again."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stormwright.errors import InputError
from stormwright.model.fallback import PLACEMENT_SCHEDULER
from stormwright.storm import installer
from stormwright.storm.installer import PROBE, FileChange, StormYamlSettings, install, uninstall
from stormwright.storm.jvm import STORMWRIGHT_JAR

SERVICE = "http://controller:7070"

#: As in Storm's binary release: comments, and keys that are indented by one.
RELEASED = """\
# Licensed to the Apache Software Foundation (ASF)
########### These MUST be filled in for a storm configuration
 storm.zookeeper.servers:
     - "zk1"
     - "zk2"
#
 nimbus.seeds: ["n1"]  # the only one

 storm.scheduler: org.apache.storm.scheduler.resource.ResourceAwareScheduler
 topology.auto.task.hooks:
   - com.example.Audit

 # ##### These are optional
 supervisor.slots.ports: [6700, 6701]
"""


@pytest.fixture
def home(tmp_path):
    """Storm, as far as `install` looks at it."""
    storm = tmp_path / "storm"
    (storm / "lib").mkdir(parents=True)
    (storm / "lib" / "storm-client-2.8.3.jar").touch()
    (storm / "conf").mkdir()
    (storm / "conf" / "storm.yaml").write_text(RELEASED, encoding="utf-8")
    return storm


def files(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_keys_and_jars_are_installed_and_removed_without_a_trace(run, home):
    before = files(home)
    code, out, err = run("install", home, "--service", SERVICE, "--yes")
    assert (code, err) == (0, "")
    assert f"+ stormwright.service.url: {json.dumps(SERVICE)}" in out
    conf = yaml.safe_load((home / "conf" / "storm.yaml").read_text(encoding="utf-8"))
    previous = yaml.safe_load(RELEASED)
    assert conf == previous | {
        "storm.scheduler": PLACEMENT_SCHEDULER,
        "stormwright.service.url": SERVICE,
        "stormwright.fallback": previous["storm.scheduler"],
        "topology.auto.task.hooks": ["com.example.Audit", PROBE],
        "stormwright.probe.service.url": SERVICE,
    }
    for directory in ("extlib", "extlib-daemon"):
        assert (home / directory / STORMWRIGHT_JAR.name).read_bytes() == STORMWRIGHT_JAR.read_bytes()
    assert run("install", home, "--service", SERVICE, "--yes")[:2] == (0, f"nothing to do: {home} is up to date\n")
    assert run("install", home, "--uninstall", "--yes")[0] == 0
    assert files(home) == before


def test_nothing_changes_without_consent(run, home):
    before = files(home)
    code, out, err = run("install", home)
    assert code == 2
    assert "storm.scheduler" in out
    assert "--yes" in err
    assert run("install", home, "--dry-run")[0] == 0
    assert files(home) == before


def test_json_lists_the_changes(run, home):
    code, out, _ = run("install", home, "--yes", "--json")
    document = json.loads(out)
    assert (code, document["applied"]) == (0, True)
    assert {change["action"] for change in document["changes"]} == {"create", "replace"}


def test_supervisor_host_gets_the_probe_only(run, home):
    run("install", home, "--daemon", "supervisor", "--token-file", "/etc/storm/probe.token", "--yes")
    conf = yaml.safe_load((home / "conf" / "storm.yaml").read_text(encoding="utf-8"))
    assert conf["storm.scheduler"].endswith("ResourceAwareScheduler")
    assert conf["stormwright.token.file"] == "/etc/storm/probe.token"
    assert not (home / "extlib-daemon").exists()


def test_installing_again_keeps_what_is_not_named(run, home):
    """It set the address back to this host, dropped the token, and added the probe."""
    run("install", home, "--service", SERVICE, "--token-file", "/etc/storm/t", "--without-probe", "--yes")
    path = home / "conf" / "storm.yaml"
    path.write_text(
        re.sub("(stormwright.fallback:).*", r'\1 "none"', path.read_text(encoding="utf-8")), encoding="utf-8"
    )
    before = files(home)
    assert run("install", home, "--yes")[:2] == (0, f"nothing to do: {home} is up to date\n")
    run("install", home, "--with-probe", "--yes")
    conf = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert conf["stormwright.probe.service.url"] == conf["stormwright.service.url"] == SERVICE
    assert (conf["stormwright.fallback"], conf["stormwright.token.file"]) == ("none", "/etc/storm/t")
    run("install", home, "--without-probe", "--yes")
    assert files(home) == before


def test_short_times_are_set_with_their_reasons_unless_the_operator_has_set_them(run, home):
    """Values and keys as Storm's ``defaults.yaml`` has them; another `install` leaves them."""
    path = home / "conf" / "storm.yaml"
    path.write_text(RELEASED + " task.refresh.poll.secs: 5\n", encoding="utf-8")
    _, out, _ = run("install", home, "--yes")
    assert "--short-times" in out
    before = files(home)
    _, out, _ = run("install", home, "--short-times", "--yes")
    assert "+ # a worker that ends before its first heartbeat starts again after 30 s (Storm: 120); one that " in out
    assert "task.refresh.poll.secs stays as storm.yaml has it, 5; 1 is advised" in out
    conf = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert (conf["storm.zookeeper.session.timeout"], conf["task.refresh.poll.secs"]) == (10_000, 5)
    assert run("install", home, "--yes")[:2] == (0, f"nothing to do: {home} is up to date\n")
    run("install", home, "--storm-times", "--yes")
    assert files(home) == before


def test_storm_before_2_and_options_without_effect_are_refused(run, home):
    code, _, err = run("install", home, "--uninstall", "--short-times", "--yes")
    assert (code, "--short-times: has no effect: --uninstall removes all" in err) == (2, True)
    (home / "lib" / "storm-client-2.8.3.jar").rename(home / "lib" / "storm-core-1.2.4.jar")
    code, _, err = run("install", home, "--yes")
    assert (code, "is Storm before 2.0 (lib/storm-core-1.2.4.jar)" in err) == (2, True)


def test_installing_again_serves_the_same_daemon(run, home):
    run("install", home, "--daemon", "supervisor", "--yes")
    assert run("install", home, "--yes")[:2] == (0, f"nothing to do: {home} is up to date\n")


def test_other_versions_of_the_jar_are_replaced(home):
    (home / "extlib").mkdir()
    old = home / "extlib" / "stormwright-storm-0.0.9.jar"
    old.write_bytes(b"old")
    changes = install(home, home / "conf" / "storm.yaml", StormYamlSettings(SERVICE))
    new = old.with_name(STORMWRIGHT_JAR.name)
    assert {(change.path, change.action) for change in changes} >= {(old, "delete"), (new, "create")}


def test_new_address_replaces_the_old_one(run, home):
    run("install", home, "--service", "http://first:7070", "--yes")
    run("install", home, "--service", SERVICE, "--yes")
    text = (home / "conf" / "storm.yaml").read_text(encoding="utf-8")
    assert "http://first:7070" not in text
    assert yaml.safe_load(text)["stormwright.service.url"] == SERVICE


def test_block_that_is_no_longer_needed_is_removed(run, home):
    """The operator has written the keys outside of it meanwhile, and the address in the block is an old one."""
    run("install", home, "--service", "http://old:7070", "--daemon", "supervisor", "--yes")
    path = home / "conf" / "storm.yaml"
    by_hand = f' topology.auto.task.hooks: ["{PROBE}"]\n stormwright.probe.service.url: "{SERVICE}"\n'
    edited = path.read_text(encoding="utf-8").replace("#stormwright-install#  topology", "#  topology")
    path.write_text(by_hand + edited.replace("#stormwright-install# ", "# "), encoding="utf-8")
    run("install", home, "--service", SERVICE, "--daemon", "supervisor", "--yes")
    text = path.read_text(encoding="utf-8")
    assert "http://old:7070" not in text
    assert yaml.safe_load(text)["stormwright.probe.service.url"] == SERVICE


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--service", "controller:7070"], "is no URL"),
        (["--service", "http://x:notaport"], "is no URL"),
        (["--service", "http://x:0"], "is no URL"),
        (["--daemon", "ui"], "ui"),
    ],
)
def test_bad_arguments_are_refused(run, home, arguments, message):
    before = files(home)
    code, _, err = run("install", home, "--yes", *arguments)
    assert code == 2
    assert message in err
    assert files(home) == before


@pytest.mark.parametrize("text", ["{storm.scheduler: x, ui.port: 1}\n", "- a\n", "a: [\n", "a: 1\n...\n"])
def test_yaml_that_cannot_be_extended_is_refused(home, text):
    path = home / "conf" / "storm.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=str(path)):
        install(home, path, StormYamlSettings(SERVICE))


def test_aliases_and_blocks_of_text_survive(home):
    path = home / "conf" / "storm.yaml"
    path.write_text("---\na: &x 1\nstorm.scheduler: *x\nb: |\n  text\n\n  more\n", encoding="utf-8")
    (change,) = [change for change in install(home, path, StormYamlSettings(SERVICE)) if change.path == path]
    conf = yaml.safe_load(change.after)
    assert (conf["a"], conf["b"], conf["storm.scheduler"]) == (1, "text\n\nmore\n", PLACEMENT_SCHEDULER)


BEGIN, END = "# BEGIN stormwright install", "# END stormwright install"

BY_HAND = """\
 ui.port: 8080
 storm.scheduler: stormwright.PlacementScheduler
 topology.auto.task.hooks:
   - stormwright.ExecutorProbe
"""


@pytest.mark.parametrize("installed", [False, True])
def test_jar_stays_while_storm_yaml_names_its_classes_outside_the_block(run, home, installed):
    path = home / "conf" / "storm.yaml"
    path.write_text(BY_HAND, encoding="utf-8")
    run("install", home, "--yes")
    if not installed:
        path.write_text(BY_HAND, encoding="utf-8")
    else:
        path.write_text("\n" + path.read_text(encoding="utf-8") + " b: 1\n", encoding="utf-8")
    before = files(home)
    with pytest.raises(InputError) as caught:
        uninstall(home, path)
    lines = [3, 4] if installed else [2, 3]
    assert [fault.path for fault in caught.value.faults] == [f"{path}:{line}" for line in lines]
    assert [fault.message.split()[0] for fault in caught.value.faults] == [
        "storm.scheduler",
        "topology.auto.task.hooks",
    ]
    assert run("install", home, "--uninstall", "--yes")[0] == 2
    assert files(home) == before


@pytest.mark.parametrize(
    ("edit", "lines"),
    [
        (lambda text: text.replace(END, ""), [2]),
        (lambda text: text.replace(END, f"{END} "), []),
        (lambda text: text.replace(BEGIN, ""), [8]),
        (lambda text: text + text, [2, 8, 10, 16]),
        (lambda text: text.replace(BEGIN, "").replace(END, f"{END}\n{BEGIN}"), [8, 9]),
        (lambda text: f"note: |\n  {BEGIN}\n  text\n" + text, [2, 5, 11]),
        (lambda text: text.replace(END, f"ui.port: 1\nnimbus.seeds:\n- a\n{END}"), [8, 9]),
    ],
)
def test_block_that_an_operator_edited_is_refused(home, edit, lines):
    path = home / "conf" / "storm.yaml"
    path.write_text("a: 1\n", encoding="utf-8")
    for change in install(home, path, StormYamlSettings(SERVICE)):
        change.apply()
    path.write_text(edit(path.read_text(encoding="utf-8")) + "b: 2\n", encoding="utf-8")
    for command in (lambda: install(home, path, StormYamlSettings(SERVICE)), lambda: uninstall(home, path)):
        if not lines:
            assert isinstance(command(), list)
            continue
        with pytest.raises(InputError) as caught:
            command()
        assert [fault.path for fault in caught.value.faults] == [f"{path}:{line}" for line in lines]


@pytest.mark.parametrize("hooks", ["a.Hook", [1], {"a": 1}, ""])
def test_hooks_that_are_no_list_of_names_are_refused(home, hooks):
    path = home / "conf" / "storm.yaml"
    path.write_text(yaml.safe_dump({"topology.auto.task.hooks": hooks}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        install(home, path, StormYamlSettings(SERVICE))
    assert [fault.path for fault in caught.value.faults] == ["topology.auto.task.hooks"]
    assert install(home, path, StormYamlSettings(SERVICE, probe_all=False))


def test_edit_after_the_difference_was_shown_is_not_overwritten(home):
    path = home / "conf" / "storm.yaml"
    changes = install(home, path, StormYamlSettings(SERVICE))
    edited = path.read_bytes() + b" ui.port: 1\n"
    path.write_bytes(edited)
    (change,) = [change for change in changes if change.path == path]
    with pytest.raises(InputError) as caught:
        change.apply()
    assert caught.value.faults[0].path == str(path)
    assert path.read_bytes() == edited


def test_edited_file_is_not_deleted(home):
    path = home / "extlib" / STORMWRIGHT_JAR.name
    path.parent.mkdir()
    path.write_bytes(b"new")
    with pytest.raises(InputError):
        FileChange(path, b"old", None).apply()
    assert path.exists()


@pytest.mark.parametrize("before", [None, b""])
def test_storm_yaml_that_install_created_is_deleted(home, before):
    path = home / "conf" / "storm.yaml"
    path.unlink()
    if before is not None:
        path.write_bytes(before)
    for address in (SERVICE, "http://other:7070"):
        for change in install(home, path, StormYamlSettings(address)):
            change.apply()
    for change in uninstall(home, path):
        change.apply()
    assert (path.read_bytes() if path.exists() else None) == before


def test_addresses_of_a_pair_lose_their_slashes(run, home):
    run("install", home, "--service", "http://a:7070/,http://b:7070/", "--yes")
    conf = yaml.safe_load((home / "conf" / "storm.yaml").read_text(encoding="utf-8"))
    assert conf["stormwright.service.url"] == "http://a:7070,http://b:7070"


def test_directory_without_storm_is_refused(run, tmp_path):
    code, _, err = run("install", tmp_path, "--yes")
    assert code == 2
    assert "is no Storm installation" in err


def test_unwritable_directory_is_named(run, home):
    (home / "extlib").write_text("a file where Storm has a directory", encoding="utf-8")
    code, _, err = run("install", home, "--yes")
    assert code == 2
    assert str(home / "extlib") in err
    assert "Traceback" not in err


def test_package_without_a_jar_is_refused(home, monkeypatch):
    monkeypatch.setattr(installer, "STORMWRIGHT_JAR", home / "none.jar")
    with pytest.raises(InputError, match=r"none\.jar"):
        install(home, home / "conf" / "storm.yaml", StormYamlSettings(SERVICE))


KEYS = st.sampled_from(
    ["storm.scheduler", "stormwright.service.url", "topology.auto.task.hooks", "nimbus.seeds", "ui.port", "a b"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab #:\n'\"-", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", min_size=1), inner, max_size=2),
    max_leaves=5,
)


@pytest.mark.slow
@given(
    conf=st.dictionaries(KEYS, VALUES, max_size=5),
    flow=st.sampled_from([False, None]),
    comment=st.booleans(),
    line_end=st.sampled_from(["\n", "\r\n"]),
    last=st.sampled_from(["", "\x85", "\n\n", "# a\r", "# end", '"a": "c\u2028\x85d"\n', '"e": "a\x85"']),
    ends=st.booleans(),
)
@settings(deadline=None)
def test_any_storm_yaml_is_restored_exactly(tmp_path_factory, conf, flow, comment, line_end, last, ends):
    home = tmp_path_factory.mktemp("storm")
    (home / "lib").mkdir()
    (home / "lib" / "storm-client-2.8.3.jar").touch()
    path = home / "storm.yaml"
    text = yaml.safe_dump(conf, default_flow_style=flow) if conf else ""
    assume(not text.startswith("{"))  # a whole file in one line is refused
    text = ("# ours\n" if comment else "") + text + ("\n# end\n" if comment else "") + last
    text = text if ends else text.removesuffix("\n")
    path.write_bytes(text.replace("\n", line_end).encode())
    before = path.read_bytes()
    previous, hooks = yaml.safe_load(before), conf.get("topology.auto.task.hooks")
    if hooks is not None and not (isinstance(hooks, list) and all(isinstance(hook, str) for hook in hooks)):
        with pytest.raises(InputError):
            install(home, path, StormYamlSettings(SERVICE))
        return
    for address in ("http://old:7070", SERVICE):
        for change in install(home, path, StormYamlSettings(address, short_times=True)):
            change.apply()
    installed = yaml.safe_load(path.read_bytes())
    assert installed["storm.scheduler"] == PLACEMENT_SCHEDULER
    assert PROBE in installed["topology.auto.task.hooks"]
    assert installed["stormwright.service.url"] == SERVICE
    assert installed.keys() >= (previous or {}).keys()
    for change in uninstall(home, path):
        change.apply()
    assert path.read_bytes() == before
