"""What runs the service: options that there are, and files that fit together, as far as testable without Docker."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from stormwright import __version__
from stormwright.cli.serve import command as serve
from stormwright.service.auth.roles import HEALTH, allowed
from stormwright.service.auth.settings import is_loopback
from tests.deploy.exposed import DEPLOY
from tests.deploy.tools import needs, run

ROOT = DEPLOY.parent
DOCKER = DEPLOY / "docker"
JAR = f"java/target/stormwright-storm-{__version__}.jar"
STORM = re.search(r"<storm.version>(.*)</storm.version>", (ROOT / "java" / "pom.xml").read_text(encoding="utf-8"))[1]

#: Seconds that a topology has to drain, and that a swap may take after that.
LONGEST_MOVE_S = 150


def options_of(arguments: Sequence[str]) -> dict[str, Any]:
    """What ``stormwright serve`` understands; it raises what click does where it does not."""
    context = click.Context(serve, resilient_parsing=True)
    options, rest, _ = serve.make_parser(context).parse_args(list(arguments))
    assert not rest
    for parameter in serve.params:
        if isinstance(parameter.type, click.Choice) and parameter.name in options:
            parameter.type.convert(options[parameter.name], parameter, context)
    return options


def of_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def unit() -> dict[str, list[str]]:
    """Key → its values; lines that end with a backslash go on."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "stormwright.service").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_systemd_unit_runs_valid_command():
    (start,) = unit()["ExecStart"]
    program, verb, *rest = shlex.split(start)
    assert (program.rpartition("/")[2], verb) == ("stormwright", "serve")
    options = options_of(rest)
    assert options["state_dir"] == f"/var/lib/{unit()['StateDirectory'][0]}"
    assert "mode" not in options, "what a person has said last holds after a restart too"
    assert int(unit()["TimeoutStopSec"][0]) >= LONGEST_MOVE_S


#: What the unit must not lose; `systemd-analyze security` explains each.
HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "ProtectProc": "invisible",
    "ProtectClock": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "SystemCallArchitectures": "native",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
}

#: What would end the service: its machine code, its network, and the priority of its Spark process.
IMPOSSIBLE = ("MemoryDenyWriteExecute", "PrivateNetwork")


def test_systemd_unit_is_hardened():
    found = unit()
    assert {key: found.get(key) for key in HARDENED} == {key: [value] for key, value in HARDENED.items()}
    assert found["SystemCallFilter"] == ["@system-service", "~@privileged"]
    assert not set(IMPOSSIBLE) & set(found)
    assert "User" in found


needs_systemd = needs("systemd-analyze", "it is in Debian's package systemd")


@needs_systemd
def test_systemd_takes_the_unit():
    assert "Unknown" not in run("systemd-analyze", "verify", "--man=no", DEPLOY / "stormwright.service").stderr


@needs_systemd
def test_systemd_rates_exposure_of_unit_below_three():
    arguments = ("security", "--offline=yes", "--no-pager", "--threshold=30")
    done = run("systemd-analyze", *arguments, DEPLOY / "stormwright.service")
    assert done.returncode == 0, done.stdout + done.stderr


def instructions() -> list[tuple[str, str]]:
    text = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.M)).splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line]


def the(name: str) -> str:
    return [value for key, value in instructions() if key == name][-1]


def json_of(name: str) -> Any:
    return json.loads(the(name))


def test_image_runs_valid_command_as_unprivileged_user():
    assert json_of("ENTRYPOINT") == ["tini", "--", "stormwright"]
    verb, *rest = json_of("CMD")
    options = options_of(rest)
    assert (verb, options["state_dir"], options["host"]) == ("serve", the("VOLUME"), "0.0.0.0")  # noqa: S104 (a container)
    assert f"COPY --from=storm /apache-storm {options['storm_home']}" in (DOCKER / "Dockerfile").read_text(
        encoding="utf-8"
    )
    assert the("USER") == "1000:1000"
    check = json.loads(the("HEALTHCHECK").partition("CMD ")[2])
    compile(check[-1], "the health check", "exec")
    assert the("EXPOSE") in check[-1]


def test_image_copies_build_outputs_with_matching_versions():
    copied = [
        part for key, value in instructions() if key == "COPY" and "--from" not in value for part in value.split()
    ]
    assert JAR in copied
    assert {"requirements.lock", "build/wheel/stormwright-*.whl"} <= set(copied)
    ignore_file = (DOCKER / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    assert all(
        f"!{part}" in ignore_file
        for part in ("requirements.lock", "build/wheel", "java/target/stormwright-storm-*.jar")
    )
    arguments = dict(value.split("=", 1) for key, value in instructions() if key == "ARG")
    assert arguments["STORM"] == f"storm:{STORM}"
    python = (ROOT / "requirements.lock").read_text(encoding="utf-8").partition("with Python ")[2].split()[0]
    assert arguments["PYTHON"].startswith(f"python:{python}-"), "machine code is for one version of Python"


def test_image_installs_versions_of_lock_file():
    run = next(value for key, value in instructions() if key == "RUN" and "sed" in value)
    sed = shlex.split(run.partition(" > ")[0])
    found = subprocess.run([*sed[:-1], ROOT / "requirements.lock"], capture_output=True, text=True, check=True).stdout
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert found.split() == re.findall(r"^[\w.-]+==\S+", lock, flags=re.M)


def images() -> Iterator[str]:
    services = of_yaml(DOCKER / "compose.yaml")["services"]
    yield from {service["image"] for service in services.values()}


def test_images_have_versions():
    assert {image for image in images() if image.startswith("storm:")} == {f"storm:{STORM}"}
    assert f"stormwright:{__version__}" in set(images())
    assert all(re.fullmatch(r"[a-z]+:\d+\.\d+\.\d+", image) for image in images())


def test_the_cluster_of_compose_is_whole():
    compose = of_yaml(DOCKER / "compose.yaml")
    services = compose["services"]
    assert sum(service.get("command") == ["storm", "supervisor"] for service in services.values()) == 3
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= set(services)
        assert set(service["networks"]) <= set(compose["networks"])
        assert service.get("hostname", name) == name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), "it has no authentication"
        for mount in service.get("volumes", ()):
            source, target = mount.split(":")[:2]
            if source.startswith("."):
                path = (DOCKER / source).resolve()
                assert path.exists() or str(path.relative_to(ROOT)) == JAR
                assert path.name == Path(target).name
            else:
                assert source in compose["volumes"]
    build = services["stormwright"]["build"]
    assert (DOCKER / build["context"] / build["dockerfile"]).resolve() == DOCKER / "Dockerfile"
    assert services["stormwright"]["stop_grace_period"] == f"{LONGEST_MOVE_S}s"
    # Each daemon has the jar in its own directory.
    mounted = {name: str(service.get("volumes", "")) for name, service in services.items()}
    assert "/apache-storm/extlib-daemon/" in mounted["nimbus"]
    assert all("/apache-storm/extlib/" in mounted[f"supervisor-{n}"] for n in (1, 2, 3))


def test_compose_storm_configuration_matches_service_names():
    services, conf = of_yaml(DOCKER / "compose.yaml")["services"], of_yaml(DOCKER / "storm.yaml")
    assert {*conf["storm.zookeeper.servers"], *conf["nimbus.seeds"]} <= set(services)
    assert conf["stormwright.service.url"] == f"http://stormwright:{the('EXPOSE')}"
    assert conf["storm.scheduler"] == "stormwright.PlacementScheduler"


@needs("compose")
def test_compose_loader_accepts_file():
    """The loader of Docker Compose: YAML with anchors, interpolation, and the schema of the Compose Specification."""
    done = run("compose", "-no-path-resolution", "-format", "json", DOCKER / "compose.yaml")
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    assert set(loaded["services"]) == set(of_yaml(DOCKER / "compose.yaml")["services"])
    assert loaded["services"]["supervisor-2"]["image"] == f"storm:{STORM}", "anchors are resolved"


@needs("compose")
@pytest.mark.parametrize("change", [("restart:", "restarts:"), ("networks: [storm]", "networks: {storm: 5}")])
def test_compose_loader_refuses_wrong_file(change, tmp_path):
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DOCKER / "compose.yaml").read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    assert run("compose", "-no-path-resolution", wrong).returncode != 0


def test_only_compose_example_disables_authentication():
    (start,) = unit()["ExecStart"]
    compose = of_yaml(DOCKER / "compose.yaml")["services"]["stormwright"]["command"]
    asking = {"unit": shlex.split(start)[2:], "image": json_of("CMD")[1:], "compose": compose[1:]}
    options = {name: options_of(arguments) for name, arguments in asking.items()}
    assert not any(is_loopback(each["host"]) for each in options.values())
    assert {name for name, each in options.items() if each.get("without_authentication")} == {"compose"}
    values = of_yaml(DEPLOY / "helm" / "stormwright" / "values.yaml")
    assert not values["access"]["withoutAuthentication"]


def test_health_probes_need_no_token():
    pods = (DEPLOY / "helm" / "stormwright" / "templates" / "statefulset.yaml").read_text(encoding="utf-8")
    paths = re.findall(r"path: (\S+)\n +port: http", pods)
    assert paths == [HEALTH] * 3
    assert HEALTH in the("HEALTHCHECK")
    assert allowed("GET", HEALTH) is None
