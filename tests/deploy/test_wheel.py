"""The wheel: its content, and three commands from `pip install` to the dashboard over one's own Storm."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from stormwright import __version__
from stormwright.storm.jvm import STORM_HOME, STORMWRIGHT_JAR
from stormwright.storm.submitting import submission_properties

ROOT = Path(__file__).parents[2]

#: Another user than the one that built the wheel: `nobody`.
OTHER = {"user": 65534, "group": 65534, "extra_groups": ()} if os.getuid() == 0 else {}

#: Where Python may be.
PYTHONS = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")

# The wheel takes most of a minute to build.
pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.slow]


def built() -> Path:
    subprocess.run(["make", "wheel"], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (ROOT / "build" / "wheel").glob("stormwright-*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel() -> Path:
    return built()


def test_two_builds_are_equal(wheel):
    first = wheel.read_bytes()
    assert built().read_bytes() == first


def test_jar_is_in_the_wheel_with_its_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        jar = archive.open(f"stormwright/storm/{STORMWRIGHT_JAR.name}").read()
        assert jar == STORMWRIGHT_JAR.read_bytes()
        licence = archive.read(f"stormwright-{__version__}.dist-info/licenses/LICENSE")
    with zipfile.ZipFile(STORMWRIGHT_JAR) as archive:
        assert archive.read("META-INF/LICENSE") == licence == (ROOT / "LICENSE").read_bytes()


def test_laboratory_is_a_wheel_of_its_own(wheel):
    (other,) = wheel.parent.glob("stormwright_lab-*.whl")
    with zipfile.ZipFile(wheel) as product, zipfile.ZipFile(other) as laboratory:
        assert [name for name in product.namelist() if "stormwright_lab" in name or "/chaos/" in name] == []
        verbs = laboratory.read(f"stormwright_lab-{__version__}.dist-info/entry_points.txt").decode()
    assert "chaos = stormwright_lab.verbs.chaos:command" in verbs


def test_documentation_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        page = archive.read("stormwright/documentation/reference/commands/docs.html").decode()
    assert {"stormwright/documentation/index.html", "stormwright/documentation/search/search_index.js"} <= names
    assert "--print" in page


def test_bill_of_materials_lists_locked_versions(wheel):
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"stormwright-{__version__}.dist-info/sboms/stormwright.cdx.json").decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(encoding="utf-8"), re.M))
    listed = {part["name"]: part["version"] for part in bill["components"]}
    assert listed.pop("stormwright-storm") == __version__
    assert {"numba", "pyspark", "starlette", "click"} <= set(listed)
    assert listed == {name: locked[name] for name in listed}
    assert not {"pytest", "mypy", "pip-tools"} & set(listed)


@pytest.fixture
def storm(tmp_path_factory) -> Path:
    """Storm as its binary release lays it out, configured by its operator for one machine."""
    home = tmp_path_factory.mktemp("opt") / "apache-storm-2.8.3"
    for part in ("conf", "extlib", "extlib-daemon", "logs", "local", "zookeeper"):
        (home / part).mkdir(parents=True)
    for part in ("lib", "lib-worker"):
        (home / part).symlink_to(STORM_HOME / part)
    (home / "log4j2").symlink_to(ROOT / "src" / "stormwright" / "storm" / "local_cluster" / "log4j2")
    conf = {
        "storm.zookeeper.servers": ["127.0.0.1"],
        "storm.zookeeper.port": free_port(),
        "nimbus.seeds": ["127.0.0.1"],
        "nimbus.thrift.port": free_port(),
        "storm.local.hostname": "127.0.0.1",
        "storm.local.dir": str(home / "local"),
        "storm.log4j2.conf.dir": str(home / "log4j2"),
        "supervisor.slots.ports": [free_port(), free_port()],
        "supervisor.thrift.port": free_port(),
        "topology.worker.max.heap.size.mb": 256.0,
    }
    text = "# Our cluster\n" + "".join(f" {key}: {json.dumps(value)}\n" for key, value in conf.items())
    (home / "conf" / "storm.yaml").write_text(text, encoding="utf-8")
    give_away(home, *home.glob("*"), home / "conf" / "storm.yaml")
    return home


def give_away(*paths: Path) -> None:
    """Let the other user own files, and reach them: pytest's directories are for its own user only."""
    for path in paths:
        if OTHER and not path.is_symlink():
            os.chown(path, OTHER["user"], OTHER["group"])
    for path in paths[0].parents:
        if path.stat().st_uid == os.getuid():
            path.chmod(path.stat().st_mode | 0o055)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def running(command: Sequence[object], log: Path, env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon as the other user, until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
            cwd="/",
            **OTHER,
        )
        try:
            yield process
        finally:
            for number in (15, 9):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(20)


def java_of(home: Path, *command: object) -> list[object]:
    """As bin/storm starts daemons and clients."""
    path = ":".join([*(f"{home / part}/*" for part in ("lib", "extlib", "extlib-daemon")), str(home / "conf")])
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", f"-Dstorm.home={home}", f"-Dstorm.log.dir={home / 'logs'}",
            "-cp", path, *command]  # fmt: skip


def answer(url: str, accept: str, until_s: float) -> str:
    """Return the body of a page as soon as there is one."""
    while True:
        try:
            return httpx.get(url, headers={"Accept": accept}, timeout=5).raise_for_status().text
        except httpx.HTTPError:
            assert time.monotonic() < until_s, url
            time.sleep(0.25)


@pytest.mark.storm
def test_three_commands_lead_to_the_dashboard(wheel, storm, tmp_path_factory):
    """`pip install`, `install`, `serve`, as another user; then a topology that names no probe is measured."""
    place = tmp_path_factory.mktemp("other")
    service, logs = free_port(), place / "logs"
    logs.mkdir()
    give_away(place, logs)
    env = {"PATH": os.environ["PATH"], "HOME": str(place), "LANG": "C.UTF-8", "TMPDIR": str(place)}
    env |= {name: os.environ[name] for name in os.environ if name.startswith("PIP_")}
    service_url = f"http://127.0.0.1:{service}"
    conf = yaml.safe_load((storm / "conf" / "storm.yaml").read_text(encoding="utf-8"))

    def carry_out(*command: object, codes: Sequence[int] = (0,)) -> str:
        done = subprocess.run(list(map(str, command)), env=env, cwd="/", capture_output=True, text=True, **OTHER)
        assert done.returncode in codes, done.stdout + done.stderr
        return done.stdout

    if not any(is_environment(python, place / "venv", env) for python in PYTHONS):
        pytest.skip(f"no Python that the other user may run makes a virtual environment: {', '.join(PYTHONS)}")
    bin_of, copied = place / "venv" / "bin", place / wheel.name
    shutil.copyfile(wheel, copied)
    begun = time.monotonic()
    carry_out(bin_of / "pip", "install", "--quiet", f"{copied}[service]")
    installed = time.monotonic()
    carry_out(bin_of / "stormwright", "install", storm, "--service", service_url, "--yes")
    with ExitStack() as daemons:

        def start(name: str, *command: object) -> None:
            daemons.enter_context(running(java_of(storm, *command), logs / f"{name}.log", env))

        start(
            "zookeeper",
            "-Dzookeeper.admin.enableServer=false",
            "org.apache.storm.shade.org.apache.zookeeper.server.ZooKeeperServerMain",
            conf["storm.zookeeper.port"],
            storm / "zookeeper",
        )
        start("nimbus", "org.apache.storm.daemon.nimbus.Nimbus")
        start("supervisor", "org.apache.storm.daemon.supervisor.Supervisor")
        until_nimbus_listens(conf["nimbus.thrift.port"])
        serve = (bin_of / "stormwright", "serve", "--storm-home", storm, "--state", place / "state", "--port", service)
        daemons.enter_context(running(serve, logs / "serve.log", env))
        page = answer(f"{service_url}/", "text/html", begun + 180)
        shown = time.monotonic()
        assert "<h1" in page
        print(f"pip {installed - begun:.0f} s, first page after {shown - begun:.0f} s")
        assert shown - begun <= 180
        submit = java_of(storm, *(f"-D{key}={value}" for key, value in submission_properties(
            storm / "extlib" / STORMWRIGHT_JAR.name, {"topology.workers": 1}).items()),
            "stormwright.topologies.WordCount")  # fmt: skip
        carry_out(*submit)
        until = time.monotonic() + 120
        while True:
            output = carry_out(bin_of / "stormwright", "status", "--json", "--service", service_url, codes=(0, 1))
            status = json.loads(output)
            if status["load_age_s"] is not None:
                break
            assert time.monotonic() < until, status
            time.sleep(2)


def is_environment(python: str, directory: Path, env: dict[str, str]) -> bool:
    """Make a virtual environment as the other user, if this Python can."""
    try:
        done = subprocess.run(
            [python, "-m", "venv", "--clear", directory], env=env, cwd="/", capture_output=True, **OTHER
        )
    except PermissionError:  # below the home of this user
        return False
    return done.returncode == 0


def until_nimbus_listens(port: int) -> None:
    until_s = time.monotonic() + 60
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert time.monotonic() < until_s, "Nimbus does not listen"
        time.sleep(0.25)
