"""``stormwright import``: what is printed and written, exit codes, faults of several files at once."""

from __future__ import annotations

import gzip
import json
import sys
import zipfile
from pathlib import Path

import pytest

from stormwright.errors import MissingDependencyError
from stormwright.formats import read_problem
from stormwright.storm import jvm
from stormwright.storm.gateway import gateway_command
from stormwright.storm.jvm import STORM_HOME, STORMWRIGHT_JAR
from tests.formats.documents import small
from tests.formats.storm.test_loadgen import RECORDED

FLUX = Path(__file__).parents[1] / "formats" / "storm" / "flux"
ORDERS, WATCHED, FILLED = FLUX / "orders.yaml", FLUX / "watched.yaml", FLUX / "filled.yaml"
PROPERTIES = FLUX / "filled.properties"
ANSWERS = {answer["name"]: answer for answer in json.loads((FLUX / "answers.json").read_text())}

NODE = "storm.local.hostname: {name}\nsupervisor.slots.ports: [6700]\n"

#: Stands in for the JVM: prints what it was called with, or what it was told to.
ECHO = """
import json, sys
files = sys.argv[2:]
print(json.dumps({"topologies": json.loads(sys.argv[1]), "faults": [
    {"file": file, "path": "$", "message": "is not a serialized topology"} for file in files if "bad" in file]}))
"""

GATEWAY = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], **json.loads(sys.argv[1])}), flush=True)
"""


def test_stateful_topology_is_named_unless_declared(run, tmp_path):
    path, output = str(FLUX / "stateful.yaml"), str(tmp_path / "p.json")
    code, _, error = run("import", "flux", path, "--supervisors", "1", "--output", output)
    assert code == 0
    assert "--stateful stateful" in error
    assert "$checkpointspout" in error
    code, _, error = run("import", "flux", path, "--supervisors", "1", "--output", output, "--stateful", "stateful")
    assert code == 0
    assert "$checkpointspout" not in error
    assert read_problem(tmp_path / "p.json").num_executors == 11
    code, _, error = run("import", "flux", path, "--supervisors", "1", "--stateful", "other")
    assert code == 2
    assert "no such topology; there are stateful" in error


@pytest.fixture
def nodes(tmp_path):
    """Two storm.yaml files."""
    paths = [tmp_path / name / "storm.yaml" for name in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(NODE.format(name=f"node-{path.parent.name}"))
    return paths


def run_script(monkeypatch, script: str, answer: object) -> list[tuple[str, ...]]:
    """Have a script run instead of Java; what it would have been started with."""
    started: list[tuple[str, ...]] = []

    def command(storm_home: Path, main: str, *args: str) -> list[str]:
        started.append((str(storm_home), main, *args))
        return [sys.executable, "-c", script, json.dumps(answer)]

    monkeypatch.setattr(jvm, "storm_command", command)
    return started


def test_import_builds_problem_from_flux_and_one_storm_yaml_per_node(run, nodes):
    code, out, err = run("import", "flux", ORDERS, WATCHED, "--cluster", nodes[0], "--cluster", nodes[1])
    document = json.loads(out)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert document["schema"] == "stormwright-problem/1"
    assert [(node["id"], node["ports"]) for node in document["supervisors"]] == [("node-a", [6700]), ("node-b", [6700])]
    assert [topology["id"] for topology in document["topologies"]] == ["orders-1-0", "watched-2-0"]
    for topology in document["topologies"]:
        assert topology["executor_runs"] == ANSWERS[topology["name"]]["executor_runs"]


@pytest.mark.parametrize("name", ["problem.json", "problem.json.gz"])
def test_imported_problem_can_be_scheduled(run, nodes, tmp_path, name):
    output = tmp_path / name
    flux = ("import", "flux", FILLED, "--filter", PROPERTIES, "--cluster", nodes[0], "--supervisors", 4)
    code, out, err = run(*flux, "--output", output)
    assert (code, out, err) == (0, f"{output}: 1 topology, 9 executors, 4 nodes, 4 slots\n", "")
    assert read_problem(output).name == "filled"
    code, out, _ = run("schedule", output, "--scheduler", "even", "--json")
    assert code == 0
    assert len(json.loads(out)["assignments"]["filled-1-0"]["slots"]) == 2


def test_storm_yaml_of_nimbus_is_no_node(run, nodes, tmp_path):
    own = tmp_path / "nimbus"
    own.mkdir()
    (own / "storm.yaml").write_text("storm.scheduler: org.apache.storm.scheduler.IsolationScheduler\nx: 1\n")
    (own / "multitenant-scheduler.yaml").write_text("multitenant.scheduler.user.pools: {ann: 2}\n")
    files = ["--nimbus", own / "storm.yaml", "--cluster", nodes[0]]
    code, out, _ = run("import", "flux", ORDERS, *files, "--supervisors", "2")
    problem = json.loads(out)
    assert code == 0
    assert len(problem["supervisors"]) == 2
    assert problem["conf"]["storm.scheduler"].endswith("IsolationScheduler")
    assert problem["conf"]["multitenant.scheduler.user.pools"] == {"ann": 2}


@pytest.mark.parametrize("packed", [True, False])
def test_resources_are_found_on_a_class_path(run, tmp_path, packed):
    flux, jar = tmp_path / "topology.yaml", tmp_path / "topology.jar"
    flux.write_text(
        "name: crawler\nincludes: [{resource: true, file: /defaults.yaml, override: false}]\n"
        "spouts: [{id: s, className: S}]\n"
    )
    code, _, err = run("import", "flux", flux, "--supervisors", "1")
    assert code == 2
    assert "no such file: '/defaults.yaml'; name the jar or directory that has it by --class-path" in err
    if packed:
        with zipfile.ZipFile(jar, "w") as archive:
            archive.writestr("defaults.yaml", "config: {topology.workers: 3}\n")
    else:
        jar.mkdir()
        (jar / "defaults.yaml").write_text("config: {topology.workers: 3}\n")
    _, out, _ = run("import", "flux", flux, "--supervisors", "1", "--class-path", jar)
    assert json.loads(out)["topologies"][0]["num_workers"] == 3


def test_owner_is_the_submitting_user(run, tmp_path):
    flux = tmp_path / "topology.yaml"
    flux.write_text("name: t\nconfig: {topology.submitter.user: bob}\nspouts: [{id: s, className: S}]\n")
    assert json.loads(run("import", "flux", flux, "--supervisors", "1")[1])["topologies"][0]["owner"] == "bob"


def test_environment(run, monkeypatch, tmp_path):
    path = tmp_path / "topology.yaml"
    path.write_text(ORDERS.read_text().replace("topology.workers: 3", "topology.workers: ${ENV-WORKERS}"))
    monkeypatch.setenv("WORKERS", "5")
    assert run("import", "flux", path, "--supervisors", 1)[0] == 2
    code, out, _ = run("import", "flux", path, "--supervisors", 1, "--env-filter")
    assert (code, json.loads(out)["topologies"][0]["num_workers"]) == (0, 5)


def test_faults_of_all_files_at_once(run, nodes, tmp_path):
    nodes[0].write_text("supervisor.slots.ports: [x]\ntopology.workers: none")
    flux = tmp_path / "flux.yaml"
    flux.write_text("name: x\nspouts: [{id: s}]")
    properties = tmp_path / "p.properties"
    properties.write_text("a=\\u1")
    code, out, err = run(
        "import",
        "flux",
        flux,
        tmp_path / "none.yaml",
        "--cluster",
        nodes[0],
        "--cluster",
        "gone",
        "--filter",
        properties,
    )
    assert (code, out) == (2, "")
    assert err.removeprefix("stormwright: ").splitlines() == [
        f"{properties}: 1 fault",
        "  line 1: should be \\u and four hexadecimal digits, got '\\u1'",
        "gone: 1 fault",
        "  cannot be read: No such file or directory",
        f"{flux}: 1 fault",
        "  required field missing @ $.spouts[0].className",
        f"{tmp_path}/none.yaml: 1 fault",
        "  cannot be read: No such file or directory",
        f"{nodes[0]}: 2 faults",
        "  should be an integer of at least 1, got 'none' @ $[\"topology.workers\"]",
        "  should be a port, got 'x' @ $[\"supervisor.slots.ports\"][0]",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flux"], "Missing argument 'TOPOLOGY...'"),
        (["flux", ORDERS], "describe the nodes"),
        (["flux", ORDERS, "--supervisors", "0"], "0 is not in the range"),
        (["flux", ORDERS, "--supervisors", "2", "--cluster", "a", "--cluster", "b"], "give --cluster once"),
        (["flux", ORDERS, "--supervisors", "2", "--output", "/dev/null/x"], "cannot be written: /dev/null: "),
        (["flux", ORDERS, "--supervisors", "2", "--output", ORDERS], "is read here, and would be overwritten"),
        (["serialized", "--code", "a"], "Missing option '--conf'"),
        (
            ["serialized", "--code", "a", "--code", "b", "--conf", "c"],
            "each --code needs its --conf: there are 2 and 1",
        ),
        (["nimbus", "-c", "nimbus.seeds"], "should be key=value"),
        (["nimbus", "--storm-home", "/no/such/directory"], "does not exist"),
        (["nimbus", "--storm-home", "/"], "no Storm installation"),
    ],
)
def test_bad_arguments(run, arguments, message):
    code, out, err = run("import", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_nimbus(run, monkeypatch, tmp_path):
    document = small()
    del document["load"]
    started = run_script(monkeypatch, GATEWAY, {"result": document})
    code, out, err = run("import", "nimbus", "--storm-home", tmp_path, "-c", 'nimbus.seeds=["n1"]')
    assert (code, err) == (0, "")
    assert started == [(str(tmp_path), "stormwright.NimbusGateway", 'nimbus.seeds=["n1"]')]
    assert json.loads(out)["assignments"] == document["assignments"]


def test_import_reports_refusal_by_nimbus(run, monkeypatch, tmp_path):
    run_script(monkeypatch, GATEWAY, {"error": "getNimbusConf is not authorized", "type": "AuthorizationException"})
    code, out, err = run("import", "nimbus", "--storm-home", tmp_path)
    assert (code, out) == (2, "")
    assert err == "stormwright: Nimbus refused problem: getNimbusConf is not authorized (AuthorizationException)\n"


def test_import_rejects_invalid_problem_document_from_nimbus(run, monkeypatch, tmp_path):
    run_script(monkeypatch, GATEWAY, {"result": small("supervisors", 0, "ports", value=[-1])})
    code, out, err = run("import", "nimbus", "--storm-home", tmp_path)
    assert (code, out) == (2, "")
    assert "the response of Nimbus: 1 fault" in err


def test_serialized(run, monkeypatch, tmp_path, nodes):
    topologies = small()["topologies"]
    started = run_script(monkeypatch, ECHO, topologies)
    code, out, err = run(
        *("import", "serialized", "--code", "code", "--conf", "conf", "--cluster", nodes[0], "--storm-home", tmp_path)
    )
    assert (code, err) == (0, "")
    assert started == [(str(tmp_path), "stormwright.TopologyReader")]
    document = json.loads(out)
    assert [topology["id"] for topology in document["topologies"]] == [topologies[0]["id"]]
    assert [node["id"] for node in document["supervisors"]] == ["node-a"]


def test_faults_of_serialized_files_and_node_files_are_reported_together(run, monkeypatch, tmp_path, nodes):
    run_script(monkeypatch, ECHO, [])
    nodes[0].write_text("supervisor.slots.ports: 1")
    files = ("--code", "bad1", "--conf", "conf", "--code", "code", "--conf", "bad2")
    code, out, err = run("import", "serialized", *files, "--cluster", nodes[0], "--storm-home", tmp_path)
    assert (code, out) == (2, "")
    assert [line for line in err.splitlines() if line.startswith("  ")] == [
        "  is not a serialized topology",
        "  is not a serialized topology",
        '  should be a list, got 1 @ $["supervisor.slots.ports"]',
    ]


def test_import_reports_output_of_terminated_reader_process(run, monkeypatch, tmp_path):
    run_script(monkeypatch, "import sys; sys.exit('no heap')", [])
    code, _, err = run("import", "serialized", "--code", "a", "--conf", "b", "--storm-home", tmp_path)
    assert (code, err) == (2, "stormwright: the reader of serialized topologies has ended: no heap\n")


@pytest.mark.storm
def test_serialized_files_of_flux_are_read_by_storm(run):
    """What Flux's own classes built of ``orders.yaml``, as Nimbus would store it."""
    files = ("--code", FLUX / "stormcode.ser", "--conf", FLUX / "stormconf.ser")
    code, out, err = run("import", "serialized", *files, "--storm-home", STORM_HOME)
    assert (code, err) == (0, "")
    (topology,) = json.loads(out)["topologies"]
    # Files of Flux do not say which classes of Storm run their components; Storm's own do.
    components = [{key: value for key, value in each.items() if key != "code"} for each in topology["components"]]
    assert components == ANSWERS["orders"]["components"]
    assert topology["executor_runs"] == ANSWERS["orders"]["executor_runs"]


@pytest.mark.storm
def test_import_rejects_unreadable_serialized_files(run, tmp_path):
    half = tmp_path / "half.ser"
    half.write_bytes((FLUX / "stormcode.ser").read_bytes()[:1000])
    other = tmp_path / "other.ser"
    other.write_bytes(gzip.compress(b"[]"))
    code, out, err = run(
        *("import", "serialized", "--code", half, "--conf", other, "--storm-home", STORM_HOME, "--supervisors", 1)
    )
    assert (code, out) == (2, "")
    assert f"{half}: 1 fault\n  is not a serialized topology: " in err
    assert f"{other}: 1 fault\n  is not a serialized configuration" in err


@pytest.fixture
def home(tmp_path):
    """What looks like a Storm installation with our jar."""
    for part in ("lib", "extlib-daemon", "bin"):
        (tmp_path / "storm" / part).mkdir(parents=True)
    (tmp_path / "storm" / "lib" / "storm-client-2.8.3.jar").touch()
    (tmp_path / "storm" / "extlib-daemon" / STORMWRIGHT_JAR.name).touch()
    return tmp_path / "storm"


def test_where_storm_is(monkeypatch, home, tmp_path):
    monkeypatch.setenv("STORM_HOME", "/opt/storm")
    assert jvm.find_storm_home(home) == home
    assert jvm.find_storm_home() == Path("/opt/storm")
    monkeypatch.delenv("STORM_HOME")
    program = home / "bin" / "storm"
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "storm").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert jvm.find_storm_home() == home
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(jvm, "STORM_HOME", tmp_path / "none")
    with pytest.raises(MissingDependencyError, match="give --storm-home DIR"):
        jvm.find_storm_home()


def test_how_java_is_started(monkeypatch, home):
    monkeypatch.setattr(jvm, "find_java", lambda _: "java")
    command = jvm.storm_command(home, "stormwright.TopologyReader", "x")
    class_path = command[command.index("-cp") + 1].split(":")
    assert class_path[0] == str(home / "extlib-daemon" / STORMWRIGHT_JAR.name)
    assert class_path[-1] == str(home / "conf")
    assert command[-2:] == ["stormwright.TopologyReader", "x"]
    monkeypatch.setenv("STORM_CONF_DIR", "/etc/storm")
    assert "/etc/storm" in jvm.storm_command(home, "x")[-2]


def test_our_jar_is_missing(monkeypatch, home):
    monkeypatch.setattr(jvm, "find_java", lambda _: "java")
    (home / "extlib-daemon" / STORMWRIGHT_JAR.name).unlink()
    monkeypatch.setattr(jvm, "STORMWRIGHT_JAR", home / STORMWRIGHT_JAR.name)
    message = f"^{STORMWRIGHT_JAR.name} is missing in {home}: "
    with pytest.raises(MissingDependencyError, match=message):
        jvm.storm_command(home, "x")
    with pytest.raises(MissingDependencyError, match=message):
        gateway_command(home)


def test_serve_reports_missing_stormwright_jar(run, monkeypatch, home, tmp_path):
    monkeypatch.setattr(jvm, "find_java", lambda _: "java")
    (home / "extlib-daemon" / STORMWRIGHT_JAR.name).unlink()
    monkeypatch.setattr(jvm, "STORMWRIGHT_JAR", home / STORMWRIGHT_JAR.name)
    code, out, err = run("serve", "--state", tmp_path / "state", "--storm-home", home)
    assert (code, out) == (2, "")
    assert err.startswith("stormwright: serve: 1 fault\n  --storm-home: ")
    assert f"{STORMWRIGHT_JAR.name} is missing in {home}: " in err
    assert f"stormwright install {home}" in err
    assert "Traceback" not in err


def test_recorded_load_is_imported_and_exported(run, tmp_path):
    recorded, problem, exported = tmp_path / "orders.yaml", tmp_path / "p.json", tmp_path / "again.yaml"
    recorded.write_text(RECORDED)
    code, out, _ = run("import", "loadgen", recorded, "--supervisors", 3, "--output", problem)
    assert code == 0
    assert "1 topology, 11 executors" in out
    assert read_problem(problem).load is not None
    code, out, _ = run("export", "loadgen", problem, "--output", exported)
    assert code == 0
    assert "GenLoad" in out
    code, printed, _ = run("export", "loadgen", problem, "--topology", "orders")
    assert printed == exported.read_text()
    code, _, error = run("export", "loadgen", problem, "--topology", "other")
    assert code == 2
    assert "no such topology; there are orders" in error
    recorded.write_text("spouts: 3")
    code, _, error = run("import", "loadgen", recorded, "--supervisors", 3)
    assert code == 2
    assert "$.spouts" in error
